/** The log line of a change of a spec, and of a deadline or wait that needs a user. A failed update is a warning. */
import type { LogLevel } from '@brupop/shared/runtime/log';
import { attemptIn } from '../cluster/shadow.ts';
import { isUnderWay } from '../cluster/state.ts';
import type { Outcome } from '../plan/specs/transition.ts';
import { type SpecChange, transitionOf } from '../plan/specs/spec-change.ts';

interface Line {
  readonly level: LogLevel;
  readonly msg: string;
  readonly fields: Readonly<Record<string, string | undefined>>;
}

const LINES: Readonly<Record<Outcome, readonly [LogLevel, string]>> = {
  Started: ['info', 'the update starts'],
  Advanced: ['info', 'the update continues with its next step'],
  Succeeded: ['info', 'the update has succeeded'],
  Failed: ['warn', 'the update has failed'],
  Cancelled: ['warn', 'the update has failed: a step had no result within its limit'],
  Reverting: ['warn', 'the update has failed: the node goes back to its previous version'],
  CheckFailed: ['warn', 'the update has failed: the job of a check failed'],
  SettingsFailed: ['warn', 'the settings of the host have failed: the former ones are set again'],
  Reverted: ['info', 'the node runs its previous version again'],
  Withdrawn: ['info', 'the update is cancelled: the host no longer offers its version'],
  Deferred: ['info', 'the staged update is deferred'],
  Interrupted: ['info', 'the update is undone: a pause interrupts updates'],
  Aborted: ['info', 'the update is undone: a user ended it'],
  Superseded: ['info', 'the update is undone: the configuration no longer wants it'],
  Configured: ['info', 'the host gets other settings, or may change other ones'],
  Repaired: ['warn', 'the spec of a shadow is repaired'],
  Released: ['info', 'the update ends: the node is no longer managed'],
};

export function lineOf(change: SpecChange): Line {
  const { shadow, because, outcome, event } = change;
  const [level, msg] = LINES[outcome];
  const { from, to, state, code } = transitionOf(change);
  const known = { from: from || shadow.status?.current_version, to: to || undefined };
  const why = code || because?.reason || (level === 'warn' ? outcome : undefined);
  return {
    level,
    msg,
    fields: { attempt: attemptOf(change), ...known, code: why, state, outcome, message: event?.message },
  };
}

/** The one that the change starts, continues or ends. */
function attemptOf({ shadow, record, outcome }: SpecChange): string | undefined {
  return isUnderWay(shadow) || outcome === 'Started' ? record.startedAt : attemptIn(shadow);
}
