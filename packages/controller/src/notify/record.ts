/**
 * Which events a receiver knows, pure. An event that has ended is forgotten ten minutes later, so that one that ends and
 * begins again within that time is sent once. IDs that a former leader recorded count as seen when this one starts.
 *
 *     not known      it is queued; a failure becomes known at once to a receiver that does not ask for failures
 *     queued         it becomes known when it was accepted or given up
 *     known          it is not sent again; the status of the BrupopConfig has its ID
 */
import { createHash } from 'node:crypto';
import { MAX_RECORDED_EVENTS, type Receiver } from '@brupop/shared/api/config-notifications';
import type { NotificationsStatus } from '@brupop/shared/api/brupop-config';
import type { Notice, Notices } from './events.ts';
import type { FailureReason } from './target.ts';

export const FORGET_MS = 600_000;

/** When each event was last seen, by its ID, monotonic milliseconds. */
export type LastSeen = ReadonlyMap<string, number>;

type Noticed = Readonly<Record<keyof Notices, readonly Pick<Notice, 'id'>[]>>;

/**
 * With the events of now, and without those that ended long ago. Those that are left out last as well, so that they are not sent
 * again when there is room for them; a record that is full forgets them first.
 */
export function seenAt(before: LastSeen, { notices, others }: Noticed, now: number): LastSeen {
  const recent = [...before].filter(([, at]) => now - at < FORGET_MS);
  const seen = (all: Noticed['notices'], at: number) => all.map(({ id }): [string, number] => [id, at]);
  return new Map([...recent, ...seen(others, now - 1), ...seen(notices, now)]);
}

export interface Known {
  readonly state: 'Ready' | 'NotReady' | 'Unknown';
  /** RFC 3339. */
  readonly since: string;
  readonly message?: string;
  /** Of the failure that `message` describes. */
  readonly reason?: string;
  /** Of the receiver that `message` is about, see {@link hashOf}. */
  readonly receiverHash?: string;
  readonly lastSentTime?: string;
  readonly sent: readonly string[];
}

/** Another one, if anything of the receiver has changed. */
export function hashOf(receiver: Receiver): string {
  return createHash('sha256').update(JSON.stringify(receiver)).digest('hex').slice(0, 12);
}

/** What is recorded of a receiver; undefined: it is new. One that has changed since it was found NotReady is checked again. */
export function knownFrom(status: NotificationsStatus | undefined, receiver: Receiver, now: string): Known | undefined {
  const found = status?.receivers.find((one) => one.name === receiver.name);
  if (found === undefined) return undefined;
  const known = recordedIn(found);
  // An earlier release has recorded no hash.
  const { receiverHash = hashOf(receiver) } = known;
  return receiverHash === hashOf(receiver) ? known : withChange(known, now);
}

function recordedIn(found: NotificationsStatus['receivers'][number]): Known {
  const { sent = [], since, message, reason, receiverHash, lastSentTime } = found;
  const state = found.state === 'Ready' || found.state === 'NotReady' ? found.state : 'Unknown';
  return {
    state,
    since,
    sent,
    ...(message !== undefined && { message }),
    ...(reason !== undefined && { reason }),
    ...(receiverHash !== undefined && { receiverHash }),
    ...(lastSentTime !== undefined && { lastSentTime }),
  };
}

/** A receiver that was not there before: what failed before is not its news; what still stops nodes is. */
export function newcomer(found: Notices, now: string): Known {
  return withFailures({ state: 'Unknown', since: now, sent: [] }, found, new Map());
}

/** Those that are left out as well, as far as there is room, since they are found when others have ended. */
function withFailures(known: Known, { notices, others }: Notices, seen: LastSeen): Known {
  const first = failuresIn(notices).reduce((one, id) => withSent(one, id, seen), known);
  const room = MAX_RECORDED_EVENTS - first.sent.length;
  const left = failuresIn(others).filter((id) => !first.sent.includes(id));
  return left.slice(0, room).reduce((one, id) => withSent(one, id, seen), first);
}

function failuresIn(notices: readonly Notice[]): string[] {
  return notices.filter(({ event }) => event === 'Failed').map(({ id }) => id);
}

type Asking = Pick<Receiver, 'events'>;

/** A receiver that has changed is checked again. */
export function withChange(known: Known, now: string): Known {
  return known.state === 'NotReady' ? withState(known, now, 'Unknown') : known;
}

/** The failures of now are known to a receiver that does not ask for them: they are not its news if it does later. */
export function withUnasked(known: Known, { events }: Asking, found: Notices, seen: LastSeen): Known {
  return events.includes('Failed') ? known : withFailures(known, found, seen);
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
  problem?: Required<Pick<Known, 'message' | 'reason' | 'receiverHash'>>,
): Known {
  const { message, reason, receiverHash, ...rest } = known;
  const isSame = message === problem?.message && reason === problem?.reason && receiverHash === problem?.receiverHash;
  if (known.state === state && isSame) return known;
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

interface RolloutFound {
  readonly isRolling: boolean;
  /** The plan shows whether a node needs an update. */
  readonly isCertain: boolean;
  /** When a node last succeeded, epoch milliseconds; asked for at the end of a rollout only. */
  readonly lastSuccess: () => number;
}

/** Without a success none has finished: an agent may claim as often as it likes that its node needs an update. */
export function rolloutAfter(
  { startedAt, endedAt }: RolloutTimes,
  { isRolling, isCertain, lastSuccess }: RolloutFound,
  now: number,
): RolloutTimes {
  if (isRolling) return { startedAt: startedAt ?? now, endedAt: undefined };
  if (startedAt !== undefined && !isCertain) return { startedAt, endedAt };
  // A success has no fraction of a second.
  if (startedAt !== undefined)
    return { startedAt: undefined, endedAt: lastSuccess() > startedAt - 1_000 ? now : undefined };
  // A time in the future is of a clock that was wrong.
  const isRecent = endedAt !== undefined && endedAt <= now && now - endedAt < FINISHED_MS;
  return { startedAt, endedAt: isRecent ? endedAt : undefined };
}
