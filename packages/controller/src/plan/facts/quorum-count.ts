/** Whether enough members of a set are left without those on one node, and the words for why not. */
import { majorityOf, type Quorum } from '@brupop/shared/api/config-quorums';
import { type DrainPod, podKey } from '@brupop/shared/drain/pods';
import { shorten } from '@brupop/shared/runtime/errors';
import { isSelectedBy, type Member } from './quorum-members.ts';

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

const MAX_NAMED = 3;
const MAX_TEXT = 500;

/** Why a node with a member waits; what a gate says. */
export interface MemberWait {
  readonly reason: 'QuorumAtRisk' | 'PodListFailed';
  readonly message: string;
  /** Epoch milliseconds. */
  readonly retryAt?: number;
  /** Known in a moment. */
  readonly isUnknown?: boolean;
}

/** Names the members on a node. */
export function whoIs(node: string, own: readonly Member[]): string {
  return own.length === 0 ? `the missing member of ${node}` : `${own.map(({ pod }) => pod).join(', ')} on ${node}`;
}

/** Names the members that are away. */
export function describe(away: readonly string[], missing: number, n: number): string {
  const lost = missing > 0 ? [`${missing} of ${n} members ${missing === 1 ? 'is' : 'are'} missing`] : [];
  const all = [...away, ...lost];
  const more = all.length > MAX_NAMED ? `; ${all.length - MAX_NAMED} more` : '';
  return shorten(`${all.slice(0, MAX_NAMED).join('; ')}${more}`, MAX_TEXT);
}

export function notListed({ name }: Quorum, problem: string): string {
  return shorten(`The members of the quorum ${name} cannot be listed: ${problem}`, MAX_TEXT);
}

export function whyTooFew(quorum: Quorum, count: CountWithout): MemberWait | undefined {
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
export function whyUncountable(quorum: Quorum, pods: readonly DrainPod[]): MemberWait | undefined {
  if (quorum.nodeSelector !== undefined) return undefined;
  const found = pods.find((pod) => pod.mirror && isSelectedBy(quorum, pod));
  if (found === undefined) return undefined;
  return atRisk(
    `The quorum ${quorum.name} selects ${podKey(found)} on ${found.node}, which is a static pod: set its nodeSelector to the nodes on ` +
      'which static pods count, or select other pods',
  );
}

export function atRisk(message: string): MemberWait {
  return { reason: 'QuorumAtRisk', message: shorten(message, MAX_TEXT) };
}
