import { once } from 'node:events';
import { chmod, chown, rename, rm } from 'node:fs/promises';
import { createServer, type Server, type Socket } from 'node:net';
import { dirname, join } from 'node:path';
import { type Answer, formatAnswer, parseHead, type RequestHead, takeBody, text, wantsClose } from './http-message.ts';

/** What answers the requests. */
export interface RequestHandler {
  /** Whether the route reads a body; the others are answered without waiting for it. */
  readsBody(head: RequestHead): boolean;
  /** Rejects a request before its body is read. */
  refuses(head: RequestHead): Answer | undefined;
  answer(head: RequestHead, body: string): Promise<Answer>;
}

const HEAD_END = '\r\n\r\n';
/** The group `api` of a host. */
const API_GROUP = 274;

class Connection {
  readonly #socket: Socket;
  readonly #handler: RequestHandler;
  readonly #patienceMs: number;
  #buffer: Buffer = Buffer.alloc(0);
  #answered = false;
  #busy = false;
  #hangs = false;
  #peerEnded = false;
  /** An answered request whose body has not arrived in full. */
  #unread: RequestHead | undefined;
  /** A request that waits for its body. */
  #waiting: RequestHead | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(socket: Socket, handler: RequestHandler, patienceMs: number) {
    this.#socket = socket;
    this.#handler = handler;
    this.#patienceMs = patienceMs;
  }

  /** Serves the connection until it ends. */
  start(): void {
    const socket = this.#socket;
    socket.on('error', () => socket.destroy());
    socket.on('close', () => clearTimeout(this.#timer));
    socket.on('end', () => {
      this.#peerEnded = true;
      void this.#pump();
    });
    socket.on('data', (chunk: Buffer) => {
      this.#buffer = Buffer.concat([this.#buffer, chunk]);
      void this.#pump();
    });
    this.#restartTimer();
  }

  async #pump(): Promise<void> {
    if (this.#busy) return;
    this.#busy = true;
    while (!this.#socket.destroyed && (await this.#next()));
    this.#busy = false;
    if (this.#peerEnded && !this.#hangs) this.#socket.end();
  }

  /** One step with what has arrived; false when more must arrive first. */
  async #next(): Promise<boolean> {
    if (this.#unread !== undefined && !this.#discard(this.#unread)) return false;
    const head = this.#waiting ?? this.#takeHead();
    if (head === undefined) return false;
    const refusal = this.#handler.refuses(head);
    if (refusal !== undefined) {
      this.#socket.pause();
      return this.#write(refusal, head);
    }
    const body = this.#takeRequestBody(head);
    if (body === undefined) return false;
    clearTimeout(this.#timer);
    this.#write(await this.#handler.answer(head, body), head);
    this.#restartTimer();
    return this.#buffer.length > 0;
  }

  #takeHead(): RequestHead | undefined {
    const end = this.#buffer.indexOf(HEAD_END);
    if (end === -1) return undefined;
    const head = parseHead(this.#buffer.toString('latin1', 0, end));
    this.#buffer = this.#buffer.subarray(end + HEAD_END.length);
    if (head?.headers.get('expect') === '100-continue') this.#socket.write('HTTP/1.1 100 Continue\r\n\r\n');
    if (head === undefined) this.#end(text(400));
    return head;
  }

  #takeRequestBody(head: RequestHead): string | undefined {
    this.#waiting = undefined;
    if (!this.#handler.readsBody(head)) {
      this.#unread = head;
      return '';
    }
    const taken = takeBody(this.#buffer, head);
    if (taken === undefined) {
      this.#waiting = head;
      return undefined;
    }
    this.#buffer = taken.rest;
    return taken.body.toString();
  }

  #discard(head: RequestHead): boolean {
    const taken = takeBody(this.#buffer, head);
    if (taken === undefined) return false;
    this.#buffer = taken.rest;
    this.#unread = undefined;
    return true;
  }

  /** Writes an answer, or what is left of it; false, as nothing more is read for it. */
  #write(answer: Answer, head: RequestHead): false {
    const close = wantsClose(head);
    const bytes = formatAnswer(answer, { close, httpVersion: head.httpVersion });
    const written = (): void => answer.written?.();
    const missing = answer.transport === 'truncated' ? Math.ceil((answer.body?.length ?? 0) / 2) : 0;
    this.#answered = true;
    this.#hangs = answer.transport === 'hang';
    if (answer.transport === 'empty') this.#socket.destroy();
    if (this.#socket.destroyed || this.#hangs) written();
    else if (close || missing > 0) this.#socket.end(bytes.subarray(0, bytes.length - missing), written);
    else this.#socket.write(bytes, written);
    return false;
  }

  #end(answer: Answer): void {
    this.#socket.end(formatAnswer(answer, { close: true, httpVersion: '1.1' }));
  }

  #restartTimer(): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#runOut(), this.#patienceMs);
  }

  #runOut(): void {
    if (this.#busy || this.#hangs) return;
    const halfSent = this.#unread === undefined && (this.#buffer.length > 0 || !this.#answered);
    if (halfSent) this.#end(text(408));
    else this.#socket.destroy();
  }
}

/** Owner, group and mode of the socket on a host; only root can set the owner and the group. */
async function restrict(socket: string): Promise<void> {
  await chmod(socket, 0o660);
  if (process.getuid?.() === 0) await chown(socket, 0, API_GROUP);
}

/**
 * An HTTP/1.1 server on a Unix socket, written on `node:net` so that it sends no header of its own.
 */
export class SocketServer {
  readonly #path: string;
  readonly #handler: RequestHandler;
  readonly #patienceMs: number;
  #server: Server | undefined;
  #connections = new Set<Socket>();

  /** A request head must be complete, and an idle connection be used again, within `patienceMs`. */
  constructor(path: string, handler: RequestHandler, patienceMs: number) {
    this.#path = path;
    this.#handler = handler;
    this.#patienceMs = patienceMs;
  }

  get listening(): boolean {
    return this.#server !== undefined;
  }

  /**
   * Listens at the path, on a new inode. The socket is bound beside the path and renamed, so that
   * closing the server leaves the file (Node removes only the path it bound), as a crash does.
   */
  async listen(): Promise<void> {
    const server = createServer({ allowHalfOpen: true }, (socket) => {
      this.#connections.add(socket);
      socket.on('close', () => this.#connections.delete(socket));
      new Connection(socket, this.#handler, this.#patienceMs).start();
    });
    this.#server = server;
    const beside = join(dirname(this.#path), '.api');
    await rm(beside, { force: true });
    server.listen(beside);
    await once(server, 'listening');
    await restrict(beside);
    await rename(beside, this.#path);
  }

  /**
   * Stops at once, breaking every connection; `unlink` as a clean stop does, or leave the file as a
   * crash does.
   */
  async close(file: 'unlink' | 'leave'): Promise<void> {
    const server = this.#server;
    this.#server = undefined;
    const closed = server === undefined ? undefined : new Promise((resolve) => server.close(resolve));
    for (const socket of this.#connections) socket.destroy();
    await closed;
    if (file === 'unlink') await rm(this.#path, { force: true });
  }
}
