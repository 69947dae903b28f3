import fc from 'fast-check';
import { rfc3339 } from '@brupop/shared/clock';
import { CORDONED_ANNOTATION } from '@brupop/shared/constants';
import { aBudget, aPod } from '@brupop/shared/drain/test-pods';
import type { ShadowState } from '@brupop/shared/shadow';
import { readFleetSettings, nodesAtOnce } from './fleet-settings.ts';
import { plan } from './plan.ts';
import type { Plan } from './plan.ts';
import type { NodeView } from '../cluster/node-view.ts';
import type { ShadowView } from '../cluster/shadow-view.ts';
import type { Member, Snapshot } from '../cluster/snapshot.ts';
import { MINUTE, NEW, NOW, aMember, aShadow, aSnapshot, failure } from '../test-objects.ts';

/** What the world does between two plans. */
type Happening =
  | { readonly kind: 'report'; readonly node: number; readonly how: 'reached' | 'failed' | 'stale' }
  | { readonly kind: 'health'; readonly node: number; readonly ready: boolean }
  | { readonly kind: 'cordon'; readonly node: number; readonly unschedulable: boolean }
  | { readonly kind: 'offer'; readonly node: number; readonly version: string }
  | { readonly kind: 'lose'; readonly node: number }
  | { readonly kind: 'ensure'; readonly node: number }
  | { readonly kind: 'config'; readonly spec: unknown }
  | { readonly kind: 'hold'; readonly nodes: readonly number[] }
  | { readonly kind: 'time'; readonly minutes: number };

interface World {
  members: readonly Member[];
  config: unknown;
  now: number;
  held: ReadonlySet<string>;
}

const NODES = 6;
const node = fc.nat(NODES - 1);
const spec = fc.oneof(
  fc.record({ paused: fc.boolean(), pauseMode: fc.constantFrom('Finish', 'Interrupt') }),
  fc.record({ concurrency: fc.record({ maxUpdating: fc.constantFrom(1, 2, 4, '20%', '50%', '0%', 'many', -1) }) }),
  fc.constant(undefined),
);
const report = fc.record({
  kind: fc.constant('report' as const),
  node,
  how: fc.constantFrom('reached' as const, 'reached' as const, 'reached' as const, 'failed' as const, 'stale' as const),
});
const happening = (maxMinutes: number): fc.Arbitrary<Happening> =>
  fc.oneof(
    { weight: 8, arbitrary: report },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('lose' as const), node }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('ensure' as const), node }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('health' as const), node, ready: fc.boolean() }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('cordon' as const), node, unschedulable: fc.boolean() }) },
    {
      weight: 1,
      arbitrary: fc.record({
        kind: fc.constant('offer' as const),
        node,
        version: fc.constantFrom('1.20.0', NEW, '1.22.0'),
      }),
    },
    { weight: 2, arbitrary: fc.record({ kind: fc.constant('config' as const), spec }) },
    { weight: 2, arbitrary: fc.record({ kind: fc.constant('hold' as const), nodes: fc.array(node) }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('time' as const), minutes: fc.nat(maxMinutes) }) },
  );
const story = (maxMinutes: number): fc.Arbitrary<Happening[]> =>
  fc.array(happening(maxMinutes), { minLength: 10, maxLength: 120 });

function newWorld(): World {
  return {
    members: Array.from({ length: NODES }, (_, i) => aMember(`node-${i}`)),
    config: undefined,
    now: NOW,
    held: new Set(),
  };
}

/** Nodes that are held carry a pod whose budget allows nothing. */
function snapshotOf({ members, config, held, now }: World): Snapshot {
  const snapshot = aSnapshot(members, config, now);
  const pods = new Map(
    [...snapshot.pods].map(([name, known]) => [name, held.has(name) ? { ...known, pods: [aPod('web')] } : known]),
  );
  return { ...snapshot, pods, budgets: [aBudget('web')] };
}

function happen(world: World, event: Happening): void {
  if (event.kind === 'config') world.config = event.spec;
  else if (event.kind === 'hold') world.held = new Set(event.nodes.map((i) => `node-${i}`));
  else if (event.kind === 'time') world.now += event.minutes * MINUTE;
  else world.members = world.members.map((member, i) => (i === event.node ? change(member, event, world.now) : member));
}

function change(member: Member, event: Exclude<Happening, { kind: 'config' | 'hold' | 'time' }>, now: number): Member {
  const { node, shadow } = member;
  if (event.kind === 'lose') return { ...member, shadow: undefined, missingSince: now };
  if (event.kind === 'ensure') return { ...member, shadow: shadow ?? ensured(member, now) };
  if (node === undefined || shadow?.status === undefined) return member;
  if (event.kind === 'health') return { ...member, node: { ...node, ready: event.ready } };
  if (event.kind === 'cordon') return { ...member, node: { ...node, unschedulable: event.unschedulable } };
  if (event.kind === 'report') return answered(member, node, shadow, event.how);
  return { ...member, shadow: { ...shadow, status: { ...shadow.status, target_version: event.version } } };
}

/** A new shadow, whose agent has reported under no spec of an update yet. */
function ensured({ name }: Member, now: number): ShadowView {
  const spec = { state_transition_timestamp: null };
  const status = { observedGeneration: 0 };
  return aShadow({
    node: name,
    uid: `shadow-${name}-${now}`,
    generation: 1,
    creationTimestamp: rfc3339(now),
    spec,
    status,
  });
}

/** The apiserver cordons while an agent drains; an agent that is done, in whatever way, has the cordon taken back first. */
function answered(member: Member, node: NodeView, shadow: ShadowView, how: 'reached' | 'failed' | 'stale'): Member {
  const ends = how === 'reached';
  const annotations = ends ? {} : (node.metadata.annotations ?? {});
  const given = { ...node, metadata: { ...node.metadata, annotations }, unschedulable: !ends && node.unschedulable };
  return { ...member, node: given, shadow: reported(shadow, how) };
}

function cordoned(node: NodeView, now: number): NodeView {
  const annotations = { [CORDONED_ANNOTATION]: rfc3339(now) };
  return { ...node, metadata: { ...node.metadata, annotations }, unschedulable: true };
}

function reported(shadow: ShadowView, how: 'reached' | 'failed' | 'stale'): ShadowView {
  const { spec, status, metadata } = shadow;
  const { generation = 0 } = metadata;
  if (status === undefined) return shadow;
  if (how === 'stale') return { ...shadow, status: { ...status, observedGeneration: generation - 1 } };
  if (how === 'failed' && spec.state !== 'Idle') {
    const crash_count = status.crash_count + 1;
    const lastOperation = failure('PrepareFailed', { version: spec.version ?? '' });
    const failed = { current_state: 'ErrorReset', crash_count, lastOperation, observedGeneration: generation } as const;
    return { ...shadow, status: { ...status, ...failed } };
  }
  const reboots = spec.state === 'RebootedIntoUpdate' && spec.version != null;
  const current_version = reboots ? (spec.version ?? '') : status.current_version;
  return {
    ...shadow,
    status: { ...status, current_state: spec.state, current_version, observedGeneration: generation },
  };
}

function carryOut(world: World, { specs }: Plan): void {
  const byName = new Map(specs.map((write) => [write.node.metadata.name, write]));
  world.members = world.members.map((member) => {
    const write = byName.get(member.name);
    if (write === undefined || member.shadow === undefined) return member;
    const { metadata } = member.shadow;
    const generation = (metadata.generation ?? 0) + 1;
    const drains = write.spec.state === 'RebootedIntoUpdate' && member.node !== undefined;
    const node = drains ? cordoned(member.node, world.now) : member.node;
    return { ...member, node, shadow: { ...member.shadow, spec: write.spec, metadata: { ...metadata, generation } } };
  });
}

/** Counted without the planner's own functions: from the first step until the agent has confirmed the end and our cordon is gone. */
function underWay({ members }: World): number {
  return members.filter(({ node, shadow }) => {
    if (node?.metadata.annotations?.[CORDONED_ANNOTATION] !== undefined) return true;
    if (shadow?.status === undefined) return false;
    const { spec, status, metadata } = shadow;
    const confirmed = status.observedGeneration === metadata.generation && status.current_state === 'Idle';
    return spec.state !== 'Idle' || (!confirmed && everStarted(metadata.generation));
  }).length;
}

const everStarted = (generation = 0): boolean => generation > 3;
const limitOf = ({ config }: World): number =>
  nodesAtOnce(readFleetSettings(aSnapshot([], config).config).maxUpdating, NODES);
const startsOf = ({ specs }: Plan): number => specs.filter(({ outcome }) => outcome === 'Started').length;

interface Turn {
  readonly before: World;
  readonly made: Plan;
  readonly after: World;
}

/** Tells a story, with a plan that is carried out after each happening. */
function tell(events: readonly Happening[]): Turn[] {
  const world = newWorld();
  return events.map((event) => {
    happen(world, event);
    const before = { ...world };
    const made = plan(snapshotOf(world), world.now);
    carryOut(world, made);
    return { before, made, after: { ...world } };
  });
}

/** The turns of stories, whose happenings are up to so many minutes apart, in which `isWrong` holds must be none. */
function never(maxMinutes: number, isWrong: (turn: Turn) => boolean): void {
  const property = fc.property(story(maxMinutes), (events) => {
    expect(tell(events).filter((turn) => isWrong(turn))).toEqual([]);
  });
  fc.assert(property, { numRuns: 300 });
}

// No time passes here, so no deadline frees a place: the count must hold without exception.
test('however agents behave and people edit, no start makes more nodes under way than may be', () => {
  never(0, ({ before, made, after }) => startsOf(made) > 0 && underWay(after) > limitOf(before));
  expect.hasAssertions();
});

test('nothing but a start makes more nodes be under way', () => {
  never(0, ({ before, made, after }) => startsOf(made) === 0 && underWay(after) > underWay(before));
  expect.hasAssertions();
});

test('a pause or a configuration that cannot be followed starts nothing', () => {
  never(40, ({ before, made }) => {
    const { paused, problem } = readFleetSettings(aSnapshot([], before.config).config);
    return (paused || problem !== undefined) && startsOf(made) > 0;
  });
  expect.hasAssertions();
});

test('whatever is started was healthy, and nobody else had cordoned it', () => {
  never(40, ({ made }) =>
    made.specs.some(({ outcome, node }) => outcome === 'Started' && (!node.ready || node.unschedulable)),
  );
  expect.hasAssertions();
});

test('nothing is started or asked to reboot that cannot be drained', () => {
  const goesOn: readonly ShadowState[] = ['StagedAndPerformedUpdate', 'RebootedIntoUpdate'];
  never(40, ({ before, made }) =>
    made.specs.some(({ spec, outcome, node }) => {
      const disturbs = outcome === 'Started' || outcome === 'Advanced';
      return disturbs && goesOn.includes(spec.state) && before.held.has(node.metadata.name);
    }),
  );
  expect.hasAssertions();
});

test('a pause that interrupts leaves nothing under way that was not asked to reboot', () => {
  never(40, ({ before, after }) => {
    const { paused, pauseMode } = readFleetSettings(aSnapshot([], before.config).config);
    const goesOn = after.members.some(({ shadow }) => shadow?.spec.state === 'StagedAndPerformedUpdate');
    return paused && pauseMode === 'Interrupt' && goesOn;
  });
  expect.hasAssertions();
});

const GOES_ON: readonly ShadowState[] = ['StagedAndPerformedUpdate', 'RebootedIntoUpdate'];

function hasReported({ shadow }: Member): boolean {
  if (shadow?.status === undefined || !GOES_ON.includes(shadow.spec.state)) return false;
  const { current_state, observedGeneration } = shadow.status;
  const isResult = current_state === shadow.spec.state || current_state === 'ErrorReset';
  return isResult && observedGeneration === shadow.metadata.generation;
}

test('a node under way that reports is always taken on, pause or not', () => {
  never(40, ({ before, made }) => {
    const written = new Set(made.specs.map(({ node }) => node.metadata.name));
    return before.members.some((member) => hasReported(member) && !written.has(member.name));
  });
  expect.hasAssertions();
});

const namesOf = ({ specs }: Plan): string[] => specs.map(({ node }) => node.metadata.name).toSorted();

test('the same world gives the same plan, in whatever order it is listed', () => {
  const property = fc.property(story(40), (events) => {
    for (const { before, made } of tell(events)) {
      const reversed = { ...before, members: before.members.toReversed() };
      expect(plan(snapshotOf(before), before.now)).toEqual(made);
      expect(namesOf(plan(snapshotOf(reversed), before.now))).toEqual(namesOf(made));
    }
  });
  fc.assert(property);
  expect.hasAssertions();
});

test('a plan never asks to be made again in the past', () => {
  never(40, ({ before, made }) => made.wakeAt !== undefined && made.wakeAt <= before.now);
  expect.hasAssertions();
});

test('after any past, well-behaved agents and a valid configuration bring every node up to date', () => {
  fc.assert(
    fc.property(story(40), (events) => {
      const world = newWorld();
      for (const event of events) {
        happen(world, event);
        carryOut(world, plan(snapshotOf(world), world.now));
      }
      world.config = undefined;
      world.held = new Set();
      for (let turn = 0; turn < 400; turn += 1) {
        for (let i = 0; i < NODES; i += 1) {
          happen(world, { kind: 'ensure', node: i });
          happen(world, { kind: 'health', node: i, ready: true });
          happen(world, { kind: 'cordon', node: i, unschedulable: false });
          happen(world, { kind: 'report', node: i, how: 'reached' });
        }
        const made = plan(snapshotOf(world), world.now);
        if (made.counts.upToDate === NODES) return;
        carryOut(world, made);
        if (made.specs.length === 0 && made.wakeAt !== undefined) world.now = made.wakeAt;
      }
      expect(plan(snapshotOf(world), world.now).counts).toMatchObject({ upToDate: NODES });
    }),
  );
});
