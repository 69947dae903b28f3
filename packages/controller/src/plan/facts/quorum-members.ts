/**
 * The members of a set of `spec.quorums`: which pods they are, by which list, whether enough are left without those on
 * one node, and which a node had when its update started. They are counted from the pods of the set:
 *
 *     a pod that has finished            is no member
 *     a static pod (its mirror pod)      is one on a node that `nodeSelector` selects, one for each node; elsewhere it
 *                                        is none, since a kubelet may create any mirror pod on its own Node
 *     any other pod                      is one, wherever it is
 *     fewer pods than `members`          the others are missing
 *
 * A kubelet can set neither the labels of `nodeSelector` nor create other pods than mirror pods, so it changes no count
 * but by the state of what runs on its own node. Each set has its latest list that succeeded, and perhaps why a later
 * one failed. Asking for a set keeps its list up to date; the list that a plan does not ask for is forgotten.
 *
 *     a list that began within COUNTS_MS, and no error since    lets a node go
 *     an older one, or one before an error                      only says who was away
 *
 * The record of a node has the members that were on it when its update started. Their hooks run before the drain, and
 * they have to be Ready again after it.
 */
import { majorityOf, type Quorum } from '@brupop/shared/api/config-quorums';
import { selects } from '@brupop/shared/api/label-selector';
import { type DrainPod, isTerminating, podKey } from '@brupop/shared/drain/pods';
import { listOf, shorten } from '@brupop/shared/runtime/errors';
import type { NodeRecord } from '@brupop/shared/api/record';
import { isDown, type NodeView } from '../../cluster/node.ts';
import { type MemberPods, type MemberPodsView, membersKey, type MembersWanted } from '../../cluster/member-pods.ts';
import type { ShadowView } from '../../cluster/shadow.ts';
import type { Blocked } from './reasons.ts';

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

/** A list lets a node go for this long after its begin. */
const COUNTS_MS = 15_000;
/** No list waits longer, unless the clock was set back. */
const MAX_WAIT_MS = 600_000;

export class QuorumLists {
  readonly #view: MemberPodsView;
  readonly #nodes: NodesByName;
  readonly #now: number;
  readonly #requested = new Map<string, Quorum>();
  readonly #members = new Map<Quorum, readonly Member[]>();

  constructor(view: MemberPodsView, nodes: NodesByName, now: number) {
    this.#view = view;
    this.#nodes = nodes;
    this.#now = now;
  }

  /** By the latest list. */
  membersOf(quorum: Quorum): readonly Member[] {
    const known = this.#members.get(quorum);
    const members = known ?? membersAmong(quorum, this.known(quorum)?.pods ?? [], this.#nodes);
    this.#members.set(quorum, members);
    return members;
  }

  /** The latest list, which is needed. */
  request(quorum: Quorum): MemberPods | undefined {
    const key = membersKey(quorum);
    this.#requested.set(key, quorum);
    return this.#view.get(key);
  }

  /** The same of a set whose list is not needed therefore. */
  known(quorum: Quorum): MemberPods | undefined {
    return this.#view.get(membersKey(quorum));
  }

  /** True for a list that lets a node go. The clock may have been set back. */
  counts(list: MemberPods | undefined): list is MemberPods & { readonly asOf: number } {
    const { asOf, problem } = list ?? {};
    return problem === undefined && asOf !== undefined && this.#now - asOf <= COUNTS_MS && asOf <= this.#now;
  }

  /** What to do with the lists. */
  get wanted(): MembersWanted {
    const list = [...this.#requested].flatMap(([key, quorum]) => {
      const { nextAt = 0 } = this.#view.get(key) ?? {};
      const isDue = this.#now >= nextAt || nextAt - this.#now > MAX_WAIT_MS;
      return isDue ? [{ ...quorum, staticOn: this.#nodesWithStatic(quorum) }] : [];
    });
    return { list, keep: new Set(this.#requested.keys()) };
  }

  /** When members must be listed again, epoch milliseconds. */
  get times(): readonly number[] {
    return [...this.#requested.keys()].flatMap((key) => this.#view.get(key)?.nextAt ?? []);
  }

  #nodesWithStatic(quorum: Quorum): string[] {
    if (quorum.nodeSelector === undefined) return [];
    return [...this.#nodes.values()].filter((node) => countsStaticPods(quorum, node)).map((one) => one.metadata.name);
  }
}

/** The members of a set, as one node sees them. */
export interface CountWithout {
  readonly node: string;
  readonly n: number;
  /** On the node itself. */
  readonly own: readonly Member[];
  /** Why each of the others is away. */
  readonly away: readonly string[];
  /** How many others were not found. */
  readonly missing: number;
  /** The node is selected for static pods, and the one that is missing counts as its own. */
  readonly isOwnMissing: boolean;
}

const MAX_TEXT = 500;

/** Names the members on a node. */
export function whoIs(node: string, own: readonly Member[]): string {
  return own.length === 0 ? `the missing member of ${node}` : `${own.map(({ pod }) => pod).join(', ')} on ${node}`;
}

/** Names the members that are away. */
export function describe(away: readonly string[], missing: number, n: number): string {
  const lost = missing > 0 ? [`${missing} of ${n} members ${missing === 1 ? 'is' : 'are'} missing`] : [];
  return shorten(listOf([...away, ...lost]), MAX_TEXT);
}

export function notListed({ name }: Quorum, problem: string): string {
  return shorten(`The members of the quorum ${name} cannot be listed: ${problem}`, MAX_TEXT);
}

export function whyTooFew(quorum: Quorum, count: CountWithout): Blocked | undefined {
  const { name, tolerate, downtime } = quorum;
  const { node, n, own, away, missing, isOwnMissing } = count;
  if (own.length === 0 && !isOwnMissing) return undefined;
  const others = away.length + missing;
  const who = whoIs(node, own);
  if (others > tolerate) {
    const message = `The quorum ${name} cannot do without ${who}: ${describe(away, missing, n)}`;
    return atRisk(message);
  }
  const isExempt = n <= 2 && downtime === 'Allowed';
  const left = n - others - Math.max(own.length, 1);
  if (isExempt || left >= majorityOf(n)) return undefined;
  const next = n <= 2 ? '. If it may stop meanwhile, set its downtime to Allowed' : '';
  return atRisk(
    `The quorum ${name} cannot do without ${who}: ${left} of ${n} members would be left, and ${majorityOf(n)} are needed${next}`,
  );
}

/**
 * A static pod of a set that does not say on which nodes they count: it is no member, because a kubelet may have forged it, and
 * its node waits, because it may be one.
 */
export function whyUncountable(quorum: Quorum, pods: readonly DrainPod[]): Blocked | undefined {
  if (quorum.nodeSelector !== undefined) return undefined;
  const found = pods.find((pod) => pod.mirror && isSelectedBy(quorum, pod));
  if (found === undefined) return undefined;
  return atRisk(
    `The quorum ${quorum.name} selects ${podKey(found)} on ${found.node}, which is a static pod: set its nodeSelector to the nodes on ` +
      'which static pods count, or select other pods',
  );
}

export function atRisk(message: string): Blocked {
  return { reason: 'QuorumAtRisk', message: shorten(message, MAX_TEXT) };
}

export type RecordedMembers = NonNullable<NodeRecord['members']>;

export function recordedMembers({ record }: ShadowView): RecordedMembers {
  return record.members ?? [];
}

/** Names of the sets with a member on the node when its update started. */
export function recordedQuorums(shadow: ShadowView): ReadonlySet<string> {
  return new Set(recordedMembers(shadow).map(({ quorum }) => quorum));
}
