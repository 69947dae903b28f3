import type { AgentShadow } from '@brupop/shared/api/agent-protocol';
import { messageOf } from '@brupop/shared/runtime/errors';
import { OperationError } from '@brupop/shared/api/error-codes';
import type { Clock } from '@brupop/shared/runtime/clock';
import type { Logger } from '@brupop/shared/runtime/log';
import { Loop } from '@brupop/shared/runtime/loop';
import { act, type RemoteAction } from './act.ts';
import type { Action } from './action.ts';
import type { ApiserverClient } from './apiserver/client.ts';
import { ApiError } from './apiserver/error.ts';
import { ShadowSource } from './apiserver/shadow-source.ts';
import { decide } from './decide/decide.ts';
import { type Host, HostError, StaleDecisionError } from './host/host.ts';
import { commandLimit, LIMITS } from './limits.ts';
import { type Observation, observe } from './state/observe.ts';
import { Tracker } from './state/tracker.ts';

export interface AgentOptions {
  readonly host: Host;
  readonly api: ApiserverClient;
  readonly clock: Clock;
  readonly log: Logger;
  /** Milliseconds between two checks for updates. */
  readonly checkIntervalMs: number;
  readonly random?: () => number;
}

/** An update takes about 20 actions; so many without a wait between them are an error of ours that must not become load for others. */
const MAX_STREAK = 100;
/** After so many refusals of one spec its stream is given up. */
const REFUSALS = 3;
/** So many different lines are not said again while they alternate. */
const KEPT_IN_MIND = 4;

/** Observe, decide, act once, repeat. */
export class Agent {
  readonly #options: AgentOptions;
  readonly #tracker: Tracker;
  readonly #source: ShadowSource;
  readonly #loop: Loop;
  readonly #end = new AbortController();
  #seen: Observation | undefined;
  /** When the loop turns next at the latest (monotonic milliseconds). */
  #dueMs: number;
  #streak = 0;
  /** What was said lately, the newest first: a try and the pause after it alternate for as long as trouble lasts. */
  #said: readonly string[] = [];
  #complaint = '';
  #fatal: Error | undefined;

  constructor(options: AgentOptions) {
    const { api, clock, log, checkIntervalMs } = options;
    const random = options.random ?? Math.random;
    this.#options = options;
    this.#dueMs = clock.monotonic();
    this.#tracker = new Tracker({ nowMs: this.#dueMs, checkIntervalMs, random });
    this.#source = new ShadowSource({ api, clock, log, random, changed: () => this.#loop.wake() });
    this.#loop = new Loop({ clock, log, step: (signal) => this.#step(signal) });
  }

  /** Runs until `signal` aborts. Throws when the process must be started anew: a stale mount, an apiserver out of reach for long. */
  async run(signal: AbortSignal): Promise<void> {
    const stop = (): void => this.#end.abort(signal.reason);
    signal.addEventListener('abort', stop, { once: true });
    if (signal.aborted) stop();
    await Promise.all([this.#source.run(this.#end.signal), this.#loop.run(this.#end.signal)]);
    if (this.#fatal !== undefined) throw this.#fatal;
  }

  /** Why this process is stuck, or undefined. */
  live(): string | undefined {
    const lateMs = this.#options.clock.monotonic() - this.#dueMs;
    if (lateMs <= LIMITS.loopStuck) return undefined;
    return `the loop should have turned ${Math.round(lateMs / 1000)} s ago; last: ${this.#said[0] ?? ''}`;
  }

  /** Why this agent cannot do its work now, or undefined. */
  ready(): string | undefined {
    if (this.#source.view().shadow === undefined) return 'the apiserver has not sent the shadow yet';
    if (this.#seen === undefined) return 'the host has not been looked at yet';
    return this.#seen.host.kind === 'silent' ? `the host does not answer: ${this.#seen.host.message}` : undefined;
  }

  async #step(signal: AbortSignal): Promise<number | undefined> {
    const { host, clock } = this.#options;
    this.#dueMs = clock.monotonic() + LIMITS.hostCall * 3;
    const seen = await observe({ host, clock, shadow: () => this.#source.view(), signal });
    this.#seen = seen;
    this.#tracker.observe(seen);
    const action = decide(seen, this.#tracker);
    this.#say(action);
    if (action.do === 'exit') return this.#exit(action.reason);
    if (action.do === 'wait') {
      this.#streak = 0;
      return this.#pause(action.untilMs - clock.monotonic());
    }
    this.#dueMs = clock.monotonic() + limitOf(action, seen);
    await this.#perform(action, seen, signal);
    this.#streak += 1;
    return this.#pause(this.#streak < MAX_STREAK ? 0 : LIMITS.pollLongest);
  }

  #pause(ms: number): number {
    const pause = Math.min(Math.max(ms, 0), LIMITS.lookAgain);
    this.#dueMs = this.#options.clock.monotonic() + pause;
    return pause;
  }

  async #perform(action: RemoteAction, seen: Observation, signal: AbortSignal): Promise<void> {
    const { clock } = this.#options;
    try {
      const result = await act(action, seen, this.#options, signal);
      if (action.do === 'report') this.#source.acknowledged(result as AgentShadow, action.status);
      this.#complaint = '';
      this.#tracker.succeeded(action, result, { ...seen, nowMs: clock.monotonic() }, seen.nowMs);
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof StaleDecisionError) {
        this.#options.log.info(`${action.do} is decided anew`, { error: error.message, reason: action.reason });
        return;
      }
      this.#complain(action, error);
      this.#tracker.failed(action, error, { ...seen, nowMs: clock.monotonic() });
      if ((this.#tracker.refused?.times ?? 0) >= REFUSALS) this.#source.reconnect();
    }
  }

  /** A failure of one kind is said once, however often the action is tried and whatever words come with it. */
  #complain({ do: what, reason }: RemoteAction, error: unknown): void {
    const complaint = `${what} ${kindOf(error)}`;
    const level = complaint === this.#complaint ? 'debug' : 'warn';
    this.#options.log[level](`${what} failed`, { error: messageOf(error), reason });
    this.#complaint = complaint;
  }

  #exit(reason: string): undefined {
    this.#fatal = new Error(reason);
    this.#end.abort(this.#fatal);
    return undefined;
  }

  #say(action: Action): void {
    const { log } = this.#options;
    const what = action.do === 'command' ? action.command : action.do;
    // What follows a colon are the words of others, which may be new ones each time.
    const said = `${what}: ${action.reason.split(': ', 1).join('')}`;
    const level = this.#said.includes(said) ? 'debug' : 'info';
    log[level](what, { reason: action.reason, spec: this.#seen?.shadow?.spec.state });
    this.#said = [said, ...this.#said.filter((one) => one !== said)].slice(0, KEPT_IN_MIND);
  }
}

function kindOf(error: unknown): string {
  if (error instanceof ApiError || error instanceof OperationError) return error.code;
  return error instanceof HostError ? error.kind : messageOf(error);
}

/** How long an action may take, in milliseconds. A change of settings is four calls. */
function limitOf(action: RemoteAction, { shadow }: Observation): number {
  if (action.do !== 'command') return LIMITS.hostCall * 4;
  return commandLimit(action.command, shadow?.spec) + LIMITS.staleSocket;
}
