/**
 * The requests of users in annotations of a shadow, beside `retry` (`gates/retry.ts`). One that can be followed is used
 * up by the write of the spec that follows it; one that cannot be is refused: the annotation is removed, with one Event
 * that says what was expected and found.
 *
 *     abort        followed until the host may have been asked to reboot, by `transition.ts`
 *                  refused after that, without an update under way, and with another value than `true`
 *     update-now   waits while the node is to run that version next, and until its agent confirms that it is at rest
 *                  refused if it is no version, another one, or one that the node runs, and during an update
 */
import { ABORT_ANNOTATION, ABORT_VALUE, UPDATE_NOW_ANNOTATION } from '@brupop/shared/api/names';
import { isVersion, sameVersion } from '@brupop/shared/api/version';
import { shorten } from '@brupop/shared/runtime/errors';
import type { ShadowView } from '../cluster/shadow.ts';
import { isUnderWay } from '../cluster/state.ts';
import type { Blocked, Candidate } from './gates/reasons.ts';

export interface Refusal {
  readonly annotation: string;
  readonly reason: 'AbortRefused' | 'UpdateNowRefused';
  readonly message: string;
}

export function isUpdateRequested({ metadata: { annotations = {} } }: ShadowView, version: string): boolean {
  return sameVersion(annotations[UPDATE_NOW_ANNOTATION], version);
}

/** Says as well that a user asks for the update now, if so. */
export function withRequest(blocked: Blocked, { version, isRequested = false }: Candidate): Blocked {
  if (!isRequested) return blocked;
  const message = `${blocked.message}. The annotation ${UPDATE_NOW_ANNOTATION} asks for ${version} now`;
  return { ...blocked, message: `${message}: the node goes before others, and waits for no window` };
}

/**
 * Returns a request that cannot be followed, of a node whose spec is not written now.
 * @param next - the version that a node at rest is to run; undefined: not known now
 */
export function refusedRequest(shadow: ShadowView, next: string | undefined): Refusal | undefined {
  return refusedAbort(shadow) ?? refusedUpdate(shadow, next);
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

function refusedUpdate(shadow: ShadowView, next: string | undefined): Refusal | undefined {
  const found = shadow.metadata.annotations?.[UPDATE_NOW_ANNOTATION];
  const message = found === undefined ? undefined : whyNotUpdated(shadow, found, next);
  return message === undefined ? undefined : { annotation: UPDATE_NOW_ANNOTATION, reason: 'UpdateNowRefused', message };
}

function whyNotUpdated(shadow: ShadowView, found: string, next: string | undefined): string | undefined {
  if (!isVersion(found)) return unexpected(UPDATE_NOW_ANNOTATION, 'a version such as 1.21.0', found);
  if (isUnderWay(shadow)) return `An update to ${shadow.spec.version} is under way, so none to ${short(found)} starts`;
  const running = shadow.status?.current_version;
  if (sameVersion(running, found)) return `The node runs ${running} already`;
  if (next === undefined || !isVersion(next) || sameVersion(next, found)) return undefined;
  if (sameVersion(next, running))
    return `The node is to run ${next}, as it does, so no update to ${short(found)} starts`;
  return unexpected(UPDATE_NOW_ANNOTATION, `${next}, the version that the node is to run next`, found);
}

function unexpected(annotation: string, expected: string, found: string): string {
  return `The annotation ${annotation}: expected ${expected}, found "${short(found)}"`;
}

function short(text: string): string {
  return shorten(text, 100);
}
