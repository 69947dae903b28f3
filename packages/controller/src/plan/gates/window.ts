import { rfc3339 } from '@brupop/shared/runtime/clock';
import type { CalendarState } from '../../policy/calendar.ts';
import type { Reason, Blocked } from '../reasons.ts';
import type { Gate } from './gate.ts';

/** A maintenance window is entered only by a node whose whole update fits. */
export const windowOpen: Gate = ({ policy: { calendar }, needMs, now }) => {
  const retryAt = calendar.nextFit(now, needMs);
  if (retryAt !== undefined && retryAt <= now) return undefined;
  const [reason, why] = closed(calendar.at(now), needMs);
  if (retryAt !== undefined) return { reason, message: `${why}; it may begin at ${rfc3339(retryAt)}`, retryAt };
  const everOpens = calendar.nextFit(now, 1) !== undefined;
  return everOpens ? tooShort(needMs) : { reason, message: `${why}, and none opens within 400 days` };
};

function closed({ open, reason, blackout }: CalendarState, needMs: number): [Reason, string] {
  const update = `an update of about ${minutes(needMs)} minutes is through`;
  if (open && reason === 'NoWindows') return ['Blackout', `A blackout begins before ${update}`];
  if (open) return ['OutsideMaintenanceWindow', `The window that is open closes before ${update}`];
  if (reason !== 'Blackout') return ['OutsideMaintenanceWindow', 'No maintenance window is open'];
  const why = blackout?.reason === undefined ? '' : `: ${blackout.reason}`;
  return ['Blackout', `No node begins an update during this blackout${why}`];
}

function tooShort(needMs: number): Blocked {
  const message =
    `No maintenance window is long enough for an update of about ${minutes(needMs)} minutes, its margin included. ` +
    'Make a window longer or spec.maintenance.margin shorter. If the latest update of this node or of others took unusually long, ' +
    'remove the annotations update-seconds and deferred-after-seconds (brupop.bottlerocket.aws/) from their BottlerocketShadows';
  return { reason: 'WindowTooShort', message };
}

/** In steps of 5, so that each update that is measured does not rewrite the conditions of all that wait. */
function minutes(ms: number): number {
  return Math.ceil(ms / 300_000) * 5;
}
