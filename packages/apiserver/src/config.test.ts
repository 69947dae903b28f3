import { readConfig } from './config.ts';

const env = {
  KUBERNETES_SERVICE_HOST: '10.96.0.1',
  POD_NAMESPACE: 'brupop',
  POD_NAME: 'brupop-apiserver-1',
  POD_IP: '10.0.0.1',
};

describe('the environment of the apiserver', () => {
  it('has defaults', () => {
    expect(readConfig(env)).toEqual({
      access: {
        host: '10.96.0.1',
        port: 443,
        serviceAccountDir: '/var/run/secrets/kubernetes.io/serviceaccount',
      },
      namespace: 'brupop',
      agentNamespace: 'brupop',
      podName: 'brupop-apiserver-1',
      host: '10.0.0.1',
      listenPort: 8443,
      healthPort: 8080,
      tlsCertFile: '/etc/brupop-tls/tls.crt',
      tlsKeyFile: '/etc/brupop-tls/tls.key',
      serverName: 'brupop-apiserver.brupop.svc',
      maxConnections: 12_000,
      maxConnectionsPerAddress: 32,
    });
  });

  it('may name another namespace for the agents, which changes no other name', () => {
    const { agentNamespace, namespace, serverName } = readConfig({ ...env, AGENT_NAMESPACE: 'agents' });
    expect([agentNamespace, namespace, serverName]).toEqual(['agents', 'brupop', 'brupop-apiserver.brupop.svc']);
  });

  it.each(['POD_NAMESPACE', 'POD_NAME', 'POD_IP', 'KUBERNETES_SERVICE_HOST'])('needs %s', (name) => {
    expect(() => readConfig({ ...env, [name]: '' })).toThrow(name);
  });
});
