/**
 * The members of a set of `spec.quorums`, counted from its pods:
 *
 *     a pod that has finished            is no member
 *     a static pod (its mirror pod)      is one on a node that `nodeSelector` selects, one for each node; elsewhere it is none,
 *                                        since a kubelet may create any mirror pod on its own Node
 *     any other pod                      is one, wherever it is
 *     fewer pods than `members`          the others are missing
 *
 * A kubelet can set neither the labels of `nodeSelector` nor create other pods than mirror pods, so it changes no count but by
 * the state of what runs on its own node.
 */
import type { Quorum } from '@brupop/shared/api/config-quorums';
import { selects } from '@brupop/shared/api/label-selector';
import { type DrainPod, isTerminating, podKey } from '@brupop/shared/drain/pods';
import { isDown, type NodeView } from '../../cluster/node.ts';

/** A node of which a gate asks whether its members may go. */
export interface AskedNode {
  readonly node: NodeView;
  /** As they were listed on the node. */
  readonly pods: readonly DrainPod[];
}

/** A pod, or the static pods of one node. */
export interface Member {
  /** `namespace/name` */
  readonly pod: string;
  /** Empty before it is scheduled. */
  readonly node: string;
  /** It goes after the others. */
  readonly isLast: boolean;
  /** Why it does not work by itself; undefined: it is Ready. */
  readonly problem: string | undefined;
}

export type NodesByName = ReadonlyMap<string, NodeView>;

/** True for a pod that the set selects, on whatever node; also for one that it may select, of which too many labels are not kept. */
export function isSelectedBy({ namespace, podSelector }: Quorum, pod: DrainPod): boolean {
  const { metadata, finished, isLabelled } = pod;
  return !finished && metadata.namespace === namespace && (!isLabelled || selects(podSelector, metadata.labels ?? {}));
}

/** True for a node on which static pods count. */
export function countsStaticPods({ nodeSelector }: Quorum, node: NodeView | undefined): boolean {
  return nodeSelector !== undefined && node !== undefined && selects(nodeSelector, node.metadata.labels ?? {});
}

/** @param pods - of the set or of one node */
export function membersAmong(quorum: Quorum, pods: readonly DrainPod[], nodes: NodesByName): Member[] {
  const selected = pods.filter((pod) => isSelectedBy(quorum, pod));
  const static_ = selected.filter(({ mirror, node }) => mirror && countsStaticPods(quorum, nodes.get(node)));
  const ofNodes = [...Map.groupBy(static_, ({ node }) => node).values()].map((same) => {
    const members = same.map((pod) => memberOf(quorum, pod)).toSorted((a, b) => (a.pod < b.pod ? -1 : 1));
    return members.find(({ problem }) => problem !== undefined) ?? members[0];
  });
  const others = selected.filter(({ mirror }) => !mirror).map((pod) => memberOf(quorum, pod));
  return [...others, ...ofNodes.filter((one) => one !== undefined)].toSorted((a, b) => (a.pod < b.pod ? -1 : 1));
}

function memberOf({ last }: Quorum, pod: DrainPod): Member {
  const isLast = last !== undefined && selects(last, pod.metadata.labels ?? {});
  return { pod: podKey(pod), node: pod.node, isLast, problem: problemOf(pod) };
}

function problemOf(pod: DrainPod): string | undefined {
  if (isTerminating(pod)) return 'is being deleted';
  if (pod.node === '') return 'is not scheduled';
  return pod.ready ? undefined : 'is not Ready';
}

/** @param busy - names of the nodes that are updating */
export function whyAway(member: Member, nodes: NodesByName, busy: ReadonlySet<string>): string | undefined {
  const { pod, node: name, problem } = member;
  const node = nodes.get(name);
  if (name === '') return `${pod} ${problem}`;
  const subject = `${pod} on ${name}`;
  if (busy.has(name)) return `${subject}, which is updating`;
  if (problem !== undefined) return `${subject} ${problem}`;
  if (node === undefined) return `${subject}, which does not exist any more`;
  return isDown(node) ? `${subject}, which is not Ready or is being deleted` : undefined;
}
