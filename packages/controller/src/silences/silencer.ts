/**
 * Silences the alerts about nodes that are away because of an update, on the leader only. The loop of the controller calls
 * {@link Silencer.observe} with each plan, which notes what is wanted and returns at once: no update waits for a silence, and
 * none is decided by one. A loop of its own sends one request at a time, and returns to {@link Entries} for the next one.
 *
 *     not checked   the settings are new: Alertmanager is asked for the silences of no node
 *     ready         entries are set and ended when they are due; while none is, no request is sent
 *     not ready     after each failure there is a pause, longer each time; what has failed is tried after all else that is due
 *
 * Nothing is recorded in the cluster: a new leader finds the silences of the former one in Alertmanager, prolongs those of nodes
 * that are away, and ends those of nodes that have returned. A leader that stops leaves them, and without another one they end
 * by themselves.
 */
import { isDeepStrictEqual } from 'node:util';
import type { SilenceSettings } from '@brupop/shared/api/config-silences';
import { backoff } from '@brupop/shared/runtime/backoff';
import { type Logger, RetriedProblem } from '@brupop/shared/runtime/log';
import { Loop } from '@brupop/shared/runtime/loop';
import type { Snapshot } from '../cluster/snapshot.ts';
import type { Metrics } from '../metrics.ts';
import type { DeliveryOptions } from '../notify/deliver.ts';
import { DeliveryError, type Target } from '../notify/target.ts';
import type { BesideCondition } from '../report/config-status.ts';
import type { WholePlan } from '../report/report.ts';
import { checkAlertmanager, endSilence, setSilence } from './alertmanager.ts';
import { Entries, type Entry, MAX_ENTRIES, type Wanted } from './entries.ts';
import { Targets } from './targets.ts';
import { hasAlertmanager, silencesOf, whereabouts } from './wanted.ts';

const RETRY = { baseMs: 10_000, capMs: 60_000 };

interface SilencerOptions extends DeliveryOptions {
  readonly log: Logger;
  readonly metrics: Pick<Metrics, 'silences' | 'silenceFailures' | 'silencesReady'>;
  /** The report has changed. */
  readonly onReport: () => void;
}

interface Health {
  readonly state: 'Unknown' | 'Ready' | 'NotReady';
  readonly message: string;
}
const UNKNOWN: Health = { state: 'Unknown', message: '' };

export class Silencer {
  readonly #options: SilencerOptions;
  readonly #targets: Targets;
  readonly #delays = backoff(RETRY);
  readonly #problem: RetriedProblem;
  /** Undefined: this process does not lead. */
  #loop: Loop | undefined;
  #isObserved = false;
  /** Silences of a former leader have been looked for. */
  #hasFollowed = false;
  /** Of the latest plan; undefined: there is no Alertmanager. */
  #settings: SilenceSettings | undefined;
  /** Of the Alertmanager of these settings. */
  #health = UNKNOWN;
  readonly #entries = new Entries();
  #isFull = false;
  /** Monotonic milliseconds. */
  #pausedUntil = 0;

  constructor(options: SilencerOptions) {
    this.#options = options;
    this.#targets = new Targets(options);
    this.#problem = new RetriedProblem(options.clock);
    options.metrics.silencesReady.remove();
  }

  /** Undefined without an Alertmanager. */
  get report(): BesideCondition {
    if (!this.#isObserved) return 'unknown';
    return this.#settings === undefined ? undefined : conditionOf(this.#health);
  }

  /** Runs until `signal` aborts. Never throws. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, log } = this.#options;
    this.#loop = new Loop({ clock, log, reconcile: async () => await this.#step(signal) });
    await this.#loop.run(signal);
    this.#loop = undefined;
    this.#isObserved = false;
    this.#hasFollowed = false;
    this.#entries.clear();
    this.#follow(undefined);
  }

  observe(plan: WholePlan, { managedNodes, config }: Pick<Snapshot, 'managedNodes' | 'config'>): void {
    if (this.#loop === undefined || config === undefined) return;
    const before = this.report;
    const { silences } = plan.policy;
    this.#isObserved = true;
    this.#follow(hasAlertmanager(silences) ? silences : undefined);
    const settings = this.#settings;
    const wanted = settings === undefined ? [] : this.#wantedOf(plan, managedNodes, settings);
    if (wanted.length > 0 || this.#entries.size > 0) this.#want(wanted, settings);
    if (!isDeepStrictEqual(this.report, before)) this.#options.onReport();
  }

  /** Silences of another cluster of Alertmanagers are left to end by themselves if their nodes remain away. */
  #follow(settings: SilenceSettings | undefined): void {
    if (isDeepStrictEqual(settings, this.#settings)) return;
    this.#settings = settings;
    this.#pausedUntil = 0;
    this.#delays.reset();
    this.#problem.ended();
    this.#health = UNKNOWN;
    this.#options.metrics.silencesReady.remove();
    this.#loop?.wake();
  }

  /** Those of nodes that have returned are looked for once: later they have an entry. */
  #wantedOf(plan: WholePlan, managedNodes: Snapshot['managedNodes'], settings: SilenceSettings): Wanted[] {
    const isFirst = !this.#hasFollowed;
    this.#hasFollowed = true;
    return [...whereabouts(plan, managedNodes)].flatMap(([node, where]) => {
      const isWanted = where === 'Away';
      if (!isWanted && !isFirst) return [];
      return silencesOf(node, settings).map((silence) => ({ node, silence, isWanted }));
    });
  }

  #want(wanted: readonly Wanted[], settings: SilenceSettings | undefined): void {
    const { clock, log } = this.#options;
    const left = this.#entries.want(wanted, settings, clock.monotonic());
    if (left > 0 && !this.#isFull)
      log.warn('alerts about further nodes are not silenced: too many are', { silences: MAX_ENTRIES });
    this.#isFull = left > 0;
    this.#loop?.wake();
  }

  /** Does what is due first. Returns after how many milliseconds something else is; undefined: when woken. */
  async #step(signal: AbortSignal): Promise<number | undefined> {
    const now = this.#options.clock.monotonic();
    this.#entries.forgetEnded(now);
    if (now < this.#pausedUntil) return this.#pausedUntil - now;
    const next = this.#entries.next();
    if (next !== undefined && next.dueAt <= now) {
      const work = next.isWanted ? this.#set(next, signal) : this.#end(next, signal);
      return await this.#attempt(work, next.settings, signal, next);
    }
    const settings = this.#settings;
    if (settings === undefined || this.#health.state === 'Ready') return next && next.dueAt - now;
    return await this.#attempt(this.#check(settings, signal), settings, signal);
  }

  async #attempt(work: Promise<void>, settings: SilenceSettings, signal: AbortSignal, entry?: Entry): Promise<number> {
    try {
      await work;
      this.#succeeded(settings);
      return 0;
    } catch (error) {
      signal.throwIfAborted();
      return this.#failed(error, settings, entry);
    }
  }

  /** Also before anything is to be silenced, so that a mistake is found in time. */
  async #check(settings: SilenceSettings, signal: AbortSignal): Promise<void> {
    const [label] = settings.labels;
    const check = (target: Target) => checkAlertmanager(target, label?.name ?? '', this.#options, signal);
    await this.#targets.withAny(settings, signal, check);
  }

  async #set(entry: Entry, signal: AbortSignal): Promise<void> {
    const { clock } = this.#options;
    const { silence, settings } = entry;
    this.#entries.starts(entry, clock.monotonic());
    const set = (target: Target) => setSilence(target, silence, this.#options, signal);
    this.#show(entry, await this.#targets.withAny(settings, signal, set));
    this.#entries.wasSet(entry, settings, clock.monotonic());
  }

  async #end(entry: Entry, signal: AbortSignal): Promise<void> {
    const { silence, settings } = entry;
    const end = (target: Target) => endSilence(target, silence, this.#options, signal);
    const count = await this.#targets.withAny(settings, signal, end);
    if (count > 0) this.#show(entry, 'Ended');
    this.#entries.wasEnded(entry, count, this.#options.clock.monotonic());
  }

  #show({ node, silence }: Entry, result: 'Created' | 'Prolonged' | 'Ended'): void {
    const { log, metrics } = this.#options;
    metrics.silences.inc({ result });
    log.info('silence in Alertmanager', { node, label: silence.matchers[0].name, result });
  }

  #succeeded(settings: SilenceSettings): void {
    const { log, metrics } = this.#options;
    this.#delays.reset();
    if (settings !== this.#settings) return;
    if (this.#problem.ended()) log.info('Alertmanager takes silences again');
    metrics.silencesReady.set(1);
    this.#report({ state: 'Ready', message: '' });
  }

  /** Returns how long to wait, milliseconds. */
  #failed(error: unknown, settings: SilenceSettings, entry: Entry | undefined): number {
    const { clock, log, metrics } = this.#options;
    const known = error instanceof DeliveryError ? error : new DeliveryError('Unknown', 'the attempt failed');
    const { reason, message, retryAfterMs } = known;
    metrics.silenceFailures.inc({ reason });
    // An Alertmanager that is not in the configuration any more delays nothing at the one that is.
    if (this.#settings !== undefined && settings !== this.#settings) return 0;
    if (this.#settings !== undefined) {
      metrics.silencesReady.set(0);
      this.#report({ state: 'NotReady', message });
    }
    const delayMs = Math.max(retryAfterMs, this.#delays.next());
    const level = this.#problem.levelOf(message);
    log[level]('cannot silence alerts, retrying', { reason, error: message, retryInMs: delayMs });
    this.#pausedUntil = clock.monotonic() + delayMs;
    if (entry !== undefined) entry.dueAt = this.#pausedUntil;
    return delayMs;
  }

  #report(health: Health): void {
    if (isDeepStrictEqual(health, this.#health)) return;
    this.#health = health;
    this.#options.onReport();
  }
}

const CONDITIONS = {
  Ready: { status: 'True', reason: 'AlertmanagerReady' },
  NotReady: { status: 'False', reason: 'AlertmanagerNotReady' },
  Unknown: { status: 'Unknown', reason: 'AlertmanagerNotChecked' },
} as const;
/** Reasons of the condition SilencesReady. `docs/runbook.md` explains each. */
export const SILENCE_REASONS = Object.values(CONDITIONS).map(({ reason }) => reason);

function conditionOf({ state, message }: Health): BesideCondition & object {
  const texts = {
    Ready: 'Alertmanager takes the silences of spec.silences',
    NotReady: `Updates continue, but alerts about nodes that are away are not silenced: ${message}`,
    Unknown: 'The Alertmanager of spec.silences is being checked',
  };
  return { ...CONDITIONS[state], message: texts[state] };
}
