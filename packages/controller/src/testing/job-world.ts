/**
 * One node with an update, the Jobs of its checks and hooks, and a controller that may be killed at any
 * moment: what becomes of them by what happens, and by plans.
 */
import type { NodeRecord } from '@brupop/shared/api/record';

import { shadowView } from '../cluster/shadow.ts';
import type { JobView } from '../cluster/checks.ts';
import { aManagedNode, aSnapshot, NEW, NOW } from './objects.ts';
import { answered, viewOf } from './checks.ts';
import type { ManagedNode } from '../cluster/snapshot.ts';
import type { JobRun, WrittenJobs } from '../plan/facts/jobs.ts';
import { wholePlan as plan, type WholePlan as Plan } from '../whole-plan.ts';

export const HAPPENINGS = ['complete', 'fail', 'delete', 'kill', 'killBetween', 'wait', 'waitLong', 'cordon'] as const;
export type Happening = (typeof HAPPENINGS)[number];

type Job = 'Running' | 'Succeeded' | 'Failed';

export class JobWorld {
  now = NOW;
  node: ManagedNode = aManagedNode('a');
  readonly jobs = new Map<string, Job>();
  /** How often each Job was created, by name. */
  readonly created = new Map<string, number>();
  readonly runs = new Map<string, JobRun>();
  readonly outcomes: string[] = [];
  /** What the controller knows, and loses when it is killed. */
  #view = new Map<string, JobView>();
  #diesAfterRecord = false;
  readonly #config: object;

  constructor(config: object) {
    this.#config = config;
  }

  happen(what: Happening): void {
    if (what === 'wait') this.now += 6_000;
    else if (what === 'waitLong') this.now += 700_000;
    else if (what === 'kill') this.#view = new Map();
    else if (what === 'killBetween') this.#diesAfterRecord = true;
    else if (what === 'cordon') this.#cordon();
    else this.#change(what);
  }

  /** By another actor, who ends it the next time: a staged node is deferred, whatever runs. No two come in one second. */
  #cordon(): void {
    const { node } = this.node;
    this.now += 1_000;
    if (node !== undefined) this.node = { ...this.node, node: { ...node, unschedulable: !node.unschedulable } };
  }

  #change(what: 'complete' | 'fail' | 'delete'): void {
    const [name] = [...this.jobs].find(([, state]) => state === 'Running') ?? [];
    if (name === undefined) return;
    if (what === 'delete') this.jobs.delete(name);
    else this.jobs.set(name, what === 'complete' ? 'Succeeded' : 'Failed');
  }

  plan(): Plan {
    const snapshot = aSnapshot([this.node], this.#config, this.now);
    return plan({ ...snapshot, checks: viewOf(answered(snapshot.policy, this.now), this.#view) }, this.now);
  }

  /** Plans, and does what the plan says. The agent does at once what the spec calls for. */
  reconcile(): Plan {
    const made = this.plan();
    for (const { name, jobName } of made.checks.read) this.#see(jobName, this.jobs.get(jobName) ?? 'Gone', name);
    for (const { records, start, create } of made.checks.nodes) {
      this.#recordJobs(records);
      const isKilled = this.#diesAfterRecord && start.length > 0;
      this.#diesAfterRecord = false;
      if (isKilled) this.#view = new Map();
      else for (const run of [...start, ...create]) this.#create(run);
    }
    for (const { spec, outcome, record } of made.specs) {
      this.outcomes.push(outcome);
      this.#record(record);
      this.#report(spec);
    }
    return made;
  }

  get attempt(): string | undefined {
    return this.node.shadow?.record.startedAt;
  }

  #create(run: JobRun): void {
    const { jobName } = run;
    this.runs.set(jobName, run);
    this.created.set(jobName, (this.created.get(jobName) ?? 0) + 1);
    this.jobs.set(jobName, 'Running');
    this.#see(jobName, 'Running', run.jobOf);
  }

  #see(jobName: string, state: JobView['state'], jobOf: string): void {
    const since = this.#view.get(jobName)?.since ?? this.now;
    this.#view.set(jobName, { state, since, seenAt: this.now, jobOf });
  }

  #recordJobs(records: WrittenJobs | undefined): void {
    if (records !== undefined) this.#record({ ...this.node.shadow?.record, jobs: records ?? undefined });
  }

  #record(record: NodeRecord): void {
    const { shadow } = this.node;
    if (shadow !== undefined) this.node = { ...this.node, shadow: shadowView({ ...shadow, record }) };
  }

  #report(spec: Plan['specs'][number]['spec']): void {
    const { shadow, node } = this.node;
    if (shadow?.status === undefined || node === undefined) return;
    const generation = (shadow.metadata.generation ?? 0) + 1;
    const isNew = spec.state === 'RebootedIntoUpdate' || spec.state === 'MonitoringUpdate';
    const current_version = isNew ? NEW : shadow.status.current_version;
    const status = { ...shadow.status, current_state: spec.state, current_version, observedGeneration: generation };
    this.node = {
      ...this.node,
      node: { ...node, readySince: this.now },
      shadow: shadowView({ ...shadow, spec, status, metadata: { ...shadow.metadata, generation } }),
    };
  }
}
