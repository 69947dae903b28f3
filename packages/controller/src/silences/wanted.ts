/**
 * Which nodes are away because of an update, and the silences for them, pure. Whatever is not certain speaks against a silence:
 * an alert too many is better than one too few.
 *
 *     Away      the apiserver has recorded the end of the drain for this very update, the agent has announced the reboot and has
 *               no result, and the node is neither stuck nor lost nor cut off with others
 *     Returned  the reboot is over, has failed, or takes too long: a former leader may have left a silence
 *     neither   no reboot was allowed, or its update has ended a while ago
 *
 * An agent may report anything, but Away needs the spec, the record of the drain and the deadlines as well, and a silence
 * matches the node of the agent alone.
 */
import type { SilenceSettings } from '@brupop/shared/api/config-silences';
import { lossOf } from '../cluster/connectivity.ts';
import { isManaged } from '../cluster/node.ts';
import { isPair, type ManagedNode } from '../cluster/snapshot.ts';
import { rebootOf } from '../plan/facts/deadlines.ts';
import type { WholePlan } from '../report/report.ts';

export type Whereabouts = 'Away' | 'Returned';

type Seen = Pick<WholePlan, 'stuckNodes' | 'lost' | 'connectivity'>;

/** By the name of the node. */
export function whereabouts(plan: Seen, managedNodes: readonly ManagedNode[]): ReadonlyMap<string, Whereabouts> {
  const unknown = new Set([...plan.stuckNodes, ...plan.lost.map(({ name }) => name)]);
  return new Map(
    managedNodes.flatMap((one): [string, Whereabouts][] => {
      const isAway = isExpectedBack(one, plan) && !unknown.has(one.name);
      if (isAway) return [[one.name, 'Away']];
      return mayHaveSilence(one) ? [[one.name, 'Returned']] : [];
    }),
  );
}

function isExpectedBack(one: ManagedNode, { connectivity }: Seen): boolean {
  if (!isPair(one) || one.shadow.state !== 'Away') return false;
  // A user who accepts a missed deadline frees the slot, so the node is not stuck, but not back either.
  if (one.shadow.progressing?.reason === 'DeadlineExceeded') return false;
  return isManaged(one.node) && rebootOf(one.shadow) !== undefined && !lossOf(connectivity, one.node).lost;
}

function mayHaveSilence({ shadow }: ManagedNode): boolean {
  const state = shadow?.state;
  return state === 'Away' || state === 'Proving' || state === 'Finishing' || state === 'Restoring';
}

/** As Alertmanager has it. */
export interface Matcher {
  readonly name: string;
  readonly value: string;
  readonly isRegex: boolean;
  readonly isEqual: boolean;
}

export interface Silence {
  /** The first one matches the name of the Node. */
  readonly matchers: readonly [Matcher, ...Matcher[]];
  readonly comment: string;
}

/** One for each label, since all matchers of a silence must match. */
export function silencesOf(node: string, { labels, matchers }: SilenceSettings): Silence[] {
  const others = matchers.map(({ name, value, operator }) => ({
    name,
    value,
    isRegex: operator.endsWith('Matches'),
    isEqual: !operator.startsWith('Not'),
  }));
  const comment = `Node ${node} reboots for an update of Bottlerocket. This silence ends when the node has returned.`;
  return labels.map(({ name }) => ({
    matchers: [{ name, value: node, isRegex: false, isEqual: true }, ...others],
    comment,
  }));
}

/** Without any, there are no silences. */
export function hasAlertmanager({ addresses, secretName }: SilenceSettings): boolean {
  return addresses.length > 0 || secretName !== undefined;
}
