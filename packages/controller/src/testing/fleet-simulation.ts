/** A fleet for property tests: what becomes of it by what happens, and by plans. */
import { VERSION_LOCK } from '@brupop/shared/api/settings';
import { requestedOf } from '../plan/facts/settings.ts';
import type { BrupopConfig } from '@brupop/shared/api/brupop-config';
import { CORDONED_ANNOTATION, ZONE_LABEL } from '@brupop/shared/api/names';
import type { BottlerocketNodeGroup } from '@brupop/shared/api/node-group';
import { rfc3339 } from '@brupop/shared/runtime/clock';
import { aBudget, aPod } from '@brupop/shared/testing/pods';
import type { ShadowState, ShadowStatus } from '@brupop/shared/api/shadow';
import { indexedBudgets } from '@brupop/shared/drain/budget-index';
import { annotationsOf } from '../apply/shadows.ts';
import type { NodeView } from '../cluster/node.ts';
import { type ShadowView, shadowView } from '../cluster/shadow.ts';
import type { ManagedNode, Snapshot } from '../cluster/snapshot.ts';
import { statusOf } from '../report/config-status.ts';
import { groupStatusOf } from '../report/group-status.ts';
import { wholePlan as plan, type WholePlan as Plan } from '../whole-plan.ts';
import { nodesAtOnce } from '../policy/policy.ts';
import { aGroup, aManagedNode, aShadow, aSnapshot, failure, MINUTE, NOW, withGroups } from './objects.ts';
import { type Happening, NODES, type Report } from './stories.ts';
import { isConfirmed, isUnderWay, type World } from './world.ts';

/** Values of the label `pool`, half of the nodes each. */
export const POOLS = ['even', 'odd'] as const;

/** All nodes idle, with an update available. */
export function newWorld(): World {
  return {
    managedNodes: Array.from({ length: NODES }, (_, i) =>
      aManagedNode(`node-${i}`, { labels: { [ZONE_LABEL]: `zone-${i % 3}`, pool: POOLS[i % 2] ?? '' } }),
    ),
    config: undefined,
    now: NOW,
    held: new Set(),
    configured: new Set(),
    disturbed: new Set(),
    rebooted: new Set(),
    rolledBack: [],
    status: undefined,
    groups: new Map(),
  };
}

const HELD = { pods: [aPod('web')], namespaces: new Set(['apps']) };
const BUDGETS = indexedBudgets([aBudget('web', { neverAllows: true })]);

/** Nodes that are held carry a pod whose budget allows nothing. */
export function snapshotOf({ managedNodes, config, held, status, now }: World): Snapshot {
  const { config: plain, ...snapshot } = aSnapshot(managedNodes, config, now);
  const pods = new Map(
    [...snapshot.pods].map(([name, known]) => [name, held.has(name) ? { ...known, ...HELD } : known]),
  );
  const reported = plain ?? aSnapshot([], {}).config;
  const withStatus = reported && { ...reported, ...(status !== undefined && { status }) };
  return { ...snapshot, config: withStatus, pods, budgets: BUDGETS };
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
      world.rolledBack = [...stillRolledBack(world, managedNode, event), ...rolledBack(managedNode, event)];
      const changed = change(managedNode, event, world.now);
      const isOver = changed.shadow === undefined || isConfirmed(changed.shadow);
      if (isOver) world.rebooted = new Set([...world.rebooted].filter((name) => name !== changed.name));
      return changed;
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

/** A node that succeeds with a version after all no longer counts against it. */
function stillRolledBack({ rolledBack }: World, { name, shadow }: ManagedNode, event: Happening): World['rolledBack'] {
  const isReached = event.kind === 'report' && event.how === 'reached';
  if (!isReached || shadow?.spec.state !== 'RebootedIntoUpdate') return rolledBack;
  return rolledBack.filter((one) => one.name !== name || one.version !== shadow.spec.version);
}

/** The node and its version, if its agent reports that the host booted the old one. */
function rolledBack({ name, node, shadow }: ManagedNode, event: Happening): World['rolledBack'] {
  if (event.kind !== 'report' || event.how !== 'failed' || node === undefined) return [];
  if (shadow?.status === undefined || shadow.spec.state !== 'RebootedIntoUpdate') return [];
  return [{ name, version: shadow.spec.version ?? '' }];
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
  return { ...managedNode, shadow: changedShadow(shadow, event) };
}

function changedShadow(shadow: ShadowView, event: Extract<Happening, { kind: 'ask' | 'offer' }>): ShadowView {
  if (event.kind === 'ask') return annotated(shadow, event.request);
  const { status } = shadow;
  return status === undefined
    ? shadow
    : shadowView({ ...shadow, status: { ...status, target_version: event.version } });
}

function annotated(shadow: ShadowView, patch: Readonly<Record<string, string | null>>): ShadowView {
  const entries = Object.entries({ ...shadow.metadata.annotations, ...patch });
  const annotations = Object.fromEntries(entries.filter((entry): entry is [string, string] => entry[1] !== null));
  return shadowView({ ...shadow, metadata: { ...shadow.metadata, annotations } });
}

let creations = 0;

/** A new shadow, whose agent has not reported yet. */
function created({ name, node }: Pick<ManagedNode, 'name' | 'node'>, now: number): ShadowView {
  creations += 1;
  return aShadow({
    node: name,
    ...(node !== undefined && { owner: node.metadata.uid }),
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
  return shadowView({ ...shadow, status });
}

/** The apiserver cordons while an agent drains; an agent that is done, in whatever way, has the cordon removed first. */
function answered(managedNode: ManagedNode, node: NodeView, shadow: ShadowView, how: Report): ManagedNode {
  const ends = how === 'reached';
  const annotations = ends ? {} : (node.metadata.annotations ?? {});
  const given = { ...node, metadata: { ...node.metadata, annotations }, unschedulable: !ends && node.unschedulable };
  const hasBooted = shadow.spec.state === 'RebootedIntoUpdate' && (how === 'reached' || how === 'failed');
  const { generation: observedGeneration = 0 } = shadow.metadata;
  const bootID = hasBooted ? `boot-${observedGeneration}` : node.bootID;
  const drain = { observedGeneration, startTime: '', result: 'Drained', evicted: 0, remaining: 0 } as const;
  const { status, ...rest } = reported(shadow, how);
  const after = status && { status: { ...status, bootID, ...(hasBooted && { drain }) } };
  return { ...managedNode, node: { ...given, bootID }, shadow: shadowView({ ...rest, ...after }) };
}

export function cordoned(node: NodeView, now: number): NodeView {
  const annotations = { [CORDONED_ANNOTATION]: rfc3339(now) };
  return { ...node, metadata: { ...node.metadata, annotations }, unschedulable: true };
}

/** A host with a version lock offers that version. */
function offeredBy(shadow: ShadowView, otherwise: string): string {
  return lockOf(shadow) ?? otherwise;
}

function reported(shadow: ShadowView, how: Report): ShadowView {
  const { spec, status } = shadow;
  const generation = shadow.metadata.generation ?? 0;
  if (status === undefined) return shadow;
  if (how === 'stale') return { ...shadow, status: { ...status, observedGeneration: generation - 1 } };
  if (how === 'started') return started(shadow, status);
  if (how === 'failed' && spec.state !== 'Idle') {
    const crash_count = status.crash_count + 1;
    const isBooted = spec.state === 'RebootedIntoUpdate';
    const lastOperation = failure(isBooted ? 'RolledBack' : 'PrepareFailed', { version: spec.version ?? '' });
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
export function carryOut(world: World, made: Plan): void {
  const { specs, newNodes } = made;
  const byName = new Map(specs.map((write) => [write.node.metadata.name, write]));
  const names = new Set(newNodes.map(({ metadata }) => metadata.name));
  world.status = statusOf({
    config: (aSnapshot([], world.config ?? {}) as { config: BrupopConfig }).config,
    plan: made,
    before: world.status,
    isWritten: true,
    now: world.now,
  });
  world.groups = new Map(
    made.groups.map((rollout) => {
      const { name } = rollout.group;
      const before = world.groups.get(name);
      return [name, groupStatusOf(aGroup(name), { rollout, before, isWritten: true, now: world.now })];
    }),
  );
  world.configured = configuredBy(world, specs);
  world.rebooted = rebootedBy(world, specs);
  world.managedNodes = world.managedNodes.map((managedNode) => {
    const write = byName.get(managedNode.name);
    if (managedNode.shadow === undefined)
      return names.has(managedNode.name) ? { ...managedNode, shadow: created(managedNode, world.now) } : managedNode;
    if (write === undefined) return recordedIn(managedNode, made);
    const { metadata } = managedNode.shadow;
    const generation = (metadata.generation ?? 0) + 1;
    const drains = write.spec.state === 'RebootedIntoUpdate' && managedNode.node !== undefined;
    const node = drains ? cordoned(managedNode.node, world.now) : managedNode.node;
    return {
      ...managedNode,
      node,
      shadow: annotated(
        { ...managedNode.shadow, spec: write.spec, record: write.record, metadata: { ...metadata, generation } },
        annotationsOf(write),
      ),
    };
  });
}

function recordedIn(managedNode: ManagedNode, { records }: Plan): ManagedNode {
  const found = records.find(({ node }) => node.metadata.name === managedNode.name);
  if (managedNode.shadow === undefined || found === undefined) return managedNode;
  const shadow =
    found.refused === undefined ? managedNode.shadow : annotated(managedNode.shadow, { [found.refused]: null });
  return { ...managedNode, shadow: shadowView({ ...shadow, record: found.record }) };
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

function rebootedBy({ rebooted }: World, specs: Plan['specs']): Set<string> {
  const names = new Set(rebooted);
  for (const {
    node,
    spec: { state },
    outcome,
  } of specs) {
    if (state === 'RebootedIntoUpdate') names.add(node.metadata.name);
    if (outcome === 'Succeeded' || outcome === 'Reverted') names.delete(node.metadata.name);
  }
  return names;
}

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
export function tell(events: readonly Happening[], groups: readonly BottlerocketNodeGroup[] = []): Reconcile[] {
  const world = newWorld();
  return events.map((event) => {
    happen(world, event);
    const before = { ...world };
    const reported = groups.map((group) => {
      const status = world.groups.get(group.metadata.name);
      return status === undefined ? group : { ...group, status };
    });
    const made = plan(withGroups(snapshotOf(world), reported), world.now);
    carryOut(world, made);
    return { before, made, after: { ...world } };
  });
}

/** The version that the host is locked to by its spec. */
export function lockOf(shadow: Pick<ShadowView, 'spec'>): string | undefined {
  const value = requestedOf(shadow).find(({ key }) => key === VERSION_LOCK)?.value;
  return value === undefined ? undefined : String(JSON.parse(value));
}
