import { messageOf } from '../runtime/errors.ts';
import type { Clock } from '../runtime/clock.ts';
import type { Logger } from '../runtime/log.ts';
import type { KubeClient } from './client.ts';
import { hasStatus } from './error.ts';
import { claim, waitBeforeAcquireMs, type Lease, type LeaseSpec, readLease, release, released } from './lease.ts';
import { groupPath } from './paths.ts';
import { Reflector } from './reflector.ts';

export interface LeaderElectionOptions {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly log: Logger;
  readonly namespace: string;
  readonly name: string;
  /** Unique to this process, for example pod name and UID. */
  readonly identity: string;
  /** How long others wait after the latest renewal. Default 15 s, as client-go recommends; so are the next two. */
  readonly leaseDurationMs?: number;
  /** How long without a renewal until the leader stops leading. Default 10 s. */
  readonly renewDeadlineMs?: number;
  /** Pause between renewals. Default 2 s. */
  readonly retryPeriodMs?: number;
}

/** Why a leader stops leading. */
export class LeadershipLost extends Error {
  override readonly name = 'LeadershipLost';
}

/** At most so long a release may hold up the end of the process. */
const RELEASE_LIMIT_MS = 2_000;

/**
 * Leader election on a Lease with the semantics of client-go's `leaderelection`: a candidate takes a Lease that is free or has not
 * changed for its duration by the candidate's own clock, the holder renews it, stops leading when it cannot for the renew deadline, and
 * releases it at a clean stop. Unlike client-go, candidates watch the Lease instead of polling it, so a release is noticed at once.
 */
export class LeaderElection {
  readonly #options: Required<LeaderElectionOptions>;
  readonly #leases: Reflector<Lease>;
  /** As last seen; when it was first seen so; and until when, from then on, it is left alone. */
  #lease: Lease | undefined;
  #seenAt = 0;
  #waitBeforeAcquireMs = 0;
  /** The acquireTime of the latest claim, by which a Lease that we hold without knowing is told from one that only names us. */
  #claimedAt: string | undefined;
  /** As this leader last wrote or read it. */
  #held: Lease | undefined;
  /** Begin of the latest renewal that was answered. */
  #renewedAt = -Infinity;
  #change: (() => void) | undefined;

  constructor(options: LeaderElectionOptions) {
    this.#options = { leaseDurationMs: 15_000, renewDeadlineMs: 10_000, retryPeriodMs: 2_000, ...options };
    const { client, clock, log, namespace, name } = options;
    const path = groupPath('coordination.k8s.io/v1', 'leases', { namespace });
    const query = { fieldSelector: `metadata.name=${name}` };
    this.#leases = new Reflector({ client, clock, log, path, query, name: 'leases', slim: readLease });
    this.#leases.subscribe(({ type, object }) => this.#observe(type === 'Deleted' ? undefined : object));
  }

  /** Who holds the Lease, as last seen. */
  get holder(): string | undefined {
    const holder = this.#lease?.spec.holderIdentity;
    return holder === '' ? undefined : holder;
  }

  /**
   * True while this process may write as the leader. Asked right before each write: unlike a timer it is right also in the first instant
   * after the process was frozen.
   */
  isLeading(): boolean {
    return this.#options.clock.monotonic() - this.#renewedAt < this.#options.renewDeadlineMs;
  }

  /**
   * Stands for election until `signal` aborts. Each time it wins it calls `lead`, whose signal aborts when the lead is lost or the process
   * stops. The Lease is released when `lead` has returned.
   */
  async run(signal: AbortSignal, lead: (leading: AbortSignal) => Promise<void>): Promise<void> {
    const watching = this.#leases.run(signal);
    signal.addEventListener('abort', () => this.#change?.(), { once: true });
    while (!signal.aborted) {
      try {
        await this.#leases.waitSynced(signal);
        if (await this.#tryAcquire(signal)) await this.#leadUntilLost(signal, lead);
        else await this.#untilFree(signal);
      } catch (error) {
        if (signal.aborted) break;
        this.#options.log.warn('leader election failed and is tried again', { error: messageOf(error) });
        await this.#pause(this.#options.retryPeriodMs * (0.5 + Math.random()), signal);
      }
    }
    await watching;
  }

  #observe(lease: Lease | undefined): void {
    const was = this.#lease;
    if (lease?.metadata.resourceVersion === was?.metadata.resourceVersion) return;
    const { identity, leaseDurationMs } = this.#options;
    this.#waitBeforeAcquireMs = waitBeforeAcquireMs({
      lease,
      was,
      identity,
      leaseDurationMs,
      claimedAt: this.#claimedAt,
    });
    this.#lease = lease;
    if (this.holder !== undefined && this.holder !== identity) this.#claimedAt = undefined;
    this.#seenAt = this.#options.clock.monotonic();
    this.#change?.();
  }

  get #path(): string {
    const { namespace, name } = this.#options;
    return groupPath('coordination.k8s.io/v1', 'leases', { namespace, name });
  }

  /** Milliseconds until the Lease may be taken; 0 = now. */
  #takableInMs(): number {
    return Math.max(0, this.#seenAt + this.#waitBeforeAcquireMs - this.#options.clock.monotonic());
  }

  async #tryAcquire(signal: AbortSignal): Promise<boolean> {
    if (this.#takableInMs() > 0) return false;
    const startedAt = this.#options.clock.monotonic();
    try {
      this.#held = await this.#write(this.#lease, this.#claim(this.#lease), signal);
    } catch (error) {
      if (!hasStatus(error, 409)) throw error;
      // Another candidate was faster, or the watch is behind.
      this.#observe(await this.#read(signal));
      return false;
    }
    this.#renewedAt = startedAt;
    return true;
  }

  #claim(lease?: Lease): LeaseSpec {
    const { clock, identity, leaseDurationMs } = this.#options;
    const spec = claim({ lease, identity, leaseDurationMs, acquireTime: this.#claimedAt, now: clock.now() });
    this.#claimedAt = spec.acquireTime;
    return spec;
  }

  /** Creates the Lease, or updates the one that was read: only if it is still the same, and nothing but its spec. */
  async #write(
    lease: Lease | undefined,
    spec: LeaseSpec,
    signal: AbortSignal | undefined,
    timeoutMs = this.#options.retryPeriodMs * 2,
  ): Promise<Lease> {
    const { client, namespace, name } = this.#options;
    const metadata = lease?.metadata ?? { name, namespace };
    const body = { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', metadata, spec };
    const common = { body, timeoutMs, ...(signal && { signal }) };
    const leases = groupPath('coordination.k8s.io/v1', 'leases', { namespace });
    return readLease(
      lease === undefined
        ? await client.request({ method: 'POST', path: leases, ...common })
        : await client.request({ method: 'PUT', path: this.#path, ...common }),
    );
  }

  async #leadUntilLost(signal: AbortSignal, lead: (leading: AbortSignal) => Promise<void>): Promise<void> {
    const { log, identity } = this.#options;
    const leading = new AbortController();
    const stop = (): void => leading.abort(signal.reason);
    signal.addEventListener('abort', stop, { once: true });
    log.info('leads', { identity });
    const renewing = this.#renewUntilLost(leading);
    try {
      await lead(leading.signal);
    } finally {
      signal.removeEventListener('abort', stop);
      leading.abort(new LeadershipLost('the leader has stopped'));
      await renewing;
      await this.#release();
      log.info('leads no more', { identity });
    }
  }

  async #renewUntilLost(leading: AbortController): Promise<void> {
    const { log, retryPeriodMs, renewDeadlineMs } = this.#options;
    while (!leading.signal.aborted) {
      await this.#pause(retryPeriodMs, leading.signal);
      if (leading.signal.aborted) return;
      if (!this.isLeading()) {
        leading.abort(new LeadershipLost(`the Lease could not be renewed for ${renewDeadlineMs} ms`));
        return;
      }
      await this.#renew(leading).catch((error: unknown) => {
        if (!leading.signal.aborted) log.warn('the Lease was not renewed', { error: messageOf(error) });
      });
    }
  }

  async #renew(leading: AbortController): Promise<void> {
    try {
      await this.#renewOnce(leading.signal);
    } catch (error) {
      if (!hasStatus(error, 409) && !hasStatus(error, 404)) throw error;
      if (await this.#reread(leading)) await this.#renewOnce(leading.signal);
    }
  }

  async #renewOnce(signal: AbortSignal): Promise<void> {
    const { clock, renewDeadlineMs, retryPeriodMs } = this.#options;
    const startedAt = clock.monotonic();
    const left = this.#renewedAt + renewDeadlineMs - startedAt;
    const limit = Math.max(1, Math.min(left, retryPeriodMs * 2));
    this.#held = await this.#write(this.#held, this.#claim(this.#held), signal, limit);
    this.#renewedAt = startedAt;
  }

  /**
   * The Lease is not as we wrote it. When somebody has taken it the lead is lost. When it was only touched, emptied or deleted, or an answer
   * was lost, it is still ours, because candidates leave such a Lease alone for longer than our claim is good. Answers whether it is.
   */
  async #reread(leading: AbortController): Promise<boolean> {
    const lease = await this.#read(leading.signal);
    const holder = lease?.spec.holderIdentity ?? '';
    this.#held = lease;
    if (holder === this.#options.identity || (holder === '' && !released(lease))) return true;
    this.#renewedAt = -Infinity;
    leading.abort(new LeadershipLost(`the Lease is held by ${holder === '' ? 'nobody' : holder}`));
    return false;
  }

  async #read(signal: AbortSignal): Promise<Lease | undefined> {
    const request = { method: 'GET', path: this.#path, timeoutMs: this.#options.retryPeriodMs * 2, signal } as const;
    try {
      return readLease(await this.#options.client.request(request));
    } catch (error) {
      if (hasStatus(error, 404)) return undefined;
      throw error;
    }
  }

  async #release(): Promise<void> {
    const { clock, log } = this.#options;
    const mayRelease = this.isLeading();
    this.#renewedAt = -Infinity;
    if (!mayRelease || this.#held === undefined) return;
    const limit = new AbortController();
    const cancel = clock.after(RELEASE_LIMIT_MS, () =>
      limit.abort(new Error(`no answer within ${RELEASE_LIMIT_MS} ms`)),
    );
    await this.#giveBack(this.#held, limit.signal).catch((error: unknown) => {
      log.warn('the Lease was not released', { error: messageOf(error) });
    });
    cancel();
  }

  async #giveBack(held: Lease, signal: AbortSignal): Promise<void> {
    try {
      await this.#write(held, release(this.#claim(held)), signal);
    } catch (error) {
      if (!hasStatus(error, 409)) throw error;
      // A renewal that was cut off by the stop has been done after all.
      const lease = await this.#read(signal);
      if (lease?.spec.holderIdentity !== this.#options.identity) return;
      await this.#write(lease, release(this.#claim(lease)), signal);
    } finally {
      this.#claimedAt = undefined;
    }
  }

  /** Until the Lease changes or, by the time of its latest change, has run out. */
  async #untilFree(signal: AbortSignal): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#change = resolve;
    const wait = this.#takableInMs();
    const cancel = this.#options.clock.after(wait + 200 * Math.random(), resolve);
    if (signal.aborted) resolve();
    await promise;
    this.#change = undefined;
    cancel();
  }

  async #pause(ms: number, signal: AbortSignal): Promise<void> {
    await this.#options.clock.sleep(ms, signal).catch(() => undefined);
  }
}
