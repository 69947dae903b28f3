import type { Clock } from './clock.ts';
import { rfc3339Micro } from './clock.ts';
import { messageOf } from './errors.ts';
import type { KubeClient } from './kube.ts';
import { hasStatus } from './kube-error.ts';
import { groupPath } from './kube-paths.ts';
import type { KubernetesObject } from './kubernetes-types.ts';
import type { Logger } from './log.ts';
import { Reflector } from './reflector.ts';

interface LeaseSpec {
  readonly holderIdentity?: string;
  readonly leaseDurationSeconds?: number;
  readonly acquireTime?: string;
  readonly renewTime?: string;
  readonly leaseTransitions?: number;
}

interface Lease extends KubernetesObject {
  readonly spec: LeaseSpec;
}

export interface LeaseElectionOptions {
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
export class LeaseElection {
  readonly #options: Required<LeaseElectionOptions>;
  readonly #leases: Reflector<Lease>;
  /** As last seen, and when it was first seen so. */
  #lease: Lease | undefined;
  #seenAt = 0;
  #held: Lease | undefined;
  #renewedAt = 0;
  #change: (() => void) | undefined;

  constructor(options: LeaseElectionOptions) {
    this.#options = { leaseDurationMs: 15_000, renewDeadlineMs: 10_000, retryPeriodMs: 2_000, ...options };
    const { client, clock, log, namespace, name } = options;
    const path = groupPath('coordination.k8s.io/v1', 'leases', { namespace });
    const query = { fieldSelector: `metadata.name=${name}` };
    this.#leases = new Reflector({ client, clock, log, path, query, name: 'leases', slim: (raw) => raw as Lease });
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
    return (
      this.#held !== undefined && this.#options.clock.monotonic() - this.#renewedAt < this.#options.renewDeadlineMs
    );
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
    if (lease?.metadata.resourceVersion === this.#lease?.metadata.resourceVersion) return;
    this.#lease = lease;
    this.#seenAt = this.#options.clock.monotonic();
    this.#change?.();
  }

  get #path(): string {
    const { namespace, name } = this.#options;
    return groupPath('coordination.k8s.io/v1', 'leases', { namespace, name });
  }

  /** Milliseconds until the Lease may be taken; 0 = now. */
  #takableInMs(lease: Lease): number {
    const { holderIdentity = '', leaseDurationSeconds } = lease.spec;
    if (holderIdentity === '' || holderIdentity === this.#options.identity) return 0;
    const duration = (leaseDurationSeconds ?? this.#options.leaseDurationMs / 1000) * 1000;
    return Math.max(0, this.#seenAt + duration - this.#options.clock.monotonic());
  }

  async #tryAcquire(signal: AbortSignal): Promise<boolean> {
    const lease = this.#lease;
    if (lease !== undefined && this.#takableInMs(lease) > 0) return false;
    const startedAt = this.#options.clock.monotonic();
    try {
      this.#held =
        lease === undefined ? await this.#create(signal) : await this.#update(lease, this.#claim(lease), signal);
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
    const now = rfc3339Micro(this.#options.clock.now());
    const { identity, leaseDurationMs } = this.#options;
    const same = lease?.spec.holderIdentity === identity;
    return {
      holderIdentity: identity,
      leaseDurationSeconds: Math.round(leaseDurationMs / 1000),
      acquireTime: same ? (lease.spec.acquireTime ?? now) : now,
      renewTime: now,
      leaseTransitions: (lease?.spec.leaseTransitions ?? 0) + (same || lease === undefined ? 0 : 1),
    };
  }

  #create(signal: AbortSignal): Promise<Lease> {
    const { client, namespace, name } = this.#options;
    const path = groupPath('coordination.k8s.io/v1', 'leases', { namespace });
    const body = {
      apiVersion: 'coordination.k8s.io/v1',
      kind: 'Lease',
      metadata: { name, namespace },
      spec: this.#claim(),
    };
    return client.request({ method: 'POST', path, body, signal, timeoutMs: this.#options.retryPeriodMs * 2 });
  }

  #update(
    lease: Lease,
    spec: LeaseSpec,
    signal: AbortSignal | undefined,
    timeoutMs = this.#options.retryPeriodMs * 2,
  ): Promise<Lease> {
    const { namespace, name } = this.#options;
    const { resourceVersion, uid } = lease.metadata;
    const metadata = { name, namespace, resourceVersion, uid };
    const body = { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', metadata, spec };
    return this.#options.client.request({
      method: 'PUT',
      path: this.#path,
      body,
      timeoutMs,
      ...(signal && { signal }),
    });
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
    const { clock, log, retryPeriodMs, renewDeadlineMs } = this.#options;
    while (!leading.signal.aborted) {
      await this.#pause(retryPeriodMs, leading.signal);
      if (leading.signal.aborted) return;
      if (!this.isLeading()) {
        leading.abort(new LeadershipLost(`the Lease could not be renewed for ${renewDeadlineMs} ms`));
        return;
      }
      const left = this.#renewedAt + renewDeadlineMs - clock.monotonic();
      await this.#renew(leading, left).catch((error: unknown) => {
        if (!leading.signal.aborted) log.warn('the Lease was not renewed', { error: messageOf(error) });
      });
    }
  }

  async #renew(leading: AbortController, leftMs: number): Promise<void> {
    const held = this.#held;
    if (held === undefined) return;
    const startedAt = this.#options.clock.monotonic();
    const limit = Math.max(1, Math.min(leftMs, this.#options.retryPeriodMs * 2));
    try {
      this.#held = await this.#update(held, this.#claim(held), leading.signal, limit);
      this.#renewedAt = startedAt;
    } catch (error) {
      if (!hasStatus(error, 409) && !hasStatus(error, 404)) throw error;
      await this.#reread(leading);
    }
  }

  /** The Lease is not as we wrote it: somebody has taken it, or only touched it. */
  async #reread(leading: AbortController): Promise<void> {
    const lease = await this.#read(leading.signal);
    if (lease?.spec.holderIdentity === this.#options.identity) {
      this.#held = lease;
      return;
    }
    this.#held = undefined;
    leading.abort(new LeadershipLost(`the Lease is held by ${lease?.spec.holderIdentity ?? 'nobody'}`));
  }

  async #read(signal: AbortSignal): Promise<Lease | undefined> {
    const request = { method: 'GET', path: this.#path, timeoutMs: this.#options.retryPeriodMs * 2, signal } as const;
    return this.#options.client.request<Lease>(request).catch((error: unknown) => {
      if (hasStatus(error, 404)) return undefined;
      throw error;
    });
  }

  async #release(): Promise<void> {
    const held = this.#held;
    const mayRelease = this.isLeading();
    this.#held = undefined;
    if (held === undefined || !mayRelease) return;
    const spec = { ...this.#claim(held), holderIdentity: '', leaseDurationSeconds: 1 };
    await this.#update(held, spec, undefined, RELEASE_LIMIT_MS).catch((error: unknown) => {
      this.#options.log.warn('the Lease was not released', { error: messageOf(error) });
    });
  }

  /** Until the Lease changes or, by the time of its latest change, has run out. */
  async #untilFree(signal: AbortSignal): Promise<void> {
    const lease = this.#lease;
    if (lease === undefined) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#change = resolve;
    const wait = this.#takableInMs(lease);
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
