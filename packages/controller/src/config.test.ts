import { readConfig } from './config.ts';

const env = {
  POD_NAME: 'brupop-controller-1',
  POD_UID: 'uid-1',
  POD_NAMESPACE: 'brupop',
  NODE_NAME: 'node-a',
  KUBERNETES_SERVICE_HOST: '10.96.0.1',
};

test('the defaults hold where nothing is set', () => {
  expect(readConfig(env)).toEqual({
    access: {
      host: '10.96.0.1',
      port: 443,
      serviceAccountDir: '/var/run/secrets/kubernetes.io/serviceaccount',
    },
    namespace: 'brupop',
    nodeName: 'node-a',
    podName: 'brupop-controller-1',
    identity: 'brupop-controller-1_uid-1',
    healthHost: '0.0.0.0',
    healthPort: 8080,
  });
});

const mistakes: Record<string, [Record<string, string>, RegExp]> = {
  'a pod without a name cannot lead': [{ POD_NAME: '' }, /POD_NAME: expected a value/],
};
test.each(Object.entries(mistakes))('%s', (_, [more, expected]) => {
  expect(() => readConfig({ ...env, ...more })).toThrow(expected);
});
