/** What happens to the two fleets of a comparison, as plain data: each planner gets the same events. */
import fc from 'fast-check';

/** What an agent, or its host, does next. */
export type Act =
  /** The next step that its spec calls for. */
  | 'acts'
  /** The step has failed; after the reboot the host runs the former version. */
  | 'fails'
  /** The step has taken longer than its host allows. */
  | 'times out'
  /** A pod holds the drain. */
  | 'is held'
  /** The host no longer offers the version. */
  | 'is withdrawn'
  /** It has confirmed the end, and leaves the cordon on its Node. */
  | 'forgets';

export type Event =
  | { readonly kind: 'agent'; readonly node: number; readonly act: Act }
  | { readonly kind: 'offer'; readonly nodes: readonly number[]; readonly version: string }
  | { readonly kind: 'ready'; readonly node: number; readonly ready: boolean }
  | { readonly kind: 'condition'; readonly node: number; readonly type: string; readonly status: string }
  | { readonly kind: 'cordon'; readonly node: number; readonly on: boolean }
  | { readonly kind: 'label'; readonly node: number; readonly label: string; readonly value: string | null }
  | { readonly kind: 'annotate'; readonly node: number; readonly annotation: string; readonly value: string | null }
  | { readonly kind: 'taint'; readonly node: number; readonly key: string; readonly on: boolean }
  | { readonly kind: 'retry'; readonly node: number; readonly version: string }
  | { readonly kind: 'lose'; readonly node: number; readonly what: 'shadow' | 'node' }
  | { readonly kind: 'pods'; readonly node: number; readonly pods: readonly PodKind[] }
  | { readonly kind: 'budget'; readonly allows: number; readonly spec: 'minAvailable' | 'maxUnavailable' }
  | { readonly kind: 'config'; readonly spec: Readonly<Record<string, unknown>> | undefined }
  | { readonly kind: 'groups'; readonly groups: readonly GroupEvent[] }
  | { readonly kind: 'connectivity'; readonly lost: boolean }
  | { readonly kind: 'watch'; readonly lagMs: number }
  | { readonly kind: 'clock'; readonly skewMs: number }
  | { readonly kind: 'checks'; readonly passed: boolean }
  | { readonly kind: 'jobs'; readonly result: 'Succeeded' | 'Failed' | 'Gone' }
  | { readonly kind: 'members'; readonly ready: readonly boolean[] }
  | { readonly kind: 'reject'; readonly node: number; readonly message: string | null }
  | { readonly kind: 'lead' }
  | { readonly kind: 'time'; readonly seconds: number };

export type PodKind = 'ready' | 'unready' | 'crashing' | 'bare' | 'held' | 'last' | 'finalizer' | 'member';

export interface GroupEvent {
  readonly name: string;
  readonly spec: Readonly<Record<string, unknown>>;
}

export const NODES = 6;
export const VERSIONS = ['1.20.0', '1.21.0', '1.22.0'] as const;
const [OLD, NEW, LATER] = VERSIONS;

const node = fc.nat(NODES - 1);
const kind = <K extends Event['kind']>(name: K) => fc.constant(name);
const agent = fc.record({
  kind: kind('agent'),
  node,
  act: fc.oneof(
    { weight: 30, arbitrary: fc.constant('acts' as const) },
    { weight: 2, arbitrary: fc.constantFrom<Act>('fails', 'times out', 'is held', 'is withdrawn', 'forgets') },
  ),
});
/** Each node does its next step. */
const everyAgent = Array.from({ length: NODES }, (_, one): Event => ({ kind: 'agent', node: one, act: 'acts' }));

const CHECK = { name: 'errors', when: ['Before', 'After'], prometheus: { query: 'errors < bool 1' } };
const LEADER = { matchLabels: { role: 'leader' } };
const QUORUM = {
  name: 'db',
  namespace: 'apps',
  podSelector: { matchLabels: { app: 'db' } },
  members: 3,
};
type Part = Readonly<Record<string, unknown>>;

const rollout = (fields: Readonly<Record<string, fc.Arbitrary<unknown>>>): fc.Arbitrary<Part> =>
  fc.record({ rollout: fc.record(fields) });
const health = (fields: Readonly<Record<string, unknown>>): fc.Arbitrary<Part> => fc.constant({ health: fields });
/** What a story is about: each of its configurations has this part. */
const THEMES = {
  nothing: fc.constant({}),
  canaries: rollout({ canary: fc.record({ nodes: fc.constantFrom(1, 2) }), soak: fc.constantFrom('0s', '30m') }),
  approval: rollout({
    canary: fc.constant({ nodes: 1 }),
    approval: fc.constant('Required'),
    approvedVersion: fc.constantFrom(NEW, LATER),
  }),
  failures: rollout({ failureBudget: fc.constantFrom(0, 1), rollback: fc.constantFrom('None', 'Automatic') }),
  limits: fc.record({
    concurrency: fc.record(
      {
        maxUpdating: fc.constantFrom(3, '100%'),
        maxUnavailable: fc.constantFrom(1, 2, 3),
        maxPerZone: fc.constantFrom(1, 2),
        maxZones: fc.constantFrom(1, 2),
        controlPlane: fc.constantFrom('OneAtATime', 'Ignored'),
      },
      { requiredKeys: ['maxUpdating'] },
    ),
  }),
  versions: fc.record({
    versions: fc.record(
      { pin: fc.constantFrom(OLD, NEW), deny: fc.constant([LATER]), minimumAge: fc.constantFrom('0m', '30m') },
      { requiredKeys: ['minimumAge'] },
    ),
  }),
  windows: fc.constant({ maintenance: { windows: [{ schedule: '0 */2 * * *', duration: '1h' }], margin: '0m' } }),
  health: fc.oneof(
    health({ daemonSets: 'Required', pods: 'Required' }),
    health({ podsBefore: 'Required', unhealthyNodes: 'Last' }),
    health({ workloads: 'Required' }),
  ),
  checks: fc.oneof(
    health({ checks: [CHECK] }),
    health({ checks: [{ name: 'smoke', job: { cronJob: 'smoke' }, when: ['Before', 'After'] }] }),
    fc.constant({
      hooks: {
        before: [{ name: 'snapshot', job: { cronJob: 'snapshot' } }],
        after: [{ name: 'back', job: { cronJob: 'back' } }],
      },
    }),
  ),
  quorums: fc.record({
    quorums: fc.constantFrom([QUORUM], [{ ...QUORUM, members: 2, downtime: 'Allowed' }], [{ ...QUORUM, last: LEADER }]),
  }),
  drains: fc.record({
    drain: fc.record({
      timeout: fc.constantFrom('5m', '30m'),
      blockedBudgets: fc.constantFrom('TryLast', 'Wait'),
      unmanagedPods: fc.constantFrom('Evict', 'Block'),
      onTimeout: fc.constantFrom('Abort', 'Force'),
    }),
  }),
  taints: fc.constant({ drain: { taintWaitingNodes: true, startupTaint: true } }),
  lostNodes: fc.constant({ lostNode: { action: 'OutOfServiceTaint', after: '10m' } }),
  retries: fc.constant({ retry: { attempts: 2 } }),
  pauses: fc.record({ paused: fc.boolean(), pauseMode: fc.constantFrom('Finish', 'Interrupt') }),
} satisfies Readonly<Record<string, fc.Arbitrary<Part>>>;

export type Theme = keyof typeof THEMES;
export const THEME_NAMES = Object.keys(THEMES) as Theme[];

const members = fc.record({
  kind: kind('members'),
  ready: fc.array(fc.boolean(), { minLength: 3, maxLength: 3 }),
});

/** One that goes on, with the part of the theme and at most two of others. */
function config(theme: Theme): fc.Arbitrary<Event> {
  const base = fc.record({
    concurrency: fc.record({ maxUpdating: fc.constantFrom(1, 2, 3, '50%', '100%') }),
    monitoring: fc.record({ healthyFor: fc.constantFrom('0s', '1m'), timeout: fc.constant('30m') }),
    order: fc.constantFrom('Name', 'Random', 'OldestBoot'),
  });
  return fc
    .tuple(fc.subarray([...THEME_NAMES], { maxLength: 2 }))
    .chain(([others]) => fc.tuple(base, ...others.map((name) => THEMES[name]), THEMES[theme]))
    .map((found) => ({ kind: 'config', spec: Object.assign({}, ...found) as Part }));
}

const SETTINGS = [
  { motd: 'hello' },
  { kubernetes: { 'max-pods': 110 } },
  { kernel: { lockdown: 'integrity' } },
  { motd: 'hello', kubernetes: { 'max-pods': 120 }, kernel: { lockdown: 'none' } },
];
const groupSpec = fc.record(
  {
    settings: fc.constantFrom(...SETTINGS),
    after: fc.constant(['even']),
    concurrency: fc.constantFrom({ maxUpdating: 1 }, { maxUpdating: 2, maxUnavailable: 2 }),
    versions: fc.constantFrom({ pin: OLD }, { deny: [NEW] }),
    drain: fc.constant({ timeout: '10m' }),
    nodeMetadata: fc.constantFrom(
      { domains: ['example.com'], labels: { 'example.com/tier': 'gold' } },
      { domains: ['example.com'], taints: [{ key: 'example.com/dedicated', value: 'x', effect: 'NoSchedule' }] },
      {
        domains: ['example.com'],
        taints: [{ key: 'example.com/drained', value: 'x', effect: 'NoExecute' }],
        confirmNoExecute: true,
      },
    ),
  },
  { requiredKeys: [] },
);
const groups: fc.Arbitrary<Event> = fc.tuple(fc.option(groupSpec), fc.option(groupSpec)).map(([even, odd]) => ({
  kind: 'groups',
  groups: [
    ...(even === null ? [] : [{ name: 'even', spec: { ...even, after: undefined } }]),
    ...(odd === null ? [] : [{ name: 'odd', spec: odd }]),
  ].map(({ name, spec }) => ({ name, spec: JSON.parse(JSON.stringify(spec)) as Record<string, unknown> })),
}));

const podKinds: readonly PodKind[] = ['ready', 'unready', 'crashing', 'bare', 'held', 'last', 'finalizer', 'member'];
const rare: fc.Arbitrary<Event> = fc.oneof(
  fc.record({ kind: kind('ready'), node, ready: fc.boolean() }),
  fc.record({
    kind: kind('condition'),
    node,
    type: fc.constantFrom('DiskPressure', 'KernelReady'),
    status: fc.constantFrom('True', 'False'),
  }),
  fc.record({ kind: kind('cordon'), node, on: fc.boolean() }),
  fc.record({
    kind: kind('label'),
    node,
    label: fc.constantFrom('bottlerocket.aws/updater-interface-version', 'pool'),
    value: fc.constantFrom(null, '2.0.0', 'even', 'odd'),
  }),
  fc.record({
    kind: kind('annotate'),
    node,
    annotation: fc.constantFrom('brupop.bottlerocket.aws/skip', 'brupop.bottlerocket.aws/priority'),
    value: fc.constantFrom(null, 'true', '5'),
  }),
  fc.record({ kind: kind('taint'), node, key: fc.constant('ToBeDeletedByClusterAutoscaler'), on: fc.boolean() }),
  fc.record({ kind: kind('retry'), node, version: fc.constantFrom(NEW, LATER) }),
  fc.record({ kind: kind('lose'), node, what: fc.constantFrom('shadow' as const, 'node' as const) }),
  fc.record({
    kind: kind('budget'),
    allows: fc.constantFrom(0, 1),
    spec: fc.constantFrom('minAvailable' as const, 'maxUnavailable' as const),
  }),
  members,
  fc.record({ kind: kind('reject'), node, message: fc.constantFrom(null, 'denied') }),
  fc.record({ kind: kind('lead') }),
);
const one = (theme: Theme): fc.Arbitrary<Event> =>
  fc.oneof(
    { weight: 12, arbitrary: agent },
    { weight: 1, arbitrary: config(theme) },
    { weight: 1, arbitrary: groups },
    {
      weight: 2,
      arbitrary: fc.record({
        kind: kind('offer'),
        nodes: fc.subarray([0, 1, 2, 3, 4, 5]),
        version: fc.constantFrom(...VERSIONS),
      }),
    },
    {
      weight: 2,
      arbitrary: fc.record({ kind: kind('pods'), node, pods: fc.subarray([...podKinds], { maxLength: 3 }) }),
    },
    {
      weight: 2,
      arbitrary: fc.record({
        kind: kind('jobs'),
        result: fc.constantFrom('Succeeded' as const, 'Succeeded' as const, 'Failed' as const, 'Gone' as const),
      }),
    },
    { weight: 1, arbitrary: fc.record({ kind: kind('checks'), passed: fc.boolean() }) },
    { weight: 4, arbitrary: rare },
    {
      weight: 4,
      arbitrary: fc.record({ kind: kind('time'), seconds: fc.constantFrom(5, 60, 300, 1_200, 3_600, 30_000) }),
    },
  );

const acts = (one: number): Event => ({ kind: 'agent', node: one, act: 'acts' });
const waits = (seconds: number): Event => ({ kind: 'time', seconds });
/** What passes: while it lasts, agents go on. */
const passing: fc.Arbitrary<readonly Event[]> = fc
  .tuple(
    fc.constantFrom<readonly [Event, Event]>(
      [
        { kind: 'connectivity', lost: true },
        { kind: 'connectivity', lost: false },
      ],
      [
        { kind: 'watch', lagMs: 600_000 },
        { kind: 'watch', lagMs: 0 },
      ],
      [
        { kind: 'clock', skewMs: 3_600_000 },
        { kind: 'clock', skewMs: 0 },
      ],
    ),
    fc.array(node, { maxLength: 4 }),
    fc.constantFrom(10, 600),
  )
  .map(([[begins, ends], nodes, seconds]) => [begins, ...nodes.map(acts), waits(seconds), ends]);
/** A node that is not healthy on the version that it has just booted. */
const unhealthy: fc.Arbitrary<readonly Event[]> = node.map((one) => [
  ...Array.from({ length: 5 }, () => acts(one)),
  { kind: 'ready', node: one, ready: false },
  waits(2_400),
  waits(60),
  { kind: 'ready', node: one, ready: true },
]);
/** Every agent does its next step, a few times. */
const progress = fc
  .tuple(fc.integer({ min: 1, max: 5 }), fc.constantFrom(1, 10, 70))
  .map(([rounds, seconds]) => Array.from({ length: rounds }, () => [...everyAgent, waits(seconds)]).flat());

/** Rollouts that go on: most of the time every agent does what is next. */
export function storyOf(theme: Theme): fc.Arbitrary<readonly Event[]> {
  const next = fc.oneof(
    { weight: 12, arbitrary: one(theme).map((event): readonly Event[] => [event]) },
    { weight: 5, arbitrary: progress },
    { weight: 1, arbitrary: config(theme).map((event): readonly Event[] => [event]) },
    { weight: 1, arbitrary: passing },
    { weight: 1, arbitrary: unhealthy },
  );
  return fc
    .tuple(config(theme), members, fc.array(next, { minLength: 15, maxLength: 40 }))
    .map(([first, set, rest]) => [first, set, ...rest.flat()]);
}

export const stories: fc.Arbitrary<readonly Event[]> = fc.constantFrom(...THEME_NAMES).chain(storyOf);
