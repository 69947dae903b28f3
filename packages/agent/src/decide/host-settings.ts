import type { Action } from '../action.ts';
import { sameRecords, type SettingsPlan } from './host-settings-diff.ts';
import { type Context, report, wait } from './report.ts';
import { describeSettings, isConfirmed, isEmpty } from './settings-view.ts';

/** In Idle: what brings the settings into force and then asks the host what it offers; undefined when nothing is to be done now. */
export function settleSettings(c: Context): Action | undefined {
  if (c.settings.state !== 'unsettled' || dueMs(c) > c.seen.nowMs) return undefined;
  const { plan } = c.settings;
  if (plan === undefined || c.update.kind === 'locked') return undefined;
  return force(c, plan) ?? lookWith(c, 'what the host offers may be of other settings');
}

/** Asks the host what it offers. */
export function lookWith(c: Context, reason: string): Action {
  const lock = c.settings.state === 'unmanaged' ? undefined : c.live?.versionLock;
  const locked = lock === undefined || lock === 'latest' ? {} : { lock };
  return { do: 'command', command: 'refresh', ...locked, reason };
}

/** When to look after unsettled settings again (monotonic milliseconds). */
export function dueMs(c: Context): number {
  const { settings, checkDueMs } = c.tracker;
  const nextMs = Math.max(settings.notBefore, settings.seenFrom);
  const plan = c.settings.state === 'unsettled' ? c.settings.plan : undefined;
  const onlyLook = plan !== undefined && isEmpty(plan.changes) && settings.applied && isConfirmed(c);
  return onlyLook ? Math.max(nextMs, checkDueMs) : nextMs;
}

/** In Stage: sets what somebody has changed. What cannot be set does not hold up the step: then the refresh says what is wrong. */
export function enforceSettings(c: Context): Action | undefined {
  const { settings } = c.tracker;
  const plan = c.settings.state === 'unsettled' ? c.settings.plan : undefined;
  const action = plan === undefined || settings.notBefore > c.seen.nowMs ? undefined : force(c, plan);
  if (action !== undefined) return action;
  return settings.seenFrom > c.seen.nowMs
    ? wait(c.seen, "the host's settings are being applied", settings.seenFrom)
    : undefined;
}

/** First the record, which outlives this process, then the host. */
function force(c: Context, plan: SettingsPlan): Action | undefined {
  const { hostSettings } = c.base;
  if (!sameRecords(c.shadow.status?.hostSettings, plan.records)) {
    const message = hostSettings?.message === undefined ? {} : { message: hostSettings.message };
    return report(c, { hostSettings: { ...plan.records, ...message } }, "the host's settings are about to be changed");
  }
  const changes = c.tracker.settings.applied ? plan.changes : { ...plan.recorded, ...plan.changes };
  if (isEmpty(changes)) return undefined;
  return { do: 'configure', changes, reason: `the host is to have ${describeSettings(changes)}` };
}
