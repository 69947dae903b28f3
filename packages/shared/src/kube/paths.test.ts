import { configPath, corePath, groupPath } from './paths.ts';

describe('paths of the Kubernetes API', () => {
  it.each([
    [corePath('nodes'), '/api/v1/nodes'],
    [corePath('pods', { namespace: 'n', name: 'p', subresource: 'eviction' }), '/api/v1/namespaces/n/pods/p/eviction'],
    [configPath({ name: 'cluster' }), '/apis/brupop.bottlerocket.aws/v1alpha1/brupopconfigs/cluster'],
    [
      groupPath('policy/v1', 'poddisruptionbudgets', { namespace: 'n' }),
      '/apis/policy/v1/namespaces/n/poddisruptionbudgets',
    ],
    [corePath('nodes', { name: '../x?y' }), '/api/v1/nodes/..%2Fx%3Fy'],
  ])('%s', (path, expected) => {
    expect(path).toBe(expected);
  });
});
