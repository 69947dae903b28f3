/**
 * What a decision looks at, and its simplest answers: wait, report a status, run a command.
 *
 * `base` is the status to report when nothing but the facts of the host has changed; every report
 * is `base` with changes. While the host does not answer, its facts are reported as they were
 * before.
 */
import type { AgentShadow } from '@brupop/shared/api/agent-protocol';
import type { AgentStatus } from '@brupop/shared/api/shadow';
import { parseTime, rfc3339 } from '@brupop/shared/runtime/clock';
import type { Action } from '../actions.ts';
import { sameStatus } from '../apiserver/messages.ts';
import { LIMITS, type UpdateCommand } from '../limits.ts';
import type { Observation } from '../state/observe.ts';
import type { TrackerView } from '../state/tracker.ts';
import { claimsOf, type Facts, type SettingsView, viewSettings } from './settings-view.ts';

interface Common extends Pick<Facts, 'seen' | 'tracker' | 'shadow'> {
  readonly base: AgentStatus;
}

export interface AnsweredContext extends Common, Facts {
  readonly host: 'answered';
  readonly settings: SettingsView;
}

export interface UnreachableContext extends Common {
  readonly host: 'unreachable';
  readonly message: string;
}

export type Context = AnsweredContext | UnreachableContext;

const UNMANAGED: SettingsView = { state: 'unmanaged' };

export function contextOf(seen: Observation, tracker: TrackerView, shadow: AgentShadow): Context {
  const { host } = seen;
  const common = { seen, tracker, shadow };
  if (host.kind === 'unreachable') {
    // Nothing is reported before the host has answered once, so there is no base without a status.
    const { current_version = '', target_version = '', settings } = shadow.status ?? {};
    const known = settings === undefined ? {} : { settings };
    const facts = { current_version, target_version, observedGeneration: shadow.generation, ...known };
    return { ...common, host: 'unreachable', message: host.message, base: baseOf(seen, shadow, facts) };
  }
  const { version: running, update, settings: reading } = host;
  const status = update.kind === 'status' ? update.status : undefined;
  const live = reading?.kind === 'read' ? reading.settings : undefined;
  const facts = { ...common, running, update, status, live, lock: host.lock };
  const settings = reading === undefined ? UNMANAGED : viewSettings(facts);
  const base = baseOf(seen, shadow, { current_version: running, ...claimsOf(facts, settings) });
  return { ...facts, host: 'answered', settings, base };
}

const MIN_BOOT_INTERVAL_MS = 1000;

/**
 * Keeps a time that was reported for this boot, so that two processes agree. Otherwise returns the
 * wall clock less the uptime; if the machine was already up when the earlier boot was reported (a
 * host that is a process, or a clock that was set), when the boot ID was first seen.
 */
export function bootTime(
  { bootID, wallMs, uptimeMs }: Pick<Observation, 'bootID' | 'wallMs' | 'uptimeMs'>,
  known: Pick<AgentStatus, 'bootID' | 'bootTime'> | undefined,
): string {
  if (known?.bootTime !== undefined && known.bootID === bootID) return known.bootTime;
  const upSinceMs = wallMs - uptimeMs;
  const earlierMs = parseTime(known?.bootTime) ?? -Infinity;
  return rfc3339(upSinceMs > earlierMs + MIN_BOOT_INTERVAL_MS ? upSinceMs : wallMs);
}

function baseOf(
  seen: Observation,
  { status }: AgentShadow,
  facts: Pick<AgentStatus, 'current_version' | 'target_version' | 'observedGeneration' | 'settings'>,
): AgentStatus {
  return {
    current_state: status?.current_state ?? 'Idle',
    crash_count: status?.crash_count ?? 0,
    state_transition_failure_timestamp: status?.state_transition_failure_timestamp ?? null,
    bootID: seen.bootID,
    bootTime: bootTime(seen, status),
    ...facts,
    ...(status?.lastOperation === undefined ? {} : { lastOperation: status.lastOperation }),
  };
}

/** Waits until `untilMs` (monotonic), by default until the next regular look. */
export function wait(seen: Observation, reason: string, untilMs = seen.nowMs + LIMITS.lookAgain): Action {
  return { do: 'wait', untilMs, reason };
}

export function waitForHost({ seen, tracker, message }: UnreachableContext): Action {
  const untilMs = Math.max(tracker.host.notBefore, seen.nowMs + LIMITS.pollFirst);
  return wait(seen, `the host does not answer: ${message}`, untilMs);
}

export function runCommand(
  c: AnsweredContext,
  command: UpdateCommand,
  reason: string,
  checks: { readonly version?: string; readonly lock?: string } = {},
): Action {
  return { do: 'command', command, before: c.status?.latestCommand?.timestamp, ...checks, reason };
}

export function report(c: Context, changes: Partial<AgentStatus>, reason: string): Action {
  return { do: 'report', status: { ...c.base, ...changes }, reason };
}

/** Reports `changes` unless the shadow has them already, and then waits. */
export function settle(c: AnsweredContext, changes: Partial<AgentStatus>, reason: string): Action {
  const action = report(c, changes, reason);
  const isReported = action.do === 'report' && sameStatus(c.shadow.status, action.status);
  return isReported ? wait(c.seen, reason, nextLook(c)) : action;
}

/** Returns when to look at the host again if something is expected of it. */
export function nextLook(c: AnsweredContext): number | undefined {
  const { nowMs } = c.seen;
  if (c.update.kind === 'locked') return nowMs + pollDelay(c);
  return c.tracker.attempt.notBefore > nowMs ? c.tracker.attempt.notBefore : undefined;
}

/** The pause between polls of a running command: half of the time so far, within bounds. */
export function pollDelay({ seen: { nowMs }, tracker }: Context): number {
  const elapsed = nowMs - (tracker.hostLockedSince ?? nowMs);
  return Math.min(LIMITS.pollLongest, Math.max(LIMITS.pollFirst, elapsed / 2));
}
