import type { StreamMessage } from '@brupop/shared/api/agent-protocol';
import { STREAM_HEARTBEAT_MS, STREAM_INACTIVITY_MS } from '@brupop/shared/api/deadlines';
import type { Clock } from '@brupop/shared/runtime/clock';

/** Where the lines of a stream go. */
export interface Sink {
  /** Writes a line; `done` is called when the operating system has taken it. */
  write(line: string, done: () => void): void;
  /** Writes a last line, if any, and closes. */
  end(line?: string): void;
  /** Cuts the connection. */
  destroy(): void;
  /** Calls `listener` once, when the connection is closed, however. */
  onClose(listener: () => void): void;
}

/** One agent's stream. At most one line is on its way and at most one, the latest, waits behind it. */
export class ShadowStream {
  readonly #sink: Sink;
  readonly #clock: Clock;
  readonly #expiresAt: number;
  #sent = '';
  #waiting: string | undefined;
  /** Since when a line is on its way (monotonic milliseconds). */
  #busySince: number | undefined;
  #ended = false;

  /** @param options - `expiresAt`: when the agent must show a token again, epoch milliseconds */
  constructor(options: { sink: Sink; clock: Clock; expiresAt: number }) {
    this.#sink = options.sink;
    this.#clock = options.clock;
    this.#expiresAt = options.expiresAt;
  }

  /** Sends a message, or keeps it as the next one while the client is slow. What it knows already is not repeated. */
  send(message: StreamMessage): void {
    if (this.#ended) return;
    const line = lineOf(message);
    if (this.#busySince === undefined) this.#write(line);
    else this.#waiting = line;
  }

  /** To be called every STREAM_HEARTBEAT_MS: shows that the stream is alive, ends it before its token expires, cuts off a stuck client. */
  beat(): void {
    if (this.#ended) return;
    if (this.#clock.now() + STREAM_HEARTBEAT_MS >= this.#expiresAt)
      this.end('the token expires; connect with a new one');
    else if (this.#busySince === undefined) this.#put(lineOf({ type: 'heartbeat' }));
    else if (this.#clock.monotonic() - this.#busySince > STREAM_INACTIVITY_MS) this.#sink.destroy();
  }

  /** Says why and closes. A client that takes nothing is cut off instead. */
  end(reason: string): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#waiting = undefined;
    this.#sink.end(lineOf({ type: 'end', reason }));
    const cancel = this.#clock.after(END_LIMIT_MS, () => this.#sink.destroy());
    this.#sink.onClose(cancel);
  }

  #write(line: string): void {
    if (line === this.#sent) return;
    this.#sent = line;
    this.#put(line);
  }

  #put(line: string): void {
    this.#busySince = this.#clock.monotonic();
    this.#sink.write(line, () => this.#written());
  }

  #written(): void {
    this.#busySince = undefined;
    const next = this.#waiting;
    this.#waiting = undefined;
    if (next !== undefined && !this.#ended) this.#write(next);
  }
}

/** How long a client gets to take the end of a stream. */
const END_LIMIT_MS = 2_000;

function lineOf(message: StreamMessage): string {
  return `${JSON.stringify(message)}\n`;
}
