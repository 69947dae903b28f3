/**
 * Creates the Jobs of checks and hooks, and deletes those that are no longer needed. A Job is recorded in
 * its shadow first, with the resourceVersion of the plan, so that of several controllers only one gets to
 * create it, and none creates it again. A Job whose attempt is over is deleted, with its pods; one that
 * failed stays for its logs, until Kubernetes deletes it by its TTL.
 *
 *     at the start of a leadership, when the attempt of a known Job is over (MIN_SWEEP_MS after the latest time), and every
 *     SWEEP_MS while Jobs are known: all Jobs of checks are listed once, and those of no current attempt deleted
 */
import { CHECK_LABEL } from '@brupop/shared/api/names';
import { hasStatus } from '@brupop/shared/kube/error';
import { readList } from '@brupop/shared/kube/list';
import { groupPath } from '@brupop/shared/kube/paths';
import { messageOf } from '@brupop/shared/runtime/errors';
import { attemptOf, type CheckLookups, type RawJob, readJob, startIn } from '../cluster/checks.ts';
import type { NodeView } from '../cluster/node.ts';
import { cronJobPath } from '../cluster/probes.ts';
import { isRefusal } from '../cluster/refusals.ts';
import type { CheckWork, NodeJobs } from '../plan/look-ups.ts';
import type { JobRun } from '../plan/facts/jobs.ts';
import { jobOf } from './job-template.ts';
import { patchRecord } from './records.ts';
import { forEachOf } from '@brupop/shared/runtime/for-each';
import { TokenBucket } from '@brupop/shared/runtime/token-bucket';
import type { ApplyContext } from './writer.ts';

const SWEEP_MS = 600_000;
/** In a large fleet an attempt ends every second, and there are hundreds of Jobs to be listed. */
const MIN_SWEEP_MS = 5_000;
/** With more of them in the namespace, none is deleted. */
const MAX_JOBS = 50_000;
const SWEEP_KEY = 'jobs/sweep';
/** Attempts of one node that get Jobs: its agent may end each of them at once by what it reports, which is no failure. */
const ATTEMPTS = { burst: 5, perSecond: 1 / 300 };
/** Of which attempts are counted. */
const MAX_NODES = 20_000;
/** An attempt that gets none yet is looked at again after this time. */
const HELD_BACK_MS = 15_000;

export class CheckJobs {
  readonly #context: ApplyContext;
  readonly #lookups: CheckLookups;
  /** Of the Jobs that may exist. */
  #attempts: ReadonlySet<string> = new Set();
  /** On the monotonic clock. */
  #sweptAt = -Infinity;
  /** By node, with its latest attempt that may have Jobs. */
  readonly #rates = new Map<string, { readonly rate: TokenBucket; readonly attempt: string | undefined }>();

  constructor(context: ApplyContext, lookups: CheckLookups) {
    this.#context = context;
    this.#lookups = lookups;
  }

  /** Returns after how many milliseconds the next sweep is due, or undefined. */
  async run({ nodes, attempts }: CheckWork): Promise<number | undefined> {
    this.#lookups.retain(attempts);
    if (this.#lookups.config.namespace === '') return undefined;
    const due = nodes.filter((node) => this.#mayStart(node));
    await forEachOf(due, (node) => this.#runNode(node));
    const sweepInMs = await this.#sweepIfDue(attempts);
    return due.length === nodes.length ? sweepInMs : Math.min(HELD_BACK_MS, sweepInMs ?? Infinity);
  }

  /** False for the first Jobs before the drain of an attempt, if the node has had too many attempts. */
  #mayStart({ node, shadow: { record }, start }: NodeJobs): boolean {
    const isStarted = Object.keys(record.jobs ?? {}).some((key) => key.includes('/'));
    const { rate, attempt } = this.#rates.get(node.metadata.name) ?? {};
    const isBefore = start.some(({ phase }) => phase === 'Before');
    if (isStarted || !isBefore || attempt === record.startedAt) return true;
    if (this.#rates.size >= MAX_NODES) this.#rates.clear();
    const known = rate ?? new TokenBucket(this.#context.clock, ATTEMPTS);
    const mayStart = known.take();
    this.#rates.set(node.metadata.name, { rate: known, attempt: mayStart ? record.startedAt : attempt });
    return mayStart;
  }

  async #runNode(work: NodeJobs): Promise<void> {
    const { writer, events } = this.#context;
    const { shadow, node, records, event, start, create } = work;
    const key = `jobs/${shadow.metadata.uid}`;
    let due = create;
    if (records !== undefined && writer.canWrite(key)) {
      const log = this.#context.logOf(node.metadata.name);
      const record = { ...shadow.record, jobs: records ?? undefined };
      const isRecorded = await writer.attempt('job_record', key, () => patchRecord(this.#context, shadow, record), log);
      if (!isRecorded) return;
      writer.settle(key);
      if (event !== undefined) events.record(event);
      for (const run of start) this.#lookups.creating(run);
      due = [...create, ...start];
    }
    this.#attempts = new Set([...this.#attempts, ...due.map((run) => attemptOf(run.jobOf))]);
    for (const run of due) await this.#create(run, node);
  }

  /**
   * A Job of this name that exists is looked at like one that was created here. One that is refused is not tried again, as
   * the update would wait for it until its time limit.
   */
  async #create(run: JobRun, node: NodeView): Promise<void> {
    const { client, writer, signal } = this.#context;
    const log = this.#context.logOf(node.metadata.name);
    const { namespace } = this.#lookups.config;
    const key = `job/${run.jobName}`;
    if (!writer.canWrite(key)) return;
    let problem = '';
    let isRefused = false;
    const create = async (): Promise<void> => {
      try {
        const raw = await client.find(cronJobPath(namespace, run.cronJob), signal);
        if (raw === undefined) throw new Error(`there is no CronJob ${namespace}/${run.cronJob}`);
        const body = jobOf(raw, run, node, this.#lookups.config);
        await client
          .request({ method: 'POST', path: groupPath('batch/v1', 'jobs', { namespace }), body, signal })
          .catch((error: unknown) => {
            isRefused = isRefusal(error);
            throw error;
          });
        log.info('job of a check or hook created', { check: run.name, phase: run.phase, job: run.jobName });
      } catch (error) {
        if (isAlreadyThere(error)) return;
        problem = messageOf(error);
        throw error;
      }
    };
    const created = await writer.attempt('job_create', key, create, log);
    if (created) this.#lookups.created(run);
    else if (isRefused) this.#lookups.refused(run, problem);
    else this.#lookups.creating(run, problem);
  }

  async #sweepIfDue(attempts: ReadonlySet<string>): Promise<number | undefined> {
    const { clock, writer } = this.#context;
    const isOver = (attempt: string): boolean => !attempts.has(attempt);
    const nextMs = (): number | undefined => {
      if (this.#attempts.size === 0) return undefined;
      const pauseMs = [...this.#attempts].some(isOver) ? MIN_SWEEP_MS : SWEEP_MS;
      return Math.max(0, this.#sweptAt + pauseMs - clock.monotonic());
    };
    const isDue = this.#sweptAt === -Infinity || nextMs() === 0;
    if (isDue && writer.canWrite(SWEEP_KEY))
      await writer.listed('the Jobs of checks', SWEEP_KEY, async () => await this.#sweep(attempts));
    // The end of a backoff is one of those of the writer.
    return writer.canWrite(SWEEP_KEY) ? nextMs() : undefined;
  }

  async #sweep(attempts: ReadonlySet<string>): Promise<void> {
    const { client, clock, signal } = this.#context;
    const path = groupPath('batch/v1', 'jobs', { namespace: this.#lookups.config.namespace });
    const query = { labelSelector: CHECK_LABEL };
    const startedAt = clock.monotonic();
    const { items } = await readList(client, { path, query, signal, slim: ours, maxItems: MAX_JOBS });
    this.#sweptAt = startedAt;
    const left = new Set<string>();
    await forEachOf(items, async (job) => {
      const attempt = attemptOf(job.jobOf);
      if (attempts.has(attempt) || !(await this.#isDeleted(job))) left.add(attempt);
    });
    this.#attempts = left;
    // A Job that cannot be deleted is tried again with the list.
    if ([...left].some((one) => !attempts.has(one))) this.#context.writer.backOff(SWEEP_KEY);
  }

  /** True also for what is left to Kubernetes. */
  async #isDeleted({ name, uid, node, jobOf, result }: RawJob): Promise<boolean> {
    if (result === 'Failed' || result === 'TimedOut') return true;
    const { client, writer, signal } = this.#context;
    const log = this.#context.log.with({ node, attempt: startIn(jobOf) });
    const { namespace } = this.#lookups.config;
    const key = `job/${name}`;
    if (!writer.canWrite(key)) return false;
    const remove = async (): Promise<void> => {
      const body = { preconditions: { uid }, propagationPolicy: 'Background' };
      await client.request({
        method: 'DELETE',
        path: groupPath('batch/v1', 'jobs', { namespace, name }),
        body,
        signal,
      });
      log.info('job of a check or hook deleted', { job: name });
    };
    return await writer.attempt('job_delete', key, remove, log);
  }
}

function isAlreadyThere(error: unknown): boolean {
  return hasStatus(error, 409) && error.reason === 'AlreadyExists';
}

/** Undefined for a Job of another owner, or one that cannot be read. */
function ours(raw: unknown): RawJob | undefined {
  try {
    const job = readJob(raw);
    return job.jobOf === '' ? undefined : job;
  } catch {
    return undefined;
  }
}
