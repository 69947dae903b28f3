/**
 * Every time limit that one program sets because of another one's, in milliseconds.
 *
 * The program that does the work gives up first and says why; the program that waits for it gives
 * up later, and only when no report came. So for each step
 *
 *     agent's limit  <  apiserver's answer at the latest  <  controller's deadline
 *
 * except that a drain ends by the apiserver's limit first, which the configuration sets.
 * Each limit is computed from the one it has to exceed; `test/framework/deadlines.test.ts` compares
 * what the three programs use.
 */
import type { Operation } from './shadow.ts';

const SECOND = 1000;
const MINUTE = 60 * SECOND;

/** A time further ahead than this was written by a wrong clock. */
export const CLOCK_TOLERANCE_MS = 5 * MINUTE;

/** True for a time, epoch milliseconds, that was written by a clock that was wrong. */
export function isFromFuture(time: number, now: number): boolean {
  return time > now + CLOCK_TOLERANCE_MS;
}

/** True for a clock that differs too much from that of the Kubernetes API; by an unknown skew it does not. */
export function isClockWrong(skewMs = 0): boolean {
  return Math.abs(skewMs) > CLOCK_TOLERANCE_MS;
}

/** One call of the Kubernetes API to authenticate an agent. */
export const AUTHENTICATION_LIMIT_MS = 10 * SECOND;
/** The apiserver answers a drain pass within this time. */
export const DRAIN_PASS_LIMIT_MS = 10 * SECOND;
/** The apiserver answers a drain request, authentication included, within this time. */
export const DRAIN_ANSWER_LIMIT_MS = AUTHENTICATION_LIMIT_MS + DRAIN_PASS_LIMIT_MS;
/** The agent gives up a drain request after this time. */
export const DRAIN_CALL_LIMIT_MS = DRAIN_ANSWER_LIMIT_MS + 10 * SECOND;
/** A write to the Kubernetes API: more than an admission webhook takes by default, so that kube-apiserver names a silent one. */
export const WRITE_LIMIT_MS = 15 * SECOND;
/** The write that restores a Node: kube-apiserver ends each after 34 s, however long its admission webhooks take. */
export const RESTORE_WRITE_LIMIT_MS = 35 * SECOND;
/** The apiserver answers a restore within this time, since nobody else uncordons the node. */
export const RESTORE_ANSWER_LIMIT_MS = RESTORE_WRITE_LIMIT_MS + 5 * SECOND;
/** The agent gives up a restore after this time. */
export const RESTORE_CALL_LIMIT_MS = RESTORE_ANSWER_LIMIT_MS + 2 * SECOND;
/** The apiserver answers any other request within this time. */
export const ANSWER_LIMIT_MS = WRITE_LIMIT_MS + 2 * SECOND;
/** The agent gives up any other request after this time. */
export const CALL_LIMIT_MS = ANSWER_LIMIT_MS + 2 * SECOND;

/** The apiserver sends a heartbeat on an idle stream this often. */
export const STREAM_HEARTBEAT_MS = 10 * SECOND;
/** The agent gives up a stream that sent nothing for this time: three heartbeats and a half. */
export const STREAM_INACTIVITY_MS = 3.5 * STREAM_HEARTBEAT_MS;

/**
 * Of the controllers. The leader renews its Lease at half of the renew deadline: ten times a minute.
 * If it is killed, another replica becomes leader after one lease duration.
 */
export const LEASE_LIMITS = {
  leaseDurationMs: 16 * SECOND,
  renewDeadlineMs: 12 * SECOND,
  retryPeriodMs: 0.75 * SECOND,
} as const;

/** A watch that is silent for this time is checked; bookmarks come about once a minute. */
export const WATCH_IDLE_LIMIT_MS = 100 * SECOND;
/** The check of a silent watch ends within this time. */
export const WATCH_CATCH_UP_LIMIT_MS = 10 * SECOND;
/**
 * A watch that has not been confirmed for this time is stale: the apiserver is not ready, and the
 * controller starts no update. A silent watch is checked before that.
 */
export const WATCH_STALE_MS = WATCH_IDLE_LIMIT_MS + WATCH_CATCH_UP_LIMIT_MS + 10 * SECOND;

/** The longest exclusion from load balancers, and the longest drain, of a configuration. */
export const EXCLUSION_MAX_MS = 60 * MINUTE;
export const DRAIN_TIMEOUT_MAX_MS = 24 * 60 * MINUTE;
/** A forced drain takes at most this much longer than its time limit. */
export const FORCE_LIMIT_MS = 70 * MINUTE;

/**
 * How long a drain waits, on a cordoned node, for the pods that disruption budgets hold, before it evicts anything else.
 * Operators that move a primary when its node is cordoned take seconds to a few minutes; a budget that stays closed for
 * longer is not opened by the cordon.
 */
const BUDGET_HOLD_MS = 5 * MINUTE;

/** The same, and no longer than the drain itself may take. */
export function budgetHoldMs(timeoutMs: number): number {
  return Math.min(BUDGET_HOLD_MS, timeoutMs);
}

/** A drain that goes on for this time after the apiserver's limit has failed for the agent. */
export const DRAIN_OVER_LIMIT_MS = 2 * MINUTE;

/** The agent asks for a reboot within this time after it recorded that it will. */
export const REBOOT_REQUEST_LIMIT_MS = MINUTE;
/** The reboot call of the host API answers when `systemctl reboot` returned. */
export const REBOOT_CALL_LIMIT_MS = 30 * SECOND;
/** InhibitDelayMaxSec of systemd-logind in Bottlerocket: how long services may delay a reboot. */
const REBOOT_INHIBIT_MAX_MS = 5 * MINUTE;
/** After this time no reboot that was recorded can still come. */
export const REBOOT_PENDING_LIMIT_MS =
  REBOOT_REQUEST_LIMIT_MS + REBOOT_CALL_LIMIT_MS + REBOOT_INHIBIT_MAX_MS + 30 * SECOND;
/** The shortest `spec.timeouts.reboot`: a reboot may still come, or be requested once more. */
export const REBOOT_TIMEOUT_MIN_MS = REBOOT_PENDING_LIMIT_MS + REBOOT_REQUEST_LIMIT_MS;

/**
 * The agent's limits of its steps, counted from `lastOperation.startTime`. Those of Stage and
 * Reboot are the defaults of `spec.timeouts`, which the spec carries.
 */
export const STEP_LIMITS_MS: Readonly<Record<Operation, number>> = {
  Stage: 45 * MINUTE,
  /** A backstop: the apiserver ends a drain earlier, by the configuration's limit. */
  Drain: EXCLUSION_MAX_MS + DRAIN_TIMEOUT_MAX_MS + FORCE_LIMIT_MS + 110 * MINUTE,
  Activate: 10 * MINUTE,
  Reboot: 15 * MINUTE,
  /** After a successful reboot: no deadline of the controller ends it. */
  Restore: 15 * MINUTE,
};

/** How much later than the agent's limit the controller acts, when no report came. */
const REPORT_SLACK_MS = 5 * MINUTE;

/** After this time a spec is confirmed without its host settings. */
export const HOST_SETTINGS_LIMIT_MS = 4 * MINUTE;
/** An agent that does not confirm a spec of Idle for this time does not respond. */
export const IDLE_DEADLINE_MS = HOST_SETTINGS_LIMIT_MS + MINUTE;

/** The controller's deadline of StagedAndPerformedUpdate, given the agent's limit for staging. */
export function stageDeadlineMs(stageMs: number): number {
  return stageMs + REPORT_SLACK_MS;
}

/** The controller's deadline of RebootedIntoUpdate, given the limits of drain and reboot. */
export function rebootDeadlineMs(drainMs: number, rebootMs: number): number {
  return drainMs + STEP_LIMITS_MS.Activate + returnDeadlineMs(rebootMs);
}

/** The same, counted from when the host is asked to reboot after the drain. */
export function returnDeadlineMs(rebootMs: number): number {
  return rebootMs + REPORT_SLACK_MS;
}
