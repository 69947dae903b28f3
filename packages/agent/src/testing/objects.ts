/** Cases for the tests of decisions. */
import type { AgentShadow } from '@brupop/shared/api/agent-protocol';
import { type ErrorCode, OperationError } from '@brupop/shared/api/error-codes';
import type { LastOperation, Operation, OperationState, ShadowState, ShadowStatus } from '@brupop/shared/api/shadow';
import { UPDATER_SETTINGS } from '@brupop/shared/api/settings';
import { rfc3339 } from '@brupop/shared/runtime/clock';
import type { Action } from '../actions.ts';
import { decide } from '../decide/decide.ts';
import { type Pin, pinned, updaterLeaves, type UpdaterSettings } from '@brupop/shared/testing/settings';
import type { CommandRecord, UpdateState, UpdateStatus } from '../host/host.ts';
import { forShadow, type HostView, type Observation, type SettingsReading, type UpdateView } from '../state/observe.ts';
import type { SettingsTrackerView } from '../state/settings-tracker.ts';
import { type Attempt, freshAttempt, type TrackerView } from '../state/tracker.ts';
import { lockLimit, type UpdateCommand } from '../limits.ts';

export const MINUTE = 60_000;
export const WALL = 1_800_000_000_000;
export const NOW = 100 * MINUTE;
export const OLD = '1.26.0';
export const NEW = '1.27.0';
export const BOOT = 'boot-2';
export const KEY = 'uid/7';
const UPTIME = 60 * MINUTE;

type Update = UpdateStatus | Exclude<UpdateView, { kind: 'status' }>;

/** What a case sees; the rest is an agent that is up to date with everything. */
export interface Case {
  readonly spec?: ShadowState;
  readonly version?: string | null;
  readonly running?: string;
  readonly update?: Update;
  readonly host?: HostView;
  readonly status?: Partial<ShadowStatus>;
  /** No status yet. */
  readonly bare?: boolean;
  readonly last?: LastOperation;
  readonly noShadow?: boolean;
  readonly specAgeMs?: number;
  readonly apiUnreachableMs?: number;
  readonly tracker?: Partial<TrackerView>;
  readonly attempt?: Partial<Attempt>;
  readonly settings?: UpdaterSettings | 'failed';
  readonly wanted?: Pin;
  readonly timeoutSeconds?: number;
  readonly settingsMemory?: Partial<SettingsTrackerView>;
}

export function record(type: UpdateCommand, stderr = '', succeeded = true): CommandRecord {
  return { type, succeeded, timestamp: 't', exitStatus: succeeded ? 0 : 1, stderr };
}

export function update(
  state: UpdateState,
  latestCommand: CommandRecord | undefined,
  more: Partial<UpdateStatus> = {},
): UpdateStatus {
  const staged = state === 'Staged' || state === 'Ready' ? { version: NEW, nextToBoot: state === 'Ready' } : undefined;
  return { state, chosenVersion: NEW, staged, latestCommand, ...more };
}

export const prepared = record('prepare', `Starting update to ${NEW}\n`);
export const AVAILABLE = update('Available', record('refresh'));
export const STAGED = update('Staged', prepared);
export const READY = update('Ready', record('activate'));
export const UNINITIALIZED = { kind: 'uninitialized' } as const;
export const LOCKED = { kind: 'locked' } as const;
export const UNREADABLE = {
  kind: 'failed',
  code: 'HostStatusUnreadable',
  message: '500 Update dispatcher failed',
} as const;

export function step(
  operation: Operation,
  {
    state = 'Processing',
    boot = BOOT,
    agoMs = 0,
    version = NEW,
  }: { state?: OperationState; boot?: string; agoMs?: number; version?: string } = {},
): LastOperation {
  const time = rfc3339(WALL - agoMs);
  return { operation, state, version, bootID: boot, startTime: time, lastUpdateTime: time };
}

export function failed(code: ErrorCode): LastOperation {
  return { ...step('Stage', { state: 'Failed' }), errorCode: code, message: 'x' };
}

/** The status that a case's agent has reported before. */
function statusOf(c: Case): ShadowStatus {
  return {
    current_state: 'Idle',
    current_version: OLD,
    target_version: NEW,
    crash_count: 0,
    observedGeneration: 7,
    bootID: BOOT,
    bootTime: rfc3339(WALL - UPTIME),
    ...(c.last === undefined ? {} : { lastOperation: c.last }),
    ...c.status,
  };
}

function shadowOf(c: Case): AgentShadow {
  const { spec = 'Idle' } = c;
  const version = c.version === undefined && spec !== 'Idle' ? NEW : (c.version ?? null);
  const status = c.bare === true ? {} : { status: statusOf(c) };
  const { wanted, timeoutSeconds } = c;
  const more = {
    ...(wanted === undefined ? {} : { settings: pinned(wanted) }),
    ...(timeoutSeconds === undefined ? {} : { timeoutSeconds }),
  };
  return { uid: 'uid', generation: 7, spec: { state: spec, version, ...more }, ...status };
}

function hostOf({ update: seen = AVAILABLE, running = OLD, settings }: Case): HostView {
  const view: UpdateView = 'kind' in seen ? seen : { kind: 'status', status: seen };
  const reading = settings === undefined ? {} : { settings: readingOf(settings) };
  return { kind: 'answered', version: running, update: view, ...reading };
}

function readingOf(settings: UpdaterSettings | 'failed'): SettingsReading {
  if (settings === 'failed') return { kind: 'failed', message: 'GET /settings: 500' };
  return { kind: 'read', keys: UPDATER_SETTINGS, settings: updaterLeaves(settings) };
}

function observation(c: Case): Observation {
  const shadow = c.noShadow === true ? undefined : shadowOf(c);
  return {
    shadow,
    specAgeMs: c.specAgeMs ?? 0,
    apiUnreachableMs: c.apiUnreachableMs ?? 0,
    wallMs: WALL,
    startedMs: NOW,
    nowMs: NOW,
    bootID: BOOT,
    uptimeMs: UPTIME,
    host: forShadow(c.host ?? hostOf(c), shadow),
  };
}

function tracker(c: Case): TrackerView {
  return {
    host: { notBefore: 0 },
    api: { notBefore: 0 },
    hostUnreachableSince: undefined,
    hostRefusedSince: undefined,
    hostHasAnswered: true,
    hostLockedSince: undefined,
    lockLimit: lockLimit(shadowOf(c).spec),
    checkFailingSince: undefined,
    checkFailedMs: undefined,
    hostUnusableSince: undefined,
    checkDueMs: NOW + MINUTE,
    checkError: undefined,
    reboots: { asked: undefined, pending: undefined },
    rejected: undefined,
    settings: settingsMemory(c.settingsMemory),
    ...c.tracker,
    attempt: { ...freshAttempt(KEY), ...c.attempt },
  };
}

function settingsMemory(given: Partial<SettingsTrackerView> = {}): SettingsTrackerView {
  const memory = {
    applied: true,
    classes: new Map(),
    undo: new Map(),
    mustRevert: false,
    isReverted: false,
    isOfferContradicted: false,
    refreshed: true,
    effectiveFrom: -Infinity,
    changedAt: -Infinity,
    since: NOW,
    tries: 0,
    error: undefined,
    notBefore: 0,
    ...given,
  };
  return {
    isApplied: (nowMs) => memory.applied && !memory.isOfferContradicted && memory.effectiveFrom <= nowMs,
    ...memory,
  };
}

/** What the agent does in a case. */
export function decided(c: Case): Action {
  return decide(observation(c), tracker(c));
}

/** `wait`, `prepare`, `report Idle, Stage Failed PrepareFailed`: a summary of what is decided. */
export function summary(action: Action): string {
  if (action.do === 'command') return action.command;
  if (action.do === 'configure')
    return `configure ${[...action.changes.values()].map((value) => String(JSON.parse(value))).join(' ')}`;
  if (action.do !== 'report') return action.do;
  const { current_state: state, lastOperation: last } = action.status;
  if (last === undefined) return `report ${state}`;
  return `report ${state}, ${last.operation} ${last.state}${last.errorCode === undefined ? '' : ` ${last.errorCode}`}`;
}

export function error(code: ErrorCode): OperationError {
  return new OperationError(code, 'why');
}

export const refused: HostView = { kind: 'unreachable', refused: true, message: 'connect ECONNREFUSED' };
export const unreachable: HostView = { kind: 'unreachable', refused: false, message: 'no answer' };
/** A spec that asks to stage, and the step under way for it. */
export const stage = { spec: 'StagedAndPerformedUpdate' } as const;
export const staging = { ...stage, last: step('Stage') } as const;

export type Cases = Readonly<Record<string, readonly [Case, string]>>;
