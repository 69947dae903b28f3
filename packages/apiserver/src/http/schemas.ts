import type { DrainRequest, SpecReference, StatusReport } from '@brupop/shared/api/agent-protocol';
import { ERROR_CODES, type ErrorCode } from '@brupop/shared/api/error-codes';
import {
  type AgentStatus,
  type HostSettingsStatus,
  type LastOperation,
  OPERATION_STATES,
  OPERATIONS,
  type ReplacedSetting,
  SHADOW_STATES,
} from '@brupop/shared/api/shadow';
import { parseTime } from '@brupop/shared/runtime/clock';
import { boolean, type Check, invalid, matching, nullable, object, oneOf, textUpTo, wholeNumber } from './validate.ts';

/** Longest `status.lastOperation.message` and `status.hostSettings.message`, in characters. */
export const MESSAGE_LIMIT = 4096;
/** Longest version lock, in characters. */
const LOCK_LIMIT = 128;

const int32 = 2_147_483_647;
const uid = matching(/^[0-9A-Za-z-]+$/, 63, 'a UID');
const bootID = matching(/^[0-9A-Za-z-]+$/, 128, 'a boot ID of at most 128 letters, digits and dashes');
const generation = wholeNumber(0, Number.MAX_SAFE_INTEGER);
/** Semantic Versioning 2.0.0, items 2, 9 and 10. */
const version = matching(
  /^(0|[1-9]\d{0,9})\.(0|[1-9]\d{0,9})\.(0|[1-9]\d{0,9})(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?$/,
  128,
  'a semantic version',
);
const shapeOfTime = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{1,9})?(Z|[+-]\d{2}:\d{2})$/;
const time: Check<string> = (value, field) => {
  const real = typeof value === 'string' && shapeOfTime.test(value) && parseTime(value) !== undefined;
  if (!real) throw invalid(field, 'an RFC 3339 time', value);
  return value;
};

const lastOperation = object<LastOperation>(
  {
    operation: oneOf(OPERATIONS),
    state: oneOf(OPERATION_STATES),
    version,
    bootID,
    startTime: time,
    lastUpdateTime: time,
  },
  { errorCode: oneOf(Object.keys(ERROR_CODES) as ErrorCode[]), message: textUpTo(MESSAGE_LIMIT) },
);

/** As the host has it: `latest`, or a version, perhaps with a leading `v`. */
const versionLock: Check<string> = (value, field) => {
  if (value === 'latest') return value;
  if (typeof value !== 'string' || value.length > LOCK_LIMIT) throw invalid(field, 'a version or latest', value);
  version(value.replace(/^v/, ''), field);
  return value;
};

const hostSettings = object<HostSettingsStatus>(
  {},
  {
    versionLock: object<ReplacedSetting<string>>({ value: versionLock, before: versionLock }),
    ignoreWaves: object<ReplacedSetting<boolean>>({ value: boolean, before: boolean }),
    message: textUpTo(MESSAGE_LIMIT),
  },
);

const agentStatus = object<AgentStatus>(
  {
    current_state: oneOf(SHADOW_STATES),
    current_version: version,
    target_version: version,
    crash_count: wholeNumber(0, int32),
    observedGeneration: generation,
    bootID,
  },
  { state_transition_failure_timestamp: nullable(time), bootTime: time, lastOperation, hostSettings },
);

const report = object<StatusReport>({ shadowUID: uid, status: agentStatus });
const reference = object<SpecReference>({ shadowUID: uid, generation });
const drainRequest = object<DrainRequest>({ shadowUID: uid, generation }, { makeRoom: boolean });

/** The body of PUT shadow/status. Throws Failure `BadRequest`. */
export function readStatusReport(body: unknown): StatusReport {
  return report(body, 'body');
}

/** The body of drain. Throws Failure `BadRequest`. */
export function readDrainRequest(body: unknown): DrainRequest {
  return drainRequest(body, 'body');
}

/** The body of load-balancer-exclusion. Throws Failure `BadRequest`. */
export function readSpecReference(body: unknown): SpecReference {
  return reference(body, 'body');
}
