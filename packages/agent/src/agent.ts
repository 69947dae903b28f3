import type { AgentShadow } from '@brupop/shared/api/agent-protocol';
import { currentAttempt } from '@brupop/shared/api/attempt';
import { OperationError } from '@brupop/shared/api/error-codes';
import type { AgentStatus, ShadowStatus } from '@brupop/shared/api/shadow';
import type { Clock } from '@brupop/shared/runtime/clock';
import { messageOf } from '@brupop/shared/runtime/errors';
import { type Logger, RetriedProblem } from '@brupop/shared/runtime/log';
import { Loop } from '@brupop/shared/runtime/loop';
import { type Action, type RemoteAction, rowOf, wordsOf } from './actions.ts';
import type { ApiserverClient } from './apiserver/client.ts';
import { ApiError } from './apiserver/messages.ts';
import { ShadowSource } from './apiserver/shadow-source.ts';
import { decide } from './decide/decide.ts';
import { type Host, HostError, StaleDecisionError } from './host/host.ts';
import { LIMITS } from './limits.ts';
import { type Observation, observe } from './state/observe.ts';
import { Tracker } from './state/tracker.ts';

interface AgentOptions {
  readonly host: Host;
  readonly api: ApiserverClient;
  readonly clock: Clock;
  readonly log: Logger;
  readonly checkIntervalMs: number;
  readonly random?: () => number;
}

/** More actions in a row are a bug, and slow the loop down: an update takes about 20. */
const MAX_STREAK = 100;
/** After this number of rejections of one spec the stream is reconnected. */
const MAX_REJECTIONS = 3;
/** Lines that are logged at level info once: an action and the pause after it may alternate. */
const RECENT_LINES = 4;

/** The agent's loop: observe, decide, perform one action, repeat. */
export class Agent {
  readonly #options: AgentOptions;
  readonly #tracker: Tracker;
  readonly #source: ShadowSource;
  readonly #loop: Loop;
  readonly #end = new AbortController();
  #seen: Observation | undefined;
  #dueMs: number;
  #streak = 0;
  #recent: readonly string[] = [];
  readonly #problem: RetriedProblem;
  #fatal: Error | undefined;

  constructor(options: AgentOptions) {
    const { api, clock, checkIntervalMs } = options;
    const random = options.random ?? Math.random;
    const log = options.log.with(() => ({ attempt: this.attempt }));
    this.#options = { ...options, log };
    this.#problem = new RetriedProblem(clock);
    this.#dueMs = clock.monotonic();
    this.#tracker = new Tracker(this.#dueMs, checkIntervalMs, random);
    this.#source = new ShadowSource({ api, clock, log, random, changed: () => this.#loop.wake() });
    this.#loop = new Loop({ clock, log, reconcile: (signal) => this.#step(signal) });
  }

  /** Runs until `signal` aborts. Throws when only a restart of the process can help. */
  async run(signal: AbortSignal): Promise<void> {
    const end = AbortSignal.any([signal, this.#end.signal]);
    await Promise.all([this.#source.run(end), this.#loop.run(end)]);
    if (this.#fatal !== undefined) throw this.#fatal;
  }

  /** What it knows of its shadow. */
  shadow(): AgentShadow | undefined {
    return this.#source.view().shadow;
  }

  /** Its update in progress, for log lines. */
  get attempt(): string | undefined {
    const { shadow } = this.#source.view();
    return shadow && currentAttempt(shadow);
  }

  live(): string | undefined {
    const lateMs = this.#options.clock.monotonic() - this.#dueMs;
    if (lateMs <= LIMITS.loopStuck) return undefined;
    return `the loop has been due for ${Math.round(lateMs / 1000)} s; last: ${this.#recent[0] ?? ''}`;
  }

  ready(): string | undefined {
    if (this.#source.view().shadow === undefined) return 'the apiserver has not sent the shadow yet';
    if (this.#seen === undefined) return 'the host has not been observed yet';
    const { host } = this.#seen;
    return host.kind === 'unreachable' ? `the host does not answer: ${host.message}` : undefined;
  }

  async #step(signal: AbortSignal): Promise<number | undefined> {
    const { host, clock } = this.#options;
    this.#dueMs = clock.monotonic() + LIMITS.hostCall * 3;
    const seen = await observe(host, clock, () => this.#source.view(), signal);
    this.#seen = seen;
    this.#tracker.observe(seen);
    const action = decide(seen, this.#tracker);
    this.#logAction(action);
    if (action.do === 'exit') {
      this.#fatal = new Error(action.reason);
      this.#end.abort(this.#fatal);
      return undefined;
    }
    if (action.do === 'wait') {
      this.#streak = 0;
      return this.#pause(action.untilMs - clock.monotonic());
    }
    this.#dueMs = clock.monotonic() + rowOf(action).limitMs(action, seen.shadow?.spec);
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
    const { host, api, clock, log } = this.#options;
    try {
      const { shadow, nowMs: decidedMs } = seen;
      const execution = { host, api, clock, shadow, decidedMs, isCurrent: () => this.#isCurrent(shadow), signal };
      const result = await rowOf(action).perform(action, execution);
      if (action.do === 'report') this.#source.acknowledged(result as AgentShadow, action.status);
      this.#problem.ended();
      if (action.do === 'report') this.#logFailure(action.status, seen.shadow?.status);
      this.#tracker.succeeded(action, result, { ...seen, nowMs: clock.monotonic() }, seen.nowMs);
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof StaleDecisionError) {
        log.debug('an action is decided again', { action: action.do, error: error.message, reason: action.reason });
        return;
      }
      this.#logError(action, error);
      this.#tracker.failed(action, error, { ...seen, nowMs: clock.monotonic() }, seen.nowMs);
      if ((this.#tracker.rejected?.times ?? 0) >= MAX_REJECTIONS) this.#source.reconnect();
    }
  }

  #isCurrent(shadow: AgentShadow | undefined): boolean {
    const { shadow: newest } = this.#source.view();
    return newest === undefined || (newest.uid === shadow?.uid && newest.generation === shadow.generation);
  }

  /** An error of one kind is no line of its own each time that the action is retried. */
  #logError(action: RemoteAction, error: unknown): void {
    const code = kindOf(error);
    const isLasting = !(error instanceof ApiError) || !PASSING.has(error.code);
    const level = this.#problem.levelOf(`${action.do} ${code}`, { isLasting });
    const fields = { code, error: messageOf(error), reason: action.reason };
    this.#options.log[level](`failed, retrying: ${wordsOf(action)}`, fields);
  }

  /** Once the apiserver has the report: then the attempt has failed. */
  #logFailure({ current_state, current_version: from, lastOperation }: AgentStatus, before?: ShadowStatus): void {
    if (current_state !== 'ErrorReset' || before?.current_state === 'ErrorReset') return;
    const { operation: step, version: to, errorCode: code, message } = lastOperation ?? {};
    this.#options.log.warn('the update has failed', { from, to, code, step, message });
  }

  #logAction(action: Action): void {
    const name = wordsOf(action);
    // Text after a colon comes from other programs and may differ each time.
    const line = `${name}: ${action.reason.split(': ', 1).join('')}`;
    const level = this.#recent.includes(line) ? 'debug' : 'info';
    this.#options.log[level](name, { reason: action.reason, state: this.#seen?.shadow?.spec.state });
    this.#recent = [line, ...this.#recent.filter((one) => one !== line)].slice(0, RECENT_LINES);
  }
}

/** What calls of an apiserver meet while it is upgraded, or the controller acts. */
const PASSING: ReadonlySet<ApiError['code']> = new Set([
  'Unreachable',
  'Unavailable',
  'NotFound',
  'SpecChanged',
  'SpecForbids',
  'Conflict',
  'TooManyRequests',
]);

function kindOf(error: unknown): string {
  if (error instanceof ApiError || error instanceof OperationError) return error.code;
  return error instanceof HostError ? error.kind : messageOf(error);
}
