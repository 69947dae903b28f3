/**
 * Spec StagedAndPerformedUpdate: refresh until the version is offered, prepare it. And what Idle
 * shares with it: the settings that determine its offer, refresh and prepare.
 * Settings are recorded in the shadow before they are changed.
 */
import { hashOf, UPDATER_SETTINGS, type Leaves } from '@brupop/shared/api/settings';
import { withoutEmpty } from '@brupop/shared/api/schema';
import type { SettingsStatus } from '@brupop/shared/api/shadow';
import { sameVersion } from '@brupop/shared/api/version';
import { rfc3339 } from '@brupop/shared/runtime/clock';
import type { Action } from '../actions.ts';
import { isOffered, isStaged } from '../host/host.ts';
import { LIMITS } from '../limits.ts';
import { type AnsweredContext, type Context, report, runCommand, settle, wait } from './context.ts';
import type { SettingsPlan } from '../settings/plan.ts';
import { lockOf } from '../state/observe.ts';
import { describeSettings, isConfirmed, requested, sameRecords } from './settings-view.ts';
import { begin, cleanUp, ended, hasFailed, stepGuard, stepInProgress, withoutHost } from './steps.ts';

export function stage(c: Context, version: string): Action {
  if (hasFailed(c)) return cleanUp(c);
  return c.host === 'unreachable' ? withoutHost(c, version) : (revertSettings(c) ?? stageHost(c, version));
}

function stageHost(c: AnsweredContext, version: string): Action {
  const isReady = c.status !== undefined && isStaged(c.status, version);
  if (isReady || sameVersion(c.running, version)) return staged(c, version, isReady ? 'staged' : 'running');
  const step = stepInProgress(c, version);
  if (step?.operation !== 'Stage') return begin(c, 'Stage', version, 'Idle');
  return stepGuard(c, step) ?? nextCommand(c, version);
}

function staged(c: AnsweredContext, version: string, where: string): Action {
  const reached = { current_state: 'StagedAndPerformedUpdate', lastOperation: ended(c, 'Stage', version) } as const;
  return settle(c, reached, `${version} is ${where}`);
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
  const action = plan && apply(c, plan);
  if (plan === undefined || action !== undefined || c.update.kind === 'locked') return action;
  return refresh(c, "the host's offer may be due to other settings");
}

export function refresh(c: AnsweredContext, reason: string): Action {
  const lock = c.settings.state === 'unmanaged' ? undefined : lockOf(c.live);
  return runCommand(c, 'refresh', reason, lock === undefined || lock === 'latest' ? {} : { lock });
}

/** Returns when unsettled settings are due (monotonic milliseconds). */
export function dueMs(c: AnsweredContext): number {
  const { settings, checkDueMs } = c.tracker;
  const nextMs = Math.max(settings.notBefore, settings.effectiveFrom);
  const plan = c.settings.state === 'unsettled' ? c.settings.plan : undefined;
  const onlyRefresh =
    plan !== undefined &&
    plan.changes.size === 0 &&
    settings.applied &&
    !settings.isOfferContradicted &&
    isConfirmed(c);
  return onlyRefresh ? Math.max(nextMs, checkDueMs) : nextMs;
}

/** Applies what another actor has changed. A failure does not block: the refresh names it. */
export function enforceSettings(c: AnsweredContext): Action | undefined {
  const { settings } = c.tracker;
  const plan = c.settings.state === 'unsettled' ? c.settings.plan : undefined;
  const action = plan === undefined || settings.notBefore > c.seen.nowMs ? undefined : apply(c, plan);
  if (action !== undefined) return action;
  return settings.effectiveFrom > c.seen.nowMs
    ? wait(c.seen, "the host's settings are being applied", settings.effectiveFrom)
    : undefined;
}

function apply(c: AnsweredContext, plan: SettingsPlan): Action | undefined {
  const { live } = c;
  if (live === undefined) return undefined;
  const changes = changesOf(c, plan);
  // A pin waits for no other settings that cannot be classified.
  const isUrgent = c.tracker.settings.tries > 0 && UPDATER_SETTINGS.some((key) => changes.has(key));
  if (plan.unclassified.size > 0 && !isUrgent)
    return {
      do: 'classify',
      changes: plan.unclassified,
      reason: 'what a change of settings disrupts is not known yet',
    };
  const record = recordChange(c, plan, changes);
  if (record !== undefined) return record;
  if (changes.size === 0) return undefined;
  const expected = new Map([...live].filter(([key]) => changes.has(key)));
  return {
    do: 'configure',
    changes,
    expected,
    undo: undoOf(plan, changes, c),
    reason: `setting ${describeSettings(changes)}`,
  };
}

/** What differs, and what may be stored without being applied. */
function changesOf({ tracker: { settings } }: AnsweredContext, { recorded, changes }: SettingsPlan): Leaves {
  const again = [...recorded].filter(([key]) => !settings.applied || UPDATER_SETTINGS.includes(key));
  return settings.applied && !settings.isOfferContradicted ? changes : new Map([...again, ...changes]);
}

/** What the host has before a change, or had when the change may be stored already. */
function undoOf({ records }: SettingsPlan, changes: Leaves, { live }: AnsweredContext): Leaves {
  return new Map(
    records.flatMap(({ key, before }) => {
      const former = changes.get(key) === live?.get(key) ? before : live?.get(key);
      const isUndone = changes.has(key) && former !== undefined && !UPDATER_SETTINGS.includes(key);
      return isUndone ? [[key, former] as const] : [];
    }),
  );
}

/** What is about to be set, and what it replaces. */
function recordChange(c: AnsweredContext, plan: SettingsPlan, changes: Leaves): Action | undefined {
  const known: SettingsStatus = c.shadow.status?.settings ?? {};
  const hash = hashOf(requested(c.shadow));
  const isRecorded = sameRecords(known.records, plan.records) && (changes.size === 0 || known.inFlight?.hash === hash);
  if (isRecorded) return undefined;
  const settings = withoutEmpty<SettingsStatus>({
    lastApplied: known.lastApplied,
    inFlight: changes.size === 0 ? known.inFlight : { hash, time: rfc3339(c.seen.wallMs) },
    records: plan.records,
    message: c.base.settings?.message,
  });
  return report(c, { settings }, "recording a change of the host's settings");
}

/**
 * Sets the former values again when the host has taken others than it was sent, or when the apiserver has
 * not been heard from since the change: the change may have cut the node off.
 */
export function revertSettings(c: AnsweredContext): Action | undefined {
  const { undo, changedAt, notBefore, mustRevert, error } = c.tracker.settings;
  const { nowMs, specAgeMs } = c.seen;
  const isCutOff = Math.min(specAgeMs, nowMs - changedAt) >= LIMITS.settingsContact;
  if (notBefore > nowMs || !(mustRevert || isCutOff)) return undefined;
  const why = mustRevert ? error : 'the apiserver was not heard from after a change of settings';
  const conflicts = c.settings.plan?.conflicts ?? [];
  const changes = mustRevert ? undo : new Map([...undo].filter(([key]) => !conflicts.includes(key)));
  if (changes.size === 0) return undefined;
  return { do: 'configure', changes, reason: `setting ${describeSettings(changes)} again: ${why}` };
}
