import { SHADOW_STATES } from '@brupop/shared/shadow';

type Fields = Readonly<Record<string, unknown>>;

/** What the fields that decisions use must be where they are given; null counts as not given. */
const SPEC = { version: 'string', state_transition_timestamp: 'string', timeoutSeconds: 'number' } as const;
const HOST_SETTINGS = { versionLock: 'string', ignoreWaves: 'boolean' } as const;
const STATUS = {
  current_version: 'string',
  target_version: 'string',
  bootID: 'string',
  bootTime: 'string',
  waitingFor: 'string',
  crash_count: 'number',
  observedGeneration: 'number',
  state_transition_failure_timestamp: 'string',
} as const;
/** These must be given. */
const OPERATION = { operation: 'string', state: 'string', version: 'string', bootID: 'string' } as const;
const OPERATION_MORE = { errorCode: 'string', message: 'string' } as const;

type Types = Readonly<Record<string, 'string' | 'number' | 'boolean'>>;

/** Why a shadow as the API server sends it cannot be read, with the field, what was expected and what was found; undefined: it can. */
export function shadowProblem(raw: unknown): string | undefined {
  const { metadata, spec, status } = raw as { metadata: { name: string }; spec?: unknown; status?: unknown };
  const problem = specProblem(spec) ?? (status == null ? undefined : statusProblem(status));
  return problem === undefined ? undefined : `${metadata.name}: ${problem}`;
}

function specProblem(spec: unknown): string | undefined {
  const fields: Fields = isObject(spec) ? spec : {};
  const { hostSettings } = fields;
  return (
    unknownState(fields['state'], 'spec.state') ??
    wrongType(fields, SPEC, 'spec') ??
    (hostSettings == null ? undefined : settingsProblem(hostSettings))
  );
}

function settingsProblem(settings: unknown): string | undefined {
  if (!isObject(settings)) return unexpected('spec.hostSettings', 'an object', settings);
  return wrongType(settings, HOST_SETTINGS, 'spec.hostSettings');
}

function statusProblem(status: unknown): string | undefined {
  if (!isObject(status)) return unexpected('status', 'an object', status);
  const { current_state, lastOperation, conditions } = status;
  return (
    (current_state == null ? undefined : unknownState(current_state, 'status.current_state')) ??
    wrongType(status, STATUS, 'status') ??
    (lastOperation == null ? undefined : operationProblem(lastOperation)) ??
    conditionsProblem(conditions)
  );
}

function operationProblem(operation: unknown): string | undefined {
  const name = 'status.lastOperation';
  if (!isObject(operation)) return unexpected(name, 'an object', operation);
  const missing = Object.keys(OPERATION).find((field) => operation[field] == null);
  if (missing !== undefined) return unexpected(`${name}.${missing}`, 'a string', undefined);
  return wrongType(operation, { ...OPERATION, ...OPERATION_MORE }, name);
}

function conditionsProblem(conditions: unknown): string | undefined {
  if (conditions == null || (Array.isArray(conditions) && conditions.every(isObject))) return undefined;
  return unexpected('status.conditions', 'a list of objects', conditions);
}

function unknownState(state: unknown, field: string): string | undefined {
  if (SHADOW_STATES.some((one) => one === state)) return undefined;
  return unexpected(field, `one of ${SHADOW_STATES.join(', ')}`, state);
}

function wrongType(fields: Fields, types: Types, name: string): string | undefined {
  const wrong = Object.entries(types).find(([field, type]) => fields[field] != null && typeof fields[field] !== type);
  return wrong && unexpected(`${name}.${wrong[0]}`, `a ${wrong[1]}`, fields[wrong[0]]);
}

function unexpected(field: string, expected: string, found: unknown): string {
  const text = isObject(found) || Array.isArray(found) ? 'something else' : JSON.stringify(found)?.slice(0, 100);
  return `${field}: expected ${expected}, found ${text}`;
}

function isObject(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
