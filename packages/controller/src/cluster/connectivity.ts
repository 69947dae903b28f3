/**
 * Whether the nodes still reach the control plane, by the Leases that their kubelets renew every ten
 * seconds. When most of them expire at once, the cause is the network or the control plane, not the
 * nodes: then no node may be disrupted, and none that cannot report counts as failed.
 *
 *     connected -- most Leases of the fleet, or of a zone, have expired --> lost
 *     lost -- fewer have expired for RELEASE_AFTER_MS, without a break --> connected
 *
 * A Lease expires after three quarters of the time after which kube-controller-manager gives a node up,
 * so that this comes first. A Lease counts from when this process has seen it renewed, since the clocks
 * of nodes may be wrong. While the watch of the Leases is silent, nothing changes; a watch that stays
 * silent is stale, which stops updates as well.
 */
import type { KubernetesObject } from '@brupop/shared/api/meta';
import type { ReflectorEvent } from '@brupop/shared/kube/reflector';
import { parseTime } from '@brupop/shared/runtime/clock';
import type { UpdatePolicy } from '../policy/policy.ts';
import { isManaged, type NodeView, zoneOf } from './node.ts';
import { mayBeInUpdate, type ShadowView } from './shadow.ts';

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

export interface Connectivity {
  readonly lost: boolean;
  /**
   * Until when it was lost, or a watch was stale, epoch milliseconds; the current time while that is so, and 0 if it
   * never was.
   */
  readonly lostUntil: number;
  /** The nodes whose Lease has expired, the oldest first. */
  readonly expired: readonly ExpiredLease[];
  /** How many nodes have a Lease that counts. */
  readonly counted: number;
}

export const CONNECTED: Connectivity = { lost: false, lostUntil: 0, expired: [], counted: 0 };

const EXPIRES_AFTER = 3 / 4;
/** One node that is cut off is a problem of that node. */
const MIN_EXPIRED = 2;
/** A kubelet needs some time to renew its Lease for the first time. */
const NEW_NODE_MS = 60_000;
/** Two periods in which kubelets renew their Leases. */
export const RELEASE_AFTER_MS = 20_000;

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
interface Now {
  readonly wall: number;
  readonly monotonic: number;
  /** Since the latest activity on the watch of the Leases. */
  readonly silentMs: number;
  /** A watch is stale, so what nodes report may be unknown. */
  readonly isStale: boolean;
}

export class ConnectivityGuard {
  readonly #renewals = new Map<string, Renewal>();
  #latest = CONNECTED;
  /** On the monotonic clock; undefined while most Leases are expired. */
  #goodSince: number | undefined = -Infinity;
  /** On the monotonic clock, since the other one may be corrected. */
  #lostUntil: number | undefined;

  get latest(): Connectivity {
    return this.#latest;
  }

  observe({ type, object }: ReflectorEvent<NodeLease>, now: Pick<Now, 'wall' | 'monotonic'>): void {
    const { renewedAt: renewTime, metadata } = object;
    const before = this.#renewals.get(metadata.name);
    if (type === 'Deleted' || renewTime === undefined) this.#renewals.delete(metadata.name);
    else if (before !== undefined && renewTime > before.renewTime)
      this.#renewals.set(metadata.name, { renewTime, seenAt: now.monotonic });
    else if (before?.renewTime !== renewTime)
      this.#renewals.set(metadata.name, { renewTime, seenAt: now.monotonic - Math.max(0, now.wall - renewTime) });
  }

  /** Returns the state at `now`. It remembers when the state changed. */
  probe(nodes: readonly NodeAndShadow[], { connectivity }: Pick<UpdatePolicy, 'connectivity'>, now: Now): Connectivity {
    const leases = nodes.flatMap((node) => this.#leaseOf(node, now) ?? []);
    const limitMs = EXPIRES_AFTER * connectivity.nodeMonitorGracePeriodMs;
    const expired = leases.filter(({ ageMs }) => ageMs >= limitMs).toSorted((a, b) => b.ageMs - a.ageMs);
    const isBad = mostExpired(leases, limitMs, connectivity.expiredPercent);
    this.#goodSince = isBad ? undefined : (this.#goodSince ?? now.monotonic);
    const isGood = this.#goodSince !== undefined && now.monotonic - this.#goodSince >= RELEASE_AFTER_MS;
    const lost = isBad || (this.#latest.lost && !isGood);
    if (lost || now.isStale) this.#lostUntil = now.monotonic;
    const lostUntil = this.#lostUntil === undefined ? 0 : now.wall - (now.monotonic - this.#lostUntil);
    this.#latest = { lost, lostUntil, expired, counted: leases.length };
    return this.#latest;
  }

  /** Of any node, also one that is updating; undefined: it has no Lease. */
  hasExpired(
    name: string,
    { connectivity }: Pick<UpdatePolicy, 'connectivity'>,
    { monotonic, silentMs }: Pick<Now, 'monotonic' | 'silentMs'>,
  ): boolean | undefined {
    const renewal = this.#renewals.get(name);
    return renewal && monotonic - silentMs - renewal.seenAt >= EXPIRES_AFTER * connectivity.nodeMonitorGracePeriodMs;
  }

  /** Undefined for a node that is new, on its way out or in an update, and for one without a Lease. */
  #leaseOf({ name, node, shadow }: NodeAndShadow, now: Now): CountedLease | undefined {
    const renewal = this.#renewals.get(name);
    if (node === undefined || renewal === undefined || !isManaged(node)) return undefined;
    const { creationTimestamp, deletionTimestamp } = node.metadata;
    const isNew = now.wall - (parseTime(creationTimestamp) ?? 0) < NEW_NODE_MS;
    if (isNew || deletionTimestamp !== undefined || (shadow !== undefined && mayBeInUpdate(shadow))) return undefined;
    const renewedAt = Math.round((now.wall - (now.monotonic - renewal.seenAt)) / 10_000) * 10_000;
    return { name, zone: zoneOf(node), ageMs: now.monotonic - now.silentMs - renewal.seenAt, renewedAt };
  }
}

interface CountedLease extends ExpiredLease {
  readonly zone: string;
}

/** True when most Leases of the fleet or of one zone have expired. `percent` 0: never. */
function mostExpired(leases: readonly CountedLease[], limitMs: number, percent: number): boolean {
  if (percent === 0) return false;
  const zones = Object.values(Object.groupBy(leases, ({ zone }) => zone));
  return [leases, ...zones].some((some = []) => {
    const expired = some.filter(({ ageMs }) => ageMs >= limitMs).length;
    return expired >= MIN_EXPIRED && expired * 100 >= percent * some.length;
  });
}
