import type { Action } from '../action.ts';
import { LIMITS } from '../limits.ts';
import type { Observation } from '../state/observe.ts';
import { attemptKey, type TrackerView } from '../state/tracker.ts';
import { hostUnreachable } from './host-unreachable.ts';
import { idle } from './idle.ts';
import { pendingUntil, rebooting, unlessRebooting } from './reboot-guard.ts';
import { reboot, wrongBoot } from './reboot.ts';
import { type Context, contextOf, settle, wait } from './report.ts';
import { stage } from './stage.ts';

/** Names what is seen and chooses the one thing to do next. Pure: the truth is the host, its boot ID and the shadow; memory only paces. */
export function decide(seen: Observation, tracker: TrackerView): Action {
  const ending = rebooting(seen, tracker) ?? lost(seen);
  if (ending !== undefined) return ending;
  const action = paced(seen, tracker, unlessRebooting(seen, tracker, choose(seen, tracker)));
  return action.do === 'wait' ? (stale(seen, tracker) ?? action) : action;
}

/**
 * A mount that has gone stale is only renewed with the container. What can be done without the host comes first. A host that goes down does not listen
 * either: while it may, the process stays, so that the wait for it has an end.
 */
function stale(seen: Observation, tracker: TrackerView): Action | undefined {
  const refusedMs = seen.nowMs - (tracker.hostRefusedSince ?? seen.nowMs);
  const goesDown = pendingUntil(seen, tracker) !== undefined;
  const limitMs = tracker.hostHasAnswered ? LIMITS.staleSocket : LIMITS.neverAnswered;
  if (seen.host.kind === 'silent' && seen.host.refused && !goesDown && refusedMs > limitMs) {
    const reason = `nobody has listened on the host's socket for ${Math.round(refusedMs / 1000)} s, its mount may be stale: ${seen.host.message}`;
    return { do: 'exit', reason };
  }
  return undefined;
}

/** An environment that has gone stale is only renewed with the container. */
function lost(seen: Observation): Action | undefined {
  if (seen.apiSilentMs <= LIMITS.apiSilent) return undefined;
  return { do: 'exit', reason: `the apiserver has not been reached for ${Math.round(seen.apiSilentMs / 1000)} s` };
}

const CALLS_OF_HOST: ReadonlySet<Action['do']> = new Set(['command', 'configure', 'reboot']);

/** Calls wait while what they call is in trouble. */
function paced(seen: Observation, tracker: TrackerView, action: Action): Action {
  const { refused } = tracker;
  if (action.do === 'wait' || action.do === 'exit') return action;
  if (CALLS_OF_HOST.has(action.do)) {
    return tracker.host.notBefore > seen.nowMs
      ? wait(seen, `pausing after trouble with the host before: ${action.reason}`, tracker.host.notBefore)
      : action;
  }
  const stale = refused !== undefined && seen.shadow !== undefined && refused.key === attemptKey(seen.shadow);
  const notBefore = Math.max(tracker.api.notBefore, stale ? refused.notBefore : 0);
  return notBefore > seen.nowMs
    ? wait(seen, `pausing after trouble with the apiserver before: ${action.reason}`, notBefore)
    : action;
}

function choose(seen: Observation, tracker: TrackerView): Action {
  const { shadow, host } = seen;
  if (shadow === undefined) return wait(seen, 'the apiserver has not sent the shadow yet');
  if (host.kind === 'silent') return hostUnreachable({ seen, tracker, shadow, message: host.message });
  const context = contextOf(seen, tracker, shadow, host);
  return wrongBoot(context) ?? drive(context);
}

function drive(c: Context): Action {
  const { state, version } = c.shadow.spec;
  if (state === 'MonitoringUpdate') return settle(c, { current_state: 'MonitoringUpdate' }, 'monitoring');
  if (state === 'Idle' || state === 'ErrorReset') return idle(c);
  if (version == null || version === '') return wait(c.seen, `the spec asks for ${state} without a version`);
  return state === 'StagedAndPerformedUpdate' ? stage(c, version) : reboot(c, version);
}
