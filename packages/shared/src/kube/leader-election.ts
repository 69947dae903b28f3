/**
 * Leader election on a coordination.k8s.io Lease, with the algorithm of client-go's leaderelection.
 *
 *     waiting -- Lease released, or unchanged for the lease duration --> leading
 *     leading -- renew deadline passed, another holder, or shutdown  --> waiting
 *
 * The leader renews the record at half of the renew deadline, retries a failed renewal every retry
 * period, stops leading when no renewal was confirmed within the renew deadline, and releases the
 * Lease when it stops. A renewal times out while one retry period is left for another try. A request
 * to acquire the Lease times out after the renew deadline, since leadership counts from when it was
 * sent. A candidate watches the Lease instead of polling it, and measures the lease duration by its
 * own clock, from the moment at which it observed the latest change; times in the record are never
 * compared with a clock.
 *
 * At most one process leads: the renew deadline is shorter than the lease duration, each write
 * carries the resourceVersion that it is based on, and a candidate waits for at least its own lease
 * duration after every change but a release and a write of its own, also when a user has edited,
 * emptied or deleted the Lease. A leader asks `isLeading()` right before each of its writes: the
 * answer is right even in the first instant after the process was frozen. The monotonic clock stands
 * still while a machine is suspended, so the wall clock counts as well. Where nothing corrects that
 * clock when the machine resumes, the next renewal shows another holder, within the renew deadline.
 */
import { LEASE_LIMITS } from '../api/deadlines.ts';
import type { KubernetesObject } from '../api/meta.ts';
import { type Clock, instantOf, parseTime, rfc3339Micro } from '../runtime/clock.ts';
import { messageOf } from '../runtime/errors.ts';
import { type Logger, RetriedProblem } from '../runtime/log.ts';
import type { KubeClient, KubeRequest } from './client.ts';
import { hasStatus, isConflict } from './error.ts';
import { LEASE_VERSION, leasePath } from './paths.ts';
import { Reflector } from './reflector.ts';

interface LeaderElectionOptions {
  readonly client: Pick<KubeClient, 'request' | 'stream'>;
  readonly clock: Clock;
  readonly log: Logger;
  readonly namespace: string;
  readonly name: string;
  /** Unique to this process, for example pod name and UID. */
  readonly identity: string;
  /** Written with each renewal, for the next leader; others stay. */
  readonly annotations?: () => Readonly<Record<string, string>>;
  /** The defaults of these three are LEASE_LIMITS. */
  readonly leaseDurationMs?: number;
  readonly renewDeadlineMs?: number;
  readonly retryPeriodMs?: number;
}

export interface LeaseSpec {
  readonly holderIdentity?: string;
  readonly leaseDurationSeconds?: number;
  readonly acquireTime?: string;
  readonly renewTime?: string;
  readonly leaseTransitions?: number;
}

export interface Lease extends KubernetesObject {
  readonly spec?: LeaseSpec;
}

type Candidate = Pick<Required<LeaderElectionOptions>, 'identity' | 'leaseDurationMs'>;
type RequestLimits = Pick<KubeRequest, 'signal' | 'timeoutMs'>;
type Renewal = Pick<Required<LeaderElectionOptions>, 'renewDeadlineMs' | 'retryPeriodMs'>;

/** As in client-go: a retry comes up to 1.2 retry periods late. */
const JITTER_FACTOR = 1.2;
/** As in client-go: the lease duration that marks a Lease as released. */
const RELEASED_SECONDS = 1;
/** In lease durations, so that a mistyped leaseDurationSeconds cannot block election. */
export const MAX_WAIT_FACTOR = 4;
const INT32_MAX = 2_147_483_647;
/** Time limit of each of the two requests of a release, so that a shutdown is fast. */
const RELEASE_LIMIT_MS = 3_000;
/** How many of its own writes of the Lease a process remembers. */
const MAX_CLAIMS = 10;

export class LeaderElection {
  readonly #options: Required<LeaderElectionOptions>;
  readonly #leases: Reflector<Lease>;
  /** As last observed by the watch; and from when on it may be acquired, on the monotonic clock. */
  #observed: Lease | undefined;
  #acquirableAt = -Infinity;
  #changed = new AbortController();
  /** When the latest confirmed renewal was sent, on the monotonic clock. */
  #renewedAt = -Infinity;
  /** The same in epoch milliseconds. */
  #renewedTime = -Infinity;
  /** When the latest write was sent, monotonic milliseconds. */
  #claimedAt = -Infinity;
  /** `renewTime` of the latest writes, since their responses may have been lost. */
  #claims: readonly string[] = [];
  /** Until when a process led before this one tried to acquire the Lease, epoch milliseconds. */
  #renewedBefore = -Infinity;
  /** The leader that the log named last. */
  #loggedHolder = '';
  readonly #problem: RetriedProblem;

  constructor(options: LeaderElectionOptions) {
    this.#options = { annotations: () => ({}), ...LEASE_LIMITS, ...options };
    const { client, clock, log, namespace, name } = options;
    const path = leasePath({ namespace });
    const query = { fieldSelector: `metadata.name=${name}` };
    this.#leases = new Reflector({ client, clock, log, name: 'leases', path, query, slim: (raw) => raw as Lease });
    this.#problem = new RetriedProblem(clock);
    this.#leases.subscribe(({ type, object }) => this.#observe(type === 'Deleted' ? undefined : object));
  }

  /** The holder of the Lease, as last observed; empty when it has none. */
  get holder(): string {
    return holderOf(this.#observed);
  }

  /** Of the Lease, as last observed. */
  get annotations(): Readonly<Record<string, string>> {
    return this.#observed?.metadata.annotations ?? {};
  }

  /** When the Lease was renewed before this process acquired it, epoch milliseconds; undefined: not known. */
  get renewedBefore(): number | undefined {
    return this.#renewedBefore > -Infinity ? this.#renewedBefore : undefined;
  }

  /**
   * False also from when the wall clock was set forward past the renew deadline until the next renewal, which decides
   * whether this process still leads.
   */
  isLeading(): boolean {
    const { clock, renewDeadlineMs } = this.#options;
    return this.#leadingForMs() > 0 && clock.now() - this.#renewedTime < renewDeadlineMs;
  }

  /**
   * Runs until `signal` aborts. Calls `lead` each time this process becomes the leader, with a
   * signal that aborts when leadership is lost or `signal` aborts, and releases the Lease when
   * `lead` has returned.
   */
  async run(signal: AbortSignal, lead: (leading: AbortSignal) => Promise<void>): Promise<void> {
    const { retryPeriodMs } = this.#options;
    const watching = this.#leases.run(signal);
    while (!signal.aborted) {
      try {
        await this.#leases.waitSynced(signal);
        await this.#untilAcquirable(signal);
        this.#renewedBefore = this.#ledUntil(this.#observed);
        const lease = await this.#claim(this.#observed, signal);
        if (this.isLeading()) await this.#leadUntilLost(lease, signal, lead);
        else this.#observe(lease);
      } catch (error) {
        if (!signal.aborted) this.#logError('leader election failed, retrying', error);
      }
      await this.#pause(retryPeriodMs * (1 + JITTER_FACTOR * Math.random()), signal);
    }
    await watching;
  }

  /** A write of this process whose response was lost has made none the leader. */
  #ledUntil(lease: Lease | undefined): number {
    if (isOneOf(this.#claims, lease)) return Math.max(this.#renewedBefore, this.#renewedTime);
    return parseTime(lease?.spec?.renewTime) ?? -Infinity;
  }

  #leadingForMs(): number {
    return this.#renewedAt + this.#options.renewDeadlineMs - this.#options.clock.monotonic();
  }

  #observe(lease: Lease | undefined): void {
    const previous = this.#observed;
    if (lease?.metadata.resourceVersion === previous?.metadata.resourceVersion) return;
    const { clock, identity } = this.#options;
    this.#observed = lease;
    if (holderOf(lease) !== identity) this.#claims = [];
    this.#acquirableAt = clock.monotonic() + waitBeforeAcquireMs(lease, previous, this.#options, this.#claims);
    this.#changed.abort();
  }

  #logError(msg: string, error: unknown): void {
    const { log, identity } = this.#options;
    const isLasting = hasStatus(error, 401) || hasStatus(error, 403);
    log[this.#problem.levelOf(msg, { isLasting })](msg, { identity, error: messageOf(error) });
  }

  /** Says once for each leader that this process only waits. */
  #logStandby(): void {
    const { log, identity } = this.#options;
    const { holder } = this;
    if (holder === this.#loggedHolder) return;
    this.#loggedHolder = holder;
    if (holder !== '' && holder !== identity)
      log.info('on standby: another replica is the leader', { identity, leader: holder });
  }

  async #untilAcquirable(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      this.#logStandby();
      const waitMs = this.#acquirableAt - this.#options.clock.monotonic();
      if (waitMs <= 0) return;
      this.#changed = new AbortController();
      await this.#pause(waitMs, AbortSignal.any([signal, this.#changed.signal]));
    }
  }

  /**
   * Acquires or renews the Lease and returns its record. Once confirmed, this process is leading,
   * counted from when the request was sent. Returns the current record if `lease` is outdated.
   */
  async #claim(lease: Lease | undefined, signal: AbortSignal): Promise<Lease | undefined> {
    const { clock } = this.#options;
    const sentAt = instantOf(clock);
    const renewTime = rfc3339Micro(sentAt.wall);
    this.#claimedAt = sentAt.monotonic;
    this.#claims = [...this.#claims, renewTime].slice(-MAX_CLAIMS);
    try {
      const held = await this.#write(lease, claimed(lease, this.#options, renewTime), { signal });
      this.#renewedAt = sentAt.monotonic;
      this.#renewedTime = sentAt.wall;
      this.#problem.ended();
      return held;
    } catch (error) {
      if (isConflict(error)) return await this.#read({ signal });
      throw error;
    }
  }

  /** Once more if only this process has changed the Lease: by a renewal whose response was lost. */
  async #renew(lease: Lease | undefined, signal: AbortSignal): Promise<Lease | undefined> {
    const renewedAt = this.#renewedAt;
    const current = await this.#claim(lease, signal);
    const isOwn = holderOf(current) === this.#options.identity;
    return isOwn && this.#renewedAt === renewedAt ? await this.#claim(current, signal) : current;
  }

  async #leadUntilLost(
    held: Lease | undefined,
    signal: AbortSignal,
    lead: (leading: AbortSignal) => Promise<void>,
  ): Promise<void> {
    const { log, identity } = this.#options;
    const lost = new AbortController();
    const leading = AbortSignal.any([signal, lost.signal]);
    this.#loggedHolder = identity;
    log.info('became leader', { identity });
    const renewing = this.#renewUntilLost(held, leading, lost);
    try {
      await lead(leading);
    } finally {
      lost.abort(new Error('the leader has stopped'));
      await renewing;
      await this.#release();
      const reason = messageOf(lost.signal.reason);
      if (signal.aborted) log.info('released leadership to shut down', { identity });
      else log.warn('lost leadership', { identity, reason });
    }
  }

  async #renewUntilLost(held: Lease | undefined, leading: AbortSignal, lost: AbortController): Promise<void> {
    const { clock, identity } = this.#options;
    let lease = held;
    while (!leading.aborted) {
      const sinceClaimMs = clock.monotonic() - this.#claimedAt;
      await this.#pause(renewInMs(this.#leadingForMs(), sinceClaimMs, this.#options), leading);
      try {
        if (this.#leadingForMs() > 0) lease = await this.#renew(lease, leading);
        // A leader keeps a Lease that a user has emptied or deleted.
        if (isReleased(lease) || !['', identity].includes(holderOf(lease))) this.#renewedAt = -Infinity;
      } catch (error) {
        if (!leading.aborted) this.#logError('cannot renew the Lease, retrying', error);
      }
      if (this.#leadingForMs() <= 0)
        lost.abort(new Error(`the Lease is held by '${holderOf(lease)}' or was not renewed in time`));
    }
  }

  async #release(): Promise<void> {
    const mayRelease = this.isLeading();
    this.#renewedAt = -Infinity;
    try {
      // Read first, because a cancelled renewal may have been written.
      const limit = { timeoutMs: RELEASE_LIMIT_MS };
      const lease = mayRelease ? await this.#read(limit) : undefined;
      if (holderOf(lease) === this.#options.identity) await this.#write(lease, released(lease), limit);
    } catch (error) {
      this.#options.log.warn('cannot release the Lease', { error: messageOf(error) });
    }
  }

  /** Creates the Lease, or replaces the spec of `lease` if it has not changed since it was read. */
  #write(lease: Lease | undefined, spec: LeaseSpec, limits: RequestLimits): Promise<Lease> {
    const { namespace, name } = this.#options;
    const annotations = { ...lease?.metadata.annotations, ...this.#options.annotations() };
    const metadata = { ...(lease?.metadata ?? { name, namespace }), annotations };
    const body = { apiVersion: LEASE_VERSION, kind: 'Lease', metadata, spec };
    return this.#request({ method: lease === undefined ? 'POST' : 'PUT', body, ...limits });
  }

  async #read(limits: RequestLimits): Promise<Lease | undefined> {
    try {
      return await this.#request({ method: 'GET', ...limits });
    } catch (error) {
      if (hasStatus(error, 404)) return undefined;
      throw error;
    }
  }

  #request(request: Pick<KubeRequest, 'method' | 'body'> & RequestLimits): Promise<Lease> {
    const { client, namespace, name } = this.#options;
    const path = leasePath({ namespace, ...(request.method !== 'POST' && { name }) });
    return client.request({ timeoutMs: requestLimitMs(this.#leadingForMs(), this.#options), ...request, path });
  }

  async #pause(ms: number, signal: AbortSignal): Promise<void> {
    await this.#options.clock.sleep(ms, signal).catch(() => undefined);
  }
}

/** How long a leader waits before its next renewal; it leads for `leftMs` more, and sent the last one `sinceClaimMs` ago. */
export function renewInMs(leftMs: number, sinceClaimMs: number, { renewDeadlineMs, retryPeriodMs }: Renewal): number {
  return Math.max(0, Math.min(Math.max(leftMs - renewDeadlineMs / 2, retryPeriodMs - sinceClaimMs), leftMs));
}

/** Time limit of a request of a process that leads for `leftMs`: a leader keeps time for another try. */
export function requestLimitMs(leftMs: number, { renewDeadlineMs, retryPeriodMs }: Renewal): number {
  if (leftMs <= 0) return renewDeadlineMs;
  return leftMs < 2 * retryPeriodMs ? leftMs : leftMs - retryPeriodMs;
}

/**
 * For a candidate that observes `lease` after `previous`.
 * @param ownClaims - `renewTime` of its writes since another process held the Lease
 */
export function waitBeforeAcquireMs(
  lease: Lease | undefined,
  previous: Lease | undefined,
  { identity, leaseDurationMs }: Candidate,
  ownClaims: readonly string[] = [],
): number {
  const latest = lease ?? previous;
  if (latest === undefined || isReleased(latest)) return 0;
  const mayBeOwn = previous === undefined || isOneOf(ownClaims, lease);
  if (mayBeOwn && holderOf(lease) === identity) return 0;
  return Math.min(Math.max(recordedMs(lease), leaseDurationMs), MAX_WAIT_FACTOR * leaseDurationMs);
}

/** The record by which a candidate acquires or renews `lease`. `now` is RFC 3339. */
export function claimed(lease: Lease | undefined, { identity, leaseDurationMs }: Candidate, now: string): LeaseSpec {
  const { acquireTime = now, leaseTransitions = 0 } = lease?.spec ?? {};
  const isHolder = holderOf(lease) === identity;
  return {
    holderIdentity: identity,
    leaseDurationSeconds: Math.max(1, Math.round(leaseDurationMs / 1_000)),
    acquireTime: isHolder ? acquireTime : now,
    renewTime: now,
    leaseTransitions: Math.min(leaseTransitions + (isHolder || lease === undefined ? 0 : 1), INT32_MAX),
  };
}

export function released(lease: Lease | undefined): LeaseSpec {
  return { ...lease?.spec, holderIdentity: '', leaseDurationSeconds: RELEASED_SECONDS };
}

/** True for a Lease that its holder released, not for one whose holder a user has removed. */
export function isReleased(lease: Lease | undefined): boolean {
  return lease?.spec?.leaseDurationSeconds === RELEASED_SECONDS && holderOf(lease) === '';
}

function recordedMs(lease: Lease | undefined): number {
  return (lease?.spec?.leaseDurationSeconds ?? 0) * 1_000;
}

function isOneOf(claims: readonly string[], lease: Lease | undefined): boolean {
  return claims.includes(lease?.spec?.renewTime ?? '');
}

/** Empty: nobody holds it. */
export function holderOf(lease: Lease | undefined): string {
  return lease?.spec?.holderIdentity ?? '';
}
