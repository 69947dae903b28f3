/** What the nodes of the fleet, or of one group, add up to. The status of the BrupopConfig and of the groups is made of it. */
import type { UpdatePolicy } from '../policy/policy.ts';
import type { NodeGroup } from '../policy/node-groups.ts';
import type { Decision, NodePhase } from '../plan/assess.ts';
import type { Grants } from '../plan/gates/without-update.ts';
import type { FleetState } from '../plan/fleet/fleet-state.ts';
import { decisionsOf, type FleetForecast, type Forecast } from './forecast.ts';
import { ofParts, type Parts } from '../kept/parts.ts';
import { type Blocked, type Reason, traitsOf } from '../plan/facts/reasons.ts';
import type { CompletedCanary } from '../plan/fleet/canaries.ts';
import type { FailedNode } from '../plan/facts/failed-nodes.ts';
import type { FrozenVersion, GroupFreeze } from '../plan/facts/freezes.ts';
import type { EarlierGroup } from '../plan/fleet/group-order.ts';
import { type Progress, progressOf } from './progress.ts';
import { type GroupMetadata, NO_METADATA, type NodeMetadataPlan } from '../upkeep/node-metadata.ts';
import { type GroupSettings, groupSettingsOf } from './group-settings.ts';
import type { LostNode } from '../upkeep/lost-nodes.ts';

/** Managed nodes by phase; `managed` is the sum of the others. */
type NodeCounts = Readonly<Record<NodePhase | 'managed', number>>;

export interface Rollout {
  readonly policy: UpdatePolicy;
  readonly counts: NodeCounts;
  readonly forecast: Forecast;
  /** Names of nodes that hold an update slot past a deadline. */
  readonly stuckNodes: readonly string[];
  readonly lost: readonly LostNode[];
  /** Names of the nodes that have not confirmed what the configuration or their group says. */
  readonly unconfirmed: readonly string[];
  /** Of these nodes, one is being changed or is next. */
  readonly isMoving: boolean;
  /** Of these nodes, those that need a user, counted by reason. */
  readonly stuck: ReadonlyMap<Reason, number>;
  /** Why one of these nodes waits for a slot, if only nodes that need a user hold slots. */
  readonly heldUp: string | undefined;
}

export interface GroupRollout extends Rollout {
  readonly group: NodeGroup;
  /** The group for which its nodes wait. */
  readonly waitsFor: EarlierGroup | undefined;
  readonly metadata: GroupMetadata;
  readonly settings: GroupSettings;
  /** Frozen for the fleet. */
  readonly fleetFrozen: readonly FrozenVersion[];
  /** By its own budget; nothing without one. */
  readonly failed: readonly FailedNode[];
  readonly frozen: readonly FrozenVersion[];
  readonly canaries: readonly CompletedCanary[];
  /** Undefined without a deadline of its own, and when no node of it needs an update. */
  readonly progress: Progress | undefined;
}

/** A node goes on by itself, when a user acts on it (`stuck`) or on other nodes (`heldUp`), or with what it waits for. */
export type Pace = 'moves' | 'stuck' | 'heldUp' | 'waits';

/** @param ofSlots - of nodes that wait for a slot */
export function unconfirmedOf(
  decisions: Parts<Decision>,
  { waiting }: Grants,
  ofSlots: Pace,
): Pick<Rollout, 'unconfirmed' | 'isMoving' | 'stuck' | 'heldUp'> {
  const pending = pendingIn(decisions).flat();
  const found = pending.map((decision) => {
    const block = blockOf(decision, waiting);
    const why = block ?? decision.progressing;
    // What takes its place may be neither stuck nor updating.
    const ofSlot = ofSlots === 'heldUp' && block?.byStuck !== true ? 'waits' : ofSlots;
    return { why, pace: moves(decision, block, why?.reason) ? 'moves' : paceWith(why?.reason, ofSlot) };
  });
  const stuck = new Map<Reason, number>();
  for (const { why, pace } of found)
    if (pace === 'stuck' && why !== undefined) stuck.set(why.reason, (stuck.get(why.reason) ?? 0) + 1);
  return {
    unconfirmed: pending.map(({ managedNode: { name } }) => name),
    isMoving: found.some(({ pace }) => pace === 'moves'),
    stuck,
    heldUp: found.find(({ pace }) => pace === 'heldUp')?.why?.message,
  };
}

function paceWith(reason: Reason | undefined, ofSlot: Pace): Pace {
  if (reason === undefined) return 'moves';
  const { passes, needsAttention } = traitsOf(reason);
  if (passes === 'capacity') return ofSlot;
  return needsAttention === true ? 'stuck' : 'waits';
}

const pendingIn = ofParts((part: readonly Decision[]) => part.filter(({ pending }) => pending === true));

/**
 * With these reasons a node is being changed, or goes on by itself after a disturbance; with other ones it waits for a time, for
 * something outside or for a user.
 */
const MOVING: ReadonlySet<Reason> = new Set([
  'Updating',
  'ChangingSettings',
  'AgentNotConnected',
  'WatchStale',
  'ConnectivityLost',
]);

function moves({ change, phase }: Decision, block: Blocked | undefined, reason: Reason | undefined): boolean {
  const isOf = reason !== undefined && MOVING.has(reason);
  return isOf || change !== undefined || phase === 'updating' || block?.isUnknown === true;
}

/** What keeps the settings of a node from being changed. */
function blockOf({ managedNode, grant, blocked }: Decision, waiting: Grants['waiting']): Blocked | undefined {
  return waiting.get(managedNode.name) ?? (grant === undefined ? blocked : undefined);
}

/** The most frequent one first. */
export function byFrequency(reasons: ReadonlyMap<Reason, number>): (readonly [Reason, number])[] {
  return [...reasons].toSorted(([a, x], [b, y]) => y - x || (a < b ? -1 : 1));
}

export function countsByReason(reasons: ReadonlyMap<Reason, number>): string[] {
  return byFrequency(reasons).map(([reason, count]) => `${count} ${reason}`);
}

const NO_NODES = { managed: 0, upToDate: 0, updating: 0, waiting: 0, failed: 0 };

const countsIn = ofParts((part: readonly Decision[]) => {
  const counts = { ...NO_NODES, managed: part.length };
  for (const { phase = 'waiting' } of part) counts[phase] += 1;
  return counts;
});

export function countsOf(decisions: Parts<Decision>): NodeCounts {
  const counts = { ...NO_NODES };
  for (const part of countsIn(decisions)) {
    for (const [phase, count] of Object.entries(part) as [keyof NodeCounts, number][]) counts[phase] += count;
  }
  return counts;
}

const NO_FREEZE: GroupFreeze = { failed: [], frozen: [] };

/** @param counted - the nodes of the fleet's rollout */
export function groupRollouts(
  fleetState: FleetState,
  counted: Parts<Decision>,
  {
    forecast,
    stuckNodes,
    lost,
    grants,
    ofSlots,
    metadata,
  }: Pick<Rollout, 'stuckNodes' | 'lost'> & {
    readonly forecast: FleetForecast;
    readonly grants: Grants;
    readonly ofSlots: Pace;
    readonly metadata: Pick<NodeMetadataPlan, 'byGroup'>;
  },
): GroupRollout[] {
  const { groups, groupOrder, groupFreezes, canaries } = fleetState;
  return groups.flatMap((group) => {
    const { policy } = group;
    const members = decisionsOf(group.name, counted);
    const isMember = (name: string): boolean =>
      members.some((part) => part.some(({ managedNode }) => managedNode.name === name));
    const own = forecast.ofGroups.get(group.name);
    if (own === undefined) return [];
    return {
      group,
      waitsFor: groupOrder.waitsFor(group.name),
      settings: groupSettingsOf(members, grants),
      policy,
      counts: countsOf(members),
      ...unconfirmedOf(members, grants, ofSlots),
      metadata: metadata.byGroup.get(group.name) ?? NO_METADATA,
      fleetFrozen: fleetState.frozen,
      ...(groupFreezes.get(group.name) ?? NO_FREEZE),
      canaries: canaries.completed(group.name),
      progress: group.lanes.has('progress') ? progressOf(fleetState, counted, group) : undefined,
      forecast: own,
      stuckNodes: stuckNodes.filter(isMember),
      lost: lost.filter(({ name }) => isMember(name)),
    };
  });
}
