/**
 * The requests of users in annotations of a shadow: `retry` (see `gates/retry.ts`), and two more. One of these that can be
 * followed is used up by the write of the spec that follows it; one that cannot be is refused: the annotation is removed,
 * with one Event that says what was expected and found.
 *
 *     abort        followed until the host may have been asked to reboot, by `specs/transition.ts`
 *                  refused after that, without an update under way, and with another value than `true`
 *     update-now   waits while the node is to run that version next, and until its agent confirms that it is at rest
 *                  refused if it is no version, another one, or one that the node runs, and during an update, but
 *                  for a reboot for settings; also when it has waited for a day, or when it is not known for how long
 *
 * Since when `update-now` waits is in `asked` of the record, so that a change of the leader does not extend it:
 *
 *     absent                 the annotation is not set, or no controller has seen it: a write follows
 *     its value, a time      it ends a day after that time; a time that is still to come is replaced by the present one
 *     another value          a user has set the annotation again: replaced
 *
 * What is recorded goes with the annotation, also when a user removes that.
 */
import { ABORT_ANNOTATION, ABORT_VALUE, RETRY_ANNOTATION, UPDATE_NOW_ANNOTATION } from '@brupop/shared/api/names';
import type { NodeRecord } from '@brupop/shared/api/record';
import { isVersion, sameVersion } from '@brupop/shared/api/version';
import { parseTime, rfc3339 } from '@brupop/shared/runtime/clock';
import { shorten, truncated } from '@brupop/shared/runtime/errors';
import type { ShadowView } from '../../cluster/shadow.ts';
import { isUnderWay } from '../../cluster/state.ts';
import type { Moment } from '../../kept/moment.ts';
import { type Blocked, type Candidate, MAX_MESSAGE } from './reasons.ts';

/** How long `update-now` waits after the controller has seen it, milliseconds. */
const REQUEST_MS = 24 * 60 * 60_000;
/** Characters of its value that are recorded. */
const MAX_ASKED = 100;

export interface Refusal {
  readonly annotation: string;
  readonly reason: 'AbortRefused' | 'UpdateNowRefused';
  readonly message: string;
}

/** A reboot for settings goes before the update that the host is offered, and is retried with it. */
export function isRetryRequested({ metadata: { annotations = {} }, status }: ShadowView, version: string): boolean {
  const asked = annotations[RETRY_ANNOTATION];
  const isReboot = sameVersion(version, status?.current_version);
  return sameVersion(asked, version) || (isReboot && sameVersion(asked, status?.target_version));
}

/** True while the annotation `update-now` asks for this version, and has not waited for a day. */
export function isUpdateRequested(shadow: ShadowView, version: string, now: Moment): boolean {
  if (!sameVersion(requestIn(shadow), version)) return false;
  const end = requestEndOf(shadow);
  return end === undefined || !now.reached(end);
}

function requestIn({ metadata: { annotations = {} } }: Pick<ShadowView, 'metadata'>): string | undefined {
  return annotations[UPDATE_NOW_ANNOTATION];
}

/** When the annotation `update-now` has waited for a day, epoch milliseconds; undefined: it is not set, or not recorded. */
export function requestEndOf(shadow: Pick<ShadowView, 'metadata' | 'record'> | undefined): number | undefined {
  const at = shadow && askedAt(shadow);
  return at === undefined ? undefined : at + REQUEST_MS;
}

/** True if a user asks for something, or did and the record still says so. */
export function hasRequest({
  metadata: { annotations = {} },
  record,
}: Pick<ShadowView, 'metadata' | 'record'>): boolean {
  const isSet = [ABORT_ANNOTATION, UPDATE_NOW_ANNOTATION].some((name) => annotations[name] !== undefined);
  return isSet || record.asked !== undefined;
}

function askedAt(shadow: Pick<ShadowView, 'metadata' | 'record'>): number | undefined {
  const { asked } = shadow.record;
  const found = requestIn(shadow);
  return found === undefined || asked?.version !== truncated(found, MAX_ASKED) ? undefined : parseTime(asked.at);
}

/**
 * The record with the time since when `update-now` waits, or without it once the annotation is gone; the same object if
 * nothing is to be written.
 * @param now - epoch milliseconds
 */
export function withRequestTime(shadow: Pick<ShadowView, 'metadata' | 'record'>, now: number): NodeRecord {
  const { record } = shadow;
  const found = requestIn(shadow);
  if (found === undefined) return withoutRequestTime(record);
  const at = askedAt(shadow);
  if (at !== undefined && at <= now) return record;
  return { ...record, asked: { version: truncated(found, MAX_ASKED), at: rfc3339(now) } };
}

function withoutRequestTime(record: NodeRecord): NodeRecord {
  return record.asked === undefined ? record : { ...record, asked: undefined };
}

/** The record once a request is refused; one that cannot be read is left to its user. */
export function withoutRequest({ record }: Pick<ShadowView, 'record'>, { annotation }: Refusal): NodeRecord {
  const isKept = annotation !== UPDATE_NOW_ANNOTATION || record.isUnreadable === true;
  return isKept ? record : withoutRequestTime(record);
}

/** Says as well that a user asks for the update now, if so. */
export function withRequest(blocked: Blocked, { version, isRequested = false }: Candidate): Blocked {
  if (!isRequested) return blocked;
  const message = `${blocked.message}. The annotation ${UPDATE_NOW_ANNOTATION} asks for ${version} now`;
  return { ...blocked, message: `${message}: the node goes before others, and waits for no window` };
}

/** What a plan has found of a node whose spec it does not write now. */
interface Waiting {
  /** The version that a node at rest is to run; undefined: not known now. */
  readonly next: string | undefined;
  /** Why it does not update; undefined: not known now. */
  readonly because: Pick<Blocked, 'reason' | 'message'> | undefined;
  /** Epoch milliseconds. */
  readonly now: number;
}

/** Returns a request that cannot be followed. */
export function refusedRequest(shadow: ShadowView, waiting: Waiting): Refusal | undefined {
  return refusedAbort(shadow) ?? refusedUpdate(shadow, waiting);
}

function refusedAbort(shadow: ShadowView): Refusal | undefined {
  const found = shadow.metadata.annotations?.[ABORT_ANNOTATION];
  if (found === undefined) return undefined;
  return { annotation: ABORT_ANNOTATION, reason: 'AbortRefused', message: whyNotAborted(shadow, found) };
}

/** An update that could be ended would have another spec by now. */
function whyNotAborted(shadow: ShadowView, found: string): string {
  if (found !== ABORT_VALUE) return unexpected(ABORT_ANNOTATION, `"${ABORT_VALUE}"`, found);
  if (!isUnderWay(shadow)) return 'No update of this node is under way, so none is ended';
  const { version } = shadow.spec;
  const what =
    shadow.state === 'Proving' ? `The node has booted ${version}` : `The host may be rebooting into ${version}`;
  return `${what}, so the update goes on. If the node is not healthy after it, spec.rollout.rollback decides what follows`;
}

function refusedUpdate(shadow: ShadowView, waiting: Waiting): Refusal | undefined {
  const found = requestIn(shadow);
  const message =
    found === undefined
      ? undefined
      : (whyNotUpdated(shadow, found, waiting.next) ?? whyNotAnyLonger(shadow, found, waiting));
  return message === undefined ? undefined : { annotation: UPDATE_NOW_ANNOTATION, reason: 'UpdateNowRefused', message };
}

function whyNotUpdated(shadow: ShadowView, found: string, next: string | undefined): string | undefined {
  if (!isVersion(found)) return unexpected(UPDATE_NOW_ANNOTATION, 'a version such as 1.21.0', found);
  if (isUnderWay(shadow) && shadow.purpose !== 'Settings')
    return `An update to ${shadow.spec.version} is under way, so none to ${short(found)} starts`;
  const running = shadow.status?.current_version;
  if (sameVersion(running, found)) return `The node runs ${running} already`;
  if (next === undefined || !isVersion(next) || sameVersion(next, found)) return undefined;
  if (sameVersion(next, running))
    return `The node is to run ${next}, as it does, so no update to ${short(found)} starts`;
  return unexpected(UPDATE_NOW_ANNOTATION, `${next}, the version that the node is to run next`, found);
}

function whyNotAnyLonger(shadow: ShadowView, found: string, { because, now }: Waiting): string | undefined {
  const what = `The annotation ${UPDATE_NOW_ANNOTATION} asks for ${short(found)}`;
  if (shadow.record.isUnreadable === true)
    return `${what}, but the record of the node cannot be read, so it is not known since when: retry the version first`;
  const end = requestEndOf(shadow);
  if (end === undefined || now < end) return undefined;
  const why = because === undefined ? 'which is not known now' : `${because.reason}: ${because.message}`;
  return (
    `${what} since ${rfc3339(end - REQUEST_MS)}, and has expired after 24 hours. ` +
    `Remove the cause, and set the annotation again. The cause: ${shorten(why, MAX_MESSAGE)}`
  );
}

function unexpected(annotation: string, expected: string, found: string): string {
  return `The annotation ${annotation}: expected ${expected}, found "${short(found)}"`;
}

function short(text: string): string {
  return shorten(text, 100);
}
