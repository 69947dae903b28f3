import { reportOf } from './report.ts';

const service = (name: string, namespace: string) => ({ name, namespace, service: name, podSelectors: [] });
const seen = {
  services: [service('postgres', 'shop')],
  restartsNodes: false,
  namespaces: ['shop'],
  staleForMs: new Map([['postgres', 0]]),
  problem: undefined,
};

it('there is nothing to report without recovery', () => {
  expect(reportOf({ ...seen, services: [] })).toBeUndefined();
});

it('a watched Service is as configured', () => {
  expect(reportOf(seen)).toMatchObject({ status: 'True', reason: 'AsConfigured' });
});

it.each([
  [
    'a Service in another namespace',
    { ...seen, services: [...seen.services, service('redis', 'web')] },
    'NamespaceNotAllowed',
    'redis (namespace web)',
  ],
  [
    'nodes without a namespace',
    { ...seen, services: [], restartsNodes: true, namespaces: [] },
    'NamespaceNotAllowed',
    'updatedNodes',
  ],
  ['a watch that fails', { ...seen, staleForMs: new Map([['postgres', 120_000]]) }, 'ServiceNotWatched', 'postgres'],
  ['pods that cannot be listed', { ...seen, problem: 'the pods cannot be listed: 500' }, 'PodsNotListed', '500'],
])('%s needs a user', (_what, input, reason, named) => {
  const report = reportOf(input);
  expect(report).toMatchObject({ status: 'False', reason });
  expect(report?.message).toContain(named);
});
