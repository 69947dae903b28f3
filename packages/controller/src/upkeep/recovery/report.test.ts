import { reportOf } from './report.ts';

const service = (name: string, namespace: string) => ({ name, namespace, service: name, podSelectors: [] });
const seen = {
  services: [service('postgres', 'shop')],
  restartsNodes: false,
  namespaces: ['shop'],
  staleForMs: new Map([['postgres', 0]]),
  problem: undefined,
  recovered: [],
  obstacle: undefined,
  left: [],
  forbidden: new Map(),
  lostNodes: [],
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
  [
    'an obstacle while something has recovered',
    { ...seen, recovered: ['Service postgres'], obstacle: 'connectivity is lost' },
    'EvictionsBlocked',
    'Service postgres: connectivity is lost',
  ],
  [
    'what recovers while there are too many windows',
    { ...seen, recovered: ['Service postgres', 'Service redis'], left: ['Service redis'] },
    'EvictionsBlocked',
    'Service redis: too many recoveries at once, more than 50',
  ],
  [
    'a namespace in which evictions are forbidden',
    {
      ...seen,
      recovered: ['Service postgres'],
      forbidden: new Map([['uid', { namespace: 'shop', message: 'no right' }]]),
    },
    'EvictionsBlocked',
    'Evictions in shop are forbidden after the recovery of Service postgres: no right',
  ],
  [
    'nodes that have lost the control plane',
    { ...seen, recovered: ['Service postgres'], lostNodes: ['node-2', 'node-1'] },
    'EvictionsBlocked',
    'node-1, node-2',
  ],
  ['pods that cannot be listed', { ...seen, problem: 'the pods cannot be listed: 500' }, 'PodsNotListed', '500'],
])('%s is reported', (_what, input, reason, named) => {
  const report = reportOf(input);
  expect(report).toMatchObject({ status: 'False', reason });
  expect(report?.message).toContain(named);
});

it('an obstacle is not reported while nothing has recovered', () => {
  expect(reportOf({ ...seen, obstacle: 'spec.paused is true' })).toMatchObject({ status: 'True' });
});
