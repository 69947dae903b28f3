/**
 * Whether the nodes still reach the control plane, by the Leases that their kubelets renew every ten
 * seconds. When most of them expire at once, the cause is the network or the control plane, not the
 * nodes: then no node may be disrupted, and none that cannot report counts as failed. The fleet and each
 * zone have a state of their own; a zone that is lost stops its own nodes only.
 *
 *     connected -- most Leases that were renewed in the last hour have expired --> lost
 *     lost -- fewer have expired for RELEASE_AFTER_MS, without a break --> connected
 *
 * A node that is silent for longer does not count: it is off, which says nothing about the network. A
 * kubelet may label its Node with any zone, so a zone is lost only when more nodes have fallen silent
 * than two that conspire. While no node at all is heard, the hour stands still: the loss must not end
 * with it, nor when the first ones are back. A process that has just started may be back with the first
 * one: for a while it counts all.
 *
 * A Lease expires after three quarters of the time after which kube-controller-manager gives a node up,
 * so that this comes first. A Lease counts from when this process has seen it renewed, since the clocks
 * of nodes may be wrong. While the watch of the Leases is silent, nothing changes; a watch that stays
 * silent is stale, which stops updates as well.
 *
 * The whole cluster, with the Nodes that are not managed, has one more state, for what has to be scaled
 * down meanwhile (`spec.connectivity.dependents`). One zone alone does not make it lost. Nodes that
 * update, are new or on their way out count while they are heard: the few others must not look like most.
 * A node that is silent counts until that loss ends, since the loss must not end while nothing has come
 * back. Its loss begins and ends after HOLD_MS without a break, in which the watch was heard: after an
 * outage of the API server, and for a process whose clock is ahead, all Leases look expired until they
 * are renewed.
 */
import type { KubernetesObject } from '@brupop/shared/api/meta';
import type { ReflectorEvent } from '@brupop/shared/kube/reflector';
import { type Instant, parseTime } from '@brupop/shared/runtime/clock';
import type { UpdatePolicy } from '../policy/policy.ts';
import { isBeingRemoved, isManaged, type NodeView, zoneOf } from './node.ts';
import type { ShadowView } from './shadow.ts';
import { mayBeInUpdate } from './state.ts';

export interface NodeLease extends KubernetesObject {
  /** Epoch milliseconds; undefined: not renewed yet, or unreadable. */
  readonly renewedAt: number | undefined;
}

export function readLease(raw: unknown): NodeLease {
  const { metadata, spec } = raw as KubernetesObject & { readonly spec?: { readonly renewTime?: string } };
  const { name, uid, resourceVersion } = metadata;
  return { metadata: { name, uid, resourceVersion }, renewedAt: parseTime(spec?.renewTime) };
}

interface ExpiredLease {
  readonly name: string;
  /** How long ago it was renewed, milliseconds. */
  readonly ageMs: number;
  /** When it was renewed, to ten seconds, epoch milliseconds. */
  readonly renewedAt: number;
}

export interface Loss {
  readonly lost: boolean;
  /**
   * Until when it was lost, a watch was stale, the clock wrong or no process the leader, epoch milliseconds; the current
   * time while that is so, and 0 if it never was.
   */
  readonly lostUntil: number;
  /** The clock of this process is wrong. */
  readonly isClockWrong?: true;
  /** All nodes of the zone, which was lost, have been silent for an hour: they are off. */
  readonly isOff?: true;
}

/** That of the whole fleet. */
export interface Connectivity extends Loss {
  /** The zones that are lost or were lost, by name. */
  readonly zones: ReadonlyMap<string, Loss>;
  /** The nodes whose Lease counts and has expired, the oldest first. */
  readonly expired: readonly ExpiredLease[];
  /** How many nodes have a Lease that counts. */
  readonly counted: number;
}

/** Of all Nodes, managed or not. */
export interface ClusterLoss {
  readonly lost: boolean;
  /** The Leases say otherwise, but not for long enough. */
  readonly isChanging: boolean;
  /** When the loss began, epoch milliseconds; undefined: it is not lost. */
  readonly since: number | undefined;
  /** How many Nodes have a Lease that counts, and how many of these have expired. */
  readonly counted: number;
  readonly expired: number;
}

export const CONNECTED: Connectivity = { lost: false, lostUntil: 0, zones: new Map(), expired: [], counted: 0 };

/** Whether the fleet or the zone of a node is lost. */
export function lossOf({ lost, lostUntil, zones, isClockWrong }: Connectivity, node: NodeView | undefined): Loss {
  const zone = node === undefined ? undefined : zones.get(zoneOf(node));
  const both = { lost: lost || zone?.lost === true, lostUntil: Math.max(lostUntil, zone?.lostUntil ?? 0) };
  return { ...zone, ...both, ...(isClockWrong && { isClockWrong }) };
}

/** Returns the names of the zones that are lost, in order. */
export function lostZones({ zones }: Connectivity): string[] {
  return [...zones].flatMap(([name, { lost }]) => (lost ? [name] : [])).toSorted();
}

const EXPIRES_AFTER = 3 / 4;
/** One node that is cut off is a problem of that node. */
const MIN_EXPIRED = 2;
/** More than two nodes that conspire. */
const MIN_EXPIRED_IN_ZONE = 3;
const MIN_EXPIRED_IN_CLUSTER = 3;
/** Of the nodes outside of the zone that has lost most: fewer are no more than the usual ones that fail. */
const MIN_SHARE_OUTSIDE = 1 / 3;
const MIN_EXPIRED_OUTSIDE = 2;
/** A Lease that was renewed longer ago belongs to a node that is off. */
const COUNTS_FOR_MS = 60 * 60_000;
/** For how long a process that starts waits for nodes that are silent for longer. */
export const STARTS_FOR_MS = 10 * 60_000;
/** The scope of all nodes; no zone has this name, since nodes without the label are in no zone. */
const FLEET = '';
/** A kubelet needs some time to renew its Lease for the first time. */
const NEW_NODE_MS = 60_000;
/** Two periods in which kubelets renew their Leases. */
export const RELEASE_AFTER_MS = 20_000;
const HOLD_MS = RELEASE_AFTER_MS;

interface NodeAndShadow {
  readonly name: string;
  readonly node: NodeView | undefined;
  readonly shadow: ShadowView | undefined;
}

interface Renewal {
  /** The time in the Lease. */
  readonly renewTime: number;
  /** On the monotonic clock. */
  readonly seenAt: number;
}

/** The times are those of the clock of this process, milliseconds. */
export interface ProbeTime extends Instant {
  /** Since the latest activity on the watch of the Leases. */
  readonly silentMs: number;
  /** A watch is stale, so what nodes report may be unknown, or the clock of this process is wrong. */
  readonly isUnsure: boolean;
}

/** On the monotonic clock, since the other one may be corrected. */
interface Scope {
  readonly lost: boolean;
  /** Undefined while most Leases are expired. */
  readonly goodSince: number | undefined;
  /** Undefined: it never was lost. */
  readonly lostUntil: number | undefined;
  readonly isOff?: true;
}

/** Of the whole cluster. */
interface ClusterScope {
  readonly lostSince: Instant | undefined;
  /** Since when the Leases say otherwise, on the monotonic clock. */
  readonly changesSince: number | undefined;
}

const GOOD: Scope = { lost: false, goodSince: -Infinity, lostUntil: undefined };

export class ConnectivityGuard {
  readonly #renewals = new Map<string, Renewal>();
  /** By zone, those that were lost, and the fleet. */
  readonly #scopes = new Map<string, Scope>();
  #latest = CONNECTED;
  /** For how long no managed node was heard, in the loss that has not ended. */
  #silenceMs = 0;
  /** Of the first probe, on the monotonic clock. */
  #startedAt: number | undefined;
  #cluster: ClusterScope = { lostSince: undefined, changesSince: undefined };

  get latest(): Connectivity {
    return this.#latest;
  }

  observe({ type, object }: ReflectorEvent<NodeLease>, now: Instant): void {
    const { renewedAt: renewTime, metadata } = object;
    const before = this.#renewals.get(metadata.name);
    if (type === 'Deleted' || renewTime === undefined) this.#renewals.delete(metadata.name);
    else if (before !== undefined && renewTime > before.renewTime)
      this.#renewals.set(metadata.name, { renewTime, seenAt: now.monotonic });
    else if (before?.renewTime !== renewTime)
      this.#renewals.set(metadata.name, { renewTime, seenAt: now.monotonic - Math.max(0, now.wall - renewTime) });
  }

  /** Returns the state at `now`. It remembers when the states changed. */
  probe(
    nodes: readonly NodeAndShadow[],
    { connectivity }: Pick<UpdatePolicy, 'connectivity'>,
    now: ProbeTime,
  ): Connectivity {
    const limitMs = EXPIRES_AFTER * connectivity.nodeMonitorGracePeriodMs;
    this.#measureSilence(nodes, limitMs, now);
    this.#startedAt ??= now.monotonic;
    const isStarting = now.monotonic - this.#startedAt < STARTS_FOR_MS;
    const countsForMs = isStarting ? Infinity : COUNTS_FOR_MS + this.#silenceMs;
    const counts = { isManaged: true, countsForMs, heardForMs: 0 };
    const { byZone, all, expired } = this.#count(nodes, limitMs, counts, now);
    byZone.set(FLEET, all);
    this.#updateSilentZones(nodes, byZone);
    for (const [zone, { counted, silent }] of byZone) {
      const min = zone === FLEET ? MIN_EXPIRED : MIN_EXPIRED_IN_ZONE;
      const { expiredPercent: percent } = connectivity;
      const isBad = percent > 0 && silent >= min && silent * 100 >= percent * counted;
      this.#update(zone, isBad, now);
    }
    const zones = new Map([...this.#scopes].map(([zone, scope]) => [zone, lossIn(scope, now)]));
    const { lost, lostUntil } = zones.get(FLEET) ?? CONNECTED;
    zones.delete(FLEET);
    const oldestFirst = expired.toSorted((a, b) => b.ageMs - a.ageMs);
    this.#latest = { lost, lostUntil, zones, expired: oldestFirst, counted: all.counted };
    return this.#latest;
  }

  /** A zone in which all nodes are off stops nothing. When the first one is heard, its loss has just ended. */
  #updateSilentZones(nodes: readonly NodeAndShadow[], heard: ReadonlyMap<string, unknown>): void {
    const silent = [...this.#scopes.keys()].filter((zone) => !heard.has(zone));
    if (silent.length === 0) return;
    const known = new Set(nodes.flatMap(({ node }) => (node === undefined ? [] : zoneOf(node))));
    for (const zone of silent) {
      if (!known.has(zone)) this.#scopes.delete(zone);
      else this.#scopes.set(zone, { ...GOOD, lostUntil: this.#scopes.get(zone)?.lostUntil, isOff: true });
    }
  }

  /** Also those that are new or in an update. */
  #measureSilence(nodes: readonly NodeAndShadow[], limitMs: number, now: ProbeTime): void {
    let youngestMs = Infinity;
    for (const { name, node } of nodes) {
      const renewal = node !== undefined && isManaged(node) ? this.#renewals.get(name) : undefined;
      if (renewal !== undefined) youngestMs = Math.min(youngestMs, ageOf(renewal, now));
    }
    if (youngestMs >= limitMs && youngestMs < Infinity) this.#silenceMs = Math.max(this.#silenceMs, youngestMs);
    else if (this.#scopes.get(FLEET)?.lost !== true) this.#silenceMs = 0;
  }

  /** Until `now`, no process that led saw what nodes report. */
  unseen({ monotonic }: Instant): void {
    this.#scopes.set(FLEET, { ...(this.#scopes.get(FLEET) ?? GOOD), lostUntil: monotonic });
  }

  /** Of a process before this one: a loss of the cluster that began at `since`, epoch milliseconds, and has not ended. */
  resumeClusterLoss(since: number, { wall, monotonic }: Instant): void {
    const lostSince = { wall: since, monotonic: monotonic - Math.max(0, wall - since) };
    this.#cluster = { lostSince, changesSince: undefined };
  }

  /** Returns the state of the cluster at `now`, and remembers when it changed. */
  probeCluster(
    nodes: readonly NodeAndShadow[],
    { connectivity }: Pick<UpdatePolicy, 'connectivity'>,
    now: ProbeTime,
  ): ClusterLoss {
    const { clusterExpiredPercent: percent, nodeMonitorGracePeriodMs } = connectivity;
    const lostForMs = now.monotonic - (this.#cluster.lostSince ?? now).monotonic;
    const limitMs = EXPIRES_AFTER * nodeMonitorGracePeriodMs;
    const counts = { isManaged: false, countsForMs: COUNTS_FOR_MS + lostForMs, heardForMs: limitMs };
    const { byZone, all } = this.#count(nodes, limitMs, counts, now);
    const isMost = all.silent >= MIN_EXPIRED_IN_CLUSTER && all.silent * 100 >= percent * all.counted;
    this.#cluster = clusterAfter(this.#cluster, isMost && !isOneZone(byZone, all), now);
    const { lostSince, changesSince } = this.#cluster;
    return {
      lost: lostSince !== undefined,
      isChanging: changesSince !== undefined,
      since: lostSince?.wall,
      counted: all.counted,
      expired: all.silent,
    };
  }

  #count(nodes: readonly NodeAndShadow[], limitMs: number, which: Counted, now: ProbeTime): LeaseCounts {
    const byZone = new Map<string, LeaseCount>();
    const all: LeaseCount = { counted: 0, silent: 0 };
    const expired: ExpiredLease[] = [];
    for (const { name, node, shadow } of nodes) {
      const renewal = this.#renewals.get(name);
      if (node === undefined || renewal === undefined) continue;
      const ageMs = ageOf(renewal, now);
      if (!counts({ node, shadow }, ageMs, which, now)) continue;
      const zone = byZone.get(zoneOf(node)) ?? { counted: 0, silent: 0 };
      byZone.set(zoneOf(node), zone);
      for (const count of [zone, all]) {
        count.counted += 1;
        if (ageMs >= limitMs) count.silent += 1;
      }
      if (ageMs < limitMs) continue;
      const renewedAt = Math.round((now.wall - (now.monotonic - renewal.seenAt)) / 10_000) * 10_000;
      expired.push({ name, ageMs, renewedAt });
    }
    return { byZone, all, expired };
  }

  #update(zone: string, isBad: boolean, now: ProbeTime): void {
    const next = scopeAfter(this.#scopes.get(zone) ?? GOOD, isBad, now.monotonic);
    const isUnsure = now.isUnsure && zone === FLEET;
    const scope = isUnsure ? { ...next, lostUntil: now.monotonic } : next;
    if (zone === FLEET || scope.lostUntil !== undefined) this.#scopes.set(zone, scope);
  }

  /** Of any node, also one that is updating; undefined: it has no Lease. */
  hasExpired(
    name: string,
    { connectivity }: Pick<UpdatePolicy, 'connectivity'>,
    { monotonic, silentMs }: Pick<ProbeTime, 'monotonic' | 'silentMs'>,
  ): boolean | undefined {
    const renewal = this.#renewals.get(name);
    return renewal && ageOf(renewal, { monotonic, silentMs }) >= EXPIRES_AFTER * connectivity.nodeMonitorGracePeriodMs;
  }
}

function ageOf({ seenAt }: Renewal, { monotonic, silentMs }: Pick<ProbeTime, 'monotonic' | 'silentMs'>): number {
  return monotonic - silentMs - seenAt;
}

interface LeaseCount {
  counted: number;
  silent: number;
}

interface LeaseCounts {
  /** By name; nodes without a zone share the empty one. */
  readonly byZone: Map<string, LeaseCount>;
  readonly all: LeaseCount;
  readonly expired: readonly ExpiredLease[];
}

function isNew({ createdAt = 0 }: NodeView, { wall }: ProbeTime): boolean {
  return wall - createdAt < NEW_NODE_MS;
}

/** Which Leases count. */
interface Counted {
  /** Only those of managed nodes. */
  readonly isManaged: boolean;
  /** For how long a node has to be silent until it is off. */
  readonly countsForMs: number;
  /** The same of one that is new, on its way out or in an update. */
  readonly heardForMs: number;
}

/** False for a node that is off, and for one that is new, on its way out or in an update, unless it is heard. */
function counts(
  { node, shadow }: { readonly node: NodeView; readonly shadow: ShadowView | undefined },
  ageMs: number,
  which: Counted,
  now: ProbeTime,
): boolean {
  if (which.isManaged && !isManaged(node)) return false;
  if (ageMs < which.heardForMs) return true;
  const mayBeSilent = isNew(node, now) || isBeingRemoved(node) || (shadow !== undefined && mayBeInUpdate(shadow));
  return !mayBeSilent && ageMs < which.countsForMs;
}

/** True when most of the silent nodes are in one zone, and few elsewhere. A cluster in one zone is lost with it. */
function isOneZone(byZone: ReadonlyMap<string, LeaseCount>, all: LeaseCount): boolean {
  const [worst] = [...byZone.values()].toSorted((a, b) => b.silent - a.silent || a.counted - b.counted);
  const outside = all.counted - (worst?.counted ?? 0);
  const silentOutside = all.silent - (worst?.silent ?? 0);
  return silentOutside < Math.max(outside * MIN_SHARE_OUTSIDE, Math.min(outside, MIN_EXPIRED_OUTSIDE));
}

function scopeAfter(before: Scope, isBad: boolean, monotonic: number): Scope {
  if (isBad) return { lost: true, goodSince: undefined, lostUntil: monotonic };
  const goodSince = before.goodSince ?? monotonic;
  const lost = before.lost && monotonic - goodSince < RELEASE_AFTER_MS;
  return { lost, goodSince, lostUntil: lost || before.isOff === true ? monotonic : before.lostUntil };
}

function clusterAfter({ lostSince, changesSince }: ClusterScope, isBad: boolean, now: ProbeTime): ClusterScope {
  if (isBad === (lostSince !== undefined)) return { lostSince, changesSince: undefined };
  const heardAt = now.monotonic - now.silentMs;
  const since = changesSince ?? heardAt;
  if (heardAt - since < HOLD_MS) return { lostSince, changesSince: since };
  const { wall, monotonic } = now;
  return { lostSince: isBad ? { wall, monotonic } : undefined, changesSince: undefined };
}

function lossIn({ lost, lostUntil, isOff }: Scope, { wall, monotonic }: ProbeTime): Loss {
  return { lost, lostUntil: lostUntil === undefined ? 0 : wall - (monotonic - lostUntil), ...(isOff && { isOff }) };
}
