/**
 * The lists of the members of `spec.quorums` that one plan uses. Each set has its latest list that succeeded, and perhaps why a
 * later one failed. Asking for a set keeps its list up to date; the list that a plan does not ask for is forgotten.
 *
 *     a list that began within COUNTS_MS, and no error since    lets a node go
 *     an older one, or one before an error                      only says who was away
 */
import type { Quorum } from '@brupop/shared/api/config-quorums';
import { type MemberPods, membersKey, type MemberPodsView, type MembersWanted } from '../../cluster/member-pods.ts';
import { countsStaticPods, type Member, membersAmong, type NodesByName } from './quorum-members.ts';

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
