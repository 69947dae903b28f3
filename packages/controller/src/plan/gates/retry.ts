import { ERROR_CODES, isErrorCode, type Recovery } from '@brupop/shared/api/error-codes';
import { ABORT_ANNOTATION, RECORD_ANNOTATION, RETRY_ANNOTATION } from '@brupop/shared/api/names';
import type { LastOperation, ShadowStatus } from '@brupop/shared/api/shadow';
import { sameVersion } from '@brupop/shared/api/version';
import { delayAfter } from '@brupop/shared/runtime/backoff';
import { rfc3339 } from '@brupop/shared/runtime/clock';
import type { ShadowView } from '../../cluster/shadow.ts';
import type { RetrySettings } from '../../policy/policy.ts';
import { attempts, failures } from '../facts/attempts.ts';
import { isAccepted, latestTime } from '../facts/deadlines.ts';
import { recordedFailure } from '../facts/failed-nodes.ts';
import { failedJob } from '../facts/jobs.ts';
import { type Blocked, type Candidate, failureReason, MAX_MESSAGE } from '../facts/reasons.ts';
import { isRetryRequested } from '../facts/requests.ts';
import type { Gate, GateInput } from './gate.ts';

/** Errors that pass by themselves wait for this part of the time, and at most this long. */
const SOON = { part: 1 / 5, longestMs: 30 * 60_000 };

/** Applies the recovery rule of the error code. A user's retry annotation overrides it. */
export const backoff: Gate = (input) => {
  const { shadow, status, version } = input;
  if (isRetryRequested(shadow, version)) return undefined;
  if (shadow.record.isUnreadable === true) return unknownPast(input);
  if (failures(shadow) === 0) return neverAgain(input) ?? undone(input);
  const recovery = recoveryOf(status);
  const forGood = blocked(input, recovery) ?? neverAgain(input);
  // An agent may report any version or boot: only the first attempt with another version starts at once.
  if (forGood !== undefined || (!isRetried(recovery) && isFirst(input))) return forGood;
  return retried(input, recovery);
};

/** The agent reports something else instead of the failure, which is still on record. */
function neverAgain({ shadow, version }: GateInput): Blocked | undefined {
  const { failed } = shadow.record;
  if (failed?.isHidden !== true || !sameVersion(failed.version, version)) return undefined;
  if (!isErrorCode(failed.code) || ERROR_CODES[failed.code] !== 'NeverThisVersion') return undefined;
  const found = `The node failed with ${version} (${failed.code}, at ${failed.at}), and does not try it again by itself`;
  return { reason: 'ManualRetryRequired', message: `${found}. ${howToRetry(shadow, version)}` };
}

/** A user has edited the record: what failed before may be missing. A retry writes a new one. */
function unknownPast({ shadow, version }: Candidate): Blocked {
  const found = `The annotation ${RECORD_ANNOTATION} of the BottlerocketShadow cannot be read, so earlier failures are unknown`;
  return { reason: 'ManualRetryRequired', message: `${found}. ${howToRetry(shadow, version)}` };
}

/** A node that went back from a version does not try it again by itself. */
export const notRolledBack: Gate = ({ name, shadow, version, policy, moment }) => {
  const rollback = shadow.rollback;
  if (rollback === undefined || !sameVersion(rollback.failed, version)) return undefined;
  if (isAccepted(rollback.since, policy, moment) || isRetryRequested(shadow, version)) return undefined;
  const code = recordedFailure(name, shadow)?.code ?? 'NotHealthy';
  const found = `The node failed with ${version} (${code}, at ${rfc3339(rollback.since)}), and went back to ${rollback.previous}`;
  return { reason: 'Reverted', message: `${found}. ${howToRetry(shadow, version)}` };
};

/** Otherwise the update that a user has ended would start again at once. */
export const notAborted: Gate = ({ name, shadow, version }) => {
  const { aborted } = shadow.record;
  if (!sameVersion(aborted?.version, version) || isRetryRequested(shadow, version)) return undefined;
  const found = `A user ended the update to ${version} with the annotation ${ABORT_ANNOTATION} at ${aborted?.at ?? '?'}`;
  return { reason: 'Aborted', message: `${found}. ${howToRetry(shadow, version)} or: kubectl brupop retry ${name}` };
};

function retried(input: GateInput, recovery: Recovery): Blocked | undefined {
  const { shadow, version } = input;
  const { retry } = input.policy;
  if (recovery !== 'RetrySoon' && attempts(shadow, version) >= retry.attempts) {
    return failedForGood(input, `spec.retry.attempts allows ${retry.attempts} attempts with one version`);
  }
  return delayed(input, recovery === 'RetrySoon' ? soon(retry) : retry);
}

/** Otherwise an agent that reports the old version after each success would start again and again. */
function undone({ shadow, status, policy: { retry }, now }: GateInput): Blocked | undefined {
  const { version, at } = shadow.updated ?? {};
  if (version === undefined || at === undefined || sameVersion(status.current_version, version)) return undefined;
  const retryAt = at + retry.backoffMs;
  if (now >= retryAt || at > now) return undefined;
  const what = `The update to ${version} succeeded, and the host runs ${status.current_version} again`;
  return { reason: 'Backoff', message: `${what}; retried after ${rfc3339(retryAt)}`, retryAt };
}

function isRetried(recovery: Recovery): boolean {
  return recovery !== 'NeverThisVersion' && recovery !== 'Manual';
}

type Delays = Pick<RetrySettings, 'backoffMs' | 'maxBackoffMs'>;

function soon({ backoffMs, maxBackoffMs }: Delays): Delays {
  return { backoffMs: backoffMs * SOON.part, maxBackoffMs: Math.min(maxBackoffMs, SOON.longestMs) };
}

/** Older operators and cancelled attempts report no code. An unknown code needs a user. */
function recoveryOf({ crash_count, lastOperation }: ShadowStatus): Recovery {
  const isReported = crash_count > 0 && lastOperation?.state === 'Failed';
  const code: string | undefined = isReported ? lastOperation.errorCode : undefined;
  if (code === undefined) return 'RetryAfterBackoff';
  return isErrorCode(code) ? ERROR_CODES[code] : 'Manual';
}

function blocked(candidate: Candidate, recovery: Recovery): Blocked | undefined {
  if (isRetried(recovery)) return undefined;
  const { lastOperation } = candidate.status;
  if (lastOperation === undefined || !sameVersion(lastOperation.version, candidate.version)) return undefined;
  if (recovery === 'Manual' && hasBootedSince(candidate, lastOperation)) return undefined;
  return failedForGood(candidate, 'it is not retried automatically');
}

function isFirst({ shadow, version }: Candidate): boolean {
  return failures(shadow) <= 1 && attempts(shadow, version) === 0;
}

/** A boot after the failure may have repaired the host, but not the boot of a failed reboot. */
function hasBootedSince({ status }: Candidate, operation: LastOperation): boolean {
  return operation.operation !== 'Reboot' && status.bootID !== '' && status.bootID !== operation.bootID;
}

function delayed(input: GateInput, { backoffMs, maxBackoffMs }: Delays): Blocked | undefined {
  const { shadow, now, moment } = input;
  // The later of the agent's time, whose clock may be wrong, and the time at which the spec went back to Idle.
  const failedAt = latestTime([shadow.times.failedAt, shadow.times.stateSince], moment);
  if (failedAt === undefined) return failedForGood(input, 'the time of the failure is unknown');
  const retryAt = failedAt + delayAfter(failures(shadow), { baseMs: backoffMs, capMs: maxBackoffMs });
  if (now >= retryAt) return undefined;
  const job = failedJob({ ...input, now: moment });
  const reason = job === undefined ? 'Backoff' : failureReason(job.run.kind);
  return { reason, message: `${job?.message ?? whatFailed(input)}; retried after ${rfc3339(retryAt)}`, retryAt };
}

function failedForGood(candidate: Candidate, why: string): Blocked {
  const message = `${whatFailed(candidate)}; ${why}. ${howToRetry(candidate.shadow, candidate.version)}`;
  return { reason: 'ManualRetryRequired', message };
}

function howToRetry({ metadata: { name, namespace } }: ShadowView, version: string): string {
  return `To retry: kubectl annotate brs ${name} -n ${namespace} --overwrite ${RETRY_ANNOTATION}=${version}`;
}

function whatFailed({ shadow, status: { crash_count, lastOperation } }: Candidate): string {
  const count = failures(shadow);
  const times = count === 1 ? 'The latest attempt' : `${count} attempts in a row`;
  if (lastOperation?.state !== 'Failed') return `${times} ${crash_count > 0 ? 'failed' : 'did not succeed'}`;
  const { errorCode = 'no error code', version, operation, message = '' } = lastOperation;
  const said = message === '' ? '' : ` (${message.slice(0, MAX_MESSAGE)})`;
  return `${times} failed, at ${operation} of ${version}: ${errorCode}${said}`;
}
