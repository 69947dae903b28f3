import type { DrainBlock } from '@brupop/shared/api/shadow';
import { type DrainPod, hasVolumes } from '@brupop/shared/drain/pods';
import { backoff, type Backoff } from '@brupop/shared/runtime/backoff';
import type { Clock } from '@brupop/shared/runtime/clock';
import { Semaphore } from '../http/semaphore.ts';
import { type Attempt, blocks, due, goesBefore, isLeaving, isStuck, turn } from './eviction-order.ts';
import type { EvictionOutcome } from './eviction.ts';

/** Lets pods with volumes go one at a time. */
export interface HandoverKeeper {
  /** Goes as far as it can. Undefined: nothing is waited for; else the pod that is, while it is still there. */
  pending(
    pods: readonly DrainPod[],
    isLeaving: (pod: DrainPod) => boolean,
  ): Promise<{ readonly pod: DrainPod | undefined } | undefined>;
  /** Writes down that this pod goes next; false: another one may be on its way. */
  begin(pod: DrainPod): Promise<boolean>;
  /** What is waited for beyond the pods that are still there. */
  blocks(): readonly DrainBlock[];
}

export interface DrainPassOptions {
  /** What is to go, as the watch knows it now. */
  readonly pods: () => readonly DrainPod[];
  readonly evict: (pod: DrainPod) => Promise<EvictionOutcome>;
  readonly handovers: HandoverKeeper;
  /** False: the pass ends, since somebody has made the node schedulable, or does not want the drain any more. */
  readonly mayGoOn: () => boolean;
  readonly clock: Clock;
  /** Monotonic milliseconds. */
  readonly deadline: number;
}

/** What a pass has found and done. */
export interface PassResult {
  readonly evicted: number;
  readonly remaining: number;
  readonly blockedBy: readonly DrainBlock[];
}

const PARALLEL = 10;
const RETRY = { baseMs: 500, capMs: 4_000 };
/** The watch wakes the pass; this is for when it stays silent. */
const LOOK_AGAIN_MS = 1_000;

/** Evicts pods turn by turn until all are gone, nothing moves any more, or time is up. */
export class DrainPass {
  readonly #options: DrainPassOptions;
  readonly #attempts = new Map<string, Attempt>();
  readonly #retries = new Map<string, Backoff>();
  readonly #semaphore = new Semaphore(PARALLEL);
  #evicted = 0;
  #woken = false;
  #interrupt: (() => void) | undefined;

  constructor(options: DrainPassOptions) {
    this.#options = options;
  }

  /** Something has changed. */
  wake(): void {
    this.#woken = true;
    this.#interrupt?.();
  }

  /** Throws the reason of `signal`, and what the handovers throw. */
  async run(signal: AbortSignal): Promise<PassResult> {
    const { pods, clock, handovers } = this.#options;
    while (this.#mayGoOn()) {
      this.#woken = false;
      const pending = await handovers.pending(pods(), (pod) => isLeaving(pod, this.#attempts));
      if (pending === undefined && (pods().length === 0 || isStuck(pods(), this.#attempts))) break;
      const inTurn = turn(pods(), this.#attempts).filter(
        (pod) => pending === undefined || goesBefore(pod, pending.pod),
      );
      const now = due(inTurn, this.#attempts, clock.monotonic());
      await Promise.all(now.map((pod) => this.#semaphore.run(() => this.#try(pod))));
      if (now.length === 0) await this.#pause(this.#nextDue(inTurn), signal);
      signal.throwIfAborted();
    }
    const left = pods();
    const blockedBy = [...handovers.blocks(), ...blocks(left, this.#attempts, clock.now())];
    return { evicted: this.#evicted, remaining: left.length, blockedBy };
  }

  async #try(pod: DrainPod): Promise<void> {
    const { clock, evict } = this.#options;
    if (!this.#mayGoOn()) return;
    const { uid } = pod.metadata;
    const outcome = (await this.#mayBegin(pod)) ? await evict(pod) : NOT_YET;
    const count = (this.#attempts.get(uid)?.count ?? 0) + 1;
    if (outcome.kind !== 'blocked') {
      this.#evicted += outcome.kind === 'accepted' ? 1 : 0;
      this.#attempts.set(uid, { count, notBefore: clock.monotonic() });
      return;
    }
    const wait = Math.max(this.#retryOf(uid).next(), outcome.retryAfterMs);
    this.#attempts.set(uid, { count, block: outcome.block, notBefore: clock.monotonic() + wait });
  }

  #mayGoOn(): boolean {
    const { clock, deadline, mayGoOn } = this.#options;
    return clock.monotonic() < deadline && mayGoOn();
  }

  async #mayBegin(pod: DrainPod): Promise<boolean> {
    return !hasVolumes(pod) || this.#options.handovers.begin(pod);
  }

  #retryOf(uid: string): Backoff {
    const retry = this.#retries.get(uid) ?? backoff(RETRY);
    this.#retries.set(uid, retry);
    return retry;
  }

  /** Until something changes, the next retry is due or time is up. */
  async #pause(dueAt: number, signal: AbortSignal): Promise<void> {
    if (this.#woken || signal.aborted) return;
    const { clock, deadline } = this.#options;
    const { promise, resolve } = Promise.withResolvers<void>();
    const now = clock.monotonic();
    const cancel = clock.after(Math.max(1, Math.min(dueAt, deadline, now + LOOK_AGAIN_MS) - now), resolve);
    this.#interrupt = resolve;
    signal.addEventListener('abort', () => resolve(), { once: true });
    await promise;
    cancel();
    this.#interrupt = undefined;
  }

  #nextDue(inTurn: readonly DrainPod[]): number {
    const now = this.#options.clock.monotonic();
    return Math.min(Infinity, ...inTurn.map((pod) => this.#attempts.get(pod.metadata.uid)?.notBefore ?? now));
  }
}

/** Another replica may have asked for another pod with volumes just now. */
const NOT_YET: EvictionOutcome = {
  kind: 'blocked',
  block: { reason: 'Throttled', message: 'another pod with volumes may be on its way' },
  retryAfterMs: 1_000,
};
