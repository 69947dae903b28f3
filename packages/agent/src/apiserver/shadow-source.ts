import type { AgentShadow, StreamMessage } from '@brupop/shared/api/agent-protocol';
import { messageOf } from '@brupop/shared/runtime/errors';
import type { AgentStatus, ShadowStatus } from '@brupop/shared/api/shadow';
import { type Backoff, backoff } from '@brupop/shared/runtime/backoff';
import type { Clock } from '@brupop/shared/runtime/clock';
import type { Logger } from '@brupop/shared/runtime/log';
import { sameStatus } from '../decide/status.ts';
import { PAUSES } from '../limits.ts';
import type { ShadowView } from '../state/observe.ts';
import type { ApiserverClient } from './client.ts';
import { ApiError } from './error.ts';

export interface ShadowSourceOptions {
  readonly api: Pick<ApiserverClient, 'ensure' | 'stream' | 'silentMs'>;
  readonly clock: Clock;
  readonly log: Logger;
  /** Called when the shadow has come, changed or gone. */
  readonly changed: () => void;
  readonly random?: () => number;
}

/**
 * A stream that the server ends is opened again within so long, spread over it: the server ends many at a time. The few nodes that are being
 * updated do not wait.
 */
const AFTER_END_MS = 2_000;
/** A stream that lived so long was a good one. One that is cut as soon as it has told the shadow is not opened again at once for ever. */
const GOOD_STREAM_MS = 5_000;
/** A watch that shows another status for so long is either far behind or shows what somebody else has written. */
const FOREIGN_MS = 5_000;

/**
 * Keeps the shadow up to date: makes sure that there is one, follows its stream and opens it again. The stream tells of specs only: what was read
 * live at the start and what was acknowledged since is newer than any watch, unless a person has written the status. So a status in the
 * stream that stays another one is a reason to read live again.
 */
export class ShadowSource {
  readonly #options: ShadowSourceOptions;
  readonly #backoff: Backoff;
  readonly #random: () => number;
  #shadow: AgentShadow | undefined;
  #reportedAt = -Infinity;
  /** When the connected stream last said something; undefined while none is connected. */
  #heardAt: number | undefined;
  #connection = new AbortController();
  /** The status that the stream showed last, and when it came. */
  #streamed: { readonly status: ShadowStatus | undefined; readonly atMs: number } | undefined;
  /** The stream has shown another status than the known one for too long. */
  #doubted = false;
  /** The latest trouble that was said. */
  #said = '';

  constructor(options: ShadowSourceOptions) {
    this.#options = options;
    this.#random = options.random ?? Math.random;
    this.#backoff = backoff({ ...PAUSES.stream, random: this.#random });
  }

  view(): ShadowView {
    const { api, clock } = this.#options;
    const specAgeMs = clock.monotonic() - Math.max(this.#heardAt ?? -Infinity, this.#reportedAt);
    return { shadow: this.#shadow, specAgeMs, apiSilentMs: api.silentMs() };
  }

  /**
   * Takes the shadow that the apiserver answered when it acknowledged `status`. The stream may have told of a newer spec meanwhile, with the
   * controller's answer to this very report: then that spec stays, and the status counts all the same.
   */
  acknowledged(shadow: AgentShadow, status: AgentStatus): void {
    const newest = this.#isOlder(shadow) ? this.#shadow : undefined;
    this.#shadow = { ...(newest ?? shadow), status };
    this.#reportedAt = this.#options.clock.monotonic();
  }

  /** Opens another stream, since what this one says is not what the apiserver goes by. */
  reconnect(): void {
    this.#connection.abort(new Error('the stream is behind'));
  }

  /** Follows until `signal` aborts. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock } = this.#options;
    while (!signal.aborted) {
      const endedByServer = await this.#connect(signal);
      await clock.sleep(this.#pause(endedByServer), signal).catch(() => undefined);
    }
  }

  #pause(endedByServer: boolean): number {
    const state = this.#shadow?.spec.state ?? 'Idle';
    const spread = endedByServer && state === 'Idle' ? this.#random() * AFTER_END_MS : 0;
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
      if (!signal.aborted) this.#say(error);
      return false;
    } finally {
      signal.removeEventListener('abort', stop);
      this.#heardAt = undefined;
    }
  }

  async #follow(signal: AbortSignal): Promise<boolean> {
    const { api, clock } = this.#options;
    if (this.#shadow === undefined || this.#doubted) await this.#readLive(signal);
    const openedAt = clock.monotonic();
    this.#streamed = undefined;
    for await (const message of api.stream(signal)) {
      this.#heardAt = clock.monotonic();
      if (this.#heardAt - openedAt >= GOOD_STREAM_MS) this.#wentWell();
      if (!this.#hear(message)) return message.type === 'end';
    }
    return false;
  }

  /** Takes the shadow as it is, also its status unless a report was acknowledged meanwhile. */
  async #readLive(signal: AbortSignal): Promise<void> {
    const reportedAt = this.#reportedAt;
    const live = await this.#options.api.ensure(signal);
    this.#doubted = false;
    if (this.#reportedAt === reportedAt && !this.#isOlder(live)) this.#shadow = undefined;
    this.#take(live);
  }

  #wentWell(): void {
    this.#backoff.reset();
    this.#said = '';
  }

  /** Trouble of one kind is said once, however often it is met. */
  #say(error: unknown): void {
    const kind = error instanceof ApiError ? error.code : messageOf(error);
    const level = kind === this.#said ? 'debug' : 'warn';
    this.#options.log[level]('the shadow cannot be followed', { error: messageOf(error) });
    this.#said = kind;
  }

  /** False when the stream has nothing more to say. */
  #hear(message: StreamMessage): boolean {
    switch (message.type) {
      case 'shadow':
        this.#take(message.shadow);
        this.#streamed = { status: message.shadow.status, atMs: this.#options.clock.monotonic() };
        return true;
      case 'deleted':
        this.#shadow = undefined;
        this.#options.changed();
        return false;
      case 'end':
        this.#options.log.info('the apiserver ended the stream', { reason: message.reason });
        return false;
      default:
        return !this.#doubt();
    }
  }

  /** True when the status in the stream has been another one for so long that it cannot be what we reported before. */
  #doubt(): boolean {
    const { clock, log } = this.#options;
    if (this.#streamed === undefined) return false;
    const { status, atMs } = this.#streamed;
    const known = this.#shadow?.status;
    const isSame = status === undefined || known === undefined ? status === known : sameStatus(status, known);
    if (isSame || clock.monotonic() - Math.max(atMs, this.#reportedAt) < FOREIGN_MS) return false;
    log.info('the status is another one than was reported: reading it live');
    this.#doubted = true;
    return true;
  }

  #take(shadow: AgentShadow): void {
    if (this.#isOlder(shadow)) return;
    const { status } = this.#shadow ?? {};
    const known = this.#shadow?.uid === shadow.uid && status !== undefined;
    this.#shadow = known ? { ...shadow, status } : shadow;
    this.#options.changed();
  }

  /** Another replica's watch may be behind. */
  #isOlder({ uid, generation }: AgentShadow): boolean {
    return this.#shadow?.uid === uid && generation < this.#shadow.generation;
  }
}
