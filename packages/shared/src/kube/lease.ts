import { rfc3339Micro } from '../runtime/clock.ts';
import type { KubernetesObject } from '../api/meta.ts';

export interface LeaseSpec {
  readonly holderIdentity?: string;
  readonly leaseDurationSeconds?: number;
  readonly acquireTime?: string;
  readonly renewTime?: string;
  readonly leaseTransitions?: number;
}

export interface Lease extends KubernetesObject {
  readonly spec: LeaseSpec;
}

/** What a candidate goes by. */
export interface LeaseObservation {
  /** As it is now; undefined = there is none. */
  readonly lease: Lease | undefined;
  /** As it was seen before. */
  readonly was: Lease | undefined;
  readonly identity: string;
  readonly leaseDurationMs: number;
  /** The acquireTime of this candidate's own latest claim. */
  readonly claimedAt: string | undefined;
}

/** As client-go writes it into a Lease that is released. */
const RELEASED_SECONDS = 1;
/** Longer than so many of our own durations no Lease is heeded: a slip of the hand must not leave a fleet without a leader for years. */
const MAX_WAIT_FACTOR = 4;
const INT32_MAX = 2_147_483_647;

/** A Lease as the API server sends it; without a spec it is one that nobody holds. */
export function readLease(raw: unknown): Lease {
  const lease = raw as Partial<Lease> & KubernetesObject;
  return { ...lease, spec: lease.spec ?? {} };
}

/** True for a Lease that its holder has given back; one without a holder may also have been emptied by hand under a leader. */
export function released(lease: Lease | undefined): boolean {
  return lease !== undefined && holderOf(lease) === '' && lease.spec.leaseDurationSeconds === RELEASED_SECONDS;
}

/**
 * For how long, from the moment it is first seen so, a Lease is to be left alone, milliseconds. What was not released by its holder is heeded
 * for at least our own duration, whatever the Lease says or whether it is still there: whoever led may not have noticed what was done to it.
 */
export function waitBeforeAcquireMs(sighting: LeaseObservation): number {
  const { lease, was, identity, leaseDurationMs } = sighting;
  const decisive = lease ?? was;
  if (decisive === undefined || released(decisive) || isOurs(decisive, sighting)) return 0;
  if (was === undefined && holderOf(decisive) === identity) return 0;
  const asked = (lease?.spec.leaseDurationSeconds ?? 0) * 1000;
  return Math.min(Math.max(asked, leaseDurationMs), MAX_WAIT_FACTOR * leaseDurationMs);
}

/** What the holder writes: to take the Lease, or to keep it. `acquireTime` is that of the claim when the Lease is not ours yet. */
export function claim(options: {
  readonly lease: Lease | undefined;
  readonly identity: string;
  readonly leaseDurationMs: number;
  readonly acquireTime: string | undefined;
  /** Epoch milliseconds. */
  readonly now: number;
}): LeaseSpec & { readonly acquireTime: string } {
  const { lease, identity, leaseDurationMs, now } = options;
  const kept = lease !== undefined && holderOf(lease) === identity ? lease.spec : undefined;
  const transitions = lease?.spec.leaseTransitions ?? 0;
  const taken = lease === undefined || kept !== undefined ? 0 : 1;
  return {
    holderIdentity: identity,
    leaseDurationSeconds: Math.max(1, Math.round(leaseDurationMs / 1000)),
    acquireTime: kept?.acquireTime ?? options.acquireTime ?? rfc3339Micro(now),
    renewTime: rfc3339Micro(now),
    leaseTransitions: Math.min(transitions + taken, INT32_MAX),
  };
}

/** What the holder writes when it gives the Lease back. */
export function release(spec: LeaseSpec): LeaseSpec {
  return { ...spec, holderIdentity: '', leaseDurationSeconds: RELEASED_SECONDS };
}

function holderOf({ spec }: Lease): string {
  return spec.holderIdentity ?? '';
}

/** We hold it, even if the answer that said so was lost; a Lease into which a hand has put our name does not carry our claim. */
function isOurs(lease: Lease, { identity, claimedAt }: LeaseObservation): boolean {
  return holderOf(lease) === identity && claimedAt !== undefined && lease.spec.acquireTime === claimedAt;
}
