/**
 * The Jobs of checks and hooks: which ones an update needs, in which order, and how far they are. The
 * record of the node has each one of the latest attempt before it is created:
 *
 *     -- (Due) -- the update is at its phase --> Started -- its result is known --> Succeeded, Failed, TimedOut or Gone
 *
 * Hooks after the update are Due from the end of the attempt, and run while the node is idle, after one before it that still
 * runs when something else ends the attempt. Nothing starts a recorded Job again: a controller that takes over only looks
 * what became of it. A Job that is gone counts as failed, because it may have run. The name of a Job follows from the
 * shadow, the start of the update, the phase and the check, so that no other attempt meets it.
 */
import { createHash } from 'node:crypto';
import type { Check, Hook, Phase } from '@brupop/shared/api/config-checks';
import { formatDuration } from '@brupop/shared/api/spec-schema';
import { type ChecksView, isResult, JOB_SLACK_MS, type JobRef, type JobResult } from '../../cluster/checks.ts';
import { nodeOf, type ShadowView } from '../../cluster/shadow.ts';
import { isUnderWay } from '../../cluster/state.ts';
import type { UpdatePolicy } from '../../policy/policy.ts';
import { recordedQuorums } from './quorum-members.ts';
import type { Moment } from '../../kept/moment.ts';

/** A Job that an update needs. */
export interface JobRun extends JobRef {
  /** In the record. */
  readonly key: string;
  readonly kind: 'check' | 'hook';
  readonly cronJob: string;
  /** The next one runs also when this one does not end in time. */
  readonly proceeds: boolean;
  /** Its attempt is over: the next one runs whatever its result is, and it is not created any more. */
  readonly isOver?: true;
  /** Of the node, before and after the update. */
  readonly versions: { readonly from: string; readonly to: string };
}

type State = 'Due' | 'Started' | JobResult;

export interface JobProgress {
  /** None is left to run: all have passed, or one has failed. */
  readonly isDone: boolean;
  readonly isStarted: boolean;
  /** Why the first one that failed did. */
  readonly failed: { readonly run: JobRun; readonly message: string } | undefined;
  /** What is waited for. */
  readonly waitsFor: string | undefined;
  /** To be recorded and created now. */
  readonly start: readonly JobRun[];
  /** Recorded, and not created yet. */
  readonly create: readonly JobRun[];
  /** To be read now. */
  readonly read: readonly JobRun[];
  /** What is to be on record, without those to be started. */
  readonly records: Records;
  /** Epoch milliseconds. */
  readonly times: readonly number[];
}

export interface JobInput {
  readonly shadow: ShadowView;
  readonly policy: UpdatePolicy;
  readonly checks: { readonly view: ChecksView };
  readonly now: Moment;
}

/** By key; `from` and `to` are the versions of the attempt. */
type Records = ReadonlyMap<string, string>;

export function recordsOf({ record }: ShadowView): Records {
  return new Map(Object.entries(record.jobs ?? {}));
}

/** As it is written; null: nothing is. */
export type WrittenJobs = Readonly<Record<string, string>> | null;

export function written(records: Records): WrittenJobs {
  return records.size === 0 ? null : Object.fromEntries(records);
}

/** Whose Jobs are those of the latest attempt; see `attemptOf`. */
export function currentAttempt({ metadata: { uid }, record }: ShadowView): string {
  return `${uid}/${record.startedAt ?? ''}`;
}

type Group = readonly JobRun[];

/** The checks at once; after them the hooks, one after the other. */
export function jobsBefore({ shadow, policy: { health, hooks } }: JobInput): Group[] {
  const due = hooksBefore(hooks, recordedQuorums(shadow));
  return [checkRuns(shadow, health.checks, 'Before'), ...due.map((hook) => [hookRun(shadow, hook, 'Before')])];
}

/**
 * The hooks before the drain of a node.
 * @param quorums - names of the sets with a member on it
 */
export function hooksBefore({ before }: UpdatePolicy['hooks'], quorums: ReadonlySet<string>): readonly Hook[] {
  return before.filter(({ quorum }) => quorum === undefined || quorums.has(quorum));
}

export function jobsAfter({ shadow, policy: { health } }: JobInput): Group[] {
  return [checkRuns(shadow, health.checks, 'After')];
}

/** Those hooks after the update that are due or were, after one before it that has not ended. */
export function hooksAfter({ shadow, policy: { hooks } }: Pick<JobInput, 'shadow' | 'policy'>): Group[] {
  const records = recordsOf(shadow);
  if (isUnderWay(shadow) || records.size === 0) return [];
  const before = hooks.before.map((hook): JobRun => ({ ...hookRun(shadow, hook, 'Before'), isOver: true }));
  const due = hooks.after.map((hook) => hookRun(shadow, hook, 'After')).filter(({ key }) => records.has(key));
  const first = due.length === 0 ? [] : before.filter(({ key }) => records.get(key) === 'Started');
  return [...first, ...due].map((run) => [run]);
}

function checkRuns(shadow: ShadowView, checks: readonly Check[], phase: Phase): Group {
  return checks
    .filter(({ when }) => when.includes(phase))
    .flatMap(({ name, job, timeoutMs }) =>
      job === undefined ? [] : [runOf(shadow, { name, kind: 'check', phase, cronJob: job.cronJob, timeoutMs })],
    );
}

function hookRun(shadow: ShadowView, { name, job, timeoutMs, onTimeout }: Hook, phase: Phase): JobRun {
  const parts = { name, kind: 'hook', phase, cronJob: job.cronJob, timeoutMs } as const;
  return { ...runOf(shadow, parts), proceeds: onTimeout === 'Proceed' };
}

function runOf(shadow: ShadowView, parts: Pick<JobRun, 'name' | 'kind' | 'phase' | 'cronJob' | 'timeoutMs'>): JobRun {
  const key = `${parts.phase}/${parts.kind}/${parts.name}`;
  const jobOf = `${currentAttempt(shadow)}/${key}`;
  const hash = createHash('sha256').update(jobOf).digest('hex').slice(0, 16);
  const records = recordsOf(shadow);
  const { spec, status } = shadow;
  const versions = {
    from: records.get('from') ?? status?.current_version ?? '',
    to: records.get('to') ?? spec.version ?? '',
  };
  return {
    ...parts,
    node: nodeOf(shadow),
    key,
    jobOf,
    jobName: `brupop-${parts.name}-${hash}`,
    proceeds: false,
    versions,
  };
}

/** A Job is read this often while an update waits for it. */
const READ_EVERY_MS = 5_000;

/** Of groups that run one after the other, each all at once. */
export function progressOf(groups: readonly Group[], input: JobInput): JobProgress {
  const runs = groups.flat();
  const state = (run: JobRun): State | undefined => stateOf(run, input);
  const group = groups.find((some) => some.some((run) => !isPassed(run, state(run)))) ?? [];
  const failing = group.find((run) => isFailure(run, state(run)));
  const current = failing === undefined ? group.filter((run) => !isPassed(run, state(run))) : [];
  const { namespace, jobs } = input.checks.view;
  const started = current.filter((run) => state(run) === 'Started');
  const found = runs
    .filter((run) => isResult(state(run)))
    // It is not the reason for which the attempt has ended.
    .map((run): [string, string] => [run.key, run.isOver === true ? 'Succeeded' : (state(run) ?? '')]);
  const running = started.filter((run) => run.isOver === true || jobs.get(run.jobName)?.state !== 'Creating');
  const readAt = (run: JobRun): number => (jobs.get(run.jobName)?.seenAt ?? -Infinity) + READ_EVERY_MS;
  return {
    isDone: current.length === 0,
    isStarted: runs.some((run) => (state(run) ?? 'Due') !== 'Due'),
    failed: failing && { run: failing, message: describe(failing, state(failing), input) },
    waitsFor: current[0] && waiting(current[0], input),
    start: namespace === '' ? [] : current.filter((run) => !started.includes(run)),
    create: started.filter((run) => !running.includes(run)),
    read: running.filter((run) => input.now.reached(readAt(run))),
    records: new Map([...recordsOf(input.shadow), ...found]),
    times: running.map(readAt),
  };
}

function stateOf(run: JobRun, { shadow, checks, now }: JobInput): State | undefined {
  const recorded = recordsOf(shadow).get(run.key);
  if (isResult(recorded)) return recorded;
  const seen = checks.view.jobs.get(run.jobName);
  if (seen === undefined) return recorded === 'Started' || recorded === 'Due' ? recorded : undefined;
  const isLate = seen.state === 'Creating' && now.reached(seen.since + run.timeoutMs + JOB_SLACK_MS + 1);
  if (isLate) return 'TimedOut';
  return isResult(seen.state) ? seen.state : 'Started';
}

function isPassed({ proceeds, isOver }: JobRun, state: State | undefined): boolean {
  if (isOver === true) return isResult(state);
  return state === 'Succeeded' || (state === 'TimedOut' && proceeds);
}

function isFailure(run: JobRun, state: State | undefined): boolean {
  return isResult(state) && !isPassed(run, state);
}

function waiting({ kind, name, jobName }: JobRun, { checks: { view } }: JobInput): string {
  if (view.namespace === '') return `the ${kind} ${name} needs Jobs, which the chart's value checks.enabled allows`;
  const { problem } = view.jobs.get(jobName) ?? {};
  const why = problem === undefined ? '' : `: ${problem}`;
  return `the ${kind} ${name} (Job ${view.namespace}/${jobName}) has not ended${why}`;
}

const WHEN = { Before: 'before the drain', After: 'after the update' };

function describe(run: JobRun, state: State | undefined, { checks: { view } }: JobInput): string {
  const { kind, name, jobName, phase, timeoutMs } = run;
  const job = `${view.namespace}/${jobName}`;
  if (state === 'Gone') return `The Job ${job} of the ${kind} ${name} was deleted before its result was known`;
  const seen = view.jobs.get(jobName);
  const kept = seen?.problem ?? `see its logs and kubectl describe job -n ${view.namespace} ${jobName}`;
  const where = seen === undefined ? `its Job ${job} no longer exists` : kept;
  const what = state === 'TimedOut' ? `did not end within ${formatDuration(timeoutMs)}` : 'failed';
  return `The ${kind} ${name} ${what} ${WHEN[phase]}; ${where}`;
}

/** Why the latest attempt ended, if a check or a hook before the drain ended it. */
export function failedJob(input: JobInput): JobProgress['failed'] {
  const groups = [...jobsBefore(input), ...jobsAfter(input)];
  return groups.map((group) => progressOf([group], input).failed).find((failed) => failed !== undefined);
}

/** True until the records say no more that hooks after the update are due, whatever their Jobs do. */
export function hasHooksLeft(input: Parameters<typeof hooksAfter>[0]): boolean {
  return hooksAfter(input).length > 0;
}

/** What is left of the records when the hooks after the update have ended. */
export function withoutHooks(records: Records): Records {
  const left = [...records].filter(([key, state]) => !key.startsWith('After/hook/') && state !== 'Succeeded');
  return new Map(left.some(([key]) => key.includes('/')) ? left : []);
}

/** What is recorded when an update starts; null: it needs no Jobs. */
export function recordsAtStart({ health, hooks }: UpdatePolicy, from: string, to: string): WrittenJobs {
  const isNeeded = [...health.checks, ...hooks.before, ...hooks.after].some(({ job }) => job !== undefined);
  return isNeeded ? { from, to } : null;
}

/** What is recorded when an attempt ends: why, if that was a Job, the hooks after it, and one before it that still runs. */
export function recordsAtEnd(input: JobInput): WrittenJobs {
  const { shadow, policy } = input;
  const { records } = progressOf([...jobsBefore(input), ...jobsAfter(input)], input);
  const failed = failedJob(input);
  const wasHooked = [...records.keys()].some((key) => key.startsWith('Before/hook/'));
  const mayBeDrained = shadow.spec.state !== 'StagedAndPerformedUpdate';
  const due = mayBeDrained || wasHooked ? policy.hooks.after.map((hook) => hookRun(shadow, hook, 'After').key) : [];
  if (failed === undefined && due.length === 0) return null;
  const kept = ['from', 'to', ...(failed === undefined ? [] : [failed.run.key])];
  const isKept = ([key, state]: readonly [string, string]): boolean =>
    kept.includes(key) || (due.length > 0 && state === 'Started' && key.startsWith('Before/hook/'));
  return written(new Map([...[...records].filter(isKept), ...due.map((key) => [key, 'Due'] as const)]));
}

/** The longest time that Jobs may take before the drain. */
export function msBefore({ health, hooks }: UpdatePolicy): number {
  return longestOf(health.checks, 'Before') + msOf(hooks.before);
}

/** The longest time that Jobs of checks may take after the update. */
export function msAfter({ health }: UpdatePolicy): number {
  return longestOf(health.checks, 'After');
}

/** The longest time that hooks after the update may take, with those before it that are on record. */
export function msOfHooksAfter({ shadow, policy: { hooks } }: Pick<JobInput, 'shadow' | 'policy'>): number {
  const before = hooks.before.filter((hook) => recordsOf(shadow).has(hookRun(shadow, hook, 'Before').key));
  return msOf([...before, ...hooks.after]);
}

function longestOf(checks: readonly Check[], phase: Phase): number {
  const times = checks.filter(({ when, job }) => when.includes(phase) && job !== undefined);
  return Math.max(0, ...times.map(({ timeoutMs }) => timeoutMs + JOB_SLACK_MS));
}

function msOf(hooks: readonly Hook[]): number {
  return hooks.reduce((sum, { timeoutMs }) => sum + timeoutMs + JOB_SLACK_MS, 0);
}
