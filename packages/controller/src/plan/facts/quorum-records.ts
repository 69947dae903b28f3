/**
 * The members of quorums that were on a node when its update started, as its record has them. Their
 * hooks run before the drain, and they have to be Ready again after it.
 */
import type { Quorum } from '@brupop/shared/api/config-quorums';
import type { NodeRecord } from '@brupop/shared/api/record';
import type { DrainPod } from '@brupop/shared/drain/pods';
import type { NodeView } from '../../cluster/node.ts';
import type { ShadowView } from '../../cluster/shadow.ts';
import { atRisk, type MemberWait, notListed } from './quorum-count.ts';
import type { QuorumLists } from './quorum-lists.ts';
import { type AskedNode, type Member, membersAmong, type NodesByName } from './quorum-members.ts';

type RecordedMembers = NonNullable<NodeRecord['members']>;

/** Of each set. */
const MAX_RECORDED = 10;

export function recordedMembers({ record }: ShadowView): RecordedMembers {
  return record.members ?? [];
}

export class QuorumRecords {
  readonly #quorums: readonly Quorum[];
  readonly #nodes: NodesByName;
  readonly #lists: QuorumLists;

  constructor(quorums: readonly Quorum[], nodes: NodesByName, lists: QuorumLists) {
    this.#quorums = quorums;
    this.#nodes = nodes;
    this.#lists = lists;
  }

  /** What is recorded of a node when its update starts. */
  recordOf({ node, pods }: AskedNode): RecordedMembers {
    return this.#quorums.flatMap((quorum) =>
      this.#membersOn(quorum, node, pods)
        .slice(0, MAX_RECORDED)
        .map(({ pod }) => ({ quorum: quorum.name, pod: pod.slice(quorum.namespace.length + 1) })),
    );
  }

  /** The first set with a member on the node that had none there when its update started: its hooks have not run. */
  whyUnrecorded(shadow: ShadowView, { node, pods }: AskedNode): MemberWait | undefined {
    const recorded = new Set(recordedMembers(shadow).map(({ quorum }) => quorum));
    for (const quorum of this.#quorums) {
      const [found] = recorded.has(quorum.name) ? [] : this.#membersOn(quorum, node, pods);
      if (found === undefined) continue;
      return atRisk(
        `The quorum ${quorum.name}: ${found.pod} came to ${node.metadata.name} after its update had started, which starts again for it`,
      );
    }
    return undefined;
  }

  /**
   * What keeps the recorded members of a node from counting as back; undefined: all are.
   * @param since - when they may have been away last, epoch milliseconds
   */
  whyNotBack(
    shadow: ShadowView,
    since: number,
  ): { readonly problem?: string; readonly isUnknown?: boolean } | undefined {
    for (const { quorum: name, pod } of recordedMembers(shadow)) {
      const quorum = this.#quorums.find((one) => one.name === name);
      if (quorum === undefined) continue;
      const list = this.#lists.request(quorum);
      if (list?.problem !== undefined) return { isUnknown: true, problem: notListed(quorum, list.problem) };
      if (!this.#lists.counts(list) || list.asOf < since) return { isUnknown: true };
      const problem = this.#whyAwayStill(quorum, `${quorum.namespace}/${pod}`);
      if (problem !== undefined) return { problem };
    }
    return undefined;
  }

  /** A pod of another name may have replaced it: then as many members as usual have to be there. */
  #whyAwayStill(quorum: Quorum, pod: string): string | undefined {
    const members = this.#lists.membersOf(quorum);
    const same = members.find((one) => one.pod === pod);
    if (same !== undefined) return same.problem && `the member ${pod} of the quorum ${quorum.name} ${same.problem}`;
    const ready = members.filter(({ problem }) => problem === undefined).length;
    const isComplete = ready >= Math.max(quorum.members, members.length) - quorum.tolerate;
    return isComplete ? undefined : `the member ${pod} of the quorum ${quorum.name} is missing`;
  }

  #membersOn(quorum: Quorum, { metadata: { name } }: NodeView, pods: readonly DrainPod[]): Member[] {
    return membersAmong(quorum, pods, this.#nodes).filter(({ node }) => node === name);
  }
}
