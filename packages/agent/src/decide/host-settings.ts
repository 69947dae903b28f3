import type { Action } from '../actions.ts';
import { type AnsweredContext, report, runCommand, wait } from './report.ts';
import { describeSettings, isConfirmed, isEmpty, sameRecords, type SettingsPlan } from './settings-view.ts';

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

/**
 * In Stage: applies what another actor has changed. A failure does not block: the refresh names it.
 */
export function enforceSettings(c: AnsweredContext): Action | undefined {
  const { settings } = c.tracker;
  const plan = c.settings.state === 'unsettled' ? c.settings.plan : undefined;
  const action = plan === undefined || settings.notBefore > c.seen.nowMs ? undefined : apply(c, plan);
  if (action !== undefined) return action;
  return settings.effectiveFrom > c.seen.nowMs
    ? wait(c.seen, "the host's settings are being applied", settings.effectiveFrom)
    : undefined;
}

/** Records the change first, then makes it. */
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
