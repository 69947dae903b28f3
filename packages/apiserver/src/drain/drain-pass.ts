import { backoff } from '@brupop/shared/backoff';
import type { Backoff } from '@brupop/shared/backoff';
import type { Clock } from '@brupop/shared/clock';
import type { DrainResult } from '@brupop/shared/operator-api';

import { blocks, due, isStuck, turn } from './drain-policy.ts';
import type { Attempt, DrainPod } from './drain-policy.ts';
import type { EvictionOutcome } from './eviction.ts';
import { Slots } from './slots.ts';

export interface DrainPassOptions {
  /** What is to go, as the watch knows it now. */
  readonly pods: () => readonly DrainPod[];
  readonly evict: (pod: DrainPod) => Promise<EvictionOutcome>;
  readonly clock: Clock;
  /** Monotonic milliseconds. */
  readonly deadline: number;
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
  readonly #slots = new Slots(PARALLEL);
  #evicted = 0;
  #woken = false;
  #interrupt: (() => void) | undefined;

  constructor(options: DrainPassOptions) {
    this.#options = options;
  }

  /** A pod has changed. */
  wake(): void {
    this.#woken = true;
    this.#interrupt?.();
  }

  /** `done` is left to whoever looks at the API server once more. Throws the reason of `signal`. */
  async run(signal: AbortSignal): Promise<DrainResult> {
    const { pods, clock, deadline } = this.#options;
    while (pods().length > 0 && !isStuck(pods(), this.#attempts) && clock.monotonic() < deadline) {
      this.#woken = false;
      const now = due(turn(pods(), this.#attempts), this.#attempts, clock.monotonic());
      await Promise.all(now.map((pod) => this.#slots.run(() => this.#try(pod))));
      if (now.length === 0) await this.#pause(signal);
      signal.throwIfAborted();
    }
    const left = pods();
    const blockedBy = blocks(left, this.#attempts);
    return { done: false, evicted: this.#evicted, remaining: left.length, blockedBy };
  }

  async #try(pod: DrainPod): Promise<void> {
    const { clock, deadline, evict } = this.#options;
    if (clock.monotonic() >= deadline) return;
    const { uid } = pod.metadata;
    const outcome = await evict(pod);
    const count = (this.#attempts.get(uid)?.count ?? 0) + 1;
    if (outcome.kind !== 'blocked') {
      this.#evicted += outcome.kind === 'accepted' ? 1 : 0;
      this.#attempts.set(uid, { count, notBefore: clock.monotonic() });
      return;
    }
    const wait = Math.max(this.#retryOf(uid).next(), outcome.retryAfterMs);
    this.#attempts.set(uid, { count, block: outcome.block, notBefore: clock.monotonic() + wait });
  }

  #retryOf(uid: string): Backoff {
    const retry = this.#retries.get(uid) ?? backoff(RETRY);
    this.#retries.set(uid, retry);
    return retry;
  }

  /** Until a pod changes, the next retry is due or time is up. */
  async #pause(signal: AbortSignal): Promise<void> {
    if (this.#woken || signal.aborted) return;
    const { clock, deadline } = this.#options;
    const { promise, resolve } = Promise.withResolvers<void>();
    const cancel = clock.after(Math.max(1, Math.min(this.#nextDue(), deadline) - clock.monotonic()), resolve);
    this.#interrupt = resolve;
    signal.addEventListener('abort', () => resolve(), { once: true });
    await promise;
    cancel();
    this.#interrupt = undefined;
  }

  #nextDue(): number {
    const now = this.#options.clock.monotonic();
    const waiting = turn(this.#options.pods(), this.#attempts).map(
      (pod) => this.#attempts.get(pod.metadata.uid)?.notBefore ?? now,
    );
    return Math.min(now + LOOK_AGAIN_MS, ...waiting);
  }
}
