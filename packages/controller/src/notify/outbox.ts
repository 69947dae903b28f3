/**
 * The queue of one receiver, and the attempts to empty it, one at a time. Nothing waits for them.
 *
 *     idle        nothing is queued, and the receiver was found as it should be: no request is sent
 *     checking    the receiver is new or has changed: its Secret is read, without sending anything
 *     sending     the first of the queue is sent
 *     backing off after a failure, longer each time, or as long as the server asks for
 *
 * A notification leaves the queue when it was accepted, when the server refuses its content, or an hour after it was offered:
 * after an attempt of its own, if the server answers, since what it says of one says nothing of the others.
 * Of too many, the latest of the least severe ones leave it, never the one that is being sent.
 */
import type { Receiver } from '@brupop/shared/api/config-notifications';
import { backoff } from '@brupop/shared/runtime/backoff';
import type { Clock } from '@brupop/shared/runtime/clock';
import type { Logger } from '@brupop/shared/runtime/log';
import { type Notice, SEVERITIES } from './events.ts';
import { DeliveryError, type FailureReason } from './target.ts';

export interface Queued {
  readonly notice: Notice;
  /** When it was found, epoch milliseconds. */
  readonly at: number;
}

export type Result = 'Sent' | 'Refused' | 'GivenUp' | 'Dropped';

export interface OutboxOptions {
  readonly clock: Clock;
  readonly log: Logger;
  /** Reads the Secret only. Throws DeliveryError, or the reason of the signal. */
  readonly check: (receiver: Receiver, signal: AbortSignal) => Promise<void>;
  /** Throws DeliveryError, or the reason of the signal. */
  readonly send: (receiver: Receiver, queued: Queued, signal: AbortSignal) => Promise<void>;
  /** @param by - `check`: its Secret and address are valid, which says nothing of what it accepts */
  readonly onReady: (by: 'check' | 'send') => void;
  readonly onFailure: (reason: FailureReason, problem: string) => void;
  readonly onResult: (id: string, result: Result) => void;
  readonly random?: () => number;
}

export const MAX_QUEUE = 50;
export const GIVE_UP_MS = 3_600_000;
const RETRY = { baseMs: 5_000, capMs: 300_000 };
/** Between two notifications: Slack takes one a second. */
const GAP_MS = 1_000;

interface Entry extends Queued {
  /** Monotonic milliseconds. */
  readonly offeredAt: number;
}

export class Outbox {
  readonly #options: OutboxOptions;
  readonly #delays;
  #receiver: Receiver;
  #queue: Entry[] = [];
  #sending: Entry | undefined;
  #isChecked = false;
  #isClosed = false;
  #running: Promise<void> | undefined;
  /** Ends the current delay. */
  #interrupt = new AbortController();

  constructor(receiver: Receiver, options: OutboxOptions) {
    this.#receiver = receiver;
    this.#options = options;
    this.#delays = backoff({ ...RETRY, ...(options.random && { random: options.random }) });
  }

  has(id: string): boolean {
    return this.#queue.some(({ notice }) => notice.id === id);
  }

  /** The receiver as it is now. One that has changed is checked, and sent to, at once. */
  update(receiver: Receiver, signal: AbortSignal): void {
    this.#receiver = receiver;
    this.#isChecked = false;
    this.#delays.reset();
    this.#interrupt.abort();
    this.#start(signal);
  }

  offer(queued: Queued, signal: AbortSignal): void {
    const { clock, log } = this.#options;
    this.#queue.push({ ...queued, offeredAt: clock.monotonic() });
    const dropped = this.#queue.length > MAX_QUEUE ? this.#leastImportant() : undefined;
    if (dropped !== undefined) {
      this.#queue = this.#queue.filter((one) => one !== dropped);
      log.warn('notification dropped: too many wait for this receiver', this.#fieldsOf(dropped.notice));
      this.#options.onResult(dropped.notice.id, 'Dropped');
    }
    this.#start(signal);
  }

  #leastImportant(): Entry | undefined {
    const rankOf = ({ notice }: Entry): number => SEVERITIES.indexOf(notice.severity);
    const left = this.#queue.filter((one) => one !== this.#sending);
    const least = Math.min(...left.map(rankOf));
    return left.findLast((one) => rankOf(one) === least);
  }

  /** Nothing is left to be sent. */
  close(): void {
    this.#queue = [];
    this.#isChecked = true;
    this.#isClosed = true;
    this.#interrupt.abort();
  }

  /** Resolves when no attempt is under way, soon after the signal has aborted. */
  async settled(): Promise<void> {
    await this.#running;
  }

  #start(signal: AbortSignal): void {
    this.#running ??= this.#run(signal).finally(() => {
      this.#running = undefined;
      // What came since the last look at the queue.
      if (this.#hasWork && !signal.aborted) this.#start(signal);
    });
  }

  get #hasWork(): boolean {
    return !this.#isClosed && (this.#queue.length > 0 || !this.#isChecked);
  }

  /** Never throws. */
  async #run(signal: AbortSignal): Promise<void> {
    while (this.#hasWork && !signal.aborted) {
      const delayMs = await this.#attempt(signal);
      if (!signal.aborted && delayMs > 0) await this.#pause(delayMs, signal);
    }
  }

  /** Returns how long to wait, milliseconds. */
  async #attempt(signal: AbortSignal): Promise<number> {
    const { check, send, onReady } = this.#options;
    const [head] = this.#queue;
    const receiver = this.#receiver;
    this.#sending = head;
    try {
      if (head === undefined) await check(receiver, signal);
      else await send(receiver, head, signal);
    } catch (error) {
      return signal.aborted || receiver !== this.#receiver ? 0 : this.#failed(error, head);
    } finally {
      this.#sending = undefined;
    }
    this.#delays.reset();
    if (receiver === this.#receiver) this.#isChecked = true;
    onReady(head === undefined ? 'check' : 'send');
    if (head === undefined) return 0;
    this.#finish(head, 'Sent');
    return this.#queue.length > 0 ? GAP_MS : 0;
  }

  #failed(error: unknown, head: Entry | undefined): number {
    const { clock, onFailure } = this.#options;
    const known = error instanceof DeliveryError ? error : new DeliveryError('Unknown', 'the attempt failed');
    onFailure(known.reason, known.message);
    if (head !== undefined && known.isFinal) {
      this.#finish(head, 'Refused');
      return GAP_MS;
    }
    const oldest = clock.monotonic() - GIVE_UP_MS;
    const isOfHead = (known.reason === 'Refused' || known.reason === 'ServerError') && known.retryAfterMs === 0;
    const old = this.#queue.filter((one) => one.offeredAt <= oldest && (!isOfHead || one === head));
    for (const one of old) this.#finish(one, 'GivenUp');
    return isOfHead && old.length > 0 ? GAP_MS : Math.max(known.retryAfterMs, this.#delays.next());
  }

  #finish(entry: Entry, result: Result): void {
    const { log, onResult } = this.#options;
    this.#queue = this.#queue.filter((one) => one !== entry);
    if (result === 'Sent') log.info('notification sent', this.#fieldsOf(entry.notice));
    else log.error('notification not delivered', { ...this.#fieldsOf(entry.notice), result });
    onResult(entry.notice.id, result);
  }

  async #pause(ms: number, signal: AbortSignal): Promise<void> {
    this.#interrupt = new AbortController();
    const until = AbortSignal.any([signal, this.#interrupt.signal]);
    await this.#options.clock.sleep(ms, until).catch(() => undefined);
  }

  #fieldsOf({ id, event, object }: Notice) {
    return { receiver: this.#receiver.name, event, id, kind: object.kind, object: object.name };
  }
}
