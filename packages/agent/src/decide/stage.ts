import { sameVersion } from '@brupop/shared/api/version';
import type { Action } from '../actions.ts';
import { isOffered, isStaged } from '../host/host-status.ts';
import { stepGuard, withoutHost } from './guards.ts';
import { enforceSettings } from './host-settings.ts';
import {
  type AnsweredContext,
  begin,
  type Context,
  ended,
  hasFailed,
  runCommand,
  settle,
  stepInProgress,
  undo,
  waitForHost,
} from './report.ts';

/** Spec StagedAndPerformedUpdate: refreshes until `version` is offered, then prepares it. */
export function stage(c: Context, version: string): Action {
  if (hasFailed(c)) return cleanUp(c);
  if (c.host === 'unreachable') return withoutHost(c, version);
  const isReady = c.status !== undefined && isStaged(c.status, version);
  if (isReady || sameVersion(c.running, version)) {
    const reached = { current_state: 'StagedAndPerformedUpdate', lastOperation: ended(c, 'Stage', version) } as const;
    return settle(c, reached, `${version} is ${isReady ? 'staged' : 'running'}`);
  }
  const step = stepInProgress(c, version);
  if (step?.operation !== 'Stage') return begin(c, 'Stage', version, 'Idle');
  return stepGuard(c, step) ?? nextCommand(c, version);
}

function nextCommand(c: AnsweredContext, version: string): Action {
  const { status, tracker } = c;
  if (status?.state === 'Ready')
    return runCommand(c, 'deactivate', 'the activated image cannot be verified: staging it again');
  const settings = enforceSettings(c);
  if (settings !== undefined) return settings;
  if (status !== undefined && tracker.attempt.refreshed && isOffered(status, version))
    return runCommand(c, 'prepare', `${version} is offered`, { version });
  return runCommand(c, 'refresh', `the host must offer ${version}`, { version });
}

/** After a failure: undoes the attempt and waits until the spec goes back to Idle. */
export function cleanUp(c: Context): Action {
  const action = undo(c);
  if (action !== undefined) return action;
  if (c.host === 'unreachable') return waitForHost(c);
  return settle(c, { current_state: 'ErrorReset' }, 'failed; waiting for the controller');
}
