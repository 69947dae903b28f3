/**
 * A thread that sends requests on one connection, each as soon as it has the answer to the one before. It ends after
 * the last answer, and when one does not come within some seconds.
 */
import { connect } from 'node:tls';
import { isMainThread, workerData } from 'node:worker_threads';

export interface EagerClient {
  readonly port: number;
  readonly ca: string;
  readonly request: string;
  /** How many requests it sends. */
  readonly requests: number;
  /** At SENT, how many it has sent, and one more at its end: each change wakes a thread that waits for it. */
  readonly counts: Int32Array;
}

export const SENT = 0;
export const ANSWERS = 1;

const ANSWER_LIMIT_MS = 3_000;

function send({ port, ca, request, requests, counts }: EagerClient): void {
  const socket = connect({ host: '127.0.0.1', port, ca });
  const count = (): void => {
    Atomics.add(counts, SENT, 1);
    Atomics.notify(counts, SENT);
  };
  socket.setTimeout(ANSWER_LIMIT_MS, () => socket.destroy());
  socket.once('secureConnect', () => socket.write(request, count));
  socket.setEncoding('utf8').on('data', (text: string) => {
    const answers = text.split('HTTP/1.1 ').length - 1;
    if (Atomics.add(counts, ANSWERS, answers) + answers < requests) socket.write(request, count);
    else socket.destroy();
  });
  socket.on('error', () => undefined).once('close', count);
}

if (!isMainThread) send(workerData as EagerClient);
