import * as v from 'valibot';
import { ABORT_ANNOTATION, RETRY_ANNOTATION, shadowName, UPDATE_NOW_ANNOTATION } from '@brupop/shared/api/names';
import { currentAttempt } from '@brupop/shared/api/attempt';
import { type NodeRecord, readRecord } from '@brupop/shared/api/record';
import { SETTING_CLASSES } from '@brupop/shared/api/settings';
import type { Condition, KubernetesObject, ObjectMeta } from '@brupop/shared/api/meta';
import {
  changed,
  ifReadable,
  type Infer,
  object,
  oneOf,
  parse,
  type Schema,
  unlessNull,
} from '@brupop/shared/api/schema';
import {
  AGENT_STATUS,
  ALLOWED,
  type BottlerocketShadow,
  LAST_OPERATION,
  SHADOW_STATES,
  type ShadowStatus,
  SPEC,
} from '@brupop/shared/api/shadow';
import { parseTime } from '@brupop/shared/runtime/clock';
import { printable } from '@brupop/shared/runtime/errors';
import { type NodeView, pick } from './node.ts';
import { type NodeState, type Purpose, purposeOf, stateOf } from './state.ts';

export const PROGRESSING = 'Progressing';
/** True on a node on which workloads fail since its update; absent otherwise. */
export const SUSPECT = 'Suspect';

/** A shadow as it was read. */
interface ReadShadow extends BottlerocketShadow {
  /** Of its annotations only the requests of users are kept beside it. */
  readonly record: NodeRecord;
  /** The Progressing condition as last seen. A shadow can have it before an agent has reported. */
  readonly progressing: Condition | undefined;
  /** Its conditions Ready, Reconciling, Stalled and Suspect. */
  readonly health: readonly HealthCondition[];
  /** The group that its status names; empty: none. */
  readonly group: string;
}

/** With what follows from it, decided once for all readers. */
export interface ShadowView extends ReadShadow {
  readonly state: NodeState;
  /** Of the update that is under way. */
  readonly purpose: Purpose | undefined;
  readonly rollback: Rollback | undefined;
  /** The version of the latest update, not of a reboot for settings, and when it succeeded, epoch milliseconds. */
  readonly updated: { readonly version: string; readonly at: number } | undefined;
  readonly times: ShadowTimes;
}

/** Epoch milliseconds; undefined: missing or unreadable. They may be in the future. */
interface ShadowTimes {
  readonly createdAt: number | undefined;
  /** Since when the spec has its state. */
  readonly stateSince: number | undefined;
  /** When the latest update started. */
  readonly startedAt: number | undefined;
  /** When it succeeded, or a reboot for settings did. */
  readonly succeededAt: number | undefined;
  /** When the agent reported a failure. */
  readonly failedAt: number | undefined;
  /** When the drain that the status has started, or was resumed, and when it ended. */
  readonly drainSince: number | undefined;
  readonly drainEnd: number | undefined;
}

export type HealthCondition = Pick<Condition, 'type' | 'status' | 'lastTransitionTime'>;
const HEALTH = ['Ready', 'Reconciling', 'Stalled', SUSPECT];

/**
 * The fields of the resource, each optional and by its type only: a node whose shadow cannot be read
 * is not counted as updating, so no value of another release may make a shadow unreadable.
 */
function typesOf(entries: v.ObjectEntries): Readonly<Record<string, Schema>> {
  return Object.fromEntries(Object.entries(entries).map(([name, schema]) => [name, unlessNull(typeOf(schema))]));
}

function typeOf(schema: Schema & { readonly wrapped?: Schema; readonly entries?: v.ObjectEntries }): Schema {
  const { type, wrapped, entries } = schema;
  if (wrapped !== undefined) return typeOf(wrapped);
  if (entries !== undefined) return object(typesOf(entries));
  if (type === 'number') return v.number('a number');
  return type === 'boolean' ? v.boolean('a boolean') : text;
}

const text = changed(v.string('a string'), printable);
const state = oneOf(SHADOW_STATES);
const lastOperation = { ...typesOf(LAST_OPERATION), operation: text, state: text, version: text, bootID: text };
const leaf = object({
  key: text,
  value: v.string(),
  owner: text,
  force: ifReadable(v.boolean()),
});
const keys = unlessNull(v.array(text));
const settingsStatus = object({
  lastApplied: unlessNull(object({ hash: text })),
  inFlight: unlessNull(v.looseObject({})),
  records: unlessNull(v.array(object({ key: text }))),
  pending: unlessNull(v.array(object({ key: text, class: oneOf(SETTING_CLASSES), reason: text }))),
  conflicts: keys,
  cannotUnset: keys,
  hostLock: unlessNull(text),
  message: unlessNull(text),
});
const shadow = object({
  spec: object({
    ...typesOf(SPEC),
    state,
    settings: ifReadable(v.nullable(object({ leaves: v.array(leaf), allow: v.fallback(oneOf(ALLOWED), 'None') }))),
  }),
  status: unlessNull(
    object({
      ...typesOf(AGENT_STATUS),
      current_state: unlessNull(state),
      settings: ifReadable(settingsStatus),
      lastOperation: unlessNull(object(lastOperation)),
      drain: ifReadable(
        v.looseObject({
          observedGeneration: v.optional(v.number()),
          startTime: v.optional(text),
          resumeTime: v.optional(text),
          result: v.optional(text),
          blockedBy: ifReadable(v.array(object({ pod: text, reason: text, since: text }))),
        }),
      ),
      group: ifReadable(text),
      conditions: unlessNull(v.array(v.looseObject({}, 'an object'), 'a list')),
    }),
  ),
});

const SHADOW_PREFIX = shadowName('');
const NO_SPEC = { version: null, state_transition_timestamp: null, timeoutSeconds: null, settings: null } as const;
const NO_STATUS = {
  current_version: '',
  target_version: '',
  crash_count: 0,
  state_transition_failure_timestamp: null,
  bootID: '',
} as const;

/** Throws an error that names the field which is not as expected. */
export function readShadow(raw: unknown): ShadowView {
  const { metadata } = raw as BottlerocketShadow;
  const read = parse(shadow, raw, '', (message) => new Error(`${metadata.name}: ${message}`));
  const conditions = read.status?.conditions as readonly Condition[] | undefined;
  return shadowView({
    metadata: readMetadata(metadata),
    record: readRecord(metadata),
    spec: { ...NO_SPEC, ...read.spec },
    ...readStatus(metadata, read),
    progressing: conditions?.find(({ type }) => type === PROGRESSING),
    health: (conditions ?? []).filter(({ type }) => HEALTH.includes(type)).map(healthCondition),
    group: read.status?.group ?? '',
  });
}

export function shadowView(read: ReadShadow): ShadowView {
  const { record } = read;
  const state = stateOf(read);
  const since = parseTime(record.rollback?.since);
  return {
    ...read,
    state,
    purpose: purposeOf({ ...read, state }),
    rollback: record.rollback === undefined || since === undefined ? undefined : { ...record.rollback, since },
    updated: updateIn(record),
    times: timesOf(read),
  };
}

function updateIn(record: NodeRecord): ShadowView['updated'] {
  const latest = latestUpdate(record);
  const at = parseTime(latest?.at);
  return latest === undefined || at === undefined ? undefined : { version: latest.version, at };
}

/** A reboot for settings says nothing about a version. */
export function latestUpdate({ succeeded, updated }: NodeRecord): NodeRecord['updated'] {
  return succeeded === undefined || succeeded.isReboot === true ? updated : succeeded;
}

function timesOf({ metadata, spec, status, record }: ReadShadow): ShadowTimes {
  const { startTime, resumeTime, endTime } = status?.drain ?? {};
  return {
    createdAt: parseTime(metadata.creationTimestamp),
    stateSince: parseTime(spec.state_transition_timestamp),
    startedAt: parseTime(record.startedAt),
    succeededAt: parseTime(record.succeeded?.at),
    failedAt: parseTime(status?.state_transition_failure_timestamp),
    drainSince: parseTime(resumeTime ?? startTime),
    drainEnd: parseTime(endTime),
  };
}

/** Whether the controller has last reported the condition Stalled. */
export function showsStalled({ health }: Pick<ShadowView, 'health'>): boolean {
  return health.some(({ type, status }) => type === 'Stalled' && status === 'True');
}

export function healthCondition({ type, status, lastTransitionTime }: HealthCondition): HealthCondition {
  return { type, status, lastTransitionTime };
}

const REQUESTS = [RETRY_ANNOTATION, ABORT_ANNOTATION, UPDATE_NOW_ANNOTATION];
/** Characters of a request that are kept: no version is as long. */
const MAX_REQUEST = 200;

function readMetadata(metadata: ObjectMeta): ObjectMeta {
  const { name, uid, resourceVersion, namespace = '', generation = 0, ownerReferences = [] } = metadata;
  const requests = Object.entries(pick(metadata.annotations, REQUESTS));
  const annotations = Object.fromEntries(requests.map(([key, value]) => [key, value.slice(0, MAX_REQUEST)]));
  const { creationTimestamp = '' } = metadata;
  return { name, uid, resourceVersion, namespace, generation, annotations, ownerReferences, creationTimestamp };
}

/**
 * A status without `current_state` is none: only this controller has written to it. Agents of the
 * Rust operator report no `observedGeneration`: their status answers the spec when it names the same
 * state, or a failure.
 */
function readStatus({ generation = 0 }: ObjectMeta, read: Infer<typeof shadow>): { status?: ShadowStatus } {
  const { current_state, conditions: _, group: _group, ...reported } = read.status ?? {};
  if (current_state === undefined) return {};
  const answered = current_state === read.spec.state || current_state === 'ErrorReset';
  const observedGeneration = answered ? generation : -1;
  return { status: { ...NO_STATUS, observedGeneration, ...reported, current_state } as ShadowStatus };
}

/** The name of its Node. */
export function nodeOf({ metadata }: KubernetesObject): string {
  return metadata.name.startsWith(SHADOW_PREFIX) ? metadata.name.slice(SHADOW_PREFIX.length) : metadata.name;
}

/** For log lines; see shared/api/attempt.ts. */
export function attemptIn(shadow: ShadowView): string | undefined {
  return currentAttempt({ ...shadow, attempt: shadow.record.startedAt });
}

/** The pod that the drain of this spec waits for first. */
export function blockOf({
  metadata,
  spec,
  status,
}: ShadowView): Partial<Record<'pod' | 'reason' | 'since', string>> | undefined {
  const { observedGeneration, endTime, blockedBy = [] } = status?.drain ?? {};
  const isDraining = spec.state === 'RebootedIntoUpdate' && observedGeneration === metadata.generation;
  return isDraining && endTime === undefined ? blockedBy[0] : undefined;
}

/** The latest return to a previous version; `plan/facts/attempts.ts` says what follows from it. */
export interface Rollback {
  readonly failed: string;
  readonly previous: string;
  /** Epoch milliseconds. */
  readonly since: number;
  readonly isDone: boolean;
}

/** The group with which its latest update began; empty: none. */
export function groupAtStart({ record }: ShadowView): string {
  return record.group ?? '';
}

/** True when the configuration ended its latest update, so that the attempt does not count for the order. */
export function endedByConfig({ record }: ShadowView): boolean {
  return record.endedByConfigAt !== undefined;
}

/** True when the shadow belongs to this very Node, not to an earlier one of the same name. */
export function isOwnedBy({ metadata }: Pick<KubernetesObject, 'metadata'>, node: NodeView): boolean {
  return (metadata.ownerReferences ?? []).some(({ kind, uid }) => kind === 'Node' && uid === node.metadata.uid);
}
