/** What a plan asks for checks and hooks: what to look up, to record, and which Jobs to create. */
import type { EventSource } from '@brupop/shared/kube/events';
import type { JobRef } from '../cluster/checks.ts';
import type { NodeView } from '../cluster/node.ts';
import type { Probe } from '../cluster/probes.ts';
import type { ShadowView } from '../cluster/shadow.ts';
import { isUnderWay } from '../cluster/state.ts';
import { isPair, type NodePair } from '../cluster/snapshot.ts';
import type { Decision } from './assess.ts';
import {
  currentAttempt,
  hasHooksLeft,
  type JobProgress,
  type JobRun,
  recordsOf,
  withoutHooks,
  type WrittenJobs,
  written,
} from './facts/jobs.ts';
import type { FleetState } from './fleet.ts';
import { eventOn } from './spec-change.ts';

/** The Jobs of one node. */
export interface NodeJobs {
  readonly shadow: ShadowView;
  readonly node: NodeView;
  /** What is recorded; undefined: that stays. */
  readonly records: WrittenJobs | undefined;
  readonly event: EventSource | undefined;
  /** Created once they are recorded. */
  readonly start: readonly JobRun[];
  /** Recorded, and not created yet. */
  readonly create: readonly JobRun[];
}

export interface CheckWork {
  readonly evaluate: readonly Probe[];
  readonly read: readonly JobRef[];
  readonly nodes: readonly NodeJobs[];
  /** The attempts whose Jobs may still be needed. */
  readonly attempts: ReadonlySet<string>;
}

export function checkWork(decisions: readonly Decision[], fleetState: FleetState): CheckWork {
  const { checks, policy } = fleetState;
  const shadows = decisions.flatMap(({ managedNode: { shadow } }) => shadow ?? []);
  const current = shadows.filter(
    (shadow) => isUnderWay(shadow) || (shadow.record.jobs !== undefined && hasHooksLeft({ shadow, policy })),
  );
  return {
    evaluate: checks.due,
    read: decisions.flatMap(({ jobs }) => jobs?.read ?? []),
    nodes: decisions.flatMap(nodeJobs),
    attempts: new Set(current.map(currentAttempt)),
  };
}

/** A spec that is written for the node comes first. */
function nodeJobs({ managedNode, change, jobs }: Decision): NodeJobs[] {
  if (jobs === undefined || change !== undefined || !isPair(managedNode)) return [];
  const { shadow, node } = managedNode;
  const { start, create } = jobs;
  const records = recordsNow(jobs, shadow);
  const isSame = JSON.stringify(records) === JSON.stringify(written(recordsOf(shadow)));
  if (isSame && create.length === 0) return [];
  return [{ shadow, node, records: isSame ? undefined : records, event: hookEvent(jobs, managedNode), start, create }];
}

/** The hooks after the update are over when nothing is left to run. */
function recordsNow({ isDone, records, start }: JobProgress, shadow: ShadowView): WrittenJobs {
  if (isDone && !isUnderWay(shadow)) return written(withoutHooks(records));
  return written(new Map([...records, ...start.map(({ key }): [string, string] => [key, 'Started'])]));
}

/** What ends an update has an Event of its own. */
function hookEvent({ failed }: JobProgress, { node, shadow }: NodePair): EventSource | undefined {
  if (failed === undefined || isUnderWay(shadow)) return undefined;
  const { run, message } = failed;
  return eventOn(node, shadow, { reason: 'HookFailed', message, key: run.jobName });
}
