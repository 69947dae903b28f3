/**
 * Whether a rollout is late: no node has succeeded for `spec.rollout.progressDeadline` and `soak`
 * together, not counting the time in which the configuration lets no node start.
 *
 *     no node needs an update                      no record
 *     the rollout begins, or a node succeeds       the count begins at zero
 *     paused, outside of windows, frozen, …        the count stands still: `countedFrom` is undefined
 *     the nodes that wait are to confirm a spec    the same, until it is known what they need
 *
 * The record is in the status of the BrupopConfig, or of a group with a deadline of its own, and changes only when one of these does.
 */
import { isClockWrong } from '@brupop/shared/api/deadlines';
import type { BrupopConfigStatus } from '@brupop/shared/api/brupop-config';
import { parseTime } from '@brupop/shared/runtime/clock';
import type { Decision } from '../plan/assess.ts';
import { isCanary } from '../plan/fleet/canaries.ts';
import type { FleetState } from '../plan/fleet/fleet-state.ts';
import type { NodeGroup } from '../policy/node-groups.ts';
import type { UpdatePolicy } from '../policy/policy.ts';
import { isPrevious } from '../plan/facts/attempts.ts';
import { ofParts, ofPartsAt, type Parts } from '../kept/parts.ts';
import { decisionsOf } from './forecast.ts';
import { isReason, type ReasonTraits, traitsOf } from '../plan/facts/reasons.ts';

/** Times are epoch milliseconds. */
export interface Progress {
  readonly lastProgressAt: number;
  readonly countedMs: number;
  readonly countedFrom: number | undefined;
  /** When the rollout is late; undefined: not while the configuration stays as it is. */
  readonly deadline: number | undefined;
  readonly isLate: boolean;
}

/**
 * @param all - the nodes of the fleet's rollout
 * @param group - one with a deadline of its own; undefined: the fleet, without the nodes of such groups
 */
export function progressOf(fleetState: FleetState, all: Parts<Decision>, group?: NodeGroup): Progress | undefined {
  const now = timeOf(fleetState);
  const { before, policy, groups, counted } = laneOf(fleetState, all, group);
  const open = openIn(counted).flat();
  if (open.length === 0 && isOver(before, counted)) return undefined;
  const { lastProgressAt, countedMs, countedFrom } = recordOf(
    before?.progress,
    Math.max(0, ...latestSuccessIn(counted, now)),
    now,
  );
  const soFarMs = countedMs + (countedFrom === undefined ? 0 : Math.max(0, now - countedFrom));
  const { progressDeadlineMs = Infinity, soakMs } = policy.rollout;
  const longestSoakMs = Math.max(soakMs, ...groups.flatMap((one) => [one.soakMs, one.policy.rollout.soakMs]));
  const limitMs = progressDeadlineMs + longestSoakMs;
  const isLate = soFarMs >= limitMs;
  const first = (): readonly Decision[] => withoutFollowers(withoutLater(open, group), all, fleetState.policy);
  if (!mayProgress({ ...fleetState, policy }, first)) {
    return { lastProgressAt, countedMs: soFarMs, countedFrom: undefined, deadline: undefined, isLate };
  }
  const from = countedFrom ?? now;
  const deadline = isLate || limitMs === Infinity ? undefined : from + limitMs - countedMs;
  return { lastProgressAt, countedMs, countedFrom: from, deadline, isLate };
}

/** While the clock of this process is wrong, that of the Kubernetes API. */
function timeOf({ now, clockSkewMs = 0 }: FleetState): number {
  return isClockWrong(clockSkewMs) ? now - clockSkewMs : now;
}

interface Lane extends Pick<FleetState, 'policy' | 'groups'> {
  readonly before: Pick<BrupopConfigStatus, 'progress'> | undefined;
  readonly counted: Parts<Decision>;
}

function laneOf(
  { before, groupsBefore, policy, groups }: FleetState,
  all: Parts<Decision>,
  group: NodeGroup | undefined,
): Lane {
  if (group === undefined) return { before, policy, groups: groups.filter(isOfFleet), counted: ofFleetIn(all) };
  const counted = decisionsOf(group.name, all);
  return { before: groupsBefore.get(group.name), policy: group.policy, groups: [group], counted };
}

const ofFleetIn = ofParts((part: readonly Decision[]) =>
  part.filter(({ managedNode }) => isOfFleet(managedNode.group)),
);

function isOfFleet(group: NodeGroup | undefined): boolean {
  return group?.lanes.has('progress') !== true;
}

/** Not a node that a user leaves out. */
function needsUpdate(decision: Decision): boolean {
  const { phase, candidate } = decision;
  if (phase === 'updating') return true;
  const { isIntended = false, fleetWide = false } = traitsFor(decision);
  return (candidate !== undefined || phase === 'failed') && (fleetWide || !isIntended);
}

/** False for a rollout while it is not known what one of its nodes needs, since its agent has to confirm its spec. */
function isOver(before: Lane['before'], counted: Parts<Decision>): boolean {
  return before?.progress === undefined || unconfirmedIn(counted).every((part) => part.length === 0);
}

const unconfirmedIn = ofParts((part: readonly Decision[]) =>
  part.filter(
    ({ phase, pending, progressing }) => phase === 'waiting' && pending === true && progressing === undefined,
  ),
);

const openIn = ofParts((part: readonly Decision[]) => part.filter(needsUpdate));

type CountedTime = Pick<Progress, 'lastProgressAt' | 'countedMs' | 'countedFrom'>;

function recordOf(before: BrupopConfigStatus['progress'], succeededAt: number, now: number): CountedTime {
  const lastProgressAt = parseTime(before?.lastProgressTime);
  if (before === undefined || lastProgressAt === undefined || lastProgressAt > now) {
    return { lastProgressAt: now, countedMs: 0, countedFrom: undefined };
  }
  if (succeededAt > lastProgressAt) return { lastProgressAt: succeededAt, countedMs: 0, countedFrom: succeededAt };
  return { lastProgressAt, countedMs: before.countedSeconds * 1000, countedFrom: parseTime(before.countedFrom) };
}

/** A reboot for settings is progress, going back is none, and a time in the future is of a clock that was wrong. */
const latestSuccessIn = ofPartsAt((part: readonly Decision[], now) => {
  const times = part.map(({ managedNode: { shadow } }) => {
    const { version = '' } = shadow?.record.succeeded ?? {};
    const time = shadow?.times.succeededAt ?? 0;
    return shadow === undefined || !now.reached(time) || isPrevious(shadow, version) ? 0 : time;
  });
  return times.reduce((a, b) => Math.max(a, b), 0);
});

/** False while no node may start or be drained, or all that wait do so because the configuration says so. */
function mayProgress(
  { policy, stale, clockSkewMs, connectivity, now }: FleetState,
  first: () => readonly Decision[],
): boolean {
  const isUncertain = stale.length > 0 || connectivity.lost || isClockWrong(clockSkewMs);
  const isStopped = policy.paused || policy.problem !== undefined || isUncertain;
  if (isStopped) return false;
  const byPolicy = Map.groupBy(first(), ({ managedNode }) => managedNode.policy);
  return [...byPolicy].some(([{ calendar }, nodes]) => calendar.at(now).open && areFree(nodes));
}

/** Those that wait for another group do when that one is stopped. Its time is not that of the group. */
function withoutLater(nodes: readonly Decision[], group: NodeGroup | undefined): readonly Decision[] {
  const others = nodes.filter(({ blocked }) => blocked?.reason !== 'WaitingForNodeGroup');
  return others.length > 0 || group !== undefined ? others : nodes;
}

/**
 * Those that wait for canaries do when these are stopped, also in a group with a deadline of its own, unless no node that waits
 * otherwise may be one.
 * @param all - the nodes of the fleet's rollout
 */
function withoutFollowers(nodes: readonly Decision[], all: Parts<Decision>, fleet: UpdatePolicy): readonly Decision[] {
  const byCanaries = Map.groupBy(nodes, (one) => policyOfCanaries(one, fleet));
  return [...byCanaries].flatMap(([policy, members]) => {
    const others = members.filter(isNoFollower);
    if (others.length === members.length) return members;
    const canaries = othersIn(all)
      .flat()
      .filter((one) => policyOfCanaries(one, fleet) === policy && mayBeCanary(one, policy));
    return canaries.length === 0 ? members : [...new Set([...others, ...canaries])];
  });
}

function policyOfCanaries({ managedNode: { group } }: Decision, fleet: UpdatePolicy): UpdatePolicy {
  return group?.lanes.has('canaries') === true ? group.policy : fleet;
}

function isNoFollower({ blocked }: Decision): boolean {
  return blocked?.reason !== 'WaitingForCanary';
}

function mayBeCanary({ managedNode: { node } }: Decision, policy: UpdatePolicy): boolean {
  return node !== undefined && isCanary(node, policy);
}

const othersIn = ofParts((part: readonly Decision[]) => part.filter((one) => needsUpdate(one) && isNoFollower(one)));

/** Of nodes with the same rules: what stops all of them also stops those that wait for another reason first. */
function areFree(nodes: readonly Decision[]): boolean {
  if (nodes.some(({ phase }) => phase === 'updating')) return true;
  return !nodes.some((decision) => traitsFor(decision).fleetWide === true && traitsFor(decision).isIntended === true);
}

function traitsFor({ progressing, managedNode }: Decision): ReasonTraits {
  const { reason } = progressing ?? managedNode.shadow?.progressing ?? {};
  return isReason(reason) ? traitsOf(reason) : { passes: 'event' };
}
