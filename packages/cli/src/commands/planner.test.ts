/** The planner as the commands run it, on the responses of an API server to lists. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { MANAGED_LABEL, MANAGED_LABEL_VALUE, RECORD_ANNOTATION } from '@brupop/shared/api/names';
import { KubeError } from '@brupop/shared/kube/error';
import { rfc3339 } from '@brupop/shared/runtime/clock';
import type { TextRequest } from '../cluster/client.ts';
import type { Context } from './context.ts';
import { compare, gatesOfNode } from './planner.ts';

const NOW = 1_800_000_000_000;
const CREATED = '2026-01-01T00:00:00Z';
const NAMESPACE = 'brupop';
const API = 'brupop.bottlerocket.aws';

const folder = mkdtempSync(join(tmpdir(), 'brupop-planner-'));
afterAll(() => rmSync(folder, { recursive: true }));

function metadata(name: string, more: object = {}): object {
  return { name, uid: `uid-${name}`, resourceVersion: '1', generation: 1, creationTimestamp: CREATED, ...more };
}

function nodeOf(name: string): object {
  return {
    metadata: metadata(name, { labels: { [MANAGED_LABEL]: MANAGED_LABEL_VALUE } }),
    status: { conditions: [{ type: 'Ready', status: 'True' }], nodeInfo: { bootID: 'a' } },
  };
}

const OFFERED = { current_version: '1.20.0', target_version: '1.21.0', crash_count: 0, bootID: 'a' };

function shadowOf(node: string, status: object = {}): object {
  const ownerReferences = [{ apiVersion: 'v1', kind: 'Node', name: node, uid: `uid-${node}` }];
  return {
    metadata: metadata(`brs-${node}`, { namespace: NAMESPACE, ownerReferences }),
    spec: { state: 'Idle' },
    status: { current_state: 'Idle', observedGeneration: 1, ...OFFERED, ...status },
  };
}

/** Of a workload whose budget allows no eviction. */
function podOn(node: string): object {
  const controller = { apiVersion: 'apps/v1', kind: 'StatefulSet', name: 'db', uid: 'db', controller: true };
  return {
    metadata: metadata(`db-${node}`, { namespace: 'shop', labels: { app: 'db' }, ownerReferences: [controller] }),
    spec: { nodeName: node, containers: [] },
    status: { phase: 'Running', conditions: [{ type: 'Ready', status: 'True' }] },
  };
}

const BUDGET = {
  metadata: metadata('db', { namespace: 'shop' }),
  spec: { minAvailable: '100%', selector: { matchLabels: { app: 'db' } } },
  status: { observedGeneration: 1, disruptionsAllowed: 0, currentHealthy: 40, desiredHealthy: 40, expectedPods: 40 },
};

interface World {
  readonly spec: object;
  readonly nodes: readonly string[];
  readonly shadows?: readonly object[];
  readonly hasPod?: (node: string) => boolean;
  /** The value drain.allowForce of the chart; undefined: the user may not read the Deployment. */
  readonly allowForce?: boolean;
}

function contextOf(world: World) {
  const { spec, nodes, shadows = nodes.map((node) => shadowOf(node)), hasPod = () => false, allowForce } = world;
  const lists: Record<string, (node: string) => readonly object[]> = {
    nodes: () => nodes.map(nodeOf),
    bottlerocketshadows: () => shadows,
    bottlerocketnodegroups: () => [],
    brupopconfigs: () => [{ metadata: metadata('cluster'), spec }],
    poddisruptionbudgets: () => [BUDGET],
    pods: (node) => (hasPod(node) ? [podOn(node)] : []),
  };
  const itemsOf = ({ path, query = {} }: TextRequest): readonly object[] => {
    const list = lists[path.split('/').at(-1) ?? ''];
    if (list === undefined) throw new KubeError(404, 'NotFound', path);
    return list(query['fieldSelector']?.split('=')[1] ?? '');
  };
  const env = allowForce === true ? [{ name: 'DRAIN_ALLOW_FORCE', value: 'true' }] : [];
  const deployment = { spec: { template: { spec: { containers: [{ name: 'controller', env }] } } } };
  const answerTo = (request: TextRequest): object => {
    if (request.path.endsWith('/deployments/brupop-controller') && allowForce !== undefined) return deployment;
    return { metadata: { resourceVersion: '1' }, items: itemsOf(request) };
  };
  const client: Partial<Context['client']> = {
    time: async () => await Promise.resolve(NOW),
    request: async <T>(request: TextRequest) => await Promise.resolve(answerTo(request) as T),
  };
  return { client, clock: { now: () => NOW }, signal: new AbortController().signal } as unknown as Context;
}

async function startedWith(edit: object, world: World): Promise<{ started: string[]; incomplete: unknown }> {
  const file = join(folder, 'edit.json');
  const object = { apiVersion: `${API}/v1alpha1`, kind: 'BrupopConfig', metadata: { name: 'cluster' }, spec: edit };
  writeFileSync(file, JSON.stringify(object));
  const { after, incomplete } = await compare(contextOf(world), file);
  return { started: after.filter(({ change }) => change === 'Started').map(({ node }) => node), incomplete };
}

const named = (count: number): string[] => Array.from({ length: count }, (_, i) => `n${String(i).padStart(3, '0')}`);

it('shows each node of a large fleet that an edit starts', async () => {
  const nodes = named(300);
  const edit = { concurrency: { maxUpdating: 300 } };
  const { started, incomplete } = await startedWith(edit, { spec: { paused: true }, nodes });
  expect(started).toHaveLength(300);
  expect(incomplete).toBeUndefined();
});

it('shows the node that starts although the pods of many before it cannot be evicted', async () => {
  const nodes = named(40);
  const hasPod = (node: string): boolean => node !== 'n039';
  const edit = { concurrency: { maxUpdating: 1 } };
  const { started, incomplete } = await startedWith(edit, { spec: { paused: true }, nodes, hasPod });
  expect(started).toEqual(['n039']);
  expect(incomplete).toBeUndefined();
});

it.each([
  ['starts no node that is to be drained past its budgets without the right to that', false, []],
  ['starts one with the right', true, ['n000']],
  ['starts one when the right is not known', undefined, ['n000']],
] as const)('%s', async (_, allowForce, expected) => {
  const edit = { drain: { onTimeout: 'Force' } };
  const world = { spec: {}, nodes: ['n000'], hasPod: () => true, ...(allowForce !== undefined && { allowForce }) };
  expect((await startedWith(edit, world)).started).toEqual(expected);
});

it('of a node that has not confirmed its latest spec, the answer is the condition that it has', async () => {
  const condition = { type: 'Progressing', status: 'False', reason: 'Backoff', message: 'retried later' };
  const conditions = [{ ...condition, observedGeneration: 1, lastTransitionTime: CREATED }];
  const shadow = shadowOf('n000', { observedGeneration: 0, conditions });
  const spec = { state: 'Idle', state_transition_timestamp: rfc3339(NOW - 60_000) };
  const shadows = [{ ...shadow, spec }];
  const { answers } = await gatesOfNode(contextOf({ spec: {}, nodes: ['n000'], shadows }), 'n000');
  expect(answers).toBe('No gate is asked: the node is not about to start an update. Backoff: retried later');
});

it('of a check that has failed, the first gate that blocks says what the controller knows of its Job', async () => {
  const message = 'The check smoke failed before the drain; see its logs and kubectl describe job -n checks smoke-1';
  const condition = { type: 'Progressing', status: 'False', reason: 'CheckFailed', message };
  const conditions = [{ ...condition, observedGeneration: 1, lastTransitionTime: CREATED }];
  const at = rfc3339(NOW - 60_000);
  const record = { startedAt: at, unsuccessful: 1, jobs: { 'Before/check/smoke': 'Failed' } };
  const shadow = {
    ...shadowOf('n000', { conditions }),
    spec: { state: 'Idle', state_transition_timestamp: at },
  };
  const annotations = { [RECORD_ANNOTATION]: JSON.stringify(record) };
  const shadows = [{ ...shadow, metadata: { ...(shadowOf('n000') as { metadata: object }).metadata, annotations } }];
  const spec = { health: { checks: [{ name: 'smoke', when: ['Before'], job: { cronJob: 'smoke' } }] } };
  const { answers } = await gatesOfNode(contextOf({ spec, nodes: ['n000'], shadows }), 'n000');
  const blocked = (answers as Exclude<typeof answers, string>).filter(([, answer]) => answer !== undefined);
  expect(blocked[0]).toEqual(['backoff', { reason: 'CheckFailed', message, retryAt: NOW + 240_000 }]);
});

it('of a node that waits for a window, a later gate says why it cannot be drained', async () => {
  const spec = { maintenance: { windows: [{ schedule: '0 0 1 1 *', duration: '1h' }] } };
  const { answers } = await gatesOfNode(contextOf({ spec, nodes: ['n000'], hasPod: () => true }), 'n000');
  const blocked = (answers as Exclude<typeof answers, string>).filter(([, answer]) => answer !== undefined);
  const [first, next] = blocked.map(([gate, answer]) => `${gate} ${answer?.reason}`);
  expect([first, next]).toEqual(['windowOpen OutsideMaintenanceWindow', 'drainNotBlocked DrainBlocked']);
});

it.each([
  [
    'unless the controller knows more than is read here',
    { status: 'False', reason: 'WatchStale', message: 'The watch of nodes is stale' },
    ', unless the controller still finds what it has reported last. WatchStale: The watch of nodes is stale',
  ],
  ['if it was up to date before', { status: 'False', reason: 'UpToDate', message: 'Runs 1.20.0' }, '.'],
])('a node that no gate blocks starts, %s', async (_, reported, end) => {
  const condition = { type: 'Progressing', ...reported, observedGeneration: 1, lastTransitionTime: CREATED };
  const shadows = [shadowOf('n000', { conditions: [condition] })];
  const { answers } = await gatesOfNode(contextOf({ spec: {}, nodes: ['n000'], shadows }), 'n000');
  expect(answers).toBe(`No gate blocks the node: it starts now${end}`);
});
