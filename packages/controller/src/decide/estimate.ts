import { parseTime } from '@brupop/shared/clock';
import {
  PUT_OFF_SECONDS_ANNOTATION,
  UPDATE_SECONDS_ANNOTATION,
  UPDATE_STARTED_ANNOTATION,
} from '@brupop/shared/constants';
import type { ShadowView } from '../cluster/shadow-view.ts';
import type { Member } from '../cluster/snapshot.ts';
import type { MaintenanceSettings } from '../settings/maintenance.ts';

/** How long updates take, milliseconds. */
export interface Estimate {
  /** Nine in ten of the nodes' latest updates were as fast as that, and of a few all but the slowest; undefined: none was measured. */
  readonly measuredMs: number | undefined;
  /** What is expected of a node without a history of its own. */
  readonly usualMs: number;
  readonly marginMs: number;
}

/** From what was measured in the fleet. */
export function estimateOf(members: readonly Member[], { estimateMs, marginMs }: MaintenanceSettings): Estimate {
  const measured = members
    .flatMap(({ shadow }) => (shadow === undefined ? [] : (lastUpdateMs(shadow) ?? [])))
    .toSorted((a, b) => a - b);
  const measuredMs = measured[Math.floor((measured.length - 1) * 0.9)];
  return { measuredMs, usualMs: measuredMs ?? estimateMs, marginMs };
}

/**
 * How long the update of this node is expected to take, milliseconds: as long as its own latest one, if that was slower than usual, and longer
 * than it took to get to where it was put off.
 */
export function expectedMs(shadow: ShadowView, { usualMs }: Estimate): number {
  const putOffMs = durationMs(shadow, PUT_OFF_SECONDS_ANNOTATION) ?? 0;
  return Math.max(usualMs, putOffMs, lastUpdateMs(shadow) ?? 0);
}

/** When its latest update began, epoch milliseconds; undefined: nobody has written it down. */
export function startedAt({ metadata: { annotations = {} } }: ShadowView): number | undefined {
  return parseTime(annotations[UPDATE_STARTED_ANNOTATION]);
}

function lastUpdateMs(shadow: ShadowView): number | undefined {
  return durationMs(shadow, UPDATE_SECONDS_ANNOTATION);
}

/** What is said to have taken longer was measured by a clock that jumped. */
const LONGEST_MS = 24 * 60 * 60_000;

function durationMs({ metadata: { annotations = {} } }: ShadowView, name: string): number | undefined {
  const text = annotations[name] ?? '';
  return /^\d{1,7}$/u.test(text) ? Math.min(Number(text) * 1000, LONGEST_MS) : undefined;
}
