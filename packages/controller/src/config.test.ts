import { readConfig } from './config.ts';

const env = {
  POD_NAME: 'brupop-controller-1',
  POD_UID: 'uid-1',
  POD_NAMESPACE: 'brupop',
  NODE_NAME: 'node-a',
  POD_IP: '10.0.0.1',
  KUBERNETES_SERVICE_HOST: '10.96.0.1',
};

test('defaults apply where nothing is set', () => {
  expect(readConfig(env)).toEqual({
    access: {
      host: '10.96.0.1',
      port: 443,
      serviceAccountDir: '/var/run/secrets/kubernetes.io/serviceaccount',
    },
    namespace: 'brupop',
    agentNamespace: 'brupop',
    nodeName: 'node-a',
    podName: 'brupop-controller-1',
    identity: 'brupop-controller-1_uid-1',
    host: '10.0.0.1',
    healthPort: 8080,
    tlsMode: 'provided',
    tlsSecret: 'brupop-apiserver-tls',
    caConfigMap: 'brupop-ca',
    mayForce: false,
    dependents: [],
    restoresDependents: false,
    recoveryNamespaces: [],
    notificationSecrets: [],
    proxies: { http: '', https: '', no: '' },
    checks: {
      namespace: '',
      serviceAccount: 'default',
      prometheus: { url: '', credentials: '' },
      alertmanager: { url: '', credentials: '' },
    },
  });
});

test('proxies are those of the environment, in capitals or not', () => {
  const { proxies } = readConfig({
    ...env,
    HTTPS_PROXY: 'http://proxy:3128',
    http_proxy: 'http://other',
    no_proxy: '.svc',
  });
  expect(proxies).toEqual({ https: 'http://proxy:3128', http: 'http://other', no: '.svc' });
});

test('the Secrets of receivers are a list', () => {
  expect(readConfig({ ...env, NOTIFICATION_SECRETS: 'slack,events' }).notificationSecrets).toEqual(['slack', 'events']);
});

test('the agents may have a namespace of their own', () => {
  const { agentNamespace, namespace } = readConfig({ ...env, AGENT_NAMESPACE: 'agents' });
  expect([agentNamespace, namespace]).toEqual(['agents', 'brupop']);
});

test.each(['PROMETHEUS_URL', 'ALERTMANAGER_URL'])('%s has no credentials and no query, and none is quoted', (name) => {
  const read = (url: string) => (): unknown => readConfig({ ...env, [name]: url });
  const users = ['http:u:hidden@host', 'http:/u:hidden@host', ' http://u:hidden@host', 'http:\\\\u:hidden@host'];
  const others = ['http://prometheus:9090/?token=hidden', 'http://prometheus?', 'http://prometheus/a#hidden'];
  const protocols = ['scraper:hidden@prometheus:9090', 'ftp://prometheus/hidden', 'prometheus:9090', 'hidden'];
  for (const url of [
    'http://scraper:hidden@prometheus:9090/a',
    'https://hidden@host',
    ...users,
    ...others,
    ...protocols,
  ]) {
    expect(read(url)).toThrow(/^[A-Z_]+_URL: expected an address such as .* Secret of secretName/u);
    expect(read(url)).not.toThrow('hidden');
  }
  expect(read('http://prometheus:9090/tenant/a@b')).not.toThrow();
});

test.each(['POD_NAME', 'POD_UID', 'POD_NAMESPACE', 'NODE_NAME', 'POD_IP'])('%s is required', (name) => {
  expect(() => readConfig({ ...env, [name]: '' })).toThrow(`${name}: expected a value`);
});

test('the namespaces of recovery are separated by commas', () => {
  expect(readConfig({ ...env, RECOVERY_NAMESPACES: 'shop,web' }).recoveryNamespaces).toEqual(['shop', 'web']);
});
