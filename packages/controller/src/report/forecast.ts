/**
 * Predicts the rollout for the status of the BrupopConfig; nothing is decided by it. Each candidate
 * starts when a slot is free and a window fits, and takes as long as usual. `plan.ts` calls
 * {@link forecastOf} after the gates. An expected time stays as written while it is about right, so
 * that the status is not rewritten in each reconcile.
 */
import type { BrupopConfigStatus } from '@brupop/shared/api/brupop-config';
import { parseTime, rfc3339 } from '@brupop/shared/runtime/clock';
import { zoneOf } from '../cluster/node.ts';
import type { Calendar, CalendarState } from '../policy/calendar.ts';
import { type Concurrency, nodesAtOnce } from '../policy/policy.ts';
import type { Decision, NodePhase } from '../plan/assess.ts';
import { estimateFor, expectedMs } from '../plan/facts/attempts.ts';
import type { VersionCount } from '../plan/facts/versions.ts';
import type { FleetState } from '../plan/fleet.ts';
import { expectedInTurn, waitsForOthers } from './forecast-order.ts';
import { type Blocked, type Candidate, isReason, type Reason, traitsOf } from '../plan/gates/reasons.ts';

export interface QueuedNode {
  readonly node: string;
  readonly version: string;
  readonly reason: Reason;
  /** When its update is expected to be complete (RFC 3339); undefined: unknown. */
  readonly expectedTime: string | undefined;
}

interface Expected {
  readonly queue: readonly QueuedNode[];
  /** When all nodes that can update will have (RFC 3339); undefined: nothing to do, or unknown. */
  readonly completionTime: string | undefined;
}

export interface Forecast extends Expected {
  /** The same of each group, by its name. */
  readonly ofGroups: ReadonlyMap<string, Expected>;
  readonly versions: readonly VersionCount[];
  /** How long updates took, milliseconds; undefined: none was measured. */
  readonly measuredMs: number | undefined;
  readonly reasons: ReadonlyMap<Reason, number>;
  /** Of nodes that wait, which are not those that update, have failed, or are up to date. */
  readonly waitingReasons: ReadonlyMap<Reason, number>;
  readonly failedReasons: ReadonlyMap<Reason, number>;
  /** How many nodes have a reason that needs a user. */
  readonly needAttention: ReadonlyMap<Reason, number>;
  readonly window: CalendarState;
  /** When a window, or the time between two, ends next: of the fleet and of each group, epoch milliseconds. */
  readonly windowEnds: readonly (number | undefined)[];
  /** Epoch milliseconds; now while a window is open, undefined: not within the horizon. */
  readonly nextOpenAt: number | undefined;
}

const MAX_QUEUE = 20;
/** True for a reason that passes by time, or when another node releases its slot. */
function passesInTime(reason: Reason): boolean {
  const { passes } = traitsOf(reason);
  return passes === 'capacity' || passes === 'time';
}

/** True for a reason that blocks one node indefinitely; such nodes are listed last. */
function isExcluded({ reason }: { readonly reason: Reason }): boolean {
  return !passesInTime(reason) && traitsOf(reason).fleetWide !== true;
}

/**
 * @param counted - the nodes of the rollout
 * @param admitted - its candidates in their order; undefined: it starts
 */
export function forecastOf(
  fleetState: FleetState,
  counted: readonly Decision[],
  admitted: ReadonlyMap<Candidate, Blocked | undefined>,
): Forecast {
  const { policy, estimate, groups, groupsBefore, before, stuck, now } = fleetState;
  const window = policy.calendar.at(now);
  const busy = counted.filter(({ phase }) => phase === 'updating').map((one) => busyNode(one, fleetState));
  const slots = slotsFrom(policy.concurrency, { stuck: stuck.length, now }, counted, busy);
  const byGroup = Map.groupBy(counted, ({ managedNode }) => managedNode.group?.name);
  const ofGroup = groups.map(({ name, concurrency }): [string, Slots] => {
    const members = byGroup.get(name) ?? [];
    const own = { ...policy.concurrency, ...concurrency };
    return [
      name,
      slotsFrom(
        own,
        { stuck: 0, now },
        members,
        busy.filter(({ group }) => group === name),
      ),
    ];
  });
  const all = { fleet: slots, groups: new Map(ofGroup) };
  const waiting = [...admitted].flatMap(([one, blocked]): [Candidate, Blocked][] => (blocked ? [[one, blocked]] : []));
  const inTime = busy.map(({ group, end }) => ({ group, end: end > now ? end : undefined }));
  const ends = expectedInTurn(waiting, inTime, fleetState, (one, blocked) => expected(one, blocked, fleetState, all));
  const queue = waiting.map(([one, blocked]) => expectationOf(one, blocked, ends.get(one)));
  const ofGroups = groups.map(({ name }): [string, Expected] => {
    const isMember = ({ group }: { readonly group: string | undefined }): boolean => group === name;
    return [name, shown(busy.filter(isMember), queue.filter(isMember), groupsBefore.get(name), now)];
  });
  return {
    ...shown(busy, queue, before, now),
    ofGroups: new Map(ofGroups),
    versions: fleetState.versions,
    measuredMs: estimate.measuredMs,
    ...allReasonsOf(counted),
    window,
    windowEnds: calendarsOf(fleetState).map((calendar) => calendar.at(now).until),
    nextOpenAt: policy.calendar.nextFit(now, 1),
  };
}

function calendarsOf({ policy, groups }: FleetState): Calendar[] {
  return [policy, ...groups.map((group) => group.policy)].map(({ calendar }) => calendar);
}

type Shown = Pick<BrupopConfigStatus, 'plan' | 'expectedCompletionTime'>;

/** What the status says of these nodes. Times that it has already stay while they are about right. */
function shown(
  busy: readonly BusyNode[],
  queue: readonly Expectation[],
  before: Shown | undefined,
  now: number,
): Expected {
  const counted = queue.filter(({ reason }) => passesInTime(reason) || waitsForOthers(reason));
  const waiting = counted.map(({ expectedAt }) => expectedAt);
  const ends = [...busy.map(({ end }) => (end > now ? end : undefined)), ...waiting];
  return {
    queue: queue
      .toSorted((a, b) => Number(isExcluded(a)) - Number(isExcluded(b)))
      .slice(0, MAX_QUEUE)
      .map(({ node, version, reason, expectedAt }) => {
        const known = before?.plan?.find((one) => one.node === node)?.expectedTime;
        return { node, version, reason, expectedTime: steady(known, expectedAt, now) };
      }),
    completionTime: steady(before?.expectedCompletionTime, latest(ends), now),
  };
}

interface BusyNode {
  readonly group: string | undefined;
  /** When its update is expected to end, epoch milliseconds; in the past: it is late. */
  readonly end: number;
}

function busyNode({ managedNode: { shadow, group, policy } }: Decision, fleetState: FleetState): BusyNode {
  const estimate = estimateFor(fleetState.estimate, policy.maintenance);
  const since = shadow === undefined ? undefined : shadow.times.startedAt;
  return { group: group?.name, end: (since ?? fleetState.now) + estimate.usualMs };
}

interface Slots {
  /** When slots become free, in order; a slot that is used is appended again. */
  readonly free: number[];
  next: number;
  /** All current updates are late, so the next free slot is unknown. */
  readonly stuck: boolean;
  /** Nodes past their deadline hold all slots. */
  readonly none: boolean;
}

/** Of the fleet, or of a group: what its own limits leave. */
function slotsFrom(
  concurrency: Concurrency,
  { stuck, now }: { readonly stuck: number; readonly now: number },
  counted: readonly Decision[],
  busy: readonly BusyNode[],
): Slots {
  const ends = busy.map(({ end }) => end).toSorted((a, b) => a - b);
  const inTime = ends.filter((end) => end > now);
  const slots = Math.min(counted.length, Math.max(1, atOnce(concurrency, counted)) - stuck);
  const free = Array.from({ length: Math.max(0, slots - busy.length) }, () => now);
  return { free: [...free, ...inTime], next: 0, stuck: inTime.length === 0, none: slots <= 0 };
}

/** How many nodes can update at once if they are spread evenly over the zones. */
function atOnce(concurrency: Concurrency, counted: readonly Decision[]): number {
  const { maxUpdating, maxUnavailable, maxPerZone = Infinity, maxZones = Infinity } = concurrency;
  const nodes = counted.flatMap(({ managedNode }) => managedNode.node ?? []);
  const zones = new Set(nodes.map((node) => zoneOf(node))).size;
  const limits = [maxUpdating, ...(maxUnavailable === undefined ? [] : [maxUnavailable])];
  return Math.min(maxPerZone * Math.min(zones, maxZones), ...limits.map((limit) => nodesAtOnce(limit, nodes.length)));
}

type Expectation = Omit<QueuedNode, 'expectedTime'> & {
  readonly group: string | undefined;
  readonly expectedAt: number | undefined;
};

function expectationOf(
  { name: node, version, group, shadow }: Candidate,
  blocked: Blocked,
  expectedAt: number | undefined,
): Expectation {
  const known = shadow.progressing?.reason;
  // What is about to be known shows as it was, if it waited before.
  const waited = isReason(known) && known !== 'UpToDate' && known !== 'Updating' ? known : 'WaitingForCapacity';
  return {
    node,
    version,
    group: group?.name,
    reason: blocked.isUnknown === true ? waited : blocked.reason,
    expectedAt,
  };
}

/** Also for a version that does not age yet. */
function isUnforeseeable({ reason, retryAt }: Blocked): boolean {
  return !passesInTime(reason) || (reason === 'MinimumAgeNotReached' && retryAt === undefined);
}

/** A node that waits for its own retry time does not delay other nodes. */
function waitsAlone({ reason, retryAt }: Blocked): boolean {
  return retryAt !== undefined && traitsOf(reason).fleetWide !== true;
}

interface AllSlots {
  readonly fleet: Slots;
  readonly groups: ReadonlyMap<string, Slots>;
}

/** A node that waits for a window or the soak of its group delays only nodes of that group. */
function usedSlots({ group }: Candidate, { retryAt }: Blocked, { fleet, groups }: AllSlots): readonly Slots[] {
  const ofGroup = group && groups.get(group.name);
  if (ofGroup === undefined) return [fleet];
  return retryAt === undefined ? [fleet, ofGroup] : [ofGroup];
}

function expected(
  candidate: Candidate,
  blocked: Blocked,
  { estimate: measured, now }: FleetState,
  slots: AllSlots,
): number | undefined {
  const { shadow, policy } = candidate;
  const estimate = estimateFor(measured, policy.maintenance);
  const { reason, retryAt = now } = blocked;
  const { passes } = traitsOf(reason);
  const { none, stuck } = slots.fleet;
  if (isUnforeseeable(blocked) || none || (stuck && passes === 'capacity')) return undefined;
  const needMs = expectedMs(shadow, estimate);
  const endOf = (from: number): number | undefined => {
    const start = policy.calendar.nextFit(from, needMs + estimate.marginMs, now);
    return start === undefined ? undefined : start + needMs;
  };
  if (waitsAlone(blocked)) return endOf(retryAt);
  const used = usedSlots(candidate, blocked, slots);
  const end = endOf(Math.max(retryAt, ...used.map(({ free, next }) => free[next] ?? now)));
  if (end === undefined) return undefined;
  for (const one of used) {
    one.next += 1;
    one.free.push(end);
  }
  return end;
}

function needsAttention({ progressing, managedNode, neverConnected }: Decision): boolean {
  const { reason } = progressing ?? managedNode.shadow?.progressing ?? {};
  return neverConnected === true || (isReason(reason) && traitsOf(reason).needsAttention === true);
}

export function allReasonsOf(
  counted: readonly Decision[],
): Pick<Forecast, 'reasons' | 'waitingReasons' | 'failedReasons' | 'needAttention'> {
  const inPhase = (wanted: NodePhase): Decision[] => counted.filter(({ phase = 'waiting' }) => phase === wanted);
  return {
    reasons: reasonsOf(counted),
    waitingReasons: reasonsOf(inPhase('waiting')),
    failedReasons: reasonsOf(inPhase('failed')),
    needAttention: reasonsOf(counted.filter(needsAttention)),
  };
}

function reasonsOf(counted: readonly Decision[]): Map<Reason, number> {
  const reasons = new Map<Reason, number>();
  for (const { progressing, managedNode } of counted) {
    const { reason } = progressing ?? managedNode.shadow?.progressing ?? {};
    if (!isReason(reason) || reason === 'UpToDate' || reason === 'Updating') continue;
    reasons.set(reason, (reasons.get(reason) ?? 0) + 1);
  }
  return reasons;
}

/** Undefined when there is none, or one is unknown. */
function latest(times: readonly (number | undefined)[]): number | undefined {
  const known = times.filter((time): time is number => time !== undefined);
  if (known.length === 0 || known.length < times.length) return undefined;
  return known.reduce((a, b) => Math.max(a, b));
}

const MINUTE_MS = 60_000;
/** An expected time changes only if it was wrong by this, or by a fifth of the time until then. */
const STEADY_MS = 5 * MINUTE_MS;

/** Returns the text of an expected time, unchanged while it is about right. */
function steady(before: string | undefined, at: number | undefined, now: number): string | undefined {
  if (at === undefined) return undefined;
  const known = parseTime(before);
  const stays = known !== undefined && known > now && Math.abs(known - at) <= Math.max(STEADY_MS, (at - now) / 5);
  return stays ? before : rfc3339(Math.ceil(at / MINUTE_MS) * MINUTE_MS);
}
