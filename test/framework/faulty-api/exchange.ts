import type { IncomingMessage, ServerResponse } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { type Answer, type SeenRequest, statusBody } from './faults.ts';

const HALF_AN_EVENT = '{"type":"MODIFIED","object":{"metadata":{"name":"hal';
const NO_JSON = '{"type":"MODIFIED","object":no json}\n';

/**
 * One request with its response, which is the API server's unless a fault replaces it at its start
 * or later.
 */
export class Exchange {
  readonly request: SeenRequest;
  readonly #response: ServerResponse;
  readonly #ask: (query: URLSearchParams) => Promise<IncomingMessage>;
  #upstream: IncomingMessage | undefined;
  readonly #drops: number[] = [];
  #dripping: NodeJS.Timeout | undefined;

  /** @param ask - sends the request on and resolves with the head of the answer */
  constructor(
    request: SeenRequest,
    response: ServerResponse,
    ask: (query: URLSearchParams) => Promise<IncomingMessage>,
  ) {
    this.request = request;
    this.#response = response;
    this.#ask = ask;
    response.once('close', () => this.#close());
  }

  /** True when the API server has started to answer. */
  get open(): boolean {
    return this.#upstream !== undefined;
  }

  /** Sends the response. Rejects when the API server does not answer. */
  async answer(answer: Answer | undefined): Promise<void> {
    if (answer === undefined) return await this.#pass();
    const { kind } = answer;
    if (kind === 'shortened') {
      this.request.query.set('timeoutSeconds', String(answer.seconds));
      return await this.#pass();
    }
    if (kind === 'status') return this.#refuse(answer.status, answer.retryAfterSeconds);
    if (kind === 'silent') return undefined;
    if (kind === 'reset') return this.#reset();
    if (kind === 'lost') return void (await buffer(await this.#open()));
    if (kind === 'error-event' || this.request.verb === 'watch') return await this.#beginBadly(answer);
    return await this.#corrupt(answer);
  }

  /** Continues the response that is being sent with `answer`. */
  interrupt(answer: Answer): void {
    this.#upstream?.unpipe(this.#response);
    if (answer.kind === 'drip') {
      this.#upstream?.on('data', (chunk: Buffer) => this.#drip(chunk, answer.everyMs)).resume();
      return;
    }
    this.#upstream?.resume();
    if (answer.kind === 'error-event' || answer.kind === 'status') {
      const object = JSON.parse(statusBody(answer.status)) as unknown;
      this.#response.end(`${JSON.stringify({ type: 'ERROR', object })}\n`);
    } else if (answer.kind === 'malformed') this.#response.write(NO_JSON);
    else if (answer.kind === 'truncated') this.#cutAfter(HALF_AN_EVENT, answer.clean);
    else if (answer.kind === 'reset') this.#reset();
  }

  async #pass(): Promise<void> {
    const upstream = await this.#open();
    this.#response.writeHead(upstream.statusCode ?? 502, upstream.headers);
    this.#response.flushHeaders();
    upstream.pipe(this.#response);
  }

  async #beginBadly(answer: Answer): Promise<void> {
    const upstream = await this.#open();
    this.#response.writeHead(200, { 'content-type': 'application/json' });
    this.#response.flushHeaders();
    upstream.pipe(this.#response);
    this.interrupt(answer);
  }

  /** The answer to anything but a watch. */
  async #corrupt(answer: Answer): Promise<void> {
    const upstream = await this.#open();
    const body = await buffer(upstream);
    this.#response.writeHead(upstream.statusCode ?? 502, { 'content-type': 'application/json' });
    this.#response.flushHeaders();
    if (answer.kind === 'malformed') this.#response.end('{"items":[no json]}');
    else if (answer.kind === 'truncated') this.#cutAfter(body.subarray(0, body.length / 2), answer.clean);
    else if (answer.kind === 'drip') this.#drip(body, answer.everyMs);
  }

  async #open(): Promise<IncomingMessage> {
    const upstream = await this.#ask(this.request.query);
    this.#upstream = upstream;
    upstream.on('error', () => this.#response.destroy());
    upstream.once('close', () => upstream.complete || this.#response.destroy());
    if (this.#response.destroyed) upstream.destroy();
    return upstream;
  }

  #refuse(status: number, retryAfterSeconds?: number): void {
    const headers = retryAfterSeconds === undefined ? {} : { 'retry-after': String(retryAfterSeconds) };
    this.#response.writeHead(status, { 'content-type': 'application/json', ...headers });
    this.#response.end(statusBody(status, retryAfterSeconds));
  }

  #cutAfter(half: string | Buffer, clean: boolean): void {
    if (clean) this.#response.end(half);
    else this.#response.write(half, () => this.#reset());
  }

  #drip(chunk: Buffer, everyMs: number): void {
    this.#drops.push(...chunk);
    this.#dripping ??= setInterval(() => {
      const drop = this.#drops.shift();
      if (drop !== undefined) this.#response.write(Buffer.of(drop));
    }, everyMs);
  }

  #reset(): void {
    this.#response.destroy();
  }

  #close(): void {
    clearInterval(this.#dripping);
    this.#upstream?.destroy();
  }
}
