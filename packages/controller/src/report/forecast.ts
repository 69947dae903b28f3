/**
 * Predicts the rollout for the status of the BrupopConfig and of groups; nothing is decided by it. `report.ts` calls
 * {@link forecastOf} after the gates. The rollout is not simulated: an expected time is computed of a few numbers.
 *
 *     start     of the node after n others that may start at the same time, with s slots: when slot n mod s is free, plus
 *               n / s updates, rounded down. Of the fleet and of its group, whichever is later
 *     windows   each has as many updates in a row as fit with the margin. Nodes with other windows take slots, but no
 *               time of these windows
 *     end       the start, or the next one that leaves as much time as the node needs, plus that: the usual duration, or
 *               that of its latest update if it took longer
 *     order     nodes after canaries, or after other groups, may start at the expected end of these plus the soak
 *
 * A time is too early for a node after others whose own updates take longer than usual, and too late for one after others
 * that wait for a slot of their group.
 */
import type { BrupopConfigStatus, PlannedNode } from '@brupop/shared/api/brupop-config';
import { parseTime, rfc3339 } from '@brupop/shared/runtime/clock';
import { zoneOf } from '../cluster/node.ts';
import type { Calendar, CalendarState } from '../policy/calendar.ts';
import type { GroupConcurrency, NodeGroup } from '../policy/node-groups.ts';
import { nodesAtOnce, type UpdatePolicy } from '../policy/policy.ts';
import type { Decision, NodePhase } from '../plan/assess.ts';
import { expectedMs, usualMsOf } from '../plan/facts/estimates.ts';
import { countOf, ofGroup, ofParts, type Parts } from '../kept/parts.ts';
import type { VersionCount } from '../plan/facts/versions.ts';
import type { FleetState } from '../plan/fleet/fleet-state.ts';
import { type Blocked, type Candidate, isReason, type Reason, traitsOf } from '../plan/facts/reasons.ts';
import { calendarFor } from '../plan/gates/fleet.ts';

/** Of the fleet, or of a group. */
export interface Forecast {
  readonly queue: readonly PlannedNode[];
  /** When all nodes that can update will have (RFC 3339); undefined: nothing to do, or unknown. */
  readonly completionTime: string | undefined;
  readonly reasons: ReadonlyMap<Reason, number>;
  /** Of nodes that wait, which are not those that update, have failed, or are up to date. */
  readonly waitingReasons: ReadonlyMap<Reason, number>;
  readonly failedReasons: ReadonlyMap<Reason, number>;
  /** How many nodes have a reason that needs a user. */
  readonly needAttention: ReadonlyMap<Reason, number>;
  readonly window: CalendarState;
  /** Epoch milliseconds; now while a window is open, undefined: not within the horizon. */
  readonly nextOpenAt: number | undefined;
}

export interface FleetForecast extends Forecast {
  /** By the name of the group. */
  readonly ofGroups: ReadonlyMap<string, Forecast>;
  readonly versions: readonly VersionCount[];
  /** How long updates took, milliseconds; undefined: none was measured. */
  readonly measuredMs: number | undefined;
}

/** Epoch milliseconds; undefined: unknown. */
type End = number | undefined;

/** The fleet, or a group, with what updates and waits in it. */
interface Scope {
  readonly policy: UpdatePolicy;
  readonly members: Parts<Decision>;
  /** What was last reported. */
  readonly before: Pick<BrupopConfigStatus, 'plan' | 'expectedCompletionTime'> | undefined;
  /** Of updates under way. */
  readonly ends: readonly End[];
  /** When slots become free, in order. */
  readonly free: readonly number[];
  /** In their order. */
  readonly waiting: Waiting[];
  /** The same, by when they may start if a slot is free. */
  readonly queues: Map<End, Waiting[]>;
}

/** A node that waits for its update. */
interface Waiting {
  readonly candidate: Candidate;
  readonly blocked: Blocked;
  /** What is about to be known shows as it was, if the node waited before. */
  readonly shown: Reason;
  /** The fleet, its nodes with the same windows, and its group. */
  readonly scopes: readonly Scope[];
  /** The key of its queues. */
  from: End;
  /** How many others are before it, in the queue of each scope. */
  before: readonly number[];
}

const MAX_QUEUE = 20;
const FOR_OTHERS: ReadonlySet<Reason> = new Set(['WaitingForCanary', 'WaitingForNodeGroup']);
/** Groups do not wait for these nodes of earlier ones. */
const LEFT_OUT: ReadonlySet<Reason> = new Set(['Skipped', 'NotSelected', 'VersionDenied']);

/**
 * @param counted - the nodes of the rollout
 * @param admitted - its candidates in their order; undefined: it starts
 */
export function forecastOf(
  fleetState: FleetState,
  counted: Parts<Decision>,
  admitted: ReadonlyMap<Candidate, Blocked | undefined>,
): FleetForecast {
  const fleet = scopeOf(undefined, counted, fleetState);
  const groups = new Map(
    fleetState.groups.map((group) => {
      const members = decisionsOf(group.name, counted);
      return [group.name, scopeOf(group, members, fleetState)];
    }),
  );
  const alike = alikeOf(fleet, groups);
  const all = [fleet, ...new Set(alike.values()), ...groups.values()];
  for (const [candidate, blocked] of admitted) {
    if (blocked === undefined) continue;
    const group = candidate.group?.name ?? '';
    const scopes = [fleet, alike.get(group), groups.get(group)].filter((scope) => scope !== undefined);
    const one = { candidate, blocked, shown: shownReason(candidate, blocked), scopes, from: undefined, before: [] };
    for (const { waiting } of scopes) waiting.push(one);
  }
  enqueue(fleet, all, groups, fleetState);
  return {
    ...reported(fleet, all, fleetState),
    ofGroups: new Map([...groups].map(([name, scope]) => [name, reported(scope, [scope], fleetState)])),
    versions: fleetState.versions,
    measuredMs: fleetState.measuredMs,
  };
}

/** Those of a group. */
export const decisionsOf = ofGroup(({ managedNode: { group } }: Decision) => group);

/** @param group - undefined: the fleet */
function scopeOf(group: NodeGroup | undefined, members: Parts<Decision>, fleetState: FleetState): Scope {
  const { measuredMs, stuck, now } = fleetState;
  const { policy } = group ?? fleetState;
  const updating = updatingIn(members).flat();
  const ends = updating.map(({ managedNode: { shadow, policy: own } }): End => {
    const end = (shadow?.times.startedAt ?? now) + usualMsOf(own, measuredMs);
    // It is not known when an update ends that takes longer than usual.
    return end > now ? end : undefined;
  });
  // The limits of the fleet count all nodes, not those of the group.
  const concurrency = group === undefined ? policy.concurrency : group.concurrency;
  const limit = Math.max(1, atOnce(concurrency, members)) - (group === undefined ? stuck.length : 0);
  const slots = Math.min(countOf(members), limit);
  const unused = Array.from({ length: Math.max(0, slots - ends.length) }, () => now);
  const used = ends.filter((end) => end !== undefined).toSorted((a, b) => a - b);
  return {
    policy,
    members,
    before: group === undefined ? fleetState.before : fleetState.groupsBefore.get(group.name),
    ends,
    free: [...unused, ...used.slice(Math.max(0, used.length - slots))],
    waiting: [],
    queues: new Map(),
  };
}

const updatingIn = ofParts((part: readonly Decision[]) => part.filter(({ phase }) => phase === 'updating'));

const zonesIn = ofParts((part: readonly Decision[]) => [
  ...new Set(part.map(({ managedNode: { node } }) => node && zoneOf(node))),
]);

/** How many nodes can update at once if they are spread evenly over the zones. */
function atOnce(concurrency: GroupConcurrency, members: Parts<Decision>): number {
  const { maxUpdating, maxUnavailable, maxPerZone = Infinity, maxZones = Infinity } = concurrency;
  const zones = new Set(zonesIn(members).flat()).size;
  const limits = [maxUpdating, maxUnavailable].map((limit = { percent: 100 }) => nodesAtOnce(limit, countOf(members)));
  return Math.min(maxPerZone * Math.min(zones, maxZones), ...limits);
}

/** By the name of the group, '' without one: the nodes of the fleet with the same windows. */
function alikeOf(fleet: Scope, groups: ReadonlyMap<string, Scope>): Map<string, Scope> {
  const byWindows = new Map<string, Scope>();
  const ofScopes = [['', fleet] as const, ...groups].map(([name, { policy }]) => {
    const { timeZone, windows, blackouts } = policy.maintenance;
    const key = JSON.stringify([timeZone, windows, blackouts]);
    const alike = byWindows.get(key) ?? { ...fleet, ends: [], waiting: [], queues: new Map() };
    byWindows.set(key, alike);
    return [name, alike] as const;
  });
  return new Map(ofScopes);
}

/** Puts each node into its queues: first those that wait for no others, then group after group. */
function enqueue(
  fleet: Scope,
  all: readonly Scope[],
  groups: ReadonlyMap<string, Scope>,
  fleetState: FleetState,
): void {
  const isStuck = fleet.ends.every((end) => end === undefined);
  for (const one of fleet.waiting) if (!isOrdered(one)) add(one, openFrom(one.blocked, isStuck, fleetState.now));
  const left = Map.groupBy(fleet.waiting.filter(isOrdered), ({ candidate }) => candidate.group?.name);
  if (left.size === 0) return;
  const canaries = latest(endsOf(all, isAwaited, fleetState), fleetState.policy.rollout.soakMs);
  const canariesOf = (name = ''): End => {
    const [group, scope] = [fleetState.groups.find((one) => one.name === name), groups.get(name)];
    if (scope === undefined || group?.lanes.has('canaries') !== true) return canaries;
    return latest(endsOf([scope], isAwaited, fleetState), group.policy.rollout.soakMs);
  };
  const addGroup = (name: string | undefined): void => {
    const members = left.get(name) ?? [];
    if (members.length === 0) return;
    const { after = [], soakMs = 0 } = members[0]?.candidate.group ?? {};
    // This also ends a circle, whose groups have no time.
    left.delete(name);
    for (const one of after) addGroup(one);
    const earlier = after.flatMap((one) => groups.get(one) ?? []);
    const awaited = endsOf(earlier, isAwaited, fleetState);
    const done = awaited.length === 0 ? [] : [latest(awaited, soakMs)];
    const first = canariesOf(name);
    for (const one of members) add(one, latest([...done, ...ownStart(one.blocked, first)]));
  };
  for (const name of left.keys()) addGroup(name);
}

function isOrdered({ candidate: { group }, blocked: { reason } }: Waiting): boolean {
  return FOR_OTHERS.has(reason) || (reason === 'Soaking' && (group?.after.length ?? 0) > 0);
}

/** Beside the groups that go first. */
function ownStart({ reason, retryAt }: Blocked, canaries: End): End[] {
  if (reason === 'WaitingForNodeGroup') return [];
  return [reason === 'WaitingForCanary' ? canaries : retryAt];
}

function isAwaited({ blocked: { reason } }: Waiting): boolean {
  return !LEFT_OUT.has(reason);
}

/** Unknown also for a version that does not age yet, and while no slot is known to become free. */
function openFrom({ reason, retryAt }: Blocked, isStuck: boolean, now: number): End {
  if (!passesInTime(reason) || (isStuck && traitsOf(reason).passes === 'capacity')) return undefined;
  return reason === 'MinimumAgeNotReached' ? retryAt : (retryAt ?? now);
}

function add(one: Waiting, from: End): void {
  one.from = from;
  one.before = one.scopes.map(({ queues }) => {
    const queue = queues.get(from) ?? [];
    queues.set(from, queue);
    return queue.push(one) - 1;
  });
}

/** Of updates under way, and of the nodes that count and may be the last ones of their queues. */
function endsOf(scopes: readonly Scope[], counts: (one: Waiting) => boolean, fleetState: FleetState): End[] {
  const takesLonger = ({ candidate: { shadow, policy } }: Waiting): boolean => {
    const usualMs = usualMsOf(policy, fleetState.measuredMs);
    return expectedMs(shadow, usualMs) > usualMs;
  };
  const lastOf = (queue: readonly Waiting[]): Waiting[] => {
    const counted = queue.filter(counts);
    return counted.filter((one, i) => i === counted.length - 1 || takesLonger(one));
  };
  const last = scopes.flatMap(({ queues }) => [...queues.values()].flatMap(lastOf));
  return [...scopes.flatMap(({ ends }) => ends), ...last.map((one) => endOf(one, fleetState))];
}

function endOf({ candidate, scopes, from, before }: Waiting, { measuredMs, now }: FleetState): End {
  const calendar = calendarFor(candidate);
  const usualMs = usualMsOf(candidate.policy, measuredMs);
  const { marginMs } = candidate.policy.maintenance;
  const starts = scopes.map(({ free }, index) => {
    const others = before[index] ?? 0;
    const freeAt = free[others % free.length];
    if (from === undefined || freeAt === undefined) return undefined;
    const [start, earlier] = [Math.max(from, freeAt), Math.floor(others / free.length)];
    // The fleet has nodes with other windows.
    if (index === 0) return start + earlier * usualMs;
    return calendar.nextFit(start, usualMs + marginMs, now, earlier, Math.max(1, usualMs));
  });
  const needMs = expectedMs(candidate.shadow, usualMs);
  const start = latest(starts);
  return start === undefined ? undefined : latest([calendar.nextFit(start, needMs + marginMs, now)], needMs);
}

/** Plus some milliseconds. Undefined when there is none, or one is unknown. */
function latest(times: readonly End[], plusMs = 0): End {
  if (times.length === 0 || times.includes(undefined)) return undefined;
  return times.reduce<number>((a, b = 0) => Math.max(a, b), 0) + plusMs;
}

/** @param scopes - it and its groups */
function reported(
  { policy, members, before, waiting }: Scope,
  scopes: readonly Scope[],
  fleetState: FleetState,
): Forecast {
  const { now } = fleetState;
  const end = latest(endsOf(scopes, isExpected, fleetState));
  const calendars = [...new Set(waiting.map(({ candidate }) => calendarFor(candidate)))];
  return {
    queue: [...waiting.filter((one) => !isExcluded(one)), ...waiting.filter(isExcluded)]
      .slice(0, MAX_QUEUE)
      .map((one): PlannedNode => {
        const { name: node, version } = one.candidate;
        const known = before?.plan?.find((planned) => planned.node === node)?.expectedTime;
        const expectedTime = steady(known, endOf(one, fleetState), now, [calendarFor(one.candidate)]);
        return { node, version, reason: one.shown, ...(expectedTime !== undefined && { expectedTime }) };
      }),
    completionTime: steady(before?.expectedCompletionTime, end, now, calendars),
    ...reasonsOf(members),
    window: policy.calendar.at(now),
    nextOpenAt: policy.calendar.nextFit(now, 1),
  };
}

function shownReason({ shadow }: Candidate, { reason, isUnknown }: Blocked): Reason {
  const known = shadow.progressing?.reason;
  if (isUnknown !== true) return reason;
  return isReason(known) && known !== 'UpToDate' && known !== 'Updating' ? known : 'WaitingForCapacity';
}

/** True for a reason that passes by time, or when another node releases its slot. */
function passesInTime(reason: Reason): boolean {
  const { passes } = traitsOf(reason);
  return passes === 'capacity' || passes === 'time';
}

function isExpected({ shown: reason }: Waiting): boolean {
  return passesInTime(reason) || FOR_OTHERS.has(reason);
}

/** True for a reason that blocks one node indefinitely; such nodes are listed last. */
function isExcluded({ shown: reason }: Waiting): boolean {
  return !passesInTime(reason) && traitsOf(reason).fleetWide !== true;
}

type Reasons = Pick<Forecast, 'reasons' | 'waitingReasons' | 'failedReasons' | 'needAttention'>;

interface WaitsFor {
  readonly reason: Reason;
  readonly phase: NodePhase;
  readonly needsUser: boolean;
}

const waitsForIn = ofParts((part: readonly Decision[]) =>
  part.flatMap(({ progressing, managedNode, phase = 'waiting', neverConnected }): WaitsFor[] => {
    const { reason } = progressing ?? managedNode.shadow?.progressing ?? {};
    if (!isReason(reason) || reason === 'UpToDate' || reason === 'Updating') return [];
    return [{ reason, phase, needsUser: neverConnected === true || traitsOf(reason).needsAttention === true }];
  }),
);

function reasonsOf(members: Parts<Decision>): Reasons {
  const found = waitsForIn(members).flat();
  const count = (of: typeof found): Map<Reason, number> =>
    new Map([...Map.groupBy(of, ({ reason }) => reason)].map(([reason, nodes]) => [reason, nodes.length]));
  return {
    reasons: count(found),
    waitingReasons: count(found.filter(({ phase }) => phase === 'waiting')),
    failedReasons: count(found.filter(({ phase }) => phase === 'failed')),
    needAttention: count(found.filter(({ needsUser }) => needsUser)),
  };
}

const MINUTE_MS = 60_000;
/** An expected time changes only if it was wrong by this, or by a fifth of the time until then, or no window has it any more. */
const STEADY_MS = 5 * MINUTE_MS;

/** Returns the text of an expected time, unchanged while it is about right. */
function steady(
  before: string | undefined,
  at: number | undefined,
  now: number,
  calendars: readonly Calendar[],
): string | undefined {
  if (at === undefined) return undefined;
  const known = parseTime(before);
  const isOpen = (time: number): boolean => calendars.some((one) => one.nextFit(time - 1, 1, now) === time - 1);
  const isRight = known !== undefined && Math.abs(known - at) <= Math.max(STEADY_MS, (at - now) / 5);
  // Updates under way may end outside of windows.
  const isSteady = isRight && known > now && (isOpen(known) || !isOpen(at));
  return isSteady ? before : rfc3339(Math.ceil(at / MINUTE_MS) * MINUTE_MS);
}
