import type { NodeView } from '../cluster/node-view.ts';
import { carriesOurs } from '@brupop/shared/node-marks';
import type { ShadowView } from '../cluster/shadow-view.ts';
import { isOwnedBy, isSettled, isUnderWay } from '../cluster/shadow-view.ts';
import type { Member } from '../cluster/snapshot.ts';
import { markedAt, rebootUntil } from './marks.ts';
import type { Rules } from './rules.ts';
import { deadlineOf, limitMs, restingSince, silentAt } from './steps.ts';

/**
 * Until when the node takes one of the places that `maxUpdating` limits, epoch milliseconds; undefined or past: it takes none. From the
 * start of its update until its agent has confirmed that it is over and nothing of ours is on the Node, but never past a deadline, so that
 * a node that is stuck does not hold up the fleet. The Node counts by itself: its shadow may be lost in the middle of an update, and a drain
 * that begins too late still empties it until it is called off.
 */
export function placeUntil(member: Member, rules: Rules, now: number): number | undefined {
  const { node } = member;
  if (node === undefined) return undefined;
  const shadow = member.shadow !== undefined && isOwnedBy(member.shadow, node) ? member.shadow : undefined;
  const ends = [
    shadow === undefined || isSettled(shadow) ? undefined : shadowUntil(shadow, rules, now),
    carriesOurs(node)
      ? markedSince(node, shadow, member.missingSince, now) + limitMs({ state: 'RebootedIntoUpdate' }, rules)
      : undefined,
    shadow !== undefined && isUnderWay(shadow) ? undefined : rebootUntil({ ...member, shadow }, now),
  ].filter((end): end is number => end !== undefined);
  return ends.length === 0 ? undefined : Math.max(...ends);
}

function shadowUntil(shadow: ShadowView, rules: Rules, now: number): number {
  return isUnderWay(shadow) ? deadlineOf(shadow, rules, now) : silentAt(shadow, now);
}

function markedSince(node: NodeView, shadow: ShadowView | undefined, missingSince: number, now: number): number {
  return markedAt(node, now) ?? (shadow === undefined ? missingSince : restingSince(shadow, now));
}
