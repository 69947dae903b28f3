/**
 * What a plan asks of Kubernetes, so that the next one knows more, and when the next one is due even if nothing changes.
 * Gates ask while they decide, so this is taken when all of them have been asked.
 */
import type { MembersWanted } from '../cluster/member-pods.ts';
import type { NodeView } from '../cluster/node.ts';
import { type Snapshot, staleCheckTimes } from '../cluster/snapshot.ts';
import type { Decision } from './assess.ts';
import type { FleetState } from './fleet.ts';
import type { QuorumCount } from './facts/quorums.ts';

interface Decided {
  readonly decisions: readonly Decision[];
  readonly fleetState: FleetState;
}

/** Nodes whose pods are listed after one plan. */
export const MAX_LOOK_UPS = 10;

export interface LookUps {
  /** Nodes whose pods are to be listed, the longest unseen first. */
  readonly lookUps: readonly NodeView[];
  /** Names of the nodes whose pods were used or will be listed. */
  readonly needsPodsOf: ReadonlySet<string>;
  /** What to do with the list of the pods of the whole cluster. */
  readonly allPods: 'list' | 'keep' | 'forget';
  readonly members: MembersWanted;
  /** Of the quorums whose members are known. */
  readonly quorums: readonly QuorumCount[];
}

/** @param others - nodes that something beside the plan asks for */
export function lookUpsOf(
  { decisions, fleetState }: Decided,
  others: readonly NodeView[],
  { pods }: Snapshot,
): LookUps {
  const { drains, workloads, quorums, now } = fleetState;
  const wanted = decisions.flatMap(({ lookUp, managedNode: { node } }) => (lookUp === true ? (node ?? []) : []));
  const seenAt = ({ metadata: { name } }: NodeView): number => pods.get(name)?.seenAt ?? 0;
  const due = [...new Set([...wanted, ...others])]
    .filter(({ metadata: { name } }) => (pods.get(name)?.retryAt ?? 0) <= now)
    .toSorted((a, b) => seenAt(a) - seenAt(b));
  const used = workloads.isDue ? 'list' : 'keep';
  return {
    lookUps: due.slice(0, MAX_LOOK_UPS),
    needsPodsOf: drains.requested,
    allPods: workloads.isRequested ? used : 'forget',
    members: quorums.wanted,
    quorums: quorums.counts,
  };
}

/** When the plan may change by time alone, epoch milliseconds. */
export function timesOf({ decisions, fleetState }: Decided, { watchLags, pods }: Snapshot): (number | undefined)[] {
  const { slots, policy, canaries, checks, workloads, quorums, now } = fleetState;
  return [
    ...decisions.flatMap(({ times, blocked }) => [...times, blocked?.retryAt]),
    ...[...slots.values()].map(({ deadline }) => deadline),
    ...[...pods.values()].map(({ retryAt }) => retryAt),
    ...checks.times,
    ...workloads.times,
    ...quorums.times,
    ...canaries.times,
    policy.rollout.resumeMs,
    ...staleCheckTimes(watchLags, now),
  ];
}
