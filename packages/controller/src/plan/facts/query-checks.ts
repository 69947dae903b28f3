/**
 * The queries and alerts that checks of the configuration ask for, and whether their latest answers
 * count. An answer counts for EVERY_MS; a check whose answer is older, or missing, is asked again, which
 * takes a moment. Gates and the monitoring name what they need, so that nothing is asked at rest.
 *
 * Before its drain, a staged node needs more: a Job runs when everything else allows the drain.
 *
 *     queries, alerts and templates of Jobs -- all pass --> Jobs of checks -- all pass --> hooks, one by one --> drain
 *
 * Whatever does not pass defers the update. A query is asked again all the time, a Job has one chance in each attempt.
 */
import type { Check } from '@brupop/shared/api/config-checks';
import type { ChecksView, Evaluation } from '../../cluster/checks.ts';
import { keyOf, type Probe } from '../../cluster/probes.ts';
import type { UpdatePolicy } from '../../policy/policy.ts';
import { hooksBefore, type JobInput, type JobProgress, jobsBefore, progressOf } from './jobs.ts';
import { recordedQuorums } from './quorum-members.ts';
import { type Blocked, failureReason } from './reasons.ts';

/** How often a check is evaluated while something waits for it, for the whole fleet together. */
const EVERY_MS = 15_000;

interface Answered {
  readonly probe: Probe;
  readonly latest: Evaluation | undefined;
}

/** Returns the first one that has not passed, and what it found. */
export function failedOf(answers: readonly Answered[]): { probe: Probe; found: string } | undefined {
  const failed = answers.find(({ latest }) => latest?.passed === false);
  return failed?.latest && { probe: failed.probe, found: failed.latest.found };
}

/** Returns why the first one that has not passed did not, or undefined. */
export function problemIn(answers: readonly Answered[]): string | undefined {
  const failed = failedOf(answers);
  return failed && `the check ${failed.probe.check} does not pass: ${failed.found}`;
}

/** The checks for which one plan asks. */
export class Checks {
  readonly view: ChecksView;
  readonly #requested = new Map<string, Probe>();
  readonly #now: number;

  constructor(view: ChecksView, now: number) {
    this.view = view;
    this.#now = now;
  }

  /** The latest evaluation, if it counts. Of one that has not passed, also an older one. */
  of(probe: Probe): Evaluation | undefined {
    const key = keyOf(probe);
    this.#requested.set(key, probe);
    const latest = this.view.evaluations.get(key);
    return latest === undefined || (latest.passed && this.#isOld(latest)) ? undefined : latest;
  }

  /** The probes, each with {@link of}. */
  all(probes: readonly Probe[]): readonly Answered[] {
    return probes.map((probe) => ({ probe, latest: this.of(probe) }));
  }

  /** What must be evaluated now. */
  get due(): readonly Probe[] {
    return [...this.#requested].flatMap(([key, probe]) => {
      const latest = this.view.evaluations.get(key);
      return latest === undefined || this.#isOld(latest) ? [probe] : [];
    });
  }

  /** When the others must be evaluated again, epoch milliseconds. */
  get times(): readonly number[] {
    return [...this.#requested.keys()].flatMap((key) => {
      const latest = this.view.evaluations.get(key);
      return latest === undefined ? [] : [latest.at + EVERY_MS];
    });
  }

  /** The clock may have been set back. */
  #isOld({ at }: Evaluation): boolean {
    return this.#now - at >= EVERY_MS || at > this.#now;
  }
}

/** The queries and alerts of a phase. */
export function probesOf({ health }: UpdatePolicy, phase: 'Before' | 'After'): Probe[] {
  return health.checks.filter(({ when }) => when.includes(phase)).flatMap((check) => probeOf(check) ?? []);
}

/** The queries and alerts of these names, whatever their phase. */
export function probesNamed({ health }: Pick<UpdatePolicy, 'health'>, names: readonly string[]): Probe[] {
  return health.checks.filter(({ name }) => names.includes(name)).flatMap((check) => probeOf(check) ?? []);
}

function probeOf({ name, prometheus, alerts }: Check): Probe | undefined {
  if (prometheus !== undefined) return { check: name, kind: 'prometheus', query: prometheus.query };
  return alerts && { check: name, kind: 'alerts', filter: alerts.filter };
}

/**
 * The templates of all Jobs of a node: it does not start if it would miss one later.
 * @param quorums - names of the sets with a member on it
 */
export function templatesOf({ health, hooks }: UpdatePolicy, quorums: ReadonlySet<string>): Probe[] {
  const named = [...health.checks, ...hooksBefore(hooks, quorums), ...hooks.after];
  return named.flatMap(({ name, job }) =>
    job ? [{ check: name, kind: 'cronJob', cronJob: job.cronJob } as const] : [],
  );
}

/** Why a node waits for these checks; undefined: all have passed. */
export function whyNotPassed(answers: readonly Answered[]): Blocked | undefined {
  const failed = failedOf(answers);
  if (failed !== undefined) {
    const { kind, check } = failed.probe;
    const what = kind === 'cronJob' ? `The Job of ${check} cannot run` : `The check ${check} does not pass`;
    return { reason: 'CheckNotPassed', message: `${what}: ${failed.found}` };
  }
  const unknown = answers.find(({ latest }) => latest === undefined);
  if (unknown === undefined) return undefined;
  return { reason: 'CheckNotPassed', message: `The check ${unknown.probe.check} is being evaluated`, isUnknown: true };
}

/**
 * The same of the checks before an update, and before its drain.
 * @param quorums - names of the sets with a member on the node
 */
export function whyNotBefore(policy: UpdatePolicy, checks: Checks, quorums: ReadonlySet<string>): Blocked | undefined {
  return whyNotPassed(checks.all([...probesOf(policy, 'Before'), ...templatesOf(policy, quorums)]));
}

/** Evaluates a staged node that everything else allows to be drained: why it must not be, if known. */
export function beforeDrain(input: JobInput & { readonly checks: Checks }): {
  readonly blocked: Blocked | undefined;
  readonly jobs: JobProgress;
} {
  const jobs = progressOf(jobsBefore(input), input);
  const { run, message = '' } = jobs.failed ?? {};
  if (run !== undefined) return { blocked: { reason: failureReason(run.kind), message }, jobs };
  return { blocked: whyNotBefore(input.policy, input.checks, recordedQuorums(input.shadow)), jobs };
}
