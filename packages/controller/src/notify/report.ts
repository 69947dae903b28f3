/** What the status of the BrupopConfig says of notifications. Its texts stay the same while nothing changes. */
import type { NotificationsStatus } from '@brupop/shared/api/brupop-config';
import type { Condition } from '@brupop/shared/api/meta';
import type { Receiver } from '@brupop/shared/api/config-notifications';
import { rfc3339 } from '@brupop/shared/runtime/clock';
import type { NotificationsReport } from '../report/config-status.ts';
import type { Known, RolloutTimes } from './record.ts';

/** Reasons of the condition NotificationsReady. `docs/runbook.md` explains each. */
export const NOTIFICATION_REASONS = ['ReceiversReady', 'ReceiverNotReady', 'ReceiversNotChecked'] as const;

type Reported = Pick<Condition, 'status' | 'message'> & { readonly reason: (typeof NOTIFICATION_REASONS)[number] };

/** @param known - in the order of `receivers` */
export function reportOf(
  receivers: readonly Pick<Receiver, 'name'>[],
  known: readonly Known[],
  rollout: RolloutTimes,
): NotificationsReport {
  const { startedAt, endedAt } = rollout;
  const entries = receivers.flatMap(({ name }, index): NotificationsStatus['receivers'][number][] => {
    const one = known[index];
    return one === undefined ? [] : [{ name, ...entryOf(one) }];
  });
  const status = {
    ...(startedAt !== undefined && { rolloutStartTime: rfc3339(startedAt) }),
    ...(endedAt !== undefined && { rolloutEndTime: rfc3339(endedAt) }),
    receivers: entries,
  };
  return { condition: conditionOf(entries), status };
}

/** An empty list is left out: kube-apiserver makes null of it. */
function entryOf({ sent, ...rest }: Known) {
  return { ...rest, ...(sent.length > 0 && { sent }) };
}

function conditionOf(entries: NotificationsStatus['receivers']): Reported {
  const broken = entries.filter(({ state }) => state === 'NotReady');
  if (broken.length > 0) {
    const list = broken.map(({ name, message = '' }) => `${name}: ${message}`).join('; ');
    const message = `Updates continue, but these receivers of spec.notifications are not notified: ${list}`;
    return { status: 'False', reason: 'ReceiverNotReady', message };
  }
  if (entries.some(({ state }) => state === 'Unknown'))
    return {
      status: 'Unknown',
      reason: 'ReceiversNotChecked',
      message: 'The receivers of spec.notifications are being checked',
    };
  return { status: 'True', reason: 'ReceiversReady', message: 'All receivers of spec.notifications are ready' };
}
