/** What keeps a node that has staged its version from being drained. */
import { SKIP_ANNOTATION } from '@brupop/shared/api/names';
import type { ManagedNode } from '../cluster/snapshot.ts';
import { answered, viewOf } from '../testing/checks.ts';
import {
  ago,
  aManagedNode,
  aSnapshot,
  MINUTE,
  NEW,
  type NodeParts,
  NOW,
  type ShadowParts,
  underWay,
} from '../testing/objects.ts';
import { wholePlan as plan } from '../whole-plan.ts';
import type { SpecChange } from './specs/spec-change.ts';

const upToDate = { current_version: NEW };
/** It has staged its version, the given number of minutes after its update started. */
const staged = (minutes = 1): ShadowParts => ({
  spec: underWay('StagedAndPerformedUpdate'),
  record: { startedAt: ago(minutes * MINUTE) },
});

function writes(managedNodes: readonly ManagedNode[], spec: object = {}): readonly SpecChange[] {
  return plan(aSnapshot(managedNodes, spec), NOW).specs;
}

function outcome(node: NodeParts, shadow: ShadowParts = staged(), spec: object = {}): string | undefined {
  return writes([aManagedNode('a', node, shadow)], spec)[0]?.outcome;
}

// NOW is Friday 2027-01-15 08:00 UTC.
const window = (schedule: string, duration: string, more: object = {}): object => ({
  maintenance: { windows: [{ schedule, duration }], margin: '10m', ...more },
});

const cases: Record<string, [string | undefined, string]> = {
  'nothing speaks against it': [outcome({}), 'Advanced'],
  'another actor has cordoned it meanwhile': [outcome({ unschedulable: true }), 'Deferred'],
  'it is not Ready any more': [outcome({ ready: false }), 'Deferred'],
  'its spot instance is interrupted': [
    outcome({ taints: [{ key: 'aws-node-termination-handler/spot-itn', effect: 'NoSchedule' }] }),
    'Deferred',
  ],
  'it is to be skipped by now': [outcome({ annotations: { [SKIP_ANNOTATION]: 'true' } }), 'Deferred'],
  'it is not selected any more': [outcome({}, staged(), { nodeSelector: { matchLabels: { pool: 'x' } } }), 'Deferred'],
  'its version is too young by now': [outcome({}, staged(), { versions: { minimumAge: '1h' } }), 'Deferred'],
  'its window is open for long enough': [outcome({}, staged(30), window('0 7 * * *', '70m')), 'Advanced'],
  'its window has closed': [outcome({}, staged(), window('0 9 * * *', '4h')), 'Deferred'],
  'what is left of its update does not fit into the window': [
    outcome({}, staged(5), window('0 7 * * *', '90m')),
    'Deferred',
  ],
  'it took so long that less than the margin is left': [
    outcome({}, staged(90), window('0 6 * * *', '125m')),
    'Deferred',
  ],
  'it was staged only at its deadline': [
    outcome({}, { ...staged(50), spec: underWay('StagedAndPerformedUpdate', 50 * MINUTE) }),
    'Deferred',
  ],
  'a blackout has started': [
    outcome({}, staged(), { maintenance: { blackouts: [{ from: ago(MINUTE), to: ago(-MINUTE) }] } }),
    'Deferred',
  ],
};
test.each(Object.entries(cases))('%s', (_, [found, expected]) => expect(found).toBe(expected));

test('a node that did not fit into its window needs at least as long the next time, and no other node does', () => {
  const [write] = writes([aManagedNode('a', {}, staged(90))], window('0 6 * * *', '125m'));
  if (write === undefined) throw new Error('it is deferred');
  const record = { deferredAfterSeconds: 5400 };
  expect({ ...write.record, history: undefined }).toEqual({ ...staged(90).record, ...record, endedByConfigAt: ago(0) });
  const again = (name: string, shadow: ShadowParts): string | undefined =>
    plan(
      aSnapshot(
        [aManagedNode(name, {}, shadow), aManagedNode('z', {}, { record, status: upToDate })],
        window('0 7 * * *', '2h'),
      ),
      NOW,
    )
      .conditions.flat()
      .find(({ node }) => node.metadata.name === name)?.progressing.reason;
  expect([again('a', { record }), again('b', {})]).toEqual(['OutsideMaintenanceWindow', 'Updating']);
});

test('a node that is deferred for another reason keeps its estimate', () => {
  const [write] = writes([aManagedNode('a', { unschedulable: true }, staged(90))]);
  if (write === undefined) throw new Error('it is deferred');
  expect({ ...write.record, history: undefined }).toEqual(staged(90).record);
});

it.each(['WorkloadsNotReady', 'PodListFailed'])(
  'the time for which a staged node waits is no part of it: %s',
  (reason) => {
    const condition = { type: 'Progressing', status: 'False', lastTransitionTime: ago(MINUTE) } as const;
    const progressing = { ...condition, reason, message: 'It waits' };
    const [write] = writes([aManagedNode('a', {}, { ...staged(45), progressing })], window('15 7 * * *', '54m'));
    expect(write).toMatchObject({ outcome: 'Deferred', because: { reason: 'OutsideMaintenanceWindow' } });
    expect(write?.record.deferredAfterSeconds).toBeUndefined();
  },
);

describe('an attempt that is deferred', () => {
  const keeps = (node: NodeParts, spec: object = {}): boolean => {
    const [write] = writes([aManagedNode('a', node, staged())], spec);
    return write?.record.endedByConfigAt === ago(0);
  };
  const blackout = { maintenance: { blackouts: [{ from: ago(MINUTE), to: ago(-MINUTE) }] } };

  it.each<[string, object]>([
    ['its window has closed', window('0 9 * * *', '4h')],
    ['a blackout has started', blackout],
    ['a pause has interrupted it', { paused: true, pauseMode: 'Interrupt' }],
    ['its version is now denied', { versions: { deny: [NEW] } }],
  ])('does not count for the order of nodes when %s', (_, spec) => {
    expect(keeps({}, spec)).toBe(true);
  });

  it.each<[string, NodeParts]>([
    ['is cordoned', { unschedulable: true }],
    ['is not Ready', { ready: false }],
    ['is to be skipped', { annotations: { [SKIP_ANNOTATION]: 'true' } }],
  ])('counts for the order of nodes when the Node %s, which its kubelet can cause', (_, node) => {
    expect(keeps(node)).toBe(false);
  });

  it('counts again for the order of nodes when the node starts again', () => {
    const record = { endedByConfigAt: ago(MINUTE), startedAt: ago(5 * MINUTE) };
    const [write] = writes([aManagedNode('a', {}, { record })]);
    expect(write).toMatchObject({ outcome: 'Started', record: { endedByConfigAt: undefined } });
  });
});

describe('when a limit is lowered', () => {
  const names = ['a', 'b', 'c'];
  const fleet = names.map((name) => aManagedNode(name, {}, staged()));
  const outcomes = (maxUpdating: number): (string | undefined)[] => {
    const made = writes(fleet, { concurrency: { maxUpdating } });
    return names.map((name) => made.find(({ node }) => node.metadata.name === name)?.outcome);
  };

  it('as many staged nodes release their slots as are too many, the last ones', () => {
    expect(outcomes(3)).toEqual(['Advanced', 'Advanced', 'Advanced']);
    expect(outcomes(2)).toEqual(['Advanced', 'Advanced', 'Deferred']);
    expect(outcomes(1)).toEqual(['Advanced', 'Deferred', 'Deferred']);
  });

  it('those that are still staging count first', () => {
    const staging = aManagedNode(
      'a',
      {},
      { spec: underWay('StagedAndPerformedUpdate'), status: { current_state: 'Idle' } },
    );
    const made = writes([staging, aManagedNode('b', {}, staged())], { concurrency: { maxUpdating: 1 } });
    expect(made.map(({ node, outcome: found }) => [node.metadata.name, found])).toEqual([['b', 'Advanced']]);
  });
});

test('the pods on a staged node are not looked up while a watch is stale', () => {
  const snapshot = aSnapshot([aManagedNode('a', {}, staged())]);
  const watchLags = [{ resource: 'nodes', ms: 500_000 }];
  const made = plan({ ...snapshot, watchLags, pods: new Map() }, NOW);
  expect([made.specs, made.lookUps]).toEqual([[], []]);
});

test('hosts that only get other settings defer no update', () => {
  const idle = ['b', 'c'].map((name) =>
    aManagedNode(
      name,
      {},
      { generation: 4, spec: { state_transition_timestamp: ago(0) }, status: { observedGeneration: 3 } },
    ),
  );
  const made = writes([aManagedNode('a', {}, staged()), ...idle]);
  expect(made.map(({ node, outcome: found }) => [node.metadata.name, found])).toEqual([['a', 'Advanced']]);
});

it('a node whose staging makes a check fail goes after the nodes that had no attempt', () => {
  const spec = { health: { checks: [{ name: 'io', when: ['Before'], alerts: { filter: ['severity="critical"'] } }] } };
  const planned = (nodes: readonly ManagedNode[], passed: boolean): readonly SpecChange[] => {
    const snapshot = aSnapshot(nodes, spec);
    return plan({ ...snapshot, checks: viewOf(answered(snapshot.policy, NOW, () => ({ passed }))) }, NOW).specs;
  };
  const [change] = planned([aManagedNode('a', {}, staged()), aManagedNode('b')], false);
  expect(change).toMatchObject({ outcome: 'Deferred', because: { reason: 'CheckNotPassed' } });
  const record = change?.record ?? {};
  const [next] = planned([aManagedNode('a', {}, { record }), aManagedNode('b')], true);
  expect([next?.node.metadata.name, next?.outcome]).toEqual(['b', 'Started']);
});
