import { sameVersion } from '@brupop/shared/api/version';
import type { Action } from '../action.ts';
import { isOffered, isStaged } from '../host/host-status.ts';
import { enforceSettings } from './host-settings.ts';
import { begin, type Context, ended, hasFailed, settle, stepUnderWay, undo } from './report.ts';
import { stepGuard } from './step-guards.ts';

/** Spec StagedAndPerformedUpdate: refresh until `version` is offered, prepare it, and trust only the record of that prepare. */
export function stage(c: Context, version: string): Action {
  if (hasFailed(c)) return cleanUp(c);
  const there = c.status !== undefined && isStaged(c.status, version);
  if (there || sameVersion(c.running, version)) {
    const reached = { current_state: 'StagedAndPerformedUpdate', lastOperation: ended(c, 'Stage', version) } as const;
    return settle(c, reached, `${version} is ${there ? 'staged' : 'running'}`);
  }
  const step = stepUnderWay(c, version);
  if (step?.operation !== 'Stage') return begin(c, 'Stage', version, 'Idle');
  return stepGuard(c, step) ?? nextCommand(c, version);
}

function nextCommand(c: Context, version: string): Action {
  const { status, tracker } = c;
  if (status?.state === 'Ready') {
    return { do: 'command', command: 'deactivate', reason: 'the activated image cannot be verified: staging again' };
  }
  const settings = enforceSettings(c);
  if (settings !== undefined) return settings;
  if (status !== undefined && tracker.attempt.refreshed && isOffered(status, version)) {
    return { do: 'command', command: 'prepare', version, reason: `${version} is offered` };
  }
  return { do: 'command', command: 'refresh', version, reason: `the host must offer ${version}` };
}

/** After a failure: undo, then say so until the spec goes back to Idle. */
export function cleanUp(c: Context): Action {
  return undo(c) ?? settle(c, { current_state: 'ErrorReset' }, 'failed; waiting for the controller');
}
