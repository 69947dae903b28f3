import { readConfig } from './config.ts';

const env = {
  KUBERNETES_SERVICE_HOST: '10.96.0.1',
  POD_NAMESPACE: 'brupop',
  NODE_NAME: 'node-1',
  POD_IP: '10.0.0.1',
};

describe('the settings of the apiserver', () => {
  it('have defaults', () => {
    expect(readConfig(env)).toEqual({
      access: {
        host: '10.96.0.1',
        port: 443,
        serviceAccountDir: '/var/run/secrets/kubernetes.io/serviceaccount',
      },
      namespace: 'brupop',
      nodeName: 'node-1',
      host: '10.0.0.1',
      listenPort: 8443,
      healthPort: 8080,
      tlsCertFile: '/etc/brupop-tls/tls.crt',
      tlsKeyFile: '/etc/brupop-tls/tls.key',
      exclusionWaitMs: 0,
      maxConnections: 12_000,
      maxConnectionsPerAddress: 32,
    });
  });

  it.each(['POD_NAMESPACE', 'NODE_NAME', 'POD_IP', 'KUBERNETES_SERVICE_HOST'])('need %s', (name) => {
    expect(() => readConfig({ ...env, [name]: '' })).toThrow(name);
  });

  it('give load balancers whole seconds', () => {
    expect(readConfig({ ...env, EXCLUSION_WAIT_SECONDS: '90' }).exclusionWaitMs).toBe(90_000);
    expect(() => readConfig({ ...env, EXCLUSION_WAIT_SECONDS: '1.5' })).toThrow('EXCLUSION_WAIT_SECONDS');
  });

  it('give load balancers no more than half of the time that a drain may take', () => {
    expect(readConfig({ ...env, EXCLUSION_WAIT_SECONDS: '900' }).exclusionWaitMs).toBe(900_000);
    expect(() => readConfig({ ...env, EXCLUSION_WAIT_SECONDS: '901' })).toThrow('from 0 to 900');
  });
});
