import { setTimeout as sleep } from 'node:timers/promises';
import type { Agent } from '../cluster.ts';
import { openWire, type WireAnswer } from '../wire.ts';
import type { Attempt, World } from './forgery.ts';

const calls = [
  'PUT shadow',
  'GET shadow/stream',
  'PUT shadow/status',
  'POST load-balancer-exclusion',
  'POST drain',
  'POST restore',
] as const;

/** Forgeries from one address: fewer than may be rejected at once. */
const PER_ADDRESS = 24;
const ADDRESSES_AT_A_TIME = 8;

/** The outcome of one forgery. */
export interface Outcome {
  readonly attempt: Attempt;
  readonly answer: WireAnswer | undefined;
  /** How the connection ended, and after how many answers. */
  readonly end: string;
}

export interface Result {
  readonly outcomes: readonly Outcome[];
  /** Responses to the valid calls between the forgeries. */
  readonly good: readonly (WireAnswer | undefined)[];
}

/**
 * Sends forgeries, each on a connection of its own that it must close, while another connection of
 * the same address is kept, with calls of valid agents before and after.
 */
export class Attack {
  readonly #to: { port: number; ca: string };
  readonly #world: World;
  readonly #agents: readonly Agent[];
  #addresses = 0;
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

  async run(attempts: readonly Attempt[]): Promise<Result> {
    const batches = Array.from({ length: Math.ceil(attempts.length / PER_ADDRESS) }, (_, index) =>
      attempts.slice(index * PER_ADDRESS, (index + 1) * PER_ADDRESS),
    );
    const results: Result[] = [];
    const worker = async (): Promise<void> => {
      for (let batch = batches.pop(); batch !== undefined; batch = batches.pop())
        results.push(await this.#batch(batch));
    };
    await Promise.all(Array.from({ length: ADDRESSES_AT_A_TIME }, worker));
    return { outcomes: results.flatMap((one) => one.outcomes), good: results.flatMap((one) => one.good) };
  }

  async #batch(attempts: readonly Attempt[]): Promise<Result> {
    this.#addresses += 1;
    const address = `127.1.${this.#addresses >> 8}.${this.#addresses & 255}`;
    const kept = await openWire(this.#to, address);
    kept.socket.write(this.#goodCall(), 'latin1');
    await kept.until(1);
    const outcomes: Outcome[] = [];
    for (const [index, attempt] of attempts.entries())
      outcomes.push({
        attempt,
        ...(await this.#forge(address, requestOf(attempt, this.#world.victim.node, index))),
      });
    kept.socket.write(this.#goodCall(), 'latin1');
    const [before, after] = await kept.until(2);
    kept.socket.destroy();
    return { outcomes, good: [before, after] };
  }

  /** The only answer on a connection, when the server has closed that. */
  async #forge(address: string, text: string): Promise<Omit<Outcome, 'attempt'>> {
    const wire = await openWire(this.#to, address);
    wire.socket.write(text, 'latin1');
    await Promise.race([wire.closed, sleep(20_000, undefined, { ref: false })]);
    const isOver = wire.socket.closed;
    const end = `${wire.end()} after ${wire.answers.length} answers`;
    wire.socket.destroy();
    return { answer: isOver && wire.answers.length === 1 ? wire.answers[0] : undefined, end };
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
