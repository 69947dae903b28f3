import {
  FAILED_ATTEMPTS_ANNOTATION,
  DEFERRED_AFTER_ANNOTATION,
  RETRY_ANNOTATION,
  UNREPORTED_ATTEMPTS_ANNOTATION,
  UPDATE_SECONDS_ANNOTATION,
  UPDATE_STARTED_ANNOTATION,
} from '@brupop/shared/api/names';
import { type BottlerocketShadow, SHADOW_STATES, type ShadowStatus } from '@brupop/shared/api/shadow';
import type { Condition, ObjectMeta } from '@brupop/shared/api/meta';
import { type NodeView, pick } from './node.ts';

/** The condition that this controller keeps on each shadow. */
export const PROGRESSING = 'Progressing';

/** A shadow cut to what decisions need. */
export interface ShadowView extends BottlerocketShadow {
  /** The Progressing condition as last seen; also there when no agent has reported yet. */
  readonly progressing: Condition | undefined;
}

type RawShadow = Omit<BottlerocketShadow, 'status'> & { readonly status?: Partial<ShadowStatus> };

/** True when {@link readShadow} can read it. A CustomResourceDefinition of another release may have let anything in. */
export function isReadable(raw: unknown): raw is RawShadow {
  return shadowProblem(raw) === undefined;
}

/**
 * Cuts a shadow as the API server sends it, and brings the status that the Rust operator's agents wrote to today's form: they report no
 * `observedGeneration`, so their status answers the spec when it names the same state, or a failure.
 * Throws an error that names the field which is not as it must be.
 */
export function readShadow(raw: unknown): ShadowView {
  const problem = shadowProblem(raw);
  if (problem !== undefined) throw new Error(problem);
  const shadow = raw as RawShadow;
  const { metadata, spec, status } = shadow;
  return {
    metadata: readMetadata(metadata),
    spec: {
      state: spec.state,
      version: spec.version ?? null,
      state_transition_timestamp: spec.state_transition_timestamp ?? null,
      timeoutSeconds: spec.timeoutSeconds ?? null,
      hostSettings: spec.hostSettings ?? null,
    },
    ...readStatus(shadow),
    progressing: status?.conditions?.find(({ type }) => type === PROGRESSING),
  };
}

const ANNOTATIONS = [
  RETRY_ANNOTATION,
  UNREPORTED_ATTEMPTS_ANNOTATION,
  FAILED_ATTEMPTS_ANNOTATION,
  UPDATE_STARTED_ANNOTATION,
  UPDATE_SECONDS_ANNOTATION,
  DEFERRED_AFTER_ANNOTATION,
];

function readMetadata(metadata: ObjectMeta): ObjectMeta {
  const { name, uid, resourceVersion, namespace = '', generation = 0, ownerReferences = [] } = metadata;
  const annotations = pick(metadata.annotations, ANNOTATIONS);
  const { creationTimestamp = '' } = metadata;
  return { name, uid, resourceVersion, namespace, generation, annotations, ownerReferences, creationTimestamp };
}

const UNREPORTED = {
  current_version: '',
  target_version: '',
  crash_count: 0,
  state_transition_failure_timestamp: null,
  bootID: '',
} as const;

/** A status without `current_state` is none: only this controller has written to it. */
function readStatus({ metadata, spec, status }: RawShadow): { status?: ShadowStatus } {
  const { current_state, observedGeneration, conditions: _, waitingFor: _ours, ...reported } = status ?? {};
  if (current_state == null) return {};
  const answered = current_state === spec.state || current_state === 'ErrorReset';
  const generation = observedGeneration ?? (answered ? (metadata.generation ?? 0) : -1);
  return { status: { ...UNREPORTED, ...reported, current_state, observedGeneration: generation } };
}

/** True when the agent's report is about the spec as it is now. */
export function answers({ metadata, status }: BottlerocketShadow): boolean {
  return status !== undefined && status.observedGeneration === metadata.generation;
}

/** True when the agent reports that the node has come to where its spec wants it. */
export function hasReached(shadow: BottlerocketShadow): boolean {
  return answers(shadow) && shadow.status?.current_state === shadow.spec.state;
}

/** True when nothing is under way: the spec says Idle and the agent has confirmed it. */
export function isSettled(shadow: BottlerocketShadow): boolean {
  return shadow.spec.state === 'Idle' && hasReached(shadow);
}

/** True while the spec calls for a step of an update. */
export function isUnderWay({ spec }: BottlerocketShadow): boolean {
  return spec.state !== 'Idle' && spec.state !== 'ErrorReset';
}

/** True when the shadow belongs to this very Node, not to an earlier one of the same name. */
export function isOwnedBy(shadow: BottlerocketShadow, node: NodeView): boolean {
  return (shadow.metadata.ownerReferences ?? []).some(({ kind, uid }) => kind === 'Node' && uid === node.metadata.uid);
}

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
