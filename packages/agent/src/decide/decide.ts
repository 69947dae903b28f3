/**
 * Chooses the one thing that the agent does next. Pure: the truth is the host, its boot ID and the
 * shadow; the tracker only paces. Only the agent's loop calls it, after each observation.
 *
 *     observation ─> waiting for a reboot of its own? ─> step by the spec's state ─> reboot guard ─> pacing ─> action
 *
 *     Idle, ErrorReset          idle    undo the earlier attempt, apply host settings, check for updates
 *     StagedAndPerformedUpdate  stage   refresh until the version is offered, prepare it
 *     RebootedIntoUpdate        reboot  exclude, drain, activate, reboot, restore
 *     MonitoringUpdate                  confirm
 *
 * Each step is recorded in the shadow before it is carried out, so a process that dies at any
 * instant can continue. An attempt that fails stays in ErrorReset until the spec goes back to Idle.
 * If the host does not answer, time limits still hold and the Node is still restored: both need
 * only the apiserver.
 *
 * The reboot guard defers everything that does not serve a reboot that may still come. A process
 * knows its own call; of an earlier process's call it knows the record of the Reboot step, or that
 * there is no record at all. It waits from when it learned of the possible reboot, since the wall
 * clock of the record may have been set since.
 */
import { type Action, rowOf, wordsOf } from '../actions.ts';
import { LIMITS } from '../limits.ts';
import type { Observation } from '../state/observe.ts';
import type { TrackerView } from '../state/tracker.ts';
import { type Context, contextOf, report, settle, wait, waitForHost } from './context.ts';
import { idle } from './idle.ts';
import { reboot, wrongBoot } from './reboot.ts';
import { stage } from './stage.ts';
import { startStep } from './steps.ts';

export function decide(seen: Observation, tracker: TrackerView): Action {
  const first = waitForReboot(seen, tracker) ?? exitWithoutApiserver(seen);
  if (first !== undefined) return first;
  const action = pace(seen, tracker, guardReboot(seen, tracker, choose(seen, tracker)));
  return action.do === 'wait' ? (exitWithStaleMount(seen, tracker) ?? action) : action;
}

/** Only a new container has a new mount. Continues while the host may be going down. */
function exitWithStaleMount(seen: Observation, tracker: TrackerView): Action | undefined {
  if (seen.host.kind !== 'unreachable' || !seen.host.refused || pendingUntil(seen, tracker) !== undefined)
    return undefined;
  const refusedMs = seen.nowMs - (tracker.hostRefusedSince ?? seen.nowMs);
  if (refusedMs <= (tracker.hostHasAnswered ? LIMITS.staleSocket : LIMITS.neverAnswered)) return undefined;
  const seconds = Math.round(refusedMs / 1000);
  const reason = `the host's socket has refused connections for ${seconds} s, its mount may be stale: ${seen.host.message}`;
  return { do: 'exit', reason };
}

/** Only a new container has a new environment. */
function exitWithoutApiserver({ apiUnreachableMs, apiError = 'it does not respond' }: Observation): Action | undefined {
  if (apiUnreachableMs <= LIMITS.apiserverUnreachable) return undefined;
  const seconds = Math.round(apiUnreachableMs / 1000);
  return { do: 'exit', reason: `the apiserver has not accepted a call for ${seconds} s: ${apiError}` };
}

function pace(seen: Observation, tracker: TrackerView, action: Action): Action {
  if (action.do === 'wait' || action.do === 'exit') return action;
  const { target } = rowOf(action);
  const { rejected } = tracker;
  const specNotBefore = rejected?.key === tracker.attempt.key ? rejected.notBefore : 0;
  const apiNotBefore = Math.max(tracker.api.notBefore, specNotBefore);
  const notBefore = target === 'host' ? tracker.host.notBefore : apiNotBefore;
  if (notBefore <= seen.nowMs) return action;
  return wait(seen, `pausing after an error of the ${target}, then ${wordsOf(action)}`, notBefore);
}

function choose(seen: Observation, tracker: TrackerView): Action {
  if (seen.shadow === undefined) return wait(seen, 'the apiserver has not sent the shadow yet');
  const context = contextOf(seen, tracker, seen.shadow);
  return wrongBoot(context) ?? byState(context);
}

function byState(c: Context): Action {
  const { state, version } = c.shadow.spec;
  if (state === 'Idle' || state === 'ErrorReset') return recordPossibleReboot(c) ?? idle(c);
  if (state === 'MonitoringUpdate')
    return c.host === 'unreachable' ? waitForHost(c) : settle(c, { current_state: state }, 'monitoring');
  if (version == null || version === '') return wait(c.seen, `the spec requests ${state} without a version`);
  return state === 'StagedAndPerformedUpdate' ? stage(c, version) : reboot(c, version);
}

const MAY_REBOOT = 'the host may have been asked to reboot';

/** Waits, whatever the spec is, while the host may go down on the request of this process. */
function waitForReboot(seen: Observation, { reboots: { asked } }: TrackerView): Action | undefined {
  if (asked === undefined || asked.bootID !== seen.bootID) return undefined;
  const untilMs = asked.atMs + LIMITS.rebootAgain;
  return untilMs > seen.nowMs ? wait(seen, 'the host was asked to reboot', untilMs) : undefined;
}

function guardReboot(seen: Observation, tracker: TrackerView, action: Action): Action {
  const untilMs = pendingUntil(seen, tracker);
  if (untilMs === undefined || action.do === 'wait' || action.do === 'exit' || rowOf(action).duringReboot(action))
    return action;
  return wait(seen, `${MAY_REBOOT}: ${action.reason}`, Math.min(untilMs, nextLookAtHost(seen, tracker)));
}

/** Soon if the host's state is unknown, else often enough to notice a stale mount. */
function nextLookAtHost({ host, nowMs }: Observation, tracker: TrackerView): number {
  if (host.kind === 'unreachable') return Math.max(tracker.host.notBefore, nowMs + LIMITS.pollFirst);
  const isKnown = host.update.kind === 'status' || host.update.kind === 'uninitialized';
  return nowMs + (isKnown ? LIMITS.staleSocket : LIMITS.pollLongest);
}

/** Returns until when a requested reboot may come (monotonic ms); undefined: none may. */
function pendingUntil({ nowMs }: Observation, { reboots: { pending } }: TrackerView): number | undefined {
  const untilMs = pending === undefined ? -Infinity : pending.sinceMs + LIMITS.rebootPending;
  return untilMs > nowMs ? untilMs : undefined;
}

/** Records the possible reboot of an activated host without a record, for users and the next process. */
function recordPossibleReboot(c: Context): Action | undefined {
  if (c.host === 'unreachable') return undefined;
  const { seen, tracker, shadow, status } = c;
  const isKnown = shadow.status !== undefined || pendingUntil(seen, tracker) === undefined;
  if (isKnown || status?.state !== 'Ready' || status.staged === undefined) return undefined;
  const minutes = LIMITS.rebootPending / 60_000;
  const message = `the update is activated, and ${MAY_REBOOT}: nothing starts for ${minutes} min`;
  return report(c, { lastOperation: { ...startStep('Reboot', status.staged.version, seen), message } }, message);
}
