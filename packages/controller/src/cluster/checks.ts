/**
 * What is known of the checks of the configuration: the latest answer of each query, and the Jobs
 * that updates wait for. Neither is watched: a plan names what it needs to know ({@link
 * CheckLookups.look}), and the next snapshot has it. All is asked in the background, so that a slow
 * Prometheus delays nothing but what waits for it. Nothing is asked while no plan needs it.
 *
 * A Job is `Creating` from when its creation is recorded in the shadow until the Kubernetes API has it;
 * a controller that takes over knows only the record. A recorded Job that is not there is `Gone`: it may
 * have run. One that the Kubernetes API refuses, or whose pods it refuses for good, has `Failed` with that reason; it has
 * not run. What may pass is shown while the Job is `Running`.
 */
import * as v from 'valibot';
import { JOB_OF_ANNOTATION } from '@brupop/shared/api/names';
import { object, parse } from '@brupop/shared/api/schema';
import type { KubeClient } from '@brupop/shared/kube/client';
import { readList } from '@brupop/shared/kube/list';
import { corePath, groupPath } from '@brupop/shared/kube/paths';
import { type Clock, instantOf, wallTimeOf } from '@brupop/shared/runtime/clock';
import { messageOf, shorten } from '@brupop/shared/runtime/errors';
import { Listeners } from '@brupop/shared/runtime/listeners';
import type { Logger } from '@brupop/shared/runtime/log';
import { type Answer, ask, type ChecksConfig, keyOf, type Probe } from './probes.ts';
import { isQuota, latestRefusal, MAX_REFUSAL, QUOTA_MS, readRefusal, type Refusal } from './refusals.ts';

const JOB_RESULTS = ['Succeeded', 'Failed', 'TimedOut', 'Gone'] as const;
export type JobResult = (typeof JOB_RESULTS)[number];

/** A Job of a check or hook, for one node, one attempt and one phase. */
export interface JobRef {
  readonly node: string;
  readonly jobName: string;
  /** Whose it is, in the annotation of the Job. */
  readonly jobOf: string;
  /** Of the check or hook. */
  readonly name: string;
  readonly phase: 'Before' | 'After';
  readonly timeoutMs: number;
}

export interface JobView extends Pick<JobRef, 'jobOf'> {
  readonly state: 'Creating' | 'Running' | JobResult;
  /** Why it could not be created or read, so far. */
  readonly problem?: string;
  /** When this process first knew of it, epoch milliseconds. */
  readonly since: number;
  /** Epoch milliseconds. */
  readonly seenAt: number;
}

export interface Evaluation extends Answer {
  /** Epoch milliseconds. */
  readonly at: number;
  /** Since when each evaluation has passed or not, as this one; epoch milliseconds. */
  readonly since: number;
  /** It was not asked shortly before that time, such as by a new leader: it may have been the same for longer. */
  readonly isCut?: boolean;
}

export interface ChecksView {
  /** Of the Jobs; empty: the chart allows none. */
  readonly namespace: string;
  /** By key of the probe. */
  readonly evaluations: ReadonlyMap<string, Evaluation>;
  /** By name. */
  readonly jobs: ReadonlyMap<string, JobView>;
}

interface KnownJob extends Omit<JobView, 'since'> {
  /** On the monotonic clock, since the other one may be set right meanwhile. */
  readonly knownAt: number;
}

interface CheckRequests {
  readonly evaluate: readonly Probe[];
  readonly read: readonly JobRef[];
}

interface CheckLookupsOptions {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly log: Logger;
  readonly config: ChecksConfig;
  readonly count: (labels: { check: string; phase: string; result: string }) => void;
}

/** A check that was not asked for this long has not passed without a break. */
export const UNBROKEN_MS = 45_000;
/** Answers are forgotten when no plan has asked for them for this long. */
const FORGET_MS = 600_000;
/** The controller of Jobs creates a pod within moments. */
const NO_PODS_MS = 5_000;
/** Of all Jobs, in an hour: Kubernetes keeps about ten of one Job. */
const MAX_EVENTS = 20_000;
/** A list of them serves all Jobs for this long: etcd reads all Events of the namespace for it. */
const EVENTS_MS = 5_000;
/** How much longer than its timeout a Job may take, if nothing ends it. */
export const JOB_SLACK_MS = 60_000;

export class CheckLookups {
  readonly #options: CheckLookupsOptions;
  readonly #evaluations = new Map<string, Evaluation>();
  readonly #jobs = new Map<string, KnownJob>();
  readonly #busy = new Set<string>();
  /** The latest list, by the UID of the Job, and when it began on the monotonic clock. */
  #refusals: { readonly at: number; readonly byJob: Promise<ReadonlyMap<string, readonly Refusal[]>> } | undefined;
  /** Called after each answer. */
  readonly answers = new Listeners();

  constructor(options: CheckLookupsOptions) {
    this.#options = options;
  }

  get config(): ChecksConfig {
    return this.#options.config;
  }

  get view(): ChecksView {
    const { clock, config } = this.#options;
    const now = instantOf(clock);
    const jobs = [...this.#jobs].map(
      ([name, { knownAt, ...job }]) => [name, { ...job, since: wallTimeOf(knownAt, now) }] as const,
    );
    return { namespace: config.namespace, evaluations: this.#evaluations, jobs: new Map(jobs) };
  }

  /** Asks in the background, each one only once at a time, until `signal` aborts. */
  look({ evaluate, read }: CheckRequests, signal: AbortSignal): void {
    for (const probe of evaluate) this.#inBackground(keyOf(probe), signal, () => this.#evaluate(probe, signal));
    for (const job of read) this.#inBackground(job.jobName, signal, () => this.#read(job, signal));
  }

  /** The creation of a Job is recorded, and it may not exist yet. */
  creating(job: JobRef, problem?: string): void {
    this.#known(job, 'Creating', problem);
  }

  /** The Kubernetes API has the Job, or one of its name. */
  created(job: JobRef): void {
    this.#known(job, 'Running');
  }

  /** The Kubernetes API does not accept the Job, so it has not run. Jobs that end may make room in a quota. */
  refused(job: JobRef, problem: string): void {
    const isLasting = !isQuota(problem) || this.#knownForMs(job) >= QUOTA_MS;
    this.#known(job, isLasting ? 'Failed' : 'Creating', `the Job was refused: ${shorten(problem, MAX_REFUSAL)}`);
  }

  /** Forgets all: another process may act until this one leads again. */
  clear(): void {
    this.#evaluations.clear();
    this.#jobs.clear();
    this.#refusals = undefined;
  }

  /** Forgets the Jobs of other attempts, and answers that no plan needs. */
  retain(attempts: ReadonlySet<string>): void {
    const { clock } = this.#options;
    for (const [name, { jobOf }] of this.#jobs) if (!attempts.has(attemptOf(jobOf))) this.#jobs.delete(name);
    for (const [key, { at }] of this.#evaluations) if (clock.now() - at > FORGET_MS) this.#evaluations.delete(key);
  }

  #inBackground(key: string, signal: AbortSignal, work: () => Promise<void>): void {
    if (this.#busy.has(key)) return;
    this.#busy.add(key);
    void work()
      .catch((error: unknown) => this.#options.log.debug('a check was not evaluated', { error: messageOf(error) }))
      .finally(() => {
        this.#busy.delete(key);
        if (!signal.aborted) this.answers.call();
      });
  }

  async #evaluate(probe: Probe, signal: AbortSignal): Promise<void> {
    const { clock, count, log } = this.#options;
    const answer = await ask(probe, { ...this.#options, signal });
    signal.throwIfAborted();
    const key = keyOf(probe);
    const at = clock.now();
    const before = this.#evaluations.get(key);
    const isUnbroken = before !== undefined && at - before.at <= UNBROKEN_MS;
    const isSame = isUnbroken && before.passed === answer.passed;
    const found = isSame && withoutNumbers(before.found) === withoutNumbers(answer.found) ? before.found : answer.found;
    const { since, isCut } = isSame ? before : { since: at, isCut: !isUnbroken };
    this.#evaluations.set(key, { ...answer, found, at, since, isCut: isCut === true });
    const result = answer.passed ? 'Passed' : 'NotPassed';
    if (probe.kind !== 'cronJob') count({ check: probe.check, phase: 'Query', result });
    if (!isSame) log.info('a check has another result', { check: probe.check, result, found: answer.found });
  }

  async #read(job: JobRef, signal: AbortSignal): Promise<void> {
    const { client, config } = this.#options;
    const path = groupPath('batch/v1', 'jobs', { namespace: config.namespace, name: job.jobName });
    try {
      const found = await client.find(path, signal);
      signal.throwIfAborted();
      if (found === undefined) this.#known(job, 'Gone');
      else await this.#readFound(job, readJob(found), signal);
    } catch (error) {
      if (signal.aborted) throw error;
      this.#known(job, 'Running', messageOf(error));
    }
    const { state, problem } = this.#jobs.get(job.jobName) ?? {};
    const isLate = this.#knownForMs(job) > job.timeoutMs + JOB_SLACK_MS;
    if (state === 'Running' && isLate) this.#known(job, 'TimedOut', problem);
  }

  async #readFound(job: JobRef, found: RawJob, signal: AbortSignal): Promise<void> {
    const refusal = found.hasPods ? undefined : await this.#refusalOf(job, found.uid, signal);
    const problem = refusal && `no pod could be created: ${refusal.message}`;
    this.#known(job, refusal?.isLasting === true ? 'Failed' : stateOf(found, job), problem);
  }

  /** Why no pod of a Job can be created. A Job whose pod was created meanwhile has run, whatever an Event says. */
  async #refusalOf(job: JobRef, uid: string, signal: AbortSignal): Promise<ReturnType<typeof latestRefusal>> {
    if (this.#knownForMs(job) < NO_PODS_MS) return undefined;
    const now = this.#options.clock.monotonic();
    if (this.#refusals === undefined || now - this.#refusals.at >= EVENTS_MS)
      this.#refusals = { at: now, byJob: this.#listRefusals(signal) };
    return latestRefusal((await this.#refusals.byJob).get(uid) ?? []);
  }

  async #listRefusals(signal: AbortSignal): Promise<ReadonlyMap<string, readonly Refusal[]>> {
    const { client, config } = this.#options;
    const { items } = await readList(client, {
      path: corePath('events', { namespace: config.namespace }),
      query: { fieldSelector: 'involvedObject.kind=Job,reason=FailedCreate' },
      isNarrow: false,
      maxItems: MAX_EVENTS,
      signal,
      slim: readRefusal,
    });
    return Map.groupBy(items, ({ of }) => of);
  }

  #knownForMs({ jobName }: JobRef): number {
    const now = this.#options.clock.monotonic();
    return now - (this.#jobs.get(jobName)?.knownAt ?? now);
  }

  #known(job: JobRef, state: JobView['state'], problem?: string): void {
    const { clock, count, log } = this.#options;
    const { jobName, jobOf, name, phase, node } = job;
    const before = this.#jobs.get(jobName);
    const times = { knownAt: before?.knownAt ?? clock.monotonic(), seenAt: clock.now() };
    this.#jobs.set(jobName, { jobOf, state, ...times, ...(problem !== undefined && { problem }) });
    if (before?.state === state || !isResult(state)) return;
    count({ check: name, phase, result: state });
    const level = state === 'Succeeded' ? 'info' : 'warn';
    const fields = { node, attempt: startIn(jobOf), job: jobName, check: name, phase, result: state, error: problem };
    log[level]('the job of a check or hook ended', fields);
  }
}

/** A message must not change with each evaluation, since nodes that wait show it. */
function withoutNumbers(found: string): string {
  return found.replaceAll(/\d+(?:\.\d+)?/gu, '');
}

/** The attempt that a Job belongs to: the UID of its shadow, and when the update started. */
export function attemptOf(jobOf: string): string {
  return jobOf.split('/').slice(0, 2).join('/');
}

/** When the update started, the id of the attempt in log lines. */
export function startIn(jobOf: string): string | undefined {
  return jobOf.split('/')[1];
}

export function isResult(state: string | undefined): state is JobResult {
  return JOB_RESULTS.some((one) => one === state);
}

const text = v.string('a text');
const job = object({
  metadata: object({
    name: text,
    uid: text,
    annotations: v.exactOptional(v.record(text, text, 'annotations')),
    ownerReferences: v.exactOptional(v.array(object({ kind: text, name: text }), 'a list')),
  }),
  status: v.exactOptional(
    object({
      conditions: v.exactOptional(
        v.array(object({ type: text, status: text, reason: v.exactOptional(text) }), 'a list'),
      ),
      active: v.exactOptional(v.number()),
      succeeded: v.exactOptional(v.number()),
      failed: v.exactOptional(v.number()),
    }),
  ),
});

export interface RawJob {
  readonly name: string;
  readonly uid: string;
  /** The Node that it belongs to. */
  readonly node: string | undefined;
  /** Whose it is; empty: not the operator's. */
  readonly jobOf: string;
  readonly result: 'Succeeded' | 'Failed' | 'TimedOut' | undefined;
  /** It has or had some. */
  readonly hasPods: boolean;
}

/** Longer than what the operator writes. Whoever may create Jobs in their namespace may write more. */
const MAX_JOB_OF = 1_000;

function jobOfIn({ [JOB_OF_ANNOTATION]: found = '' }: Readonly<Record<string, string>>): string {
  return found.length > MAX_JOB_OF ? '' : found;
}

/** Throws an error that names the field which is not as expected. */
export function readJob(raw: unknown): RawJob {
  const { metadata, status } = parse(job, raw, 'the Job');
  const { name, uid, annotations = {}, ownerReferences = [] } = metadata;
  const node = ownerReferences.find(({ kind }) => kind === 'Node')?.name;
  const { active = 0, succeeded = 0, failed = 0 } = status ?? {};
  const hasPods = active + succeeded + failed > 0;
  return {
    name,
    uid,
    node,
    jobOf: jobOfIn(annotations),
    result: resultOf(status?.conditions),
    hasPods,
  };
}

function resultOf(
  conditions: readonly { readonly type: string; readonly status: string; readonly reason?: string }[] = [],
): RawJob['result'] {
  const found = (wanted: string) => conditions.find(({ type, status }) => type === wanted && status === 'True');
  if (found('Complete') !== undefined) return 'Succeeded';
  const failed = found('Failed');
  if (failed === undefined) return undefined;
  return failed.reason === 'DeadlineExceeded' ? 'TimedOut' : 'Failed';
}

/** A Job of another owner with this name says nothing, and keeps ours from being created. */
function stateOf({ jobOf, result }: RawJob, expected: JobRef): JobView['state'] {
  return jobOf === expected.jobOf ? (result ?? 'Running') : 'Failed';
}
