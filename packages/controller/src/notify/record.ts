/**
 * Which events a receiver knows, pure. An event that has ended is forgotten ten minutes later, so that one that ends and
 * begins again within that time is sent once. IDs that a former leader recorded count as seen when this one starts.
 *
 *     not known      it is queued, unless it is a failure from before the receiver asked for failures
 *     queued         it becomes known when it was accepted or given up
 *     known          it is not sent again; the status of the BrupopConfig has its ID
 */
import { MAX_RECORDED_EVENTS, type Receiver } from '@brupop/shared/api/config-notifications';
import type { NotificationsStatus } from '@brupop/shared/api/brupop-config';
import type { Notice } from './events.ts';
import type { FailureReason } from './target.ts';

export const FORGET_MS = 600_000;

/** When each event was last seen, by its ID, monotonic milliseconds. */
export type LastSeen = ReadonlyMap<string, number>;

/** With the events of now, and without those that ended long ago. */
export function seenAt(before: LastSeen, notices: readonly Pick<Notice, 'id'>[], now: number): LastSeen {
  const recent = [...before].filter(([, at]) => now - at < FORGET_MS);
  return new Map([...recent, ...notices.map(({ id }): [string, number] => [id, now])]);
}

export interface Known {
  readonly state: 'Ready' | 'NotReady' | 'Unknown';
  /** RFC 3339. */
  readonly since: string;
  readonly message?: string;
  /** Of the failure that `message` describes. */
  readonly reason?: string;
  readonly lastSentTime?: string;
  readonly sent: readonly string[];
}

/** What is recorded of a receiver; undefined: it is new. */
export function knownFrom(status: NotificationsStatus | undefined, name: string): Known | undefined {
  const found = status?.receivers.find((one) => one.name === name);
  if (found === undefined) return undefined;
  const { sent = [], since, message, reason, lastSentTime } = found;
  const state = found.state === 'Ready' || found.state === 'NotReady' ? found.state : 'Unknown';
  return {
    state,
    since,
    sent,
    ...(message !== undefined && { message }),
    ...(reason !== undefined && { reason }),
    ...(lastSentTime !== undefined && { lastSentTime }),
  };
}

/** A receiver that was not there before: what failed before is not its news; what still stops nodes is. */
export function newcomer(notices: readonly Notice[], now: string): Known {
  return { state: 'Unknown', since: now, sent: failuresIn(notices) };
}

function failuresIn(notices: readonly Notice[]): string[] {
  return notices.filter(({ event }) => event === 'Failed').map(({ id }) => id);
}

type Asking = Pick<Receiver, 'events'>;

/** A receiver that has changed is checked again, and one that asks for failures from now on is new to them. */
export function withChange(
  known: Known,
  [before, after]: readonly [Asking, Asking],
  { notices, seen, now }: { readonly notices: readonly Notice[]; readonly seen: LastSeen; readonly now: string },
): Known {
  const isNew = after.events.includes('Failed') && !before.events.includes('Failed');
  const past = isNew ? failuresIn(notices) : [];
  const next = past.reduce((one, id) => withSent(one, id, seen), known);
  return known.state === 'NotReady' ? withState(next, now, 'Unknown') : next;
}

export function dueOf(notices: readonly Notice[], { events }: Asking, { sent }: Known): Notice[] {
  const known = new Set(sent);
  return notices.filter(({ id, event }) => events.includes(event) && !known.has(id));
}

/** Of too many, the one that was seen the longest time ago is forgotten: one that lasts would be sent again. */
export function withSent(known: Known, id: string, seen: LastSeen): Known {
  if (known.sent.includes(id)) return known;
  const sent = [...known.sent, id];
  if (sent.length <= MAX_RECORDED_EVENTS) return { ...known, sent };
  const at = (one: string): number => seen.get(one) ?? 0;
  const oldest = known.sent.reduce((before, one) => (at(one) < at(before) ? one : before));
  return { ...known, sent: sent.filter((one) => one !== oldest) };
}

export function withoutEnded(known: Known, seen: LastSeen): Known {
  const sent = known.sent.filter((id) => seen.has(id));
  return sent.length === known.sent.length ? known : { ...known, sent };
}

/** Changes nothing while nothing changes, since each difference is a write. */
export function withState(
  known: Known,
  now: string,
  state: Known['state'],
  problem?: Required<Pick<Known, 'message' | 'reason'>>,
): Known {
  if (known.state === state && known.message === problem?.message && known.reason === problem?.reason) return known;
  const { message: _, reason: __, ...rest } = known;
  const since = known.state === state ? known.since : now;
  return { ...rest, state, since, ...problem };
}

/** What a check alone finds. Only a notification that is accepted ends another failure, also with the next leader. */
const CHECKED: readonly (string | undefined)[] = ['Secret', 'Address'] satisfies FailureReason[];

/** Its Secret and address are valid. */
export function withCheck(known: Known, now: string): Known {
  const hasFailed = known.state === 'NotReady' && known.reason !== undefined && !CHECKED.includes(known.reason);
  return hasFailed ? known : withState(known, now, 'Ready');
}

/** Times of the rollout as they are recorded, epoch milliseconds. */
export interface RolloutTimes {
  readonly startedAt: number | undefined;
  readonly endedAt: number | undefined;
}

const FINISHED_MS = 3_600_000;

/** @param isCertain - the plan shows whether a node needs an update */
export function rolloutAfter(
  { startedAt, endedAt }: RolloutTimes,
  { isRolling, isCertain }: { readonly isRolling: boolean; readonly isCertain: boolean },
  now: number,
): RolloutTimes {
  if (isRolling) return { startedAt: startedAt ?? now, endedAt: undefined };
  if (startedAt !== undefined) return isCertain ? { startedAt: undefined, endedAt: now } : { startedAt, endedAt };
  // A time in the future is of a clock that was wrong.
  const isRecent = endedAt !== undefined && endedAt <= now && now - endedAt < FINISHED_MS;
  return { startedAt, endedAt: isRecent ? endedAt : undefined };
}
