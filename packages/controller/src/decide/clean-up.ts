import { parseTime } from '@brupop/shared/clock';
import { CORDONED_ANNOTATION, EXCLUDED_ANNOTATION } from '@brupop/shared/constants';
import type { NodeView } from '../cluster/node-view.ts';
import { carriesOurs, isManaged } from '../cluster/node-view.ts';
import { isOwnedBy, isSettled } from '../cluster/shadow-view.ts';
import type { Member } from '../cluster/snapshot.ts';
import { CLOCK_TOLERANCE_MS, stateSince } from './steps.ts';

/** Garbage collection deletes a shadow with its Node; only after so long it is done here. */
export const GARBAGE_COLLECTION_MS = 60_000;
/** An agent at rest takes back what is ours at once; only after so long it is done here. */
export const AGENT_RESTORES_MS = 30_000;

/** Work on what agents left behind. */
export interface CleanUp {
  readonly member: Member;
  readonly kind:
    /** The shadow's Node is gone, or is another one by now. */
    | 'DeleteShadow'
    /** Take back what is ours on the Node; its agent is there but does not do it. */
    | 'Restore'
    /** The node is no longer managed: once its agent has ended, take back what is ours and delete the shadow. */
    | 'Release';
  /** When it is due, epoch milliseconds. */
  readonly dueAt: number;
}

/** What is to be cleaned up at this member now or later, or undefined. A node under way is never touched: its spec goes to Idle first. */
export function cleanUpOf(member: Member, now: number): CleanUp | undefined {
  const { node, shadow, missingSince } = member;
  if (node === undefined) return { member, kind: 'DeleteShadow', dueAt: missingSince + GARBAGE_COLLECTION_MS };
  if (shadow !== undefined && !isOwnedBy(shadow, node)) return { member, kind: 'DeleteShadow', dueAt: now };
  if (!isManaged(node)) return shadow === undefined || shadow.spec.state === 'Idle' ? release(member, now) : undefined;
  return carriesOurs(node) ? leftover(member, node, now) : undefined;
}

function release(member: Member, now: number): CleanUp {
  return { member, kind: 'Release', dueAt: now };
}

function leftover(member: Member, node: NodeView, now: number): CleanUp | undefined {
  const { shadow, missingSince } = member;
  if (shadow !== undefined && !isSettled(shadow)) return undefined;
  const idleSince = shadow === undefined ? missingSince : (stateSince(shadow.spec, now) ?? 0);
  return { member, kind: 'Restore', dueAt: Math.max(idleSince, latestMark(node, now)) + AGENT_RESTORES_MS };
}

/** When this operator last put something on the Node; 0 when the annotations do not tell. */
function latestMark({ metadata: { annotations = {} } }: NodeView, now: number): number {
  const times = [CORDONED_ANNOTATION, EXCLUDED_ANNOTATION].map((name) => parseTime(annotations[name]) ?? 0);
  return Math.max(0, ...times.filter((time) => time <= now + CLOCK_TOLERANCE_MS));
}
