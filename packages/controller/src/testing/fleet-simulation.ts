/** A fleet for property tests: what happens to it between two plans, and what plans make of it. */
import fc from 'fast-check';
import { CORDONED_ANNOTATION, UPDATE_STARTED_ANNOTATION, ZONE_LABEL } from '@brupop/shared/api/names';
import { cordonedByUs } from '@brupop/shared/node/ownership';
import { parseTime, rfc3339 } from '@brupop/shared/runtime/clock';
import { aBudget, aPod } from '@brupop/shared/testing/pods';
import type { ShadowState, ShadowStatus } from '@brupop/shared/api/shadow';
import { indexedBudgets } from '@brupop/shared/drain/budget-index';
import type { NodeView } from '../cluster/node.ts';
import type { ShadowView } from '../cluster/shadow.ts';
import type { ManagedNode, Snapshot } from '../cluster/snapshot.ts';
import { plan, type Plan } from '../plan/plan.ts';
import { nodesAtOnce } from '../policy/policy.ts';
import { aManagedNode, annotated, aShadow, aSnapshot, failure, MINUTE, NEW, NOW, OLD } from './objects.ts';

/** `started`: the agent has recorded that it takes the step. */
type Report = 'started' | 'reached' | 'failed' | 'stale';

/** What the world does between two plans. */
export type Happening =
  | { readonly kind: 'report'; readonly node: number; readonly how: Report }
  | { readonly kind: 'health'; readonly node: number; readonly ready: boolean }
  | { readonly kind: 'cordon'; readonly node: number; readonly unschedulable: boolean }
  | { readonly kind: 'offer'; readonly node: number; readonly version: string }
  | { readonly kind: 'lose'; readonly node: number }
  | { readonly kind: 'ensure'; readonly node: number }
  | { readonly kind: 'config'; readonly spec: unknown }
  | { readonly kind: 'hold'; readonly nodes: readonly number[] }
  | { readonly kind: 'time'; readonly minutes: number };

export interface World {
  managedNodes: readonly ManagedNode[];
  config: unknown;
  now: number;
  held: ReadonlySet<string>;
  /** Nodes at rest whose hosts are only to be set otherwise. */
  configured: ReadonlySet<string>;
  /** Nodes whose agents have reported a step of an update, and not its end. */
  disturbed: ReadonlySet<string>;
}

export const NODES = 6;
const node = fc.nat(NODES - 1);
/** What users write into the configuration. */
export const spec: fc.Arbitrary<unknown> = fc.oneof(
  fc.record({ paused: fc.boolean(), pauseMode: fc.constantFrom('Finish', 'Interrupt') }),
  fc.record({ concurrency: fc.record({ maxUpdating: fc.constantFrom(1, 2, 4, '20%', '50%', '0%', 'many', -1) }) }),
  fc.record({
    concurrency: fc.record(
      {
        maxUpdating: fc.constantFrom(3, 6, '100%'),
        maxUnavailable: fc.constantFrom(1, 2, '34%', '50%'),
        maxPerZone: fc.constantFrom(1, 2),
        maxZones: fc.constantFrom(1, 2),
      },
      { requiredKeys: ['maxUpdating'] },
    ),
    versions: fc.record(
      {
        pin: fc.constantFrom(OLD, NEW, '1.22.0'),
        deny: fc.subarray([NEW, '1.22.0']),
        minimumAge: fc.constantFrom('0m', '30m'),
      },
      { requiredKeys: [] },
    ),
    maintenance: fc.record(
      { windows: fc.constantFrom([], [{ schedule: '0 */2 * * *', duration: '1h' }]), margin: fc.constant('0m') },
      { requiredKeys: [] },
    ),
  }),
  fc.constant(undefined),
);
const report = fc.record({
  kind: fc.constant('report' as const),
  node,
  how: fc.constantFrom<Report>('started', 'reached', 'reached', 'reached', 'failed', 'stale'),
});
const happening = (maxMinutes: number, back: number): fc.Arbitrary<Happening> =>
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
    {
      weight: 1,
      arbitrary: fc.record({
        kind: fc.constant('time' as const),
        minutes: fc.integer({ min: -back, max: maxMinutes }),
      }),
    },
  );
/**
 * What happens, at most `maxMinutes` apart.
 * @param back - by how many minutes the clock may be set back
 */
export const story = (maxMinutes: number, back = 0): fc.Arbitrary<Happening[]> =>
  fc.array(happening(maxMinutes, back), { minLength: 10, maxLength: 120 });

/** All nodes idle, with an update available. */
export function newWorld(): World {
  return {
    managedNodes: Array.from({ length: NODES }, (_, i) =>
      aManagedNode(`node-${i}`, { labels: { [ZONE_LABEL]: `zone-${i % 3}` } }),
    ),
    config: undefined,
    now: NOW,
    held: new Set(),
    configured: new Set(),
    disturbed: new Set(),
  };
}

const HELD = { pods: [aPod('web')], namespaces: new Set(['apps']) };
const BUDGETS = indexedBudgets([aBudget('web')]);

/** Nodes that are held carry a pod whose budget allows nothing. */
export function snapshotOf({ managedNodes, config, held, now }: World): Snapshot {
  const snapshot = aSnapshot(managedNodes, config, now);
  const pods = new Map(
    [...snapshot.pods].map(([name, known]) => [name, held.has(name) ? { ...known, ...HELD } : known]),
  );
  return { ...snapshot, pods, budgets: BUDGETS };
}

/** Lets something happen. */
export function happen(world: World, event: Happening): void {
  if (event.kind === 'config') world.config = event.spec;
  else if (event.kind === 'hold') world.held = new Set(event.nodes.map((i) => `node-${i}`));
  else if (event.kind === 'time') world.now += event.minutes * MINUTE;
  else {
    const { disturbed } = world;
    world.managedNodes = world.managedNodes.map((managedNode, i) => {
      if (i !== event.node) return managedNode;
      world.disturbed = disturbedBy(disturbed, managedNode, event);
      return change(managedNode, event, world.now);
    });
  }
}

function disturbedBy(before: ReadonlySet<string>, { name, shadow }: ManagedNode, event: Happening): Set<string> {
  const names = new Set(before);
  if (event.kind === 'lose') names.delete(name);
  if (event.kind !== 'report' || event.how === 'stale' || shadow?.status === undefined) return names;
  const { state } = shadow.spec;
  if (event.how === 'reached' && state !== 'StagedAndPerformedUpdate') names.delete(name);
  else if (isOfUpdate(state, event.how)) names.add(name);
  return names;
}

function isOfUpdate(state: ShadowState, how: Report): boolean {
  return Object.hasOwn(STEPS, state) || (how === 'failed' && state !== 'Idle');
}

function change(
  managedNode: ManagedNode,
  event: Exclude<Happening, { kind: 'config' | 'hold' | 'time' }>,
  now: number,
): ManagedNode {
  const { node, shadow } = managedNode;
  if (event.kind === 'lose') return { ...managedNode, shadow: undefined, missingSince: now };
  if (event.kind === 'ensure') return { ...managedNode, shadow: heard(shadow ?? created(managedNode, now)) };
  if (node === undefined || shadow?.status === undefined) return managedNode;
  if (event.kind === 'health') return { ...managedNode, node: { ...node, ready: event.ready } };
  if (event.kind === 'cordon') return { ...managedNode, node: { ...node, unschedulable: event.unschedulable } };
  if (event.kind === 'report') return answered(managedNode, node, shadow, event.how);
  return { ...managedNode, shadow: { ...shadow, status: { ...shadow.status, target_version: event.version } } };
}

let creations = 0;

/** A new shadow, whose agent has not reported yet. */
function created({ name }: Pick<ManagedNode, 'name'>, now: number): ShadowView {
  creations += 1;
  return aShadow({
    node: name,
    uid: `shadow-${name}-${creations}`,
    generation: 1,
    creationTimestamp: rfc3339(now),
    spec: { state_transition_timestamp: null },
    status: null,
  });
}

/** The agent has reported under no spec of an update yet. */
function heard(shadow: ShadowView): ShadowView {
  const { status = { ...aShadow().status, observedGeneration: 0 } as ShadowStatus } = shadow;
  return { ...shadow, status };
}

/** The apiserver cordons while an agent drains; an agent that is done, in whatever way, has the cordon removed first. */
function answered(managedNode: ManagedNode, node: NodeView, shadow: ShadowView, how: Report): ManagedNode {
  const ends = how === 'reached';
  const annotations = ends ? {} : (node.metadata.annotations ?? {});
  const given = { ...node, metadata: { ...node.metadata, annotations }, unschedulable: !ends && node.unschedulable };
  return { ...managedNode, node: given, shadow: reported(shadow, how) };
}

function cordoned(node: NodeView, now: number): NodeView {
  const annotations = { [CORDONED_ANNOTATION]: rfc3339(now) };
  return { ...node, metadata: { ...node.metadata, annotations }, unschedulable: true };
}

/** A host with a version lock offers that version. */
function offeredBy({ spec: { hostSettings } }: ShadowView, otherwise: string): string {
  return hostSettings?.versionLock ?? otherwise;
}

function reported(shadow: ShadowView, how: Report): ShadowView {
  const { spec, status } = shadow;
  const generation = shadow.metadata.generation ?? 0;
  if (status === undefined) return shadow;
  if (how === 'stale') return { ...shadow, status: { ...status, observedGeneration: generation - 1 } };
  if (how === 'started') return started(shadow, status);
  if (how === 'failed' && spec.state !== 'Idle') {
    const crash_count = status.crash_count + 1;
    const lastOperation = failure('PrepareFailed', { version: spec.version ?? '' });
    const failed = { current_state: 'ErrorReset', crash_count, lastOperation, observedGeneration: generation } as const;
    return { ...shadow, status: { ...status, ...failed } };
  }
  return { ...shadow, status: { ...reachedStatus(shadow, status), observedGeneration: generation } };
}

function reachedStatus(shadow: ShadowView, status: ShadowStatus): ShadowStatus {
  const { spec } = shadow;
  const { lastOperation: last } = status;
  const offered = spec.state === 'Idle' ? { target_version: offeredBy(shadow, status.target_version) } : {};
  const current_version = spec.state === 'RebootedIntoUpdate' ? (spec.version ?? '') : status.current_version;
  const lastOperation = last === undefined ? {} : { lastOperation: { ...last, state: 'Succeeded' } as const };
  return { ...status, ...offered, ...lastOperation, current_state: spec.state, current_version };
}

const STEPS = {
  StagedAndPerformedUpdate: { operation: 'Stage', current_state: 'Idle' },
  RebootedIntoUpdate: { operation: 'Drain', current_state: 'StagedAndPerformedUpdate' },
} as const;

function started(shadow: ShadowView, status: ShadowStatus): ShadowView {
  const { spec, metadata } = shadow;
  if (spec.state !== 'StagedAndPerformedUpdate' && spec.state !== 'RebootedIntoUpdate') return shadow;
  const { operation, current_state } = STEPS[spec.state];
  const lastOperation = failure(undefined, { operation, state: 'Processing', version: spec.version ?? '' });
  const observedGeneration = metadata.generation ?? 0;
  return { ...shadow, status: { ...status, current_state, observedGeneration, lastOperation } };
}

/** Does what a plan says. */
export function carryOut(world: World, { specs, newNodes }: Plan): void {
  const byName = new Map(specs.map((write) => [write.node.metadata.name, write]));
  const names = new Set(newNodes.map(({ metadata }) => metadata.name));
  world.configured = configuredBy(world, specs);
  world.managedNodes = world.managedNodes.map((managedNode) => {
    const write = byName.get(managedNode.name);
    if (managedNode.shadow === undefined)
      return names.has(managedNode.name) ? { ...managedNode, shadow: created(managedNode, world.now) } : managedNode;
    if (write === undefined) return managedNode;
    const { metadata } = managedNode.shadow;
    const generation = (metadata.generation ?? 0) + 1;
    const drains = write.spec.state === 'RebootedIntoUpdate' && managedNode.node !== undefined;
    const node = drains ? cordoned(managedNode.node, world.now) : managedNode.node;
    return {
      ...managedNode,
      node,
      shadow: {
        ...managedNode.shadow,
        spec: write.spec,
        metadata: { ...metadata, generation, annotations: annotated(managedNode.shadow, write.annotations) },
      },
    };
  });
}

/** Of those that were not under way. */
function configuredBy(world: World, specs: Plan['specs']): Set<string> {
  const others = new Set(specs.filter(({ outcome }) => outcome !== 'Configured').map(({ node }) => node.metadata.name));
  const atRest = new Set(
    world.managedNodes.filter((managedNode) => !isUnderWay(world, managedNode)).map(({ name }) => name),
  );
  const names = specs.filter(({ outcome }) => outcome === 'Configured').map(({ node }) => node.metadata.name);
  return new Set(
    [...world.configured, ...names.filter((name) => atRest.has(name))].filter((name) => !others.has(name)),
  );
}

function isConfirmed({ metadata, status }: ShadowView): boolean {
  return status?.observedGeneration === metadata.generation && status?.current_state === 'Idle';
}

/** Counted without the planner's own functions: from the first step until the agent has confirmed the end and our cordon is gone. */
export function underWay(world: World): number {
  return world.managedNodes.filter((managedNode) => isUnderWay(world, managedNode)).length;
}

/** Without the record of an update a kubelet may have set the cordon: it counts for a while only. */
function cordonCountsUntil(node: NodeView | undefined, shadow: ShadowView | undefined, missingSince: number): number {
  if (node === undefined || !cordonedByUs(node)) return -Infinity;
  if (shadow === undefined) return missingSince + 60 * MINUTE;
  const { annotations = {}, creationTimestamp = '' } = shadow.metadata;
  if (annotations[UPDATE_STARTED_ANNOTATION] !== undefined || shadow.spec.state !== 'Idle') return Infinity;
  return (parseTime(creationTimestamp) ?? 0) + (isConfirmed(shadow) ? 15 : 60) * MINUTE;
}

/** True for one of them. An agent that has recorded no step of its update gets 5 minutes to confirm the end. */
export function isUnderWay(
  { configured, disturbed, now }: World,
  { name, node, shadow, missingSince }: ManagedNode,
): boolean {
  if (now < cordonCountsUntil(node, shadow, missingSince)) return true;
  if (shadow?.status === undefined || configured.has(name)) return false;
  if (shadow.spec.state !== 'Idle') return true;
  if (isConfirmed(shadow) || !everStarted(shadow.metadata.generation)) return false;
  return disturbed.has(name) || now < endOf(shadow, now) + 5 * MINUTE;
}

function endOf({ spec: { state_transition_timestamp } }: ShadowView, now: number): number {
  return parseTime(state_transition_timestamp) ?? now;
}

const everStarted = (generation = 0): boolean => generation > 3;
/** What `maxUpdating` comes to. */
export const limitOf = ({ config }: World): number =>
  nodesAtOnce(aSnapshot([], config).policy.concurrency.maxUpdating, NODES);
/** How many nodes start. */
export const startsOf = ({ specs }: Plan): number => specs.filter(({ outcome }) => outcome === 'Started').length;

export interface Reconcile {
  readonly before: World;
  readonly made: Plan;
  readonly after: World;
}

/** Tells a story, with a plan that is carried out after each happening. */
export function tell(events: readonly Happening[]): Reconcile[] {
  const world = newWorld();
  return events.map((event) => {
    happen(world, event);
    const before = { ...world };
    const made = plan(snapshotOf(world), world.now);
    carryOut(world, made);
    return { before, made, after: { ...world } };
  });
}
