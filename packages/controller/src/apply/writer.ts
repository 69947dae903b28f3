/**
 * The way of every write of the leader: fenced by the Lease, counted, and retried with a backoff per
 * object, so that an object that cannot be written does not block the others. A key names what is
 * written of which object:
 *
 *     ready -- the write failed -------------------> backing off, longer each time --> ready
 *           -- conflict, or settle ----------------> waiting for the watch ----------> ready
 *           -- twenty conflicts in a row ----------> backing off
 *           -- UselessWrite -----------------------> waiting for a user -------------> ready
 */
import type { KubeClient } from '@brupop/shared/kube/client';
import { hasStatus, isConflict, isDenial, isOfRBAC, isTransient, KubeError, kindOf } from '@brupop/shared/kube/error';
import type { Events } from '@brupop/shared/kube/events';
import { type Backoff, backoff } from '@brupop/shared/runtime/backoff';
import type { Clock } from '@brupop/shared/runtime/clock';
import { messageOf } from '@brupop/shared/runtime/errors';
import { type Logger, type NodeLog, RetriedProblem } from '@brupop/shared/runtime/log';
import type { AssumeCache } from '../cluster/assume-cache.ts';
import type { Metrics } from '../metrics.ts';
import type { BesideReports } from '../report/config-status.ts';

interface WriterOptions {
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics: Metrics;
  /** Asked right before each write. */
  readonly isLeading: () => boolean;
  /** Aborts when this process loses leadership or shuts down. */
  readonly signal: AbortSignal;
}

/** What the functions of this folder share, from becoming the leader until leadership is lost. */
export interface ApplyContext extends WriterOptions {
  readonly client: KubeClient;
  readonly namespace: string;
  readonly agentNamespace: string;
  readonly writer: Writer;
  readonly events: Events;
  readonly assumeCache: AssumeCache;
  readonly logOf: NodeLog;
  /** Absent if nothing works beside the plan. */
  readonly reports?: () => BesideReports;
}

type WriteKind =
  | 'spec'
  | 'condition'
  | 'config_create'
  | 'config_status'
  | 'group_status'
  | 'node_restore'
  | 'node_taint'
  | 'node_out_of_service'
  | 'node_metadata'
  | 'group_finalizer'
  | 'record'
  | 'job_record'
  | 'job_create'
  | 'job_delete'
  | 'shadow_create'
  | 'shadow_delete';

interface Retry {
  /** Of the write that failed; absent while the key waits for something else, such as the watch. */
  readonly kind?: WriteKind | undefined;
  readonly delays: Backoff;
  /** On the monotonic clock, milliseconds. */
  readonly at: number;
  readonly writeRejection?: string | undefined;
  /** Since when writes have failed in a row, monotonic milliseconds, and the error of the latest one. */
  readonly failing?: { readonly since: number; readonly error: string };
  /** Consecutive. */
  readonly conflicts?: number;
}
type Failure = Pick<Retry, 'kind' | 'writeRejection' | 'failing'>;

const RETRY = { baseMs: 1_000, capMs: 60_000 };
/** The watch shows a change, usually sooner. */
const WATCH_DELAY_MS = 250;
/** Retries are forgotten when the plan has not asked for the write for this long. */
const FORGET_MS = 600_000;
/** For a user to install another CRD, for example. */
const USELESS_RETRY_MS = 600_000;
/** Consecutive conflicts after which the writes of an object back off. */
const MAX_CONFLICTS = 20;
/** Writes that have failed for this long are shown to users. */
const LASTING_MS = 60_000;
/** Interval of warnings with the same cause, since one cause may fail the writes of many objects. */
const WARN_AGAIN_MS = 60_000;

/** Repeating the write soon is useless: a user must change something else first. */
export class UselessWrite extends Error {
  override readonly name = 'UselessWrite';
}

export class NotLeading extends Error {
  override readonly name = 'NotLeading';
}

export class Writer {
  readonly #options: WriterOptions;
  readonly #retries = new Map<string, Retry>();
  /** The keys that {@link canWrite} kept back since the latest {@link nextTryMs}. */
  readonly #delayed = new Set<string>();
  /** By cause: when it was last logged, monotonic milliseconds. */
  readonly #warnedAt = new Map<string, number>();
  /** Of the lists that fail, by what they list. */
  readonly #lists = new Map<string, RetriedProblem>();
  #endedAt = -Infinity;

  constructor(options: WriterOptions) {
    this.#options = options;
  }

  /** False while `key` backs off or waits for the watch. */
  canWrite(key: string): boolean {
    const canWrite = (this.#retries.get(key)?.at ?? -Infinity) <= this.#options.clock.monotonic();
    if (!canWrite) this.#delayed.add(key);
    return canWrite;
  }

  /** Why the API server rejected the latest write of `key`, while that backs off. */
  writeRejection(key: string): string | undefined {
    return this.canWrite(key) ? undefined : this.#retries.get(key)?.writeRejection;
  }

  /** False: {@link latestRejection}, {@link writeRejection} and {@link lastingFailure} are undefined for every key. */
  get hasFailures(): boolean {
    return [...this.#retries.values()].some((one) => one.writeRejection !== undefined || one.failing !== undefined);
  }

  /** Returns why the API server rejected the latest write of `key`, also after its backoff. */
  latestRejection(key: string): string | undefined {
    return this.#retries.get(key)?.writeRejection;
  }

  /** Returns why the writes of `key` have failed for a minute, other than by a rejection: the latest one may have arrived. */
  lastingFailure(key: string): string | undefined {
    const { writeRejection, failing } = this.#retries.get(key) ?? {};
    if (writeRejection !== undefined || failing === undefined) return undefined;
    return this.#options.clock.monotonic() - this.#failingSince(key) >= LASTING_MS ? failing.error : undefined;
  }

  backOff(key: string, failure?: Failure): void {
    const delays = this.#retries.get(key)?.delays ?? backoff(RETRY);
    this.#delay(key, delays, delays.next(), failure);
  }

  /** Delays `key` until the watch has shown what became of it. */
  settle(key: string): void {
    this.#delay(key, this.#retries.get(key)?.delays ?? backoff(RETRY), WATCH_DELAY_MS);
  }

  /** Settles `key` after `work`: the plan asks for the same until the watch shows the result. */
  async once(key: string, work: () => Promise<unknown>): Promise<void> {
    if (!this.canWrite(key)) return;
    await work();
    if (this.canWrite(key)) this.settle(key);
  }

  /** Attempts a creation. An object that exists but is not in the watch may be unreadable, or being deleted. */
  async create(kind: WriteKind, key: string, send: () => Promise<void>, log?: Logger): Promise<void> {
    await this.once(key, async () => {
      const created = await this.attempt(kind, key, send, log);
      const { writeRejection, failing } = this.#retries.get(key) ?? {};
      if (!created && writeRejection === undefined && failing === undefined) this.backOff(key, { kind });
    });
  }

  /**
   * After how many milliseconds the next delay ends; 0 for one that kept a write back since the latest call, and has
   * ended meanwhile.
   */
  nextTryMs(): number | undefined {
    const now = this.#options.clock.monotonic();
    let next: number | undefined;
    for (const [key, { at }] of this.#retries) {
      if (at > now || this.#delayed.has(key)) next = Math.min(next ?? Infinity, Math.max(0, at - now));
      else if (at + FORGET_MS < now) this.#retries.delete(key);
    }
    this.#delayed.clear();
    return next;
  }

  /** How many writes that failed wait for their next attempt. */
  pending(): ReadonlyMap<WriteKind, number> {
    const now = this.#options.clock.monotonic();
    const counts = new Map<WriteKind, number>();
    for (const { kind, at } of this.#retries.values())
      if (kind !== undefined && at > now) counts.set(kind, (counts.get(kind) ?? 0) + 1);
    return counts;
  }

  /** Milliseconds since a write last ended, successful or not. Each write has a time limit. */
  sinceWriteMs(): number {
    return this.#options.clock.monotonic() - this.#endedAt;
  }

  /**
   * Sends one write and returns whether it succeeded. After a conflict the watch brings the change
   * and a new plan follows; after another failure `key` backs off. Throws NotLeading, or what `send`
   * throws once the signal has aborted.
   * @param log - of the node that the write concerns
   */
  async attempt(
    kind: WriteKind,
    key: string,
    send: () => Promise<void>,
    log: Logger = this.#options.log,
  ): Promise<boolean> {
    const { clock, metrics, isLeading, signal } = this.#options;
    if (!isLeading()) throw new NotLeading('lost leadership: nothing is written');
    try {
      await send();
    } catch (error) {
      if (signal.aborted) throw error;
      this.#failed(kind, key, error, log);
      return false;
    } finally {
      // Conditions are written beside the reconcile, for long in a large fleet, and say nothing of its progress.
      if (kind !== 'condition') this.#endedAt = clock.monotonic();
    }
    metrics.writes.inc({ kind, result: 'ok' });
    this.#retries.delete(key);
    return true;
  }

  /**
   * Runs a list on which a write depends. When it fails, `key` backs off, and the answer is undefined. Throws what `list` throws once
   * the signal has aborted.
   * @param what - for the log, such as `the Jobs of checks`
   */
  async listed<T>(
    what: string,
    key: string,
    list: () => Promise<T>,
    log: Logger = this.#options.log,
  ): Promise<T | undefined> {
    const { clock, signal } = this.#options;
    const problem = this.#lists.get(what) ?? new RetriedProblem(clock);
    this.#lists.set(what, problem);
    try {
      const found = await list();
      problem.ended();
      return found;
    } catch (error) {
      if (signal.aborted) throw error;
      const level = problem.levelOf(kindOf(error), { isLasting: !isTransient(error) });
      log[level](`cannot list ${what}, retrying`, { error: messageOf(error) });
      this.backOff(key);
      return undefined;
    }
  }

  #failed(kind: WriteKind, key: string, error: unknown, log: Logger): void {
    const { metrics } = this.#options;
    const hasChanged = isConflict(error);
    metrics.writes.inc({ kind, result: hasChanged ? 'conflict' : 'error' });
    if (hasChanged) {
      log.debug('object changed since it was read', { kind, key });
      this.#conflicted(kind, key, log);
    } else if (error instanceof UselessWrite) {
      const level = this.#isNew(kind, error) ? 'error' : 'debug';
      log[level]('write failed, waiting for a user', { kind, key, error: messageOf(error) });
      this.#delay(key, backoff(RETRY), USELESS_RETRY_MS, { kind, writeRejection: messageOf(error) });
    } else {
      this.#logFailure(kind, key, error, log);
      const failing = { since: this.#failingSince(key), error: messageOf(error) };
      this.backOff(key, { kind, writeRejection: describeRejection(error), failing });
    }
  }

  /** A plan that has not asked for the write for a while asks for another one. */
  #failingSince(key: string): number {
    const now = this.#options.clock.monotonic();
    const { failing, at = -Infinity } = this.#retries.get(key) ?? {};
    return failing === undefined || now - at > LASTING_MS ? now : failing.since;
  }

  #logFailure(kind: WriteKind, key: string, thrown: unknown, log: Logger): void {
    const isLasting = isRejection(thrown) || this.#retries.get(key)?.kind !== undefined;
    const level = isLasting ? 'warn' : 'info';
    const fields = { kind, key, error: messageOf(thrown) };
    log[this.#isNew(kind, thrown) ? level : 'debug']('write failed, retrying', fields);
  }

  /** True once a minute for each cause. The path of the request and quoted names in the error differ between objects. */
  #isNew(kind: WriteKind, error: unknown): boolean {
    const cause = `${kind} ${messageOf(error).replaceAll(/^[A-Z]+ \S+|"[^"]*"/gu, '')}`;
    const now = this.#options.clock.monotonic();
    for (const [one, at] of this.#warnedAt) if (now - at >= WARN_AGAIN_MS) this.#warnedAt.delete(one);
    if (this.#warnedAt.has(cause)) return false;
    this.#warnedAt.set(cause, now);
    return true;
  }

  /** An agent that reports continuously must not keep a slot while its spec cannot be written. */
  #conflicted(kind: WriteKind, key: string, log: Logger): void {
    const conflicts = (this.#retries.get(key)?.conflicts ?? 0) + 1;
    if (conflicts < MAX_CONFLICTS) this.settle(key);
    else {
      log.warn('object changes before each write, backing off', { kind, key, conflicts });
      const writeRejection = `the object changed before each of ${MAX_CONFLICTS} attempts`;
      this.backOff(key, { kind, writeRejection });
    }
    const retry = this.#retries.get(key);
    if (retry !== undefined) this.#retries.set(key, { ...retry, conflicts });
  }

  #delay(key: string, delays: Backoff, ms: number, failure?: Failure): void {
    this.#retries.set(key, { ...failure, delays, at: this.#options.clock.monotonic() + ms });
  }
}

const CONTENT_STATUSES: ReadonlySet<number> = new Set([400, 403, 413, 422]);

/** True when the schema, admission or RBAC rejected this write; not when the token or the path is wrong, or for now. */
function isRejection(error: unknown): boolean {
  return isDenial(error) || (error instanceof KubeError && CONTENT_STATUSES.has(error.status));
}

function describeRejection(error: unknown): string | undefined {
  if (!isRejection(error)) return undefined;
  const message = messageOf(error);
  const lacksRight = hasStatus(error, 403) && isOfRBAC(message);
  return lacksRight
    ? `the controller lacks a permission, so compare its RBAC with that of this release: ${message}`
    : message;
}
