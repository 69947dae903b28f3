/**
 * Keeps the shadow up to date.
 *
 *     not created or must be read ─> read live ─> streaming ─> closed ─> pause ─> streaming
 *
 * The spec comes from the stream, and never goes back to an earlier generation of the same shadow.
 * The status does not: what was read live at the start, and what was acknowledged since, is newer
 * than any watch. Only another actor's write to the status makes the two differ for long, and only a
 * restore of etcd from a backup, or a watch that lags, shows an earlier generation for long; then the
 * shadow is read again. A deleted shadow is read until the controller has created another one.
 *
 * The agent's loop reads `view` for each observation, passes each acknowledged report, and calls
 * `reconnect` when the apiserver rejects a spec again and again.
 */
import type { AgentShadow, StreamMessage } from '@brupop/shared/api/agent-protocol';
import { messageOf } from '@brupop/shared/runtime/errors';
import type { AgentStatus, ShadowStatus } from '@brupop/shared/api/shadow';
import { type Backoff, backoff } from '@brupop/shared/runtime/backoff';
import type { Clock } from '@brupop/shared/runtime/clock';
import { type Logger, RetriedProblem } from '@brupop/shared/runtime/log';
import { PAUSES } from '../limits.ts';
import type { ApiserverClient } from './client.ts';
import { ApiError, sameStatus } from './messages.ts';

export interface ShadowView {
  readonly shadow: AgentShadow | undefined;
  /** Since the last message of the current stream or the last acknowledged report. */
  readonly specAgeMs: number;
  /** Since the last answer of the apiserver that was not a rejection of the agent's identity. */
  readonly apiUnreachableMs: number;
  /** Why the latest stream has failed. */
  readonly apiError?: string | undefined;
}

interface ShadowSourceOptions {
  readonly api: Pick<ApiserverClient, 'read' | 'stream' | 'unreachableMs'>;
  readonly clock: Clock;
  readonly log: Logger;
  /** Called when the shadow was received, changed or deleted. */
  readonly changed: () => void;
  readonly random: () => number;
}

/** Random delay before an idle node reopens a stream: the server ends many at once. */
const RECONNECT_SPREAD_MS = 2_000;
/** A stream that lasted this long resets the backoff. */
const GOOD_STREAM_MS = 5_000;
/** A watch that shows another status, or an earlier spec, for this time may be right. */
const DIFFERS_LIMIT_MS = 5_000;

/** A restart of the apiserver does not end these. */
const REJECTIONS: ReadonlySet<ApiError['code']> = new Set([
  'Unauthenticated',
  'Forbidden',
  'BadRequest',
  'Unintelligible',
]);

export class ShadowSource {
  readonly #options: ShadowSourceOptions;
  readonly #backoff: Backoff;
  #shadow: AgentShadow | undefined;
  #reportedAt = -Infinity;
  /** When the connected stream last sent a message; undefined while none is connected. */
  #receivedAt: number | undefined;
  #connection = new AbortController();
  #streamed: { readonly shadow: AgentShadow; readonly atMs: number } | undefined;
  #mustReadLive = false;
  readonly #problem: RetriedProblem;
  #error: string | undefined;

  constructor(options: ShadowSourceOptions) {
    this.#options = options;
    this.#problem = new RetriedProblem(options.clock);
    this.#backoff = backoff({ ...PAUSES.stream, random: options.random });
  }

  view(): ShadowView {
    const { api, clock } = this.#options;
    const specAgeMs = clock.monotonic() - Math.max(this.#receivedAt ?? -Infinity, this.#reportedAt);
    return { shadow: this.#shadow, specAgeMs, apiUnreachableMs: api.unreachableMs(), apiError: this.#error };
  }

  /** Stores an acknowledged status. A newer spec, which the stream may have delivered meanwhile, stays. */
  acknowledged(shadow: AgentShadow, status: AgentStatus): void {
    const newest = this.#isOlder(shadow) ? this.#shadow : undefined;
    this.#shadow = { ...(newest ?? shadow), status };
    this.#reportedAt = this.#options.clock.monotonic();
  }

  reconnect(): void {
    this.#connection.abort(new Error('the stream lags behind'));
  }

  async run(signal: AbortSignal): Promise<void> {
    const { clock } = this.#options;
    while (!signal.aborted) {
      const endedByServer = await this.#connect(signal);
      await clock.sleep(this.#pause(endedByServer), signal).catch(() => undefined);
    }
  }

  #pause(endedByServer: boolean): number {
    const state = this.#shadow?.spec.state ?? 'Idle';
    const spread = endedByServer && state === 'Idle' ? this.#options.random() * RECONNECT_SPREAD_MS : 0;
    return this.#backoff.next() + spread;
  }

  async #connect(signal: AbortSignal): Promise<boolean> {
    const connection = new AbortController();
    this.#connection = connection;
    const stop = (): void => connection.abort(signal.reason);
    signal.addEventListener('abort', stop, { once: true });
    try {
      return await this.#follow(connection.signal);
    } catch (error) {
      if (!signal.aborted) this.#logError(error);
      return false;
    } finally {
      signal.removeEventListener('abort', stop);
      this.#receivedAt = undefined;
    }
  }

  async #follow(signal: AbortSignal): Promise<boolean> {
    const { api, clock } = this.#options;
    if (this.#shadow === undefined || this.#mustReadLive) await this.#readLive(signal);
    const openedAt = clock.monotonic();
    this.#streamed = undefined;
    for await (const message of api.stream(signal)) {
      this.#receivedAt = clock.monotonic();
      if (this.#receivedAt - openedAt >= GOOD_STREAM_MS) {
        this.#backoff.reset();
        if (this.#problem.ended()) this.#options.log.info('the watch of the shadow works again');
      }
      if (!this.#receive(message)) return message.type === 'end';
    }
    return false;
  }

  /**
   * Reads the shadow live, with its status unless a report was acknowledged meanwhile. An earlier spec counts then too: no
   * stream is open, so the whole cluster went back to a backup.
   */
  async #readLive(signal: AbortSignal): Promise<void> {
    const reportedAt = this.#reportedAt;
    const live = await this.#options.api.read(signal);
    this.#mustReadLive = false;
    if (this.#reportedAt === reportedAt) this.#shadow = undefined;
    this.#take(live);
  }

  #logError(error: unknown): void {
    this.#error = messageOf(error);
    const kind = error instanceof ApiError ? error.code : messageOf(error);
    const isLasting = error instanceof ApiError && REJECTIONS.has(error.code);
    const level = this.#problem.levelOf(kind, { isLasting });
    this.#options.log[level]('watch of the shadow failed, reconnecting', { code: kind, error: this.#error });
  }

  /** Returns false when the stream is over. */
  #receive(message: StreamMessage): boolean {
    switch (message.type) {
      case 'shadow':
        this.#take(message.shadow);
        this.#streamed = { shadow: message.shadow, atMs: this.#options.clock.monotonic() };
        return true;
      case 'deleted':
        this.#shadow = undefined;
        this.#options.changed();
        return false;
      case 'end':
        this.#options.log.debug('the apiserver ended the stream', { reason: message.reason });
        return false;
      default:
        return !this.#differsForLong();
    }
  }

  /** True when the stream has shown another status, or an earlier spec, for too long to be only late. */
  #differsForLong(): boolean {
    const { clock, log } = this.#options;
    if (this.#streamed === undefined) return false;
    const { shadow, atMs } = this.#streamed;
    const isSame = !this.#isOlder(shadow) && hasStatus(shadow, this.#shadow?.status);
    if (isSame || clock.monotonic() - Math.max(atMs, this.#reportedAt) < DIFFERS_LIMIT_MS) return false;
    log.info('the stream shows another status or an earlier spec, reading the shadow live');
    this.#mustReadLive = true;
    return true;
  }

  #take(shadow: AgentShadow): void {
    if (this.#isOlder(shadow)) return;
    const { status } = this.#shadow ?? {};
    const known = this.#shadow?.uid === shadow.uid && status !== undefined;
    this.#shadow = known ? { ...shadow, status } : shadow;
    this.#options.changed();
  }

  /** True for an earlier spec: the watch of another replica may lag behind. */
  #isOlder({ uid, generation }: AgentShadow): boolean {
    return this.#shadow?.uid === uid && generation < this.#shadow.generation;
  }
}

function hasStatus({ status }: AgentShadow, known: ShadowStatus | undefined): boolean {
  return status === undefined || known === undefined ? status === known : sameStatus(status, known);
}
