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
 */
import { type Action, rowOf } from '../actions.ts';
import { LIMITS } from '../limits.ts';
import type { Observation } from '../state/observe.ts';
import type { TrackerView } from '../state/tracker.ts';
import { guardReboot, pendingUntil, waitForReboot, wrongBoot } from './guards.ts';
import { idle } from './idle.ts';
import { reboot } from './reboot.ts';
import { type Context, contextOf, settle, wait, waitForHost } from './report.ts';
import { stage } from './stage.ts';

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
function exitWithoutApiserver({ apiUnreachableMs }: Observation): Action | undefined {
  if (apiUnreachableMs <= LIMITS.apiserverUnreachable) return undefined;
  return { do: 'exit', reason: `the apiserver has not been reached for ${Math.round(apiUnreachableMs / 1000)} s` };
}

function pace(seen: Observation, tracker: TrackerView, action: Action): Action {
  if (action.do === 'wait' || action.do === 'exit') return action;
  const { target } = rowOf(action);
  const { rejected } = tracker;
  const specNotBefore = rejected?.key === tracker.attempt.key ? rejected.notBefore : 0;
  const apiNotBefore = Math.max(tracker.api.notBefore, specNotBefore);
  const notBefore = target === 'host' ? tracker.host.notBefore : apiNotBefore;
  if (notBefore <= seen.nowMs) return action;
  return wait(seen, `pausing after an error of the ${target} before: ${action.reason}`, notBefore);
}

function choose(seen: Observation, tracker: TrackerView): Action {
  if (seen.shadow === undefined) return wait(seen, 'the apiserver has not sent the shadow yet');
  const context = contextOf(seen, tracker, seen.shadow);
  return wrongBoot(context) ?? byState(context);
}

function byState(c: Context): Action {
  const { state, version } = c.shadow.spec;
  if (state === 'Idle' || state === 'ErrorReset') return idle(c);
  if (state === 'MonitoringUpdate')
    return c.host === 'unreachable' ? waitForHost(c) : settle(c, { current_state: state }, 'monitoring');
  if (version == null || version === '') return wait(c.seen, `the spec requests ${state} without a version`);
  return state === 'StagedAndPerformedUpdate' ? stage(c, version) : reboot(c, version);
}
