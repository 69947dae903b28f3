import { setTimeout as sleep } from 'node:timers/promises';
import type { ApiFault, Faults } from './faults.ts';
import { type Answer, json, type RequestHead, text } from './http-message.ts';
import type { RequestHandler } from './http-server.ts';
import { readsBody, refuseLargeBody } from './settings-routes.ts';

/** A request that was answered; status 0 when it never was. */
export interface HistoryEntry {
  /** Milliseconds since the epoch. */
  time: number;
  method: string;
  path: string;
  status: number;
}

/** A call at a server when it has come in (`sent`) or its answer is ready (`answered`). */
export interface Call extends Pick<RequestHead, 'method' | 'path'> {
  readonly moment: 'sent' | 'answered';
}

/**
 * Receives a call, which waits meanwhile; `drop` ends its connection, before its effect or before
 * its answer.
 */
export type CallWatcher = (call: Call) => Promise<'drop' | 'pass'>;

const DROPPED: Answer = { status: 500, transport: 'empty' };

/** Answers instead of the route's; the request has no effect. */
const INSTEAD: Partial<Record<ApiFault['answer'], Answer>> = {
  hang: { status: 204, transport: 'hang' },
  garbage: { ...json(null), body: '<html>no JSON' },
  error: text(500, 'Data store error during get: no such thing'),
};

/** What happens to the route's own answer on its way. */
const LOST: Partial<Record<ApiFault['answer'], Pick<Answer, 'transport'>>> = {
  truncated: { transport: 'truncated' },
  empty: { transport: 'empty' },
};

/** Connects the socket to the routes: the API faults, the one worker, the history. */
export class ApiFront implements RequestHandler {
  readonly history: HistoryEntry[] = [];
  watcher: CallWatcher | undefined;
  readonly readsBody = readsBody;
  readonly refuses = refuseLargeBody;
  readonly #faults: Faults;
  readonly #now: () => number;
  readonly #route: (head: RequestHead, body: string) => Promise<Answer>;
  #worker: Promise<unknown> = Promise.resolve();

  constructor(faults: Faults, now: () => number, route: (head: RequestHead, body: string) => Promise<Answer>) {
    this.#faults = faults;
    this.#now = now;
    this.#route = route;
  }

  /** Requests that wait for the worker are forgotten: its process has ended. */
  reset(): void {
    this.#worker = Promise.resolve();
  }

  async answer(head: RequestHead, body: string): Promise<Answer> {
    const answer = await this.#watched(head, body);
    const status = answer.transport === 'hang' ? 0 : answer.status;
    this.history.push({ time: this.#now(), method: head.method, path: head.path, status });
    return answer;
  }

  async #watched(head: RequestHead, body: string): Promise<Answer> {
    if ((await this.watcher?.({ moment: 'sent', ...head })) === 'drop') return DROPPED;
    const answer = await this.#answer(head, body);
    return (await this.watcher?.({ moment: 'answered', ...head })) === 'drop' ? { ...answer, ...DROPPED } : answer;
  }

  async #answer(head: RequestHead, body: string): Promise<Answer> {
    const fault = this.#fault(head);
    if (fault === undefined) return await this.#queued(head, body);
    const instead = INSTEAD[fault.answer];
    if (instead !== undefined) return instead;
    if (fault.answer === 'slow') await sleep(fault.delayMs);
    return { ...(await this.#queued(head, body)), ...LOST[fault.answer] };
  }

  #fault({ path }: RequestHead): ApiFault | undefined {
    const { api } = this.#faults.values;
    return api === undefined || (api.path ?? path) === path ? this.#faults.take('api') : undefined;
  }

  /** One worker: a request waits until the one before it has been answered. */
  async #queued(head: RequestHead, body: string): Promise<Answer> {
    const answer = this.#worker.then(() => this.#route(head, body));
    this.#worker = answer.catch(() => undefined);
    return await answer;
  }
}
