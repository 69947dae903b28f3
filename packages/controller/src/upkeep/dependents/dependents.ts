/**
 * Scales dependents to 0 while most nodes of the cluster have lost the control plane, and back. Runs on
 * the leader, beside the plan. It reads the targets that the chart names, lets `decide.ts` choose, and
 * sends one patch after the other; the next pass reads what became of it. As long as it is not known
 * whether the cluster is lost, and while a request fails for a reason that passes, nothing is scaled and
 * the levels start again. But on the way up a request that fails keeps its own target only: a webhook
 * that is down for one of them must not keep the others at 0.
 */
import { isDeepStrictEqual } from 'node:util';
import type { TargetName } from '@brupop/shared/api/config-dependents';
import type { KubeClient } from '@brupop/shared/kube/client';
import { hasStatus, isConflict, isDenial, isTransient, kindOf, KubeError } from '@brupop/shared/kube/error';
import type { Events } from '@brupop/shared/kube/events';
import { retryDelayMs } from '@brupop/shared/kube/reflector';
import type { Clock } from '@brupop/shared/runtime/clock';
import { messageOf } from '@brupop/shared/runtime/errors';
import { type Logger, RetriedProblem } from '@brupop/shared/runtime/log';
import { Loop } from '@brupop/shared/runtime/loop';
import type { Cluster } from '../../cluster/cluster.ts';
import type { DependentsView } from '../../cluster/dependents.ts';
import type { Metrics } from '../../metrics.ts';
import type { DependentsStatus } from '../../report/config-status.ts';
import { decide, type Direction, type Entry, entriesOf, observedOf, type Scaling, type Started } from './decide.ts';
import { Notices } from './notices.ts';
import { reportOf, type Shown, stateOf } from './report.ts';
import { downPatch, type Found, type RawTarget, readTarget, targetPath, upPatch } from './target.ts';

interface DependentsOptions {
  readonly client: Pick<KubeClient, 'find' | 'mergePatch'>;
  readonly cluster: Pick<Cluster, 'dependents' | 'onChange'>;
  /** Those of the value dependents.targets of the chart: all that this process may read. */
  readonly targets: readonly TargetName[];
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics: Pick<Metrics, 'writes' | 'dependents' | 'clusterLost'>;
  readonly events: Pick<Events, 'record'>;
  /** Called when the report has changed. */
  readonly onReport: () => void;
}

/** Why the request for a target fails. */
interface Rejection {
  readonly problem: string;
  /** On the monotonic clock. */
  readonly retryAt: number;
  readonly retried: RetriedProblem;
}

const IDLE_MS = 300_000;
/** While the cluster is lost, or something is at 0: others may scale it back. */
const LOST_MS = 10_000;
/** While pods come and go. */
const POLL_MS = 2_000;
const MIN_GAP_MS = 1_000;
const REJECTED_MS = 30_000;
const UNSURE = 'A watch is stale, or the clock of the controller is wrong, so it is not known which nodes are silent';

export class Dependents {
  readonly #options: DependentsOptions;
  #report: DependentsStatus = 'unknown';
  #started: Started = new Map();
  #shown: readonly Shown[] | undefined;
  #rejections = new Map<string, Rejection>();
  readonly #notices: Notices;
  /** What the latest pass has decided on, undefined if it failed; and when the next one is due, on the monotonic clock. */
  #basis: unknown;
  #dueAt = -Infinity;

  constructor(options: DependentsOptions) {
    this.#options = options;
    this.#notices = new Notices(options);
    this.#measure([], {});
  }

  /** Unknown until this process has looked, as the leader. */
  get report(): DependentsStatus {
    return this.#report;
  }

  /** Runs until `signal` aborts. Never throws. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, log, cluster } = this.#options;
    const reconcile = async (): Promise<number | undefined> => await this.check(signal);
    // Reads by name cost as little as a watch.
    const onError = (error: unknown): void => this.#stop(retryDelayMs(error, 0, 'watch'));
    const loop = new Loop({ clock, log, reconcile, onError, minGapMs: MIN_GAP_MS });
    const unsubscribe = cluster.onChange(() => loop.wake());
    await loop.run(signal);
    unsubscribe();
    this.#forget();
  }

  /** One pass. Returns after how many milliseconds the next one is due; undefined: with the next change. Throws KubeError. */
  async check(signal: AbortSignal): Promise<number | undefined> {
    const { cluster, clock, targets } = this.#options;
    const view = cluster.dependents();
    const entries = entriesOf(view, targets);
    if (entries.length === 0) {
      this.#shown = undefined;
      this.#measure([], view);
      this.#setReport(undefined);
      return undefined;
    }
    // What a former leader has reported stays until the first probe.
    if (view.isUnsure || view.loss === undefined) {
      this.#stop(0);
      if (this.#shown !== undefined) this.#setReport(reportOf(this.#shown, view.loss, UNSURE));
      return LOST_MS;
    }
    const basis = [entries, view.problem, view.loss.lost, view.loss.isChanging];
    const leftMs = this.#dueAt - clock.monotonic();
    if (leftMs > 0 && (this.#basis === undefined || isDeepStrictEqual(basis, this.#basis))) return leftMs;
    const nextInMs = await this.#pass(entries, view, signal);
    this.#basis = basis;
    this.#dueAt = clock.monotonic() + nextInMs;
    return nextInMs;
  }

  async #pass(entries: readonly Entry[], view: DependentsView, signal: AbortSignal): Promise<number> {
    const { clock } = this.#options;
    const found = new Map(
      await Promise.all(entries.map(async (one) => [one.key, await this.#find(one, view, signal)] as const)),
    );
    const observed = entries.map((one) => observedOf(one, found.get(one.key) ?? 'Failed', view));
    const { scalings, started, nextAt } = decide(observed, this.#started, clock.monotonic());
    this.#started = started;
    this.#forgetRejections(found, scalings);
    const due = scalings.filter(({ entry }) => clock.monotonic() >= (this.#rejections.get(entry.key)?.retryAt ?? 0));
    for (const scaling of due) await this.#scale(scaling, view, signal);
    this.#show(entries, found, view);
    if (due.length > 0) return MIN_GAP_MS;
    if (nextAt !== undefined) return Math.max(0, Math.min(POLL_MS, nextAt - clock.monotonic()));
    const isAway = view.loss?.lost !== false || scalings.length > 0 || this.#rejections.size > 0;
    return isAway ? LOST_MS : IDLE_MS;
  }

  async #find(entry: Entry, { loss }: DependentsView, signal: AbortSignal): Promise<Found> {
    if (!entry.isAllowed) return 'NotAllowed';
    const { client } = this.#options;
    try {
      const raw = await client.find<RawTarget>(targetPath(entry), signal);
      return raw === undefined ? 'NotFound' : readTarget(raw);
    } catch (error) {
      if (signal.aborted || !isOfTarget(error, loss?.lost === false ? 'Up' : 'Down')) throw error;
      this.#rejected(entry.key, error);
      return 'Failed';
    }
  }

  async #scale({ entry, target, to }: Scaling, view: DependentsView, signal: AbortSignal): Promise<void> {
    const { client, metrics } = this.#options;
    const count = (result: string): void => metrics.writes.inc({ kind: 'dependent', result });
    const body = to === 'Down' ? downPatch(target) : upPatch(target);
    try {
      await client.mergePatch(targetPath(entry), body, { signal });
    } catch (error) {
      // It has changed, or is gone: the next pass reads it again.
      count(isConflict(error) ? 'conflict' : 'error');
      if (isConflict(error)) return;
      if (signal.aborted || !isOfTarget(error, to)) throw error;
      return this.#rejected(entry.key, error);
    }
    count('ok');
    this.#rejections.delete(entry.key);
    this.#notices.scaled(entry, target, to, view.config);
  }

  #rejected(key: string, error: unknown): void {
    const { log, clock } = this.#options;
    const retried = this.#rejections.get(key)?.retried ?? new RetriedProblem(clock);
    const problem = messageOf(error);
    const level = retried.levelOf(kindOf(error), { isLasting: !isTransient(error) });
    log[level]('cannot scale a dependent, retrying', { target: key, error: problem });
    this.#rejections.set(key, { problem, retryAt: clock.monotonic() + REJECTED_MS, retried });
  }

  /** Those of targets that can be read again, and are as they are to be. */
  #forgetRejections(found: ReadonlyMap<string, Found>, scalings: readonly Scaling[]): void {
    for (const key of this.#rejections.keys())
      if (found.get(key) !== 'Failed' && !scalings.some(({ entry }) => entry.key === key)) this.#rejections.delete(key);
  }

  #show(entries: readonly Entry[], found: ReadonlyMap<string, Found>, view: DependentsView): void {
    const shown = entries.map((one) => this.#shownOf(one, found.get(one.key) ?? 'Failed'));
    this.#notices.seen(shown, view.config);
    this.#shown = shown.filter((one) => one.dependent !== undefined || isAtRisk(one));
    this.#measure(this.#shown, view);
    this.#setReport(this.#shown.length === 0 ? undefined : reportOf(this.#shown, view.loss, reasonOfStay(view)));
  }

  #measure(shown: readonly Shown[], { loss }: Partial<DependentsView>): void {
    const { metrics } = this.#options;
    if (shown.length > 0) metrics.clusterLost.set(loss?.lost === true ? 1 : 0);
    else metrics.clusterLost.remove();
    metrics.dependents.reset();
    for (const one of shown) metrics.dependents.inc({ state: stateOf(one) });
  }

  #shownOf(entry: Entry, found: Found): Shown {
    const problem = this.#rejections.get(entry.key)?.problem;
    const isRejected = problem !== undefined && typeof found !== 'string';
    return { ...entry, found: isRejected ? 'Failed' : found, problem, ...numbersOf(found, entry.before?.replicas) };
  }

  #setReport(report: DependentsStatus): void {
    if (isDeepStrictEqual(report, this.#report)) return;
    this.#report = report;
    this.#options.onReport();
  }

  /** Nothing is scaled for a while; after that the levels start again. */
  #stop(ms: number): void {
    this.#started = new Map();
    this.#dueAt = this.#options.clock.monotonic() + ms;
    this.#basis = undefined;
  }

  #forget(): void {
    this.#stop(0);
    this.#report = 'unknown';
    this.#shown = undefined;
    this.#rejections.clear();
    this.#notices.forget();
    this.#measure([], {});
  }
}

/** @param before - what was last reported, of one that was at 0 then */
function numbersOf(found: Found, before: number | undefined): Pick<Shown, 'replicas' | 'lostRecord'> {
  if (found === 'NotFound') return {};
  // It could not be read.
  if (typeof found === 'string') return { replicas: before };
  if (found.state === 'Down') return { replicas: found.restored };
  // By another actor: the operator removes the record only with the request that scales back.
  const isLeftAtZero = found.state === 'Up' && found.replicas === 0 && !found.isIgnored;
  return isLeftAtZero ? { replicas: before, lostRecord: before } : {};
}

/** Of a target without an entry: it is shown as long as it is not as its users want it. */
function isAtRisk(shown: Shown): boolean {
  const state = stateOf(shown);
  return state !== 'NotFound' && state !== 'Up';
}

/** Why nothing is scaled to 0 although the cluster is lost; empty: it is. */
function reasonOfStay({ problem, loss }: DependentsView): string {
  return problem !== undefined && loss?.lost === true ? `The configuration has a mistake: ${problem}` : '';
}

/** Others may succeed. 429 is of the API server, which is not to get more requests. */
function isOfTarget(error: unknown, to: Direction): boolean {
  if (!(error instanceof KubeError)) return false;
  return isDenial(error) || !isTransient(error) || (to === 'Up' && !hasStatus(error, 429));
}
