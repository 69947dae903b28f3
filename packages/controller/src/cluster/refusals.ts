/**
 * What refuses a Job, or its pods. A Job is refused when kube-apiserver does not accept it; it is not tried again, but
 * with a quota, for QUOTA_MS.
 *
 * Why the controller of Jobs cannot create the pod of a Job, by the Events that it writes. It tries again, after 1, 2, 4
 * and at most 60 seconds, so what is said once may be over:
 *
 *     refused (Pod Security, a policy, a webhook that denies, the schema) --> lasting
 *     over a quota -- said for QUOTA_MS --> lasting, since pods that end make room
 *     anything else (a webhook that does not answer) --> passing; only the time limit of the Job ends it
 *
 * The latest Event counts, by the times of the controller of Jobs.
 */
import * as v from 'valibot';
import { object, parse } from '@brupop/shared/api/schema';
import { KubeError } from '@brupop/shared/kube/error';
import { parseTime } from '@brupop/shared/runtime/clock';
import { shorten } from '@brupop/shared/runtime/errors';

/** How long a quota has to be exceeded. */
export const QUOTA_MS = 60_000;
export const MAX_REFUSAL = 400;

const REFUSED = /violates PodSecurity|is forbidden|denied the request|denied request|is invalid/u;
/** What follows are words of a policy, such as that a time limit is missing. */
const DENIED = /violates PodSecurity|denied the request|denied request|exceeded quota/u;
const PASSING =
  /failed calling webhook|internal error|Client\.Timeout exceeded|(?<![\w.-])(?:timed out|timeout)(?![\w-]|\.\w)|deadline exceeded|connection refused|not yet ready to handle/iu;
/** Its reasons are the fields and values of the object. */
const INVALID = /is invalid:/u;
const QUOTA = /exceeded quota|status unknown for quota/u;

/** An Event of a pod that was not created. */
export interface Refusal {
  /** The UID of the Job. */
  readonly of: string;
  readonly message: string;
  /** Epoch milliseconds; 0: unknown. */
  readonly firstAt: number;
  readonly lastAt: number;
}

const text = v.string('a text');
const event = object({
  involvedObject: v.exactOptional(object({ uid: v.exactOptional(text) })),
  message: v.exactOptional(text),
  firstTimestamp: v.nullish(text),
  lastTimestamp: v.nullish(text),
});

export function readRefusal(raw: unknown): Refusal | undefined {
  const { involvedObject, message, firstTimestamp, lastTimestamp } = parse(event, raw, 'the Event');
  if (message === undefined || message === '') return undefined;
  const firstAt = parseTime(firstTimestamp ?? undefined) ?? 0;
  return {
    of: involvedObject?.uid ?? '',
    message: shorten(message, MAX_REFUSAL),
    firstAt,
    lastAt: parseTime(lastTimestamp ?? undefined) ?? firstAt,
  };
}

/** Returns what was said last, and whether it lasts. */
export function latestRefusal(
  refusals: readonly Omit<Refusal, 'of'>[],
): { message: string; isLasting: boolean } | undefined {
  const latest = refusals.toSorted((a, b) => a.lastAt - b.lastAt).at(-1);
  if (latest === undefined) return undefined;
  const { message, lastAt } = latest;
  if (!REFUSED.test(message) || isPassing(message)) return { message, isLasting: false };
  if (!isQuota(message)) return { message, isLasting: true };
  const since = Math.min(...refusals.filter((one) => isQuota(one.message)).map(({ firstAt }) => firstAt));
  return { message, isLasting: since > 0 && lastAt - since >= QUOTA_MS };
}

/** True for what kube-apiserver and webhooks say of their own failures. Names, such as of a check, are quoted. */
function isPassing(message: string): boolean {
  return PASSING.test(message.replaceAll(/"[^"]*"/gu, '')) && !DENIED.test(message) && !INVALID.test(message);
}

export function isQuota(message: string): boolean {
  return QUOTA.test(message);
}

/** By the schema, a quota, a policy, RBAC or a webhook that denies; not by a server or a webhook that does not answer. */
export function isRefusal(error: unknown): boolean {
  return error instanceof KubeError && [400, 403, 422].includes(error.status) && !isPassing(error.message);
}
