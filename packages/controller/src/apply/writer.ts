import { messageOf } from '@brupop/shared/runtime/errors';
import { hasStatus, KubeError } from '@brupop/shared/kube/error';
import { type Backoff, backoff } from '@brupop/shared/runtime/backoff';
import type { Clock } from '@brupop/shared/runtime/clock';
import type { Logger } from '@brupop/shared/runtime/log';
import type { Metrics } from '../metrics.ts';

export type WriteKind = 'spec' | 'condition' | 'config_status' | 'node_restore' | 'node_taint' | 'shadow_delete';

export interface WriterOptions {
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics: Metrics;
  /** Asked right before each write. */
  readonly isLeading: () => boolean;
}

interface Hold {
  readonly delays: Backoff;
  /** On the monotonic clock, milliseconds. */
  readonly until: number;
  /** What the API server said when it refused the write for what it is. */
  readonly writeRejection: string | undefined;
}

const RETRY = { baseMs: 1_000, capMs: 60_000 };
/** The watch brings what has changed, usually sooner. */
const WATCH_PAUSE_MS = 250;
/** Holds of objects that nobody writes any more are forgotten. */
const FORGET_MS = 600_000;
/** Somebody must see to it first, and each try changes the object. */
const NOT_KEPT_MS = 600_000;
const PARALLEL = 10;

/** The API server has taken a write, but not all of it: to repeat it is of no use. */
export class FieldPrunedError extends Error {
  override readonly name = 'FieldPrunedError';
}

/** Why nothing is written any more. */
export class NotLeading extends Error {
  override readonly name = 'NotLeading';
}

/**
 * The way of every write of the leader: fenced by the Lease, counted, and, when it fails, not repeated for a while for that object alone,
 * so that one object that cannot be written does not hold up the others.
 */
export class Writer {
  readonly #options: WriterOptions;
  readonly #holds = new Map<string, Hold>();
  #endedAt = -Infinity;

  constructor(options: WriterOptions) {
    this.#options = options;
  }

  /** True when no failure of `key` is so recent that it must wait. */
  canWrite(key: string): boolean {
    const blockedBy = this.#holds.get(key);
    return blockedBy === undefined || blockedBy.until <= this.#options.clock.monotonic();
  }

  /** Why the API server refuses to take `key` as it was written, while it waits for that. */
  writeRejection(key: string): string | undefined {
    return this.canWrite(key) ? undefined : this.#holds.get(key)?.writeRejection;
  }

  /** Makes `key` wait, longer each time until it succeeds. */
  backOff(key: string, writeRejection?: string): void {
    const { delays } = this.#holds.get(key) ?? { delays: backoff(RETRY) };
    this.#blockedBy(key, delays, delays.next(), writeRejection);
  }

  /** Leaves `key` alone for a moment, until the watch has shown what has become of it. */
  settle(key: string): void {
    const { delays } = this.#holds.get(key) ?? { delays: backoff(RETRY) };
    this.#blockedBy(key, delays, WATCH_PAUSE_MS);
  }

  /** Milliseconds until the next that waits may be tried, or undefined. */
  nextTryMs(): number | undefined {
    const now = this.#options.clock.monotonic();
    let next: number | undefined;
    for (const [key, { until }] of this.#holds) {
      if (until > now) next = Math.min(next ?? Infinity, until - now);
      else if (until + FORGET_MS < now) this.#holds.delete(key);
    }
    return next;
  }

  /** Milliseconds since a write last ended, well or not: each has a time limit, so a turn that writes lets one end now and then. */
  sinceWriteMs(): number {
    return this.#options.clock.monotonic() - this.#endedAt;
  }

  /** Forgets what others have failed at: called when the lead is taken. */
  clear(): void {
    this.#holds.clear();
  }

  /**
   * One write. True when it was done; false when it was not: the object is gone or has changed since it was read (the watch brings the
   * change, and a new plan), or the write failed and `key` is held back. Throws NotLeading, or the reason of `signal` when that aborts.
   */
  async attempt(kind: WriteKind, key: string, signal: AbortSignal, send: () => Promise<void>): Promise<boolean> {
    if (!this.#options.isLeading()) throw new NotLeading('the lead is lost: nothing is written');
    try {
      await send();
    } catch (error) {
      if (signal.aborted) throw error;
      this.#failed(kind, key, error);
      return false;
    } finally {
      this.#endedAt = this.#options.clock.monotonic();
    }
    this.#options.metrics.writes.inc({ kind, result: 'ok' });
    this.#holds.delete(key);
    return true;
  }

  #failed(kind: WriteKind, key: string, error: unknown): void {
    const { log, metrics } = this.#options;
    if (error instanceof FieldPrunedError) {
      metrics.writes.inc({ kind, result: 'error' });
      log.error('a write is not kept', { kind, key, error: messageOf(error) });
      this.#blockedBy(key, backoff(RETRY), NOT_KEPT_MS, messageOf(error));
      return;
    }
    if (hasStatus(error, 409) || hasStatus(error, 404)) {
      metrics.writes.inc({ kind, result: 'conflict' });
      log.debug('an object has changed since it was read', { kind, key });
      this.settle(key);
      return;
    }
    metrics.writes.inc({ kind, result: 'error' });
    log.warn('a write failed', { kind, key, error: messageOf(error) });
    this.backOff(key, isRefusal(error) ? messageOf(error) : undefined);
  }

  #blockedBy(key: string, delays: Backoff, ms: number, writeRejection?: string): void {
    this.#holds.set(key, { delays, until: this.#options.clock.monotonic() + ms, writeRejection });
  }
}

/** True for an answer that says no to this very object: invalid or forbidden, by the schema, RBAC or a webhook. */
function isRefusal(error: unknown): boolean {
  return error instanceof KubeError && error.status >= 400 && error.status < 500 && error.status !== 429;
}

/** Does `work` for each item, some at a time; rejects with the first error after those under way have ended. */
export async function forEachOf<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  const queue = items.values();
  const worker = async (): Promise<void> => {
    for (const item of queue) await work(item);
  };
  const results = await Promise.allSettled(Array.from({ length: PARALLEL }, worker));
  const failed = results.find((result) => result.status === 'rejected');
  if (failed !== undefined) throw failed.reason;
}

/** As `forEachOf`, for the first `most` of them. Answers whether there are more. */
export async function forFirstOf<T>(
  items: readonly T[],
  most: number,
  work: (item: T) => Promise<void>,
): Promise<boolean> {
  await forEachOf(items.slice(0, most), work);
  return items.length > most;
}
