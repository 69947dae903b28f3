import type { Agent } from '../cluster.ts';
import { openWire, type Wire, type WireAnswer } from '../wire.ts';
import type { Attempt, Forgery, World } from './forgery.ts';

const calls = [
  'PUT shadow',
  'GET shadow/stream',
  'PUT shadow/status',
  'POST load-balancer-exclusion',
  'POST drain',
  'POST restore',
] as const;

/** Forgeries on one connection: fewer than an address may have rejected at once. */
const PER_CONNECTION = 24;
const CONNECTIONS = 8;

/** The outcome of one forgery. */
export interface Outcome {
  readonly attempt: Attempt;
  readonly answer: WireAnswer | undefined;
}

export interface Result {
  readonly outcomes: readonly Outcome[];
  /** Responses to the valid calls between the forgeries. */
  readonly good: readonly (WireAnswer | undefined)[];
}

/**
 * Sends forgeries on kept-alive connections, each from its own address, with calls of valid agents
 * before and after.
 */
export class Attack {
  readonly #to: { port: number; ca: string };
  readonly #world: World;
  readonly #agents: readonly Agent[];
  #connections = 0;
  #goodCalls = 0;

  constructor(to: { port: number; ca: string }, world: World, agents: readonly Agent[]) {
    this.#to = to;
    this.#world = world;
    this.#agents = agents;
  }

  /** Valid calls so far. */
  get goodCalls(): number {
    return this.#goodCalls;
  }

  async run({ closes = false }: Forgery, attempts: readonly Attempt[]): Promise<Result> {
    const size = closes ? 1 : PER_CONNECTION;
    const batches = Array.from({ length: Math.ceil(attempts.length / size) }, (_, index) =>
      attempts.slice(index * size, (index + 1) * size),
    );
    const results: Result[] = [];
    const worker = async (): Promise<void> => {
      for (let batch = batches.pop(); batch !== undefined; batch = batches.pop())
        results.push(await this.#batch(batch, closes));
    };
    await Promise.all(Array.from({ length: CONNECTIONS }, worker));
    return { outcomes: results.flatMap((one) => one.outcomes), good: results.flatMap((one) => one.good) };
  }

  /**
   * Sends a valid call, the forgeries, and another valid call if the connection stays open; all
   * before a response is read.
   */
  async #batch(attempts: readonly Attempt[], closes: boolean): Promise<Result> {
    const wire = await this.#open();
    const good = closes ? 1 : 2;
    const texts = attempts.map((attempt, index) => requestOf(attempt, this.#world.victim.node, index));
    const last = closes ? '' : this.#goodCall();
    wire.socket.write(this.#goodCall() + texts.join('') + last, 'latin1');
    const answers = [...(await wire.until(attempts.length + good))];
    if (closes) await wire.closed;
    wire.socket.destroy();
    const outcomes = attempts.map((attempt, index) => ({ attempt, answer: answers[index + 1] }));
    return { outcomes, good: closes ? [answers[0]] : [answers[0], answers[attempts.length + 1]] };
  }

  async #open(): Promise<Wire> {
    this.#connections += 1;
    const [high, low] = [this.#connections >> 8, this.#connections & 255];
    return await openWire(this.#to, `127.1.${high}.${low}`);
  }

  #goodCall(): string {
    const agent = this.#agents[this.#goodCalls % this.#agents.length];
    if (agent === undefined) throw new Error('no agents');
    this.#goodCalls += 1;
    return requestOf(
      { headers: `authorization: Bearer ${agent.token}\r\n` },
      agent.node,
      calls.indexOf('POST restore'),
    );
  }
}

function requestOf({ headers, node, query = '' }: Attempt, victim: string, index: number): string {
  const [method, action] = (calls[index % calls.length] ?? '').split(' ');
  const length = method === 'GET' ? '' : 'content-length: 0\r\n';
  return `${method} /v1/nodes/${node ?? victim}/${action}${query} HTTP/1.1\r\nhost: x\r\n${headers}${length}\r\n`;
}

/** The token parts (and other long texts) of attempts, cut into pieces that no log may have. */
export function piecesOf(attempts: readonly Attempt[]): Set<string> {
  const pieces = new Set<string>();
  for (const { headers, query = '' } of attempts)
    for (const [run] of `${headers}${query}`.matchAll(/[A-Za-z0-9_-]{24,}/gu))
      for (const at of [0, (run.length - 24) >> 1, run.length - 24]) pieces.add(run.slice(at, at + 24));
  return pieces;
}
