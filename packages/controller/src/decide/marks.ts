import { parseTime } from '@brupop/shared/clock';
import {
  CORDONED_ANNOTATION,
  EXCLUDED_ANNOTATION,
  EXCLUSION_LABEL,
  HELD_ANNOTATION,
  RECORDONED_ANNOTATION,
} from '@brupop/shared/constants';
import { SIGNATURES, carriesOurs, ourHolds } from '@brupop/shared/node-marks';
import type { ShadowStatus } from '@brupop/shared/shadow';
import type { NodeView } from '../cluster/node-view.ts';
import type { Member } from '../cluster/snapshot.ts';
import { CLOCK_TOLERANCE_MS, restingSince } from './steps.ts';

const TIMES = [CORDONED_ANNOTATION, RECORDONED_ANNOTATION, EXCLUDED_ANNOTATION];
/**
 * How long a host that was asked to reboot may still go down: the agent's limit for that step. Services of the host may delay a reboot
 * for 5 minutes (InhibitDelayMaxSec of logind in Bottlerocket).
 */
export const REBOOT_LIMIT_MS = 15 * 60_000;

/** When this operator last put something on the Node, epoch milliseconds; undefined when the annotations do not tell. */
export function markedAt({ metadata: { annotations = {} } }: NodeView, now: number): number | undefined {
  const times = TIMES.map((name) => parseTime(annotations[name])).filter(
    (time): time is number => time !== undefined && time <= now + CLOCK_TOLERANCE_MS,
  );
  return times.length === 0 ? undefined : Math.max(...times);
}

/**
 * Annotations that sign what is not there any more. We set a signature and what it signs in one write, so somebody else has taken that
 * back, and what they put there later is theirs.
 */
export function looseMarks(node: NodeView): string[] {
  const { labels = {}, annotations = {} } = node.metadata;
  const there: Readonly<Record<string, boolean>> = {
    [CORDONED_ANNOTATION]: node.unschedulable,
    [RECORDONED_ANNOTATION]: node.unschedulable,
    [EXCLUDED_ANNOTATION]: labels[EXCLUSION_LABEL] !== undefined,
    [HELD_ANNOTATION]: ourHolds(node).length > 0,
  };
  return SIGNATURES.filter((name) => annotations[name] !== undefined && there[name] !== true);
}

/**
 * Until when the host of a member at rest may still go down for a reboot that it was asked for, epoch milliseconds; undefined when no
 * reboot is pending. Nobody asks once the spec says Idle. Without a shadow, or without a status of it, nobody can tell.
 */
export function rebootUntil({ node, shadow, missingSince }: Member, now: number): number | undefined {
  if (node === undefined) return undefined;
  const since = shadow === undefined ? missingSince : restingSince(shadow, now);
  return mayGoDown(node, shadow?.status) ? since + REBOOT_LIMIT_MS : undefined;
}

function mayGoDown(node: NodeView, status: ShadowStatus | undefined): boolean {
  if (status === undefined) return carriesOurs(node);
  const { lastOperation: last } = status;
  if (last?.operation !== 'Reboot' || last.state !== 'Processing') return false;
  return node.bootID === '' || node.bootID === last.bootID;
}
