/** Reports of an agent and writes of a kubelet to its own Node cannot hold a slot indefinitely. */
import { pinned } from '@brupop/shared/testing/settings';
import { GROUP_TAINTS_ANNOTATION } from '@brupop/shared/api/names';
import { taintsRecord } from '../cluster/group-metadata.ts';
import { NodeMemory } from '../cluster/node-memory.ts';
import type { ManagedNode, PodsOfNode } from '../cluster/snapshot.ts';
import {
  ago,
  aManagedNode,
  aNode,
  aSnapshot,
  cordoned,
  failure,
  instantAt,
  MINUTE,
  NEW,
  OLD,
  NOW,
  podsOf,
  type ShadowParts,
  withoutShadow,
} from '../testing/objects.ts';
import { CONDITIONS } from '../report/config-conditions.ts';
import { wholePlan as plan, type WholePlan as Plan } from '../whole-plan.ts';

const planOf = (managedNodes: readonly ManagedNode[], spec?: unknown): Plan => plan(aSnapshot(managedNodes, spec), NOW);
const started = ({ specs }: Plan): string[] => specs.map(({ node }) => node.metadata.name);
const STARTED = { startedAt: ago(60 * MINUTE) };
const recreated = {
  generation: 1,
  creationTimestamp: ago(MINUTE),
  spec: { state_transition_timestamp: null },
  status: null,
} as const;
const staging = {
  current_state: 'Idle',
  observedGeneration: 2,
  lastOperation: failure(undefined, { operation: 'Stage', state: 'Processing' }),
} as const;
/** An attempt that ended `minutes` ago; `rebooted`: a drain and a reboot had been requested. */
const ended = (
  minutes: number,
  { rebooted = false, parts }: { rebooted?: boolean; parts?: ShadowParts } = {},
): ShadowParts => ({
  record: { ...STARTED, ...(rebooted && { rebootRequestedAt: ago(90 * MINUTE) }) },
  spec: { state_transition_timestamp: ago(minutes * MINUTE) },
  ...parts,
});
const unconfirmed = { status: staging } as const;
const succeeded: ShadowParts = {
  record: { ...STARTED, succeeded: { version: OLD, at: ago(6 * MINUTE) } },
  spec: { state_transition_timestamp: ago(6 * MINUTE) },
};
const joined = (ms: number): ShadowParts => ({
  generation: 1,
  creationTimestamp: ago(ms),
  spec: { state_transition_timestamp: null },
  status: { current_version: NEW },
});
/** The process has observed the creation of the shadow. */
const FORMER = { startedAt: undefined, slotUntil: NOW };
const planWith = (pods: Readonly<Record<string, PodsOfNode>>): Plan => {
  const snapshot = aSnapshot([aManagedNode('a'), aManagedNode('b')]);
  return plan({ ...snapshot, pods: new Map([...snapshot.pods, ...Object.entries(pods)]) }, NOW);
};

const starts: Record<string, [Plan, string[]]> = {
  'a node whose kubelet sets the cordon after a success holds no slot': [
    planOf([aManagedNode('a'), aManagedNode('b', cordoned(0), succeeded)]),
    ['a'],
  ],
  'a node whose agent leaves Idle again after a success holds no slot': [
    planOf([aManagedNode('a'), aManagedNode('b', cordoned(0), { ...succeeded, status: staging })]),
    ['a'],
  ],
  'a cordoned node that was never updated holds a slot for 15 minutes, since its shadow may have been recreated': [
    planOf([aManagedNode('a'), aManagedNode('b', cordoned(0), joined(14 * MINUTE))]),
    [],
  ],
  'a cordoned node that was never updated holds no slot after 15 minutes': [
    planOf([aManagedNode('a'), aManagedNode('b', cordoned(0), joined(15 * MINUTE))]),
    ['a'],
  ],
  'a cordoned node whose shadow was not recreated holds no slot': [
    planOf([aManagedNode('a'), { ...aManagedNode('b', cordoned(0), joined(MINUTE)), former: FORMER }]),
    ['a'],
  ],
  'a node whose shadow is new and was not recreated holds no slot': [
    planOf([aManagedNode('a'), { ...aManagedNode('b', {}, recreated), former: FORMER }]),
    ['a'],
  ],
  'a cordoned node without a shadow holds a slot for as long as a drain and a reboot may take': [
    planOf([aManagedNode('a'), { ...withoutShadow(aManagedNode('b', cordoned(0))), missingSince: NOW - 60 * MINUTE }]),
    ['a'],
  ],
  'a node whose pods cannot be listed leaves its slot to the next node': [
    planWith({ a: { ...podsOf(aNode({ name: 'a' })), seenAt: undefined, problem: '500', retryAt: NOW } }),
    ['b'],
  ],
};
/** True if `a` starts although the kubelet of `b` keeps renewing the operator's cordon. */
const startsBeside = (b: ShadowParts): boolean =>
  started(planOf([aManagedNode('a'), aManagedNode('b', cordoned(0), b)], { drain: { timeout: '12h' } })).includes('a');

it.each([0, 1, 14, 16, 30, 59, 60, 300])(
  'a kubelet cannot hold a slot %i minutes after an attempt without a drain',
  (minutes) => {
    expect(startsBeside(ended(minutes))).toBe(true);
    expect(startsBeside(ended(minutes, { parts: unconfirmed }))).toBe(true);
  },
);

it.each([
  [1, false],
  [14, false],
  [16, true],
  [30, true],
  [59, true],
  [720, true],
])(
  'a cordon renewed by the kubelet %i minutes after an attempt with a drain leaves the slot to another node: %s',
  (minutes, expected) => {
    expect(startsBeside(ended(minutes, { rebooted: true }))).toBe(expected);
  },
);

it.each([1, 16, 60, 720, 30 * 24 * 60])(
  'a node that was requested to reboot still holds its slot after %i minutes if its agent has not confirmed the end',
  (minutes) => {
    expect(startsBeside(ended(minutes, { rebooted: true, parts: unconfirmed }))).toBe(false);
    const withoutCordon = aManagedNode('b', {}, ended(minutes, { rebooted: true, parts: unconfirmed }));
    expect(started(planOf([aManagedNode('a'), withoutCordon]))).toEqual([]);
  },
);

describe('a kubelet that changes the labels of its Node while a version is pinned', () => {
  const PINNED = { versions: { pin: NEW } };
  const relabeled = (b: ShadowParts): Plan =>
    planOf(
      [aManagedNode('a', {}, { spec: { settings: pinned({ versionLock: NEW }) } }), aManagedNode('b', cordoned(0), b)],
      PINNED,
    );
  const configured = { spec: { state_transition_timestamp: ago(0), settings: pinned({ versionLock: NEW }) } } as const;

  it.each<[string, ShadowParts]>([
    ['was never updated', { status: staging }],
    ['has succeeded', { record: succeeded.record ?? {}, status: staging }],
    ['failed to stage', { record: STARTED, status: staging }],
  ])('holds no slot while its agent does not confirm the settings, if it %s', (_, parts) => {
    expect(started(relabeled({ ...parts, ...configured }))).toEqual(['a']);
  });

  it('does not defer the time at which its agent counts as not responding', () => {
    const since = ago(4 * MINUTE);
    const made = relabeled({ record: STARTED, spec: { state_transition_timestamp: since }, status: staging });
    const change = made.specs.find(({ node }) => node.metadata.name === 'b');
    expect(change).toMatchObject({ outcome: 'Configured', spec: { state_transition_timestamp: since } });
  });

  it('does not hold the slot of an attempt whose end its agent has confirmed', () => {
    const made = relabeled(ended(1, { rebooted: true }));
    const change = made.specs.find(({ node }) => node.metadata.name === 'b');
    expect(change?.record.rebootRequestedAt).toBeUndefined();
  });
});

it('a kubelet that names a taint of Kubernetes as one of a group, again and again, holds no slot', () => {
  const taint = { key: 'node.kubernetes.io/not-ready', value: '', effect: 'NoExecute' } as const;
  const claims = { [GROUP_TAINTS_ANNOTATION]: taintsRecord([{ group: 'db', ...taint }]) ?? '' };
  const b = aManagedNode('b', { ready: false, annotations: claims });
  if (b.node === undefined) throw new Error('there is a Node');
  const node = { ...b.node, taints: [taint] };
  const withoutClaim = { ...node, metadata: { ...node.metadata, annotations: {} } };
  const memory = new NodeMemory();
  for (const [view, at] of [
    [node, NOW - MINUTE],
    [withoutClaim, NOW - 1_000],
    [node, NOW],
  ] as const)
    memory.node('b', view, b.shadow, instantAt(at));
  const seen = { ...memory.of('b', instantAt(NOW)), evictedSince: memory.evictedSince({ ...b, node }, instantAt(NOW)) };
  const spec = { concurrency: { maxUnavailable: 2 } };
  expect(started(planOf([aManagedNode('a'), { ...b, ...seen, node }], spec))).toEqual(['a']);
});

test.each(Object.entries(starts))('%s', (_, [made, expected]) => expect(started(made)).toEqual(expected));

test('a Node with orphaned annotations makes the configuration Degraded', () => {
  const made = planOf([aManagedNode('a'), aManagedNode('b', cordoned(0), succeeded)]);
  expect(CONDITIONS.Degraded(made).message).toContain('orphaned annotations on b: no update of the operator set them');
});

describe('however many nodes there are whose pods cannot be listed', () => {
  const nodes = Array.from({ length: 150 }, (_, i) => aManagedNode(`n${String(i).padStart(3, '0')}`));
  const others = nodes.slice(12).map(({ name }) => name);
  /** The lists of twelve nodes failed, and those of `unknown` were never asked for. */
  const planWith = (more: object, unknown: readonly string[] = [], now = NOW): Plan => {
    const snapshot = aSnapshot(nodes, { concurrency: { maxUpdating: 10 } });
    const failing = nodes.slice(0, 12).map(({ name, node = aNode() }) => {
      return [name, { ...podsOf(node), seenAt: undefined, problem: 'failed', retryAt: NOW - 1_000, ...more }] as const;
    });
    const pods = new Map([...snapshot.pods, ...failing]);
    for (const name of unknown) pods.delete(name);
    return plan({ ...snapshot, pods }, now);
  };
  const listed = (made: Plan): string[] => made.lookUps.map(({ metadata }) => metadata.name);

  it('the others start', () => {
    expect(started(planWith({ isTooLarge: true }))).toEqual(others.slice(0, 10));
    expect(started(planWith({}))).toEqual(others.slice(0, 10));
  });

  it('those that were asked the longest time ago are listed first', () => {
    const made = planWith({ isTooLarge: true }, others);
    expect(listed(made).slice(0, 10)).toEqual(others.slice(0, 10));
  });

  it('as long as no list works, the first nodes keep their positions, and now and then another one is listed', () => {
    const found = [0, 10_000, 20_000].map((ms) => planWith({}, others, NOW + ms));
    const probes = found.map((made) => listed(made).filter((name) => others.includes(name)));
    expect(found.map((made) => started(made))).toEqual([[], [], []]);
    expect(found.map((made) => made.lookUps.length)).toEqual([11, 11, 11]);
    expect(new Set(probes.flat()).size).toBe(3);
    expect([...(found[0]?.needsPodsOf ?? [])]).toEqual(expect.arrayContaining(probes[0] ?? []));
  });
});
