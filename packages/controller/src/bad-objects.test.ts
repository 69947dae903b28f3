/** Objects as users, other releases or accidents write them: nothing crashes, and an error names what cannot be read. */
import fc from 'fast-check';
import type { BrupopConfig } from '@brupop/shared/api/brupop-config';
import { CORDONED_ANNOTATION, MANAGED_LABEL, MANAGED_LABEL_VALUE, shadowName } from '@brupop/shared/api/names';
import { SHADOW_STATES } from '@brupop/shared/api/shadow';
import { eventOf } from '@brupop/shared/kube/events';
import { ownedByUs } from '@brupop/shared/node/ownership';
import { NO_PODS_LISTED } from './cluster/all-pods.ts';
import { CONNECTED } from './cluster/connectivity.ts';
import { conditionOf, healthConditions } from './apply/conditions.ts';
import { patchOf } from './apply/shadows.ts';
import { isManaged, readNode } from './cluster/node.ts';
import { readShadow, type ShadowView } from './cluster/shadow.ts';
import type { ManagedNode, Snapshot } from './cluster/snapshot.ts';
import { statusOf } from './report/config-status.ts';
import { type WholePlan as Plan, wholePlan as plan } from './whole-plan.ts';
import { nodesAtOnce, readPolicy, type UpdatePolicy } from './policy/policy.ts';
import { NO_CHECKS_KNOWN, NOW, podsOf } from './testing/objects.ts';

// oxlint-disable-next-line node/no-process-env -- a run is repeated with its seed
const { BRUPOP_FUZZ_SEED = '20261121', BRUPOP_FUZZ_RUNS = '1000' } = process.env;
const seed = Number(BRUPOP_FUZZ_SEED);
const numRuns = Number(BRUPOP_FUZZ_RUNS);

const time = fc.constantFrom(
  '2027-01-15T08:00:00Z',
  '2027-01-15T07:00:00.5+01:00',
  '0001-01-01T00:00:00Z',
  '9999-12-31T23:59:59Z',
  '2027-01-15t08:00:00z',
  '2027-01-15T08:00:00,5Z',
);
const version = fc.constantFrom('1.20.0', '1.21.0', '99999999999.0.0', '1.20.0-rc.1+x');
const count = fc.constantFrom(0, 1, 7, 2 ** 31, Number.MAX_SAFE_INTEGER, 9e18);
const words = fc.string({ maxLength: 300 });
const state = fc.constantFrom(...SHADOW_STATES);
const text = fc.string({ maxLength: 20 });
/** Of another type than the schema allows. */
const nonsense = fc.oneof(
  fc.jsonValue({ maxDepth: 2 }),
  fc.constantFrom<unknown>(null, undefined, {}, [], '', -1, NaN),
);
/** As the schema allows, with a few exceptions. */
const or = (value: fc.Arbitrary<unknown>): fc.Arbitrary<unknown> =>
  fc.oneof({ weight: 30, arbitrary: value }, { weight: 1, arbitrary: nonsense });
const some = (fields: Record<string, fc.Arbitrary<unknown>>): fc.Arbitrary<unknown> =>
  fc.record(Object.fromEntries(Object.entries(fields).map(([name, one]) => [name, or(one)])), { requiredKeys: [] });

const lastOperation = some({
  operation: fc.constantFrom('Stage', 'Drain', 'Activate', 'Reboot', 'Restore'),
  state: fc.constantFrom('Processing', 'Succeeded', 'Failed'),
  version,
  bootID: text,
  startTime: time,
  lastUpdateTime: time,
  errorCode: fc.constantFrom(
    'RolledBack',
    'PrepareFailed',
    'HostUnsupported',
    'FromTheFuture',
    '__proto__',
    'toString',
  ),
  message: words,
});
const condition = some({
  type: fc.constantFrom('Progressing', 'x'),
  status: fc.constant('True'),
  reason: text,
  message: words,
});
const status = some({
  current_state: state,
  current_version: version,
  target_version: version,
  crash_count: count,
  state_transition_failure_timestamp: fc.oneof(time, fc.constant(null)),
  observedGeneration: fc.constantFrom(1, 2, 3, 9e18),
  bootID: text,
  lastOperation,
  conditions: fc.array(condition, { maxLength: 2 }),
});
const spec = some({ state, version: fc.oneof(version, fc.constant(null)), state_transition_timestamp: time });
const annotations = fc.dictionary(
  fc.constantFrom('brupop.bottlerocket.aws/retry', 'brupop.bottlerocket.aws/record', 'x'),
  fc.constantFrom('1.21.0', '3', '-1', '1e999', 'NaN', '__proto__', ''),
);
const pair = fc.record({
  spec: or(spec),
  status: or(status),
  annotations,
  owned: fc.boolean(),
  node: fc.boolean(),
  managed: fc.boolean(),
  cordonedAt: fc.option(fc.oneof(time, text), { nil: undefined }),
  ready: fc.boolean(),
});
type Pair = typeof pair extends fc.Arbitrary<infer T> ? T : never;
const config = fc.option(
  some({
    paused: fc.boolean(),
    pauseReason: words,
    concurrency: some({ maxUpdating: fc.constantFrom<unknown>(1, 3, 2 ** 31, '100%', '1%', '0%', 'all', 1.5) }),
  }),
  { nil: undefined },
);

function rawShadow(name: string, { spec: given, status: known, annotations: notes, owned }: Pair): unknown {
  const owner = { apiVersion: 'v1', kind: 'Node', name, uid: owned ? `uid-${name}` : 'another' };
  const metadata = { name: shadowName(name), namespace: 'n', uid: `s-${name}`, resourceVersion: '1', generation: 2 };
  return { metadata: { ...metadata, annotations: notes, ownerReferences: [owner] }, spec: given, status: known };
}

function rawNode(name: string, { managed, cordonedAt, ready }: Pair): unknown {
  const labels = managed ? { [MANAGED_LABEL]: MANAGED_LABEL_VALUE } : {};
  const notes = cordonedAt === undefined ? {} : { [CORDONED_ANNOTATION]: cordonedAt };
  return {
    metadata: { name, uid: `uid-${name}`, resourceVersion: '1', labels, annotations: notes },
    spec: { unschedulable: cordonedAt !== undefined },
    status: { conditions: [{ type: 'Ready', status: ready ? 'True' : 'False' }], nodeInfo: {} },
  };
}

/** As the reflector: undefined for a shadow that cannot be read. */
function readIfValid(raw: unknown): ShadowView | undefined {
  try {
    return readShadow(raw);
  } catch {
    return undefined;
  }
}

function memberOf(one: Pair, index: number, policy: UpdatePolicy): ManagedNode[] {
  const name = `node-${index}`;
  const raw = rawShadow(name, one);
  const shadow = readIfValid(raw);
  const node = one.node ? readNode(rawNode(name, one)) : undefined;
  const concerns = shadow !== undefined || (node !== undefined && (isManaged(node) || ownedByUs(node)));
  return concerns ? [{ name, node, shadow: shadow && { ...shadow }, group: undefined, policy, missingSince: NOW }] : [];
}

function snapshotOf(pairs: readonly Pair[], wanted: unknown): Snapshot {
  const metadata = { name: 'cluster', uid: 'c', resourceVersion: '1', generation: 1 };
  const given = wanted === undefined ? undefined : ({ metadata, spec: wanted } as BrupopConfig);
  const policy = readPolicy(given);
  const managedNodes = pairs.flatMap((pair, index) => memberOf(pair, index, policy));
  const pods = new Map(
    managedNodes.flatMap(({ node }) => (node === undefined ? [] : [[node.metadata.name, podsOf(node)]])),
  );
  const rest = {
    budgets: new Map(),
    mayForce: true,
    watchLags: [],
    connectivity: CONNECTED,
    checks: NO_CHECKS_KNOWN,
    clockSkewMs: 0,
    ownNamespace: 'brupop',
    ownNode: 'node-0',
  };
  const nodes = managedNodes.flatMap(({ node }) => node ?? []);
  return {
    managedNodes,
    nodes,
    allPods: NO_PODS_LISTED,
    memberPods: new Map(),
    config: given,
    policy,
    groups: [],
    groupObjects: [],
    metadataNotes: new Map(),
    pods,
    observed: new Map(),
    ...rest,
  };
}

/** The bodies of all requests that follow from a plan. */
function bodiesOf(snapshot: Snapshot, made: Plan): unknown[] {
  const events = [...made.specs, ...made.conditions.flat(), ...made.cleanups].flatMap(({ event }) => event ?? []);
  return [
    ...made.specs.map((write) => patchOf(write)),
    ...events.map((one) => eventOf(one, BY, { now: NOW, micros: 0, second: NOW / 1000 })),
    ...made.conditions.flat().flatMap((news) => [conditionOf(news, NOW), ...healthConditions(news, NOW)]),
    ...(snapshot.config === undefined
      ? []
      : [statusOf({ config: snapshot.config, plan: made, before: undefined, isWritten: true, now: NOW })]),
  ];
}

const BY = { component: 'brupop-controller', instance: 'pod' };

const isText = (value: unknown): boolean => typeof value === 'string' && value !== '';

it(`plans for any fleet without a crash, starts no more nodes than allowed, and gives each waiting node a reason (seed ${seed})`, () => {
  const property = fc.property(fc.array(pair, { maxLength: 8 }), config, (pairs, wanted) => {
    const snapshot = snapshotOf(pairs, wanted);
    const made = plan(snapshot, NOW);
    expect(() => JSON.stringify(bodiesOf(snapshot, made))).not.toThrow();
    const starts = made.specs.filter(({ outcome }) => outcome === 'Started');
    const {
      concurrency: { maxUpdating },
      problem,
      paused,
    } = snapshot.policy;
    const may = problem !== undefined || paused ? 0 : nodesAtOnce(maxUpdating, made.counts.managed);
    expect(starts.length).toBeLessThanOrEqual(may);
    expect(
      made.conditions.flat().filter(({ progressing }) => !isText(progressing.reason) || !isText(progressing.message)),
    ).toEqual([]);
    expect(made.wakeAt === undefined || Number.isFinite(made.wakeAt)).toBe(true);
    for (const { spec: next } of made.specs) expect(SHADOW_STATES).toContain(next.state);
  });
  fc.assert(property, { seed, numRuns });
});

it(`reads a shadow, or names the field, what it expected and what it found (seed ${seed})`, () => {
  const property = fc.property(pair, (one) => {
    const raw = rawShadow('a', one);
    let problem = '';
    try {
      readShadow(raw);
    } catch (error) {
      problem = (error as Error).message;
    }
    expect(problem).toMatch(/^$|^brs-a: (spec|status)[.\w[\]]*: expected .{1,200}, found .{1,100}$/s);
  });
  fc.assert(property, { seed, numRuns });
});

it.each<readonly [string, unknown, unknown, RegExp]>([
  ['a null spec', null, undefined, /spec: expected an object, found null/],
  [
    'a message that is not a string',
    { state: 'Idle' },
    { lastOperation: { operation: 'Stage', state: 'Failed', version: '1.0.0', bootID: 'b', message: 7 } },
    /lastOperation.message: expected a string, found 7/,
  ],
  [
    'a step without a version',
    { state: 'Idle' },
    { lastOperation: { operation: 'Stage', state: 'Failed' } },
    /lastOperation.version: expected a string, found nothing/,
  ],
  [
    'conditions that are not a list',
    { state: 'Idle' },
    { conditions: 'none' },
    /conditions: expected a list, found "none"/,
  ],
])('names %s', (_name, given, known, message) => {
  expect(() => readShadow({ metadata: { name: 'brs-a' }, spec: given, status: known })).toThrow(message);
});
