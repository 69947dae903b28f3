/**
 * What a plan asks of Kubernetes, so that the next one knows more: which pods to list, which checks to evaluate, and
 * for checks and hooks which Jobs to read, to record and to create; and when the next plan is due even if nothing
 * changes. Gates ask while they decide, so this is taken when all of them have been asked.
 */
import type { EventSource } from '@brupop/shared/kube/events';
import type { MembersWanted } from '../cluster/member-pods.ts';
import type { NodeView } from '../cluster/node.ts';
import { isPair, type NodePair, type Snapshot, staleCheckTimes } from '../cluster/snapshot.ts';
import type { JobRef } from '../cluster/checks.ts';
import type { Probe } from '../cluster/probes.ts';
import type { ShadowView } from '../cluster/shadow.ts';
import { isUnderWay } from '../cluster/state.ts';
import type { Decision } from './assess.ts';
import { ofParts, ofPartsAt, type Parts } from '../kept/parts.ts';
import type { FleetState } from './fleet/fleet-state.ts';
import type { Candidate } from './facts/reasons.ts';
import type { QuorumCount } from './facts/quorums.ts';
import type { Workloads } from './facts/workloads.ts';
import {
  currentAttempt,
  hasHooksLeft,
  type JobProgress,
  type JobRun,
  recordsOf,
  withoutHooks,
  written,
  type WrittenJobs,
} from './facts/jobs.ts';
import { requestEndOf } from './facts/requests.ts';
import { eventOn } from './specs/spec-change.ts';

interface Decided {
  readonly decisions: Parts<Decision>;
  readonly fleetState: FleetState;
}

export interface LookUps {
  /** Nodes whose pods are to be listed, the longest unseen first. */
  readonly lookUps: readonly NodeView[];
  /** Names of the nodes whose pods were used or will be listed. */
  readonly needsPodsOf: ReadonlySet<string>;
  /** Names of the nodes that are observed after their updates. */
  readonly observes: ReadonlySet<string>;
  /** What to do with the list of the pods of the whole cluster. */
  readonly allPods: Workloads['wanted'];
  readonly members: MembersWanted;
  /** Of the quorums whose members are known. */
  readonly quorums: readonly QuorumCount[];
}

/**
 * Nodes whose pods are listed for one plan. An update needs two lists and takes six plans, so these are enough for more
 * than 400 update slots. Lists that no spec follows within seconds are of no use: on a slow API server, more would be
 * wasted.
 */
const MAX_LOOK_UPS = 150;
/** While no list works, those that keep their positions are listed, and for this long each one other node. */
const PROBE_MS = 10_000;

/** @param others - nodes that something beside the plan asks for */
export function lookUpsOf(
  { decisions, fleetState, admitted }: Decided & { readonly admitted: ReadonlyMap<Candidate, unknown> },
  others: readonly NodeView[],
  { pods }: Snapshot,
): LookUps {
  const { drains, workloads, quorums, observation, now } = fleetState;
  const wanted = wantedIn(decisions).flat();
  // By when they were asked last: lists that fail do not take the places of others.
  const askedAt = ({ metadata: { name } }: NodeView): number =>
    Math.max(pods.get(name)?.seenAt ?? 0, pods.get(name)?.retryAt ?? 0);
  const probes = drains.noListWorks ? probeOf([...admitted.keys()], wanted, now) : [];
  const first = [...new Set([...wanted, ...others, ...probes])].toSorted((a, b) => askedAt(a) - askedAt(b));
  // No update waits for the lists of nodes that are only observed, but those that it asks for itself.
  const due = [...new Set([...first, ...observation.lookUps])].filter(
    ({ metadata: { name } }) => (pods.get(name)?.retryAt ?? 0) <= now,
  );
  return {
    lookUps: due.slice(0, MAX_LOOK_UPS),
    needsPodsOf: new Set([...drains.requested, ...probes.map(({ metadata }) => metadata.name)]),
    observes: observation.names,
    allPods: workloads.wanted,
    members: quorums.wanted,
    quorums: quorums.counts,
  };
}

const wantedIn = ofParts((part: readonly Decision[]) =>
  part.flatMap(({ lookUp, managedNode: { node } }) => (lookUp === true ? (node ?? []) : [])),
);

/** Another one after a while: a list that works shows that it is only because of some nodes. */
function probeOf(candidates: readonly Candidate[], wanted: readonly NodeView[], now: number): NodeView[] {
  const others = candidates.map(({ node }) => node).filter((node) => !wanted.includes(node));
  const probe = others[Math.floor(now / PROBE_MS) % others.length];
  return probe === undefined ? [] : [probe];
}

/** When the plan may change by time alone, epoch milliseconds. */
export function timesOf({ decisions, fleetState }: Decided, { watchLags, pods }: Snapshot): (number | undefined)[] {
  const { slots, policy, groups, canaries, checks, workloads, quorums, observation, now } = fleetState;
  return [
    ...nextTimeIn(decisions, now),
    ...[...slots.values()].map(({ deadline }) => deadline),
    ...[...pods.values()].map(({ retryAt }) => retryAt),
    ...checks.times,
    ...workloads.times,
    ...quorums.times,
    ...canaries.times,
    ...observation.times,
    ...[{ policy }, ...groups].flatMap((one) => one.policy.resumes),
    ...staleCheckTimes(watchLags, now),
  ];
}

/** The next one of each part. */
const nextTimeIn = ofPartsAt((part: readonly Decision[], now) => {
  const times = part.flatMap(({ times: ofNode, blocked, managedNode }) => [
    ...ofNode,
    blocked?.retryAt,
    requestEndOf(managedNode.shadow),
  ]);
  const later = times.filter((time) => time !== undefined && !now.reached(time));
  return later.length === 0 ? undefined : later.reduce((a = Infinity, b = Infinity) => Math.min(a, b));
});

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

export function checkWork({ decisions, fleetState }: Decided): CheckWork {
  const { checks } = fleetState;
  const withJobs = withJobsIn(decisions).flat();
  return {
    evaluate: checks.due,
    read: withJobs.flatMap(({ jobs }) => jobs?.read ?? []),
    nodes: withJobs.flatMap(nodeJobs),
    attempts: new Set(attemptsIn(decisions).flat()),
  };
}

const withJobsIn = ofParts((part: readonly Decision[]) => part.filter(({ jobs }) => jobs !== undefined));

const attemptsIn = ofParts((part: readonly Decision[]) =>
  part.flatMap(({ managedNode: { shadow, policy } }) => {
    const hasLeft = shadow?.record.jobs !== undefined && hasHooksLeft({ shadow, policy });
    return shadow !== undefined && (isUnderWay(shadow) || hasLeft) ? [currentAttempt(shadow)] : [];
  }),
);

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
