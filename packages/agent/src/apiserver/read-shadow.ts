import type { AgentShadow } from '@brupop/shared/api/agent-protocol';
import type { ErrorCode } from '@brupop/shared/api/error-codes';
import {
  type HostSettings,
  type HostSettingsStatus,
  type LastOperation,
  OPERATION_STATES,
  OPERATIONS,
  type ReplacedSetting,
  SHADOW_STATES,
  type ShadowSpec,
  type ShadowStatus,
} from '@brupop/shared/api/shadow';
import { isVersionText } from '@brupop/shared/api/version';
import { parseTime, rfc3339 } from '@brupop/shared/runtime/clock';
import { shorten, describe } from '@brupop/shared/runtime/text';
import { isLock } from '../host/host-settings.ts';
import { ApiError } from './error.ts';

const MAX_ID = 128;
/** Of int32, which is what the apiserver takes. */
const MAX_COUNT = 2_147_483_647;
const MAX_MESSAGE = 4_096;
/** Seconds. */
const DAY = 86_400;
const TIME = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d{1,9})?(?:Z|[+-]\d{2}:\d{2})$/u;
/** Of a time that cannot be read nobody knows how long ago it was: as one that lies ahead, it counts from now. */
const UNREADABLE_TIME = '9999-12-31T23:59:59Z';

/**
 * Reads a shadow, every field that is used. Throws ApiError `Unintelligible`. A status of an older operator lacks the newer fields. What the
 * resource's schema lets people write, but our apiserver would not take back in a report, is brought to what it takes.
 */
export function readShadow(value: unknown): AgentShadow {
  const shadow = fields(value, 'shadow');
  const uid = text(shadow['uid'], MAX_ID, 'shadow.uid');
  if (uid === '') throw unintelligible('shadow.uid', 'a UID', uid);
  const generation = count(shadow['generation'], 'shadow.generation');
  const spec = readSpec(fields(shadow['spec'], 'shadow.spec'));
  const status = shadow['status'] == null ? undefined : readStatus(fields(shadow['status'], 'shadow.status'));
  return { uid, generation, spec, ...(status === undefined ? {} : { status }) };
}

function readSpec(spec: Fields): ShadowSpec {
  const { state_transition_timestamp: since } = spec;
  return {
    state: oneOf(spec['state'], SHADOW_STATES, 'shadow.spec.state'),
    ...(spec['version'] === undefined ? {} : { version: readSpecVersion(spec['version']) }),
    ...(typeof since === 'string' ? { state_transition_timestamp: since } : {}),
    ...readTimeout(spec['timeoutSeconds']),
    ...readWanted(spec['hostSettings']),
  };
}

/** What the resource's schema does not let through can only come of another release's: then it is as if it were absent. */
function readTimeout(seconds: unknown): { timeoutSeconds?: number } {
  const valid = typeof seconds === 'number' && Number.isInteger(seconds) && seconds >= 60 && seconds <= DAY;
  return valid ? { timeoutSeconds: seconds } : {};
}

/** Version locks may have a leading `v`, and so may what others write here. */
function readSpecVersion(value: unknown): string | null {
  if (value === null) return null;
  const plain = typeof value === 'string' ? value.replace(/^v/u, '') : value;
  return version(plain, 'shadow.spec.version');
}

/** A status in which no agent has reported is none. */
function readStatus(status: Fields): ShadowStatus | undefined {
  const { current_state, current_version, target_version, state_transition_failure_timestamp: failedAt } = status;
  if (current_state == null || current_version == null) return undefined;
  return {
    current_state: oneOf(current_state, SHADOW_STATES, 'shadow.status.current_state'),
    current_version: version(current_version, 'shadow.status.current_version'),
    target_version: version(target_version ?? current_version, 'shadow.status.target_version'),
    crash_count: Math.min(MAX_COUNT, count(status['crash_count'] ?? 0, 'shadow.status.crash_count')),
    ...(failedAt === undefined
      ? {}
      : { state_transition_failure_timestamp: failedAt === null ? null : time(failedAt) }),
    observedGeneration: count(status['observedGeneration'] ?? 0, 'shadow.status.observedGeneration'),
    bootID: text(status['bootID'] ?? '', MAX_ID, 'shadow.status.bootID'),
    ...readBootTime(status['bootTime']),
    ...readLast(status['lastOperation']),
    ...readDone(status['hostSettings']),
  };
}

/** One that nobody can read is determined anew. */
function readBootTime(value: unknown): { bootTime?: string } {
  const valid = typeof value === 'string' && TIME.test(value) && parseTime(value) !== undefined;
  return valid ? { bootTime: value } : {};
}

function readLast(value: unknown): { lastOperation?: LastOperation } {
  if (value == null) return {};
  const name = 'shadow.status.lastOperation';
  const last = fields(value, name);
  const { errorCode, message } = last;
  const lastOperation = {
    operation: oneOf(last['operation'], OPERATIONS, `${name}.operation`),
    state: oneOf(last['state'], OPERATION_STATES, `${name}.state`),
    version: version(last['version'], `${name}.version`),
    bootID: text(last['bootID'], MAX_ID, `${name}.bootID`),
    startTime: time(last['startTime']),
    lastUpdateTime: time(last['lastUpdateTime']),
    // A code of another release is no reason to know nothing.
    ...(errorCode == null ? {} : { errorCode: text(errorCode, MAX_ID, `${name}.errorCode`) as ErrorCode }),
    ...(message == null ? {} : { message: text(message, MAX_MESSAGE, `${name}.message`) }),
  };
  return { lastOperation };
}

function version(value: unknown, name: string): string {
  if (isVersionText(value)) return value;
  throw unintelligible(name, 'a version such as 1.20.0', value);
}

function time(value: unknown): string {
  if (typeof value !== 'string') return UNREADABLE_TIME;
  const ms = parseTime(value);
  if (ms === undefined) return UNREADABLE_TIME;
  return TIME.test(value) ? value : rfc3339(ms);
}

export type Fields = Readonly<Record<string, unknown>>;

/** The error of an answer that is not what the contract says. */
export function unintelligible(field: string, expected: string, found: unknown): ApiError {
  return new ApiError('Unintelligible', `${field}: expected ${expected}, found ${describe(found)}`);
}

/** All throw ApiError `Unintelligible` that names the field. */
export function fields(value: unknown, name: string): Fields {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Fields;
  throw unintelligible(name, 'an object', value);
}

export function count(value: unknown, name: string): number {
  if (typeof value === 'number' && value >= 0 && Number.isSafeInteger(value)) return value;
  throw unintelligible(name, 'a whole number from 0', value);
}

export function flag(value: unknown, name: string): boolean {
  if (typeof value === 'boolean') return value;
  throw unintelligible(name, 'true or false', value);
}

export function oneOf<T extends string>(value: unknown, values: readonly T[], name: string): T {
  const found = values.find((one) => one === value);
  if (found === undefined) throw unintelligible(name, `one of ${values.join(', ')}`, value);
  return found;
}

/** A text of at most `max` characters. */
export function text(value: unknown, max: number, name: string): string {
  if (typeof value === 'string' && value.length <= max) return value;
  throw unintelligible(name, `a text of at most ${max} characters`, value);
}

/** Reads `spec.hostSettings`. What cannot be read counts as absent: an agent that is blind because of it could not give its Node back. */
export function readWanted(value: unknown): { hostSettings?: HostSettings } {
  const { versionLock, ignoreWaves } = fieldsOf(value);
  const hostSettings = {
    ...(isLock(versionLock) ? { versionLock } : {}),
    ...(typeof ignoreWaves === 'boolean' ? { ignoreWaves } : {}),
  };
  return Object.keys(hostSettings).length === 0 ? {} : { hostSettings };
}

/** Reads `status.hostSettings`. A record that cannot be read cannot be put back either, and our apiserver would not take it in a report. */
export function readDone(value: unknown): { hostSettings?: HostSettingsStatus } {
  const { versionLock, ignoreWaves, message } = fieldsOf(value);
  const lock = recordOf(versionLock, isLock);
  const waves = recordOf(ignoreWaves, (one) => typeof one === 'boolean');
  const hostSettings = {
    ...(lock === undefined ? {} : { versionLock: lock }),
    ...(waves === undefined ? {} : { ignoreWaves: waves }),
    ...(typeof message === 'string' ? { message: shorten(message, MAX_MESSAGE - 3) } : {}),
  };
  return Object.keys(hostSettings).length === 0 ? {} : { hostSettings };
}

function recordOf<T extends string | boolean>(
  value: unknown,
  is: (one: unknown) => one is T,
): ReplacedSetting<T> | undefined {
  const { value: set, before } = fieldsOf(value);
  return is(set) && is(before) ? { value: set, before } : undefined;
}

function fieldsOf(value: unknown): Fields {
  return typeof value === 'object' && value !== null ? (value as Fields) : {};
}
