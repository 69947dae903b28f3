/**
 * Spec StagedAndPerformedUpdate: refresh until the version is offered, prepare it. And what Idle
 * shares with it: the settings that determine its offer, refresh and prepare.
 * Settings are recorded in the shadow before they are changed.
 */
import { sameVersion } from '@brupop/shared/api/version';
import type { Action } from '../actions.ts';
import { isOffered, isStaged } from '../host/host.ts';
import { type AnsweredContext, type Context, report, runCommand, settle, wait } from './context.ts';
import { describeSettings, isConfirmed, isEmpty, sameRecords, type SettingsPlan } from './settings-view.ts';
import { begin, cleanUp, ended, hasFailed, stepGuard, stepInProgress, withoutHost } from './steps.ts';

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

/** In Idle: applies the settings and then refreshes; undefined when nothing is to be done now. */
export function settleSettings(c: AnsweredContext): Action | undefined {
  if (c.settings.state !== 'unsettled' || dueMs(c) > c.seen.nowMs) return undefined;
  const { plan } = c.settings;
  if (plan === undefined || c.update.kind === 'locked') return undefined;
  return apply(c, plan) ?? refresh(c, "the host's offer may be due to other settings");
}

export function refresh(c: AnsweredContext, reason: string): Action {
  const lock = c.settings.state === 'unmanaged' ? undefined : c.live?.versionLock;
  return runCommand(c, 'refresh', reason, lock === undefined || lock === 'latest' ? {} : { lock });
}

/** Returns when unsettled settings are due (monotonic milliseconds). */
export function dueMs(c: AnsweredContext): number {
  const { settings, checkDueMs } = c.tracker;
  const nextMs = Math.max(settings.notBefore, settings.effectiveFrom);
  const plan = c.settings.state === 'unsettled' ? c.settings.plan : undefined;
  const onlyRefresh = plan !== undefined && isEmpty(plan.changes) && settings.applied && isConfirmed(c);
  return onlyRefresh ? Math.max(nextMs, checkDueMs) : nextMs;
}

/** Applies what another actor has changed. A failure does not block: the refresh names it. */
function enforceSettings(c: AnsweredContext): Action | undefined {
  const { settings } = c.tracker;
  const plan = c.settings.state === 'unsettled' ? c.settings.plan : undefined;
  const action = plan === undefined || settings.notBefore > c.seen.nowMs ? undefined : apply(c, plan);
  if (action !== undefined) return action;
  return settings.effectiveFrom > c.seen.nowMs
    ? wait(c.seen, "the host's settings are being applied", settings.effectiveFrom)
    : undefined;
}

function apply(c: AnsweredContext, plan: SettingsPlan): Action | undefined {
  const { hostSettings } = c.base;
  if (!sameRecords(c.shadow.status?.hostSettings, plan.records)) {
    const message = hostSettings?.message === undefined ? {} : { message: hostSettings.message };
    return report(c, { hostSettings: { ...plan.records, ...message } }, "recording a change of the host's settings");
  }
  const changes = c.tracker.settings.applied ? plan.changes : { ...plan.recorded, ...plan.changes };
  if (isEmpty(changes)) return undefined;
  return { do: 'configure', changes, expected: c.live, reason: `setting ${describeSettings(changes)}` };
}
