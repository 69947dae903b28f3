/**
 * The sets of `spec.quorums`: whether a majority of each is left when a node goes. A node with a member may start, restart
 * services, or be drained, only if
 *
 *     others away                 <= tolerate
 *     members without all these   >= a majority of n, which is the larger of `members` and of those that were found;
 *                                    a set of one or two with `downtime: Allowed` needs none
 *
 * A member is away when it is not Ready, being deleted, not scheduled or missing, or when its node is gone, is not Ready, is
 * being deleted or updates:
 *
 *     at the start of an update      other nodes that hold an update slot, or are cordoned by the operator
 *     before the drain of a node     the same but for those that are staging or staged, which may not be drained after it
 *
 * Nodes that start or are drained in one plan count for the next ones of the same plan, and what is written holds a slot, so
 * that never more than `tolerate` + 1 members are away for updates, whoever leads. A node whose own member is not Ready
 * again has not succeeded, and holds its slot. On a node that `nodeSelector` selects and that has no member, one that is missing
 * counts as its own. The lists of members are asked for here: an old one may keep a node waiting, only one that counts lets it go.
 */
import type { QuorumStatus } from '@brupop/shared/api/brupop-config';
import type { DrainPod } from '@brupop/shared/drain/pods';
import { namesOf, printable } from '@brupop/shared/runtime/errors';
import type { Quorum } from '@brupop/shared/api/config-quorums';
import { ownedByUs } from '@brupop/shared/node/ownership';
import { type MemberPods, membersKey, type MembersWanted } from '../../cluster/member-pods.ts';
import { type NodeView, skippedBy } from '../../cluster/node.ts';
import type { ShadowView } from '../../cluster/shadow.ts';
import { isSettled, isStaging } from '../../cluster/state.ts';
import type { ManagedNode, Snapshot } from '../../cluster/snapshot.ts';
import {
  type AskedNode,
  atRisk,
  countsStaticPods,
  type CountWithout,
  describe,
  isSelectedBy,
  type Member,
  membersAmong,
  type NodesByName,
  notListed,
  QuorumLists,
  recordedMembers,
  type RecordedMembers,
  recordedQuorums,
  whoIs,
  whyAway,
  whyTooFew,
  whyUncountable,
} from './quorum-members.ts';
import type { Blocked } from './reasons.ts';

/** A check that has to pass before a node with a member goes. */
interface QuorumCheck {
  /** Its name in `spec.health.checks`. */
  readonly check: string;
  /** The set, its pod and the node. */
  readonly who: string;
}

export interface QuorumCount {
  readonly name: string;
  readonly members: number;
  /** Undefined: they are not known now. */
  readonly ready: number | undefined;
  /** Who is away, or why that is not known; empty: nobody. */
  readonly message: string;
}

/** What the status has of a count, without the time since when. */
export function shownCount({ name, members, ready, message }: QuorumCount): Omit<QuorumStatus, 'since'> {
  return {
    name,
    members,
    ...(ready !== undefined && { ready }),
    ...(message !== '' && { message: printable(message) }),
  };
}

export function isSameCount(found: Omit<QuorumStatus, 'since'>, last: QuorumStatus): boolean {
  const isSame = last.name === found.name && last.members === found.members && last.ready === found.ready;
  return isSame && last.message === found.message;
}

type QuorumsView = Pick<Snapshot, 'policy' | 'nodes' | 'managedNodes' | 'memberPods' | 'config'>;

/** Of each set, in the record of a node. */
const MAX_RECORDED = 10;

/** Those for which one plan asks. */
export class Quorums {
  readonly #quorums: readonly Quorum[];
  readonly #nodes: NodesByName;
  readonly #lists: QuorumLists;
  /** What users see of them; undefined: there is no configuration. */
  readonly #shown: readonly QuorumStatus[] | undefined;
  /** Names of the nodes that hold an update slot, those that start in this plan included. */
  readonly #updating: Set<string>;
  /** Names of those that may be drained, those whose drain begins in this plan included. */
  readonly #drained: Set<string>;
  /** Names of the nodes that go before the last members. */
  readonly #first: Set<string>;

  /** @param slots - the nodes that hold an update slot */
  constructor(view: QuorumsView, slots: Iterable<ManagedNode>, now: number) {
    const { policy, nodes, managedNodes, memberPods, config } = view;
    const isUsed = policy.quorums.length > 0;
    const holders = isUsed ? [...slots] : [];
    const cordoned = isUsed ? nodes.filter(ownedByUs).map(({ metadata: { name } }) => name) : [];
    this.#quorums = policy.quorums;
    this.#nodes = new Map(isUsed ? nodes.map((node) => [node.metadata.name, node]) : []);
    this.#lists = new QuorumLists(memberPods, this.#nodes, now);
    this.#shown = config && (config.status?.quorums ?? []);
    this.#updating = new Set([...holders.map(({ name }) => name), ...cordoned]);
    this.#drained = new Set([
      ...holders.filter(({ shadow }) => shadow === undefined || !isStaging(shadow)).map(({ name }) => name),
      ...cordoned,
    ]);
    this.#first = new Set([
      ...this.#updating,
      ...(isUsed ? managedNodes.filter(isUnsettled) : []).map(({ name }) => name),
    ]);
  }

  /** False: there are no sets, and no node waits for one. */
  get isUsed(): boolean {
    return this.#quorums.length > 0;
  }

  /** Names of the sets that have, or may have, a member on the node. */
  setsOn(asked: AskedNode): Set<string> {
    return new Set(this.#quorums.filter((quorum) => this.#mayHave(quorum, asked)).map(({ name }) => name));
  }

  /** Returns why this node must not start its update, or restart its services. */
  whyNotStarted(asked: AskedNode): Blocked | undefined {
    return this.#check(asked, this.#updating);
  }

  /** Returns why this node, which is staged, must not be drained. */
  whyNotDrained(asked: AskedNode): Blocked | undefined {
    return this.#check(asked, this.#drained);
  }

  /** Returns why a node with a member that goes after the others must not start yet. */
  whyNotLast({ node: { metadata } }: AskedNode): Blocked | undefined {
    for (const quorum of this.#quorums.filter(({ last }) => last !== undefined)) {
      const members = this.#lists.membersOf(quorum);
      const own = members.find((one) => one.node === metadata.name && one.isLast);
      if (own === undefined) continue;
      const others = members.filter((one) => one.node !== metadata.name && !one.isLast).map((one) => one.node);
      const first = namesOf([...new Set(others)].filter((name) => this.#first.has(name)));
      if (first === '') continue;
      return atRisk(
        `The quorum ${quorum.name}: ${own.pod} on ${metadata.name} goes last, after the members on ${first}`,
      );
    }
    return undefined;
  }

  /** True for a node with a member that goes after the others, by the latest list. */
  isLast({ metadata: { name } }: NodeView): boolean {
    return this.#quorums.some(
      (quorum) =>
        quorum.last !== undefined && this.#lists.membersOf(quorum).some((one) => one.isLast && one.node === name),
    );
  }

  /** Counts a node that starts. */
  starts({ metadata: { name } }: NodeView): void {
    this.#updating.add(name);
    this.#first.add(name);
  }

  /** Counts a node whose drain begins. */
  drains({ metadata: { name } }: NodeView): void {
    this.#drained.add(name);
  }

  /** Counts a node that is about to start: the last members wait for it. */
  goesFirst({ metadata: { name } }: NodeView): void {
    this.#first.add(name);
  }

  /** The checks that the sets with a member on the node ask for. */
  checksFor(asked: AskedNode): QuorumCheck[] {
    return this.#quorums
      .filter((quorum) => quorum.checks.length > 0 && this.#mayHave(quorum, asked))
      .flatMap((quorum) => {
        const own = this.#lists.membersOf(quorum).filter(({ node }) => node === asked.node.metadata.name);
        return quorum.checks.map((check) => ({
          check,
          who: `The quorum ${quorum.name}: ${whoIs(asked.node.metadata.name, own)}`,
        }));
      });
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
  whyUnrecorded(shadow: ShadowView, { node, pods }: AskedNode): Blocked | undefined {
    const recorded = recordedQuorums(shadow);
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

  /** What to do with the lists of members. One is kept until the last node is back, and the status has its count. */
  get wanted(): MembersWanted {
    const { list, keep } = this.#lists.wanted;
    const isAway = ({ node }: Member): boolean => this.#updating.has(node);
    const counts = new Map(this.counts.map((count) => [count.name, count]));
    const kept = this.#quorums.filter(
      (quorum) => this.#lists.membersOf(quorum).some(isAway) || !this.#isShown(counts.get(quorum.name)),
    );
    return { list, keep: new Set([...keep, ...kept.map(membersKey)]) };
  }

  #isShown(count: QuorumCount | undefined): boolean {
    if (count === undefined || this.#shown === undefined) return true;
    return this.#shown.some((one) => isSameCount(shownCount(count), one));
  }

  /** When members must be listed again, epoch milliseconds. */
  get times(): readonly number[] {
    return this.#lists.times;
  }

  /** Of the sets whose members are known. */
  get counts(): readonly QuorumCount[] {
    return this.#quorums.flatMap((quorum) => {
      const list = this.#lists.known(quorum);
      return list === undefined ? [] : [this.#countOf(quorum, list)];
    });
  }

  #countOf(quorum: Quorum, { problem }: MemberPods): QuorumCount {
    const members = this.#lists.membersOf(quorum);
    const n = Math.max(quorum.members, members.length);
    if (problem !== undefined)
      return { name: quorum.name, members: n, ready: undefined, message: notListed(quorum, problem) };
    const away = members.flatMap((one) => whyAway(one, this.#nodes, this.#drained) ?? []);
    const message = describe(away, n - members.length, n);
    return { name: quorum.name, members: n, ready: members.length - away.length, message };
  }

  #check(asked: AskedNode, busy: ReadonlySet<string>): Blocked | undefined {
    for (const quorum of this.#quorums) {
      const blocked = this.#mayHave(quorum, asked) ? this.#checkQuorum(quorum, asked, busy) : undefined;
      if (blocked !== undefined) return blocked;
    }
    return undefined;
  }

  /** By the pods on the node, by the latest list, or because a static pod of it may be missing. */
  #mayHave(quorum: Quorum, { node, pods }: AskedNode): boolean {
    if (countsStaticPods(quorum, node)) return true;
    if (this.#lists.membersOf(quorum).some((one) => one.node === node.metadata.name)) return true;
    return pods.some((pod) => isSelectedBy(quorum, pod) && (!pod.mirror || quorum.nodeSelector === undefined));
  }

  #checkQuorum(quorum: Quorum, asked: AskedNode, busy: ReadonlySet<string>): Blocked | undefined {
    const unusable = whyUncountable(quorum, asked.pods);
    if (unusable !== undefined) return unusable;
    const list = this.#lists.request(quorum);
    if (list?.problem !== undefined) {
      return { reason: 'PodListFailed', message: notListed(quorum, list.problem), retryAt: list.nextAt };
    }
    const unknown = { ...atRisk(`The members of the quorum ${quorum.name} are being listed`), isUnknown: true };
    if (list?.asOf === undefined) return unknown;
    return (
      whyTooFew(quorum, this.#countWithout(quorum, asked.node, busy)) ??
      (this.#lists.counts(list) ? undefined : unknown)
    );
  }

  #countWithout(quorum: Quorum, node: NodeView, busy: ReadonlySet<string>): CountWithout {
    const { name } = node.metadata;
    const members = this.#lists.membersOf(quorum);
    const own = members.filter((one) => one.node === name);
    const away = members.filter((one) => one.node !== name).flatMap((one) => whyAway(one, this.#nodes, busy) ?? []);
    const n = Math.max(quorum.members, members.length);
    const missing = n - members.length;
    const isOwnMissing = own.length === 0 && missing > 0 && countsStaticPods(quorum, node);
    return { node: name, n, own, away, isOwnMissing, missing: isOwnMissing ? missing - 1 : missing };
  }
}

/** Its agent has to confirm something, before it may be a candidate again. */
function isUnsettled({ node, shadow }: ManagedNode): boolean {
  return node !== undefined && skippedBy(node) === undefined && shadow !== undefined && !isSettled(shadow);
}
