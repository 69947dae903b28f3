import { once } from 'node:events';
import { connect, type TLSSocket } from 'node:tls';

/** An answer as it came over the wire. */
export interface WireAnswer {
  readonly status: number;
  /** The code of an ApiErrorBody. */
  readonly code: string | undefined;
  readonly body: string;
  /** The server closes the connection after it. */
  readonly closes: boolean;
}

/** A connection on which requests are written byte by byte, as no HTTP client would. */
export interface Wire {
  readonly socket: TLSSocket;
  /** The answers so far, in order. */
  readonly answers: readonly WireAnswer[];
  /**
   * Resolves when this number of answers has come, or the server has closed the connection, or
   * after `limitMs`.
   */
  until(count: number, limitMs?: number): Promise<readonly WireAnswer[]>;
  readonly closed: Promise<unknown>;
  /** How it ended: `open` when it has not, `closed`, or the code of its error. */
  end(): string;
}

/** Opens a TLS connection from a loopback address of choice. */
export async function openWire(to: { port: number; ca: string }, localAddress = '127.0.0.1'): Promise<Wire> {
  const options = { host: '127.0.0.1', port: to.port, ca: to.ca, localAddress };
  const socket = connect(options);
  const closed = new Promise((resolve) => {
    socket.once('close', resolve);
  });
  await once(socket, 'secureConnect');
  let failure: string | undefined;
  socket.on('error', (error: NodeJS.ErrnoException) => (failure = error.code ?? error.message));
  const answers: WireAnswer[] = [];
  let rest: Buffer = Buffer.alloc(0);
  let wake: (() => void) | undefined;
  socket.on('data', (chunk: Buffer) => {
    rest = takeAnswers(Buffer.concat([rest, chunk]), answers);
    wake?.();
  });
  const until: Wire['until'] = async (count, limitMs = 20_000) => {
    const timer = Promise.withResolvers<true>();
    const cancel = setTimeout(() => timer.resolve(true), limitMs);
    for (let over = false; !over && answers.length < count;) {
      const more = Promise.withResolvers<false>();
      wake = () => more.resolve(false);
      over = await Promise.race([more.promise, closed.then(() => true), timer.promise]);
    }
    clearTimeout(cancel);
    return answers;
  };
  const end = (): string => failure ?? (socket.closed ? 'closed' : 'open');
  return { socket, answers, until, closed, end };
}

/** Moves complete responses from the bytes to `answers` and returns the remaining bytes. */
function takeAnswers(bytes: Buffer, answers: WireAnswer[]): Buffer {
  let rest = bytes;
  for (;;) {
    const end = rest.indexOf('\r\n\r\n');
    if (end === -1) return rest;
    const head = rest.toString('latin1', 0, end);
    const status = Number(/^HTTP\/1\.1 (\d{3})/u.exec(head)?.[1]);
    const length = Number(/^content-length: (\d+)/imu.exec(head)?.[1] ?? 0);
    if (rest.length < end + 4 + length) return rest;
    const closes = /^connection: close$/imu.test(head);
    const body = rest.toString('utf8', end + 4, end + 4 + length);
    if (status !== 100) answers.push({ status, body, closes, code: /"error":\{"code":"(\w+)"/u.exec(body)?.[1] });
    rest = rest.subarray(end + 4 + length);
  }
}
