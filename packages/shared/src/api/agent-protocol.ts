/**
 * The protocol of agents and apiserver: JSON over HTTPS with a bearer token. Every path names the
 * caller's node. The apiserver refuses a body with an unknown field or with a value that the
 * resource would refuse. The agent reads answers leniently: without its shadow, because one field
 * is unreadable, it could not restore its Node.
 */
import * as v from 'valibot';
import { parseTime, rfc3339 } from '../runtime/clock.ts';
import { shorten } from '../runtime/errors.ts';
import type { ErrorCode } from './error-codes.ts';
import * as s from './schema.ts';
import * as shadow from './shadow-agent.ts';
import { settingKey } from './settings.ts';
import { version, versionLock } from './version.ts';
import type { AgentStatus, BlockReason, ShadowSpec } from './shadow.ts';

export type AgentAction =
  | 'shadow'
  | 'shadow/stream'
  | 'shadow/status'
  | 'load-balancer-exclusion'
  | 'drain'
  | 'restore';

/** PUT shadow (returns it; the controller creates it) and shadow/status, GET shadow/stream, POST the others. */
export function agentPath(node: string, action: AgentAction): string {
  return `/v1/nodes/${encodeURIComponent(node)}/${action}`;
}

/** An agent's own shadow (answer of PUT shadow and PUT shadow/status). */
export interface AgentShadow {
  readonly uid: string;
  readonly generation: number;
  readonly spec: ShadowSpec;
  /** Absent until an agent has reported. */
  readonly status?: AgentStatus;
  /** When the latest update started, for log lines; an apiserver of an earlier release does not send it. */
  readonly attempt?: string;
}

/** An unreadable time counts as far in the future: a time limit then counts from now. */
const anyTime = s.changed(v.unknown(), (value) => {
  const ms = typeof value === 'string' ? parseTime(value) : undefined;
  if (typeof value !== 'string' || ms === undefined) return '9999-12-31T23:59:59Z';
  return s.isTime(value) ? value : rfc3339(ms);
});
const anyCount = s.count(Number.MAX_SAFE_INTEGER);
const anyText = v.string('a text');
const line = (length: number) => s.changed(v.fallback(v.string(), ''), (value) => shorten(value, length));
const prefixed = s.changed(v.string('a version such as 1.20.0'), (value) => value.replace(/^v/u, ''));

/** The items of a list that can be read. */
function readable<S extends s.Schema>(item: S) {
  const items = v.array(v.fallback(item, undefined as never), 'a list');
  return s.changed(items, (found) => found.filter((one) => one !== undefined)) as v.GenericSchema<
    unknown,
    v.InferOutput<S>[]
  >;
}

/** Settings and time limits of another release count as absent; the version may carry a `v`. */
const readSpec = s.object({
  ...shadow.SPEC,
  version: v.exactOptional(v.nullable(v.pipe(prefixed, version))),
  state_transition_timestamp: s.ifReadable(v.string()),
  timeoutSeconds: s.ifReadable(shadow.SPEC.timeoutSeconds.wrapped.wrapped),
  settings: s.ifReadable(
    s.object({ leaves: readable(shadow.setting), allow: v.fallback(s.oneOf(shadow.ALLOWED), 'None') }),
  ),
});

/**
 * A status of an older operator lacks the newer fields. A value that the resource allows but the
 * apiserver refuses in a report is changed to an allowed one, or counts as absent.
 */
const readStatus = s.object({
  ...shadow.AGENT_STATUS,
  crash_count: v.nullish(
    s.changed(anyCount, (value) => Math.min(value, s.INT32)),
    0,
  ),
  state_transition_failure_timestamp: v.exactOptional(v.nullable(anyTime)),
  observedGeneration: v.nullish(s.count64(), 0),
  bootID: v.nullish(s.text(shadow.ID_LIMIT), ''),
  bootTime: s.ifReadable(s.time()),
  settings: s.ifReadable(
    s.notEmpty({
      ...shadow.SETTINGS_STATUS,
      records: s.ifReadable(readable(shadow.record)),
      lastApplied: s.ifReadable(shadow.applied),
      inFlight: s.ifReadable(shadow.applied),
      pending: s.ifReadable(readable(shadow.pending)),
      conflicts: s.ifReadable(readable(settingKey)),
      cannotUnset: s.ifReadable(readable(settingKey)),
      hostLock: s.ifReadable(versionLock),
      message: s.ifReadable(s.changed(v.string(), (value) => shorten(value, shadow.MESSAGE_LIMIT - 3))),
    }),
  ),
  lastOperation: s.unlessNull(
    s.object({
      ...shadow.LAST_OPERATION,
      bootID: s.text(shadow.ID_LIMIT),
      startTime: anyTime,
      lastUpdateTime: anyTime,
      errorCode: s.unlessNull(s.changed(s.text(shadow.ID_LIMIT), (value) => value as ErrorCode)),
      message: s.unlessNull(s.text(shadow.MESSAGE_LIMIT)),
    }),
  ),
});

/** A status without a report of an agent counts as absent. */
const reported = s.changed(v.unknown(), (status) => {
  if (typeof status !== 'object' || status === null || Array.isArray(status)) return status;
  const { current_state, current_version, target_version } = status as Partial<AgentStatus>;
  if (current_state == null || current_version == null) return undefined;
  return { ...status, target_version: target_version ?? current_version };
});

export const agentShadow: v.GenericSchema<unknown, AgentShadow> = s.object({
  uid: s.textThat((value) => value !== '', shadow.ID_LIMIT, 'a UID'),
  generation: s.count64(),
  spec: readSpec,
  status: s.unlessNull(v.pipe(reported, s.unlessNull(readStatus) as unknown as typeof readStatus)),
  attempt: s.ifReadable(s.text(shadow.ID_LIMIT)),
});

/** One line of the stream (newline-delimited JSON). After `end` the server closes the stream. */
export const streamMessage = v.variant(
  'type',
  [
    s.object({ type: v.literal('shadow'), shadow: agentShadow }),
    s.object({ type: v.literal('deleted') }),
    s.object({ type: v.literal('heartbeat') }),
    s.object({ type: v.literal('end'), reason: line(200) }),
  ],
  ({ path }) => (path === undefined ? 'an object' : 'one of shadow, deleted, heartbeat, end'),
);
export type StreamMessage = s.Infer<typeof streamMessage>;

const shadowUID = s.textThat((value) => /^[0-9A-Za-z-]+$/u.test(value), 63, 'a UID');
/** Body of PUT shadow/status. The UID tells the shadow from a later one of the same name. */
export const statusReport = s.closedObject({ shadowUID, status: shadow.agentStatus });
export type StatusReport = s.Infer<typeof statusReport>;

/** Body of load-balancer-exclusion and drain; `SpecChanged` when it is not the current spec. */
export const specReference = s.closedObject({ shadowUID, generation: s.count64() });
export type SpecReference = s.Infer<typeof specReference>;

/** Answer of load-balancer-exclusion: how long until evictions may start. */
export const exclusionResult = s.object({ remainingMs: anyCount });
export type ExclusionResult = s.Infer<typeof exclusionResult>;

/** A code of another release is a failure all the same. */
const DRAIN_FAILURES = ['DrainTimedOut', 'CordonRemoved'] as const;
const drainFailure = s.object({ code: v.fallback(s.oneOf(DRAIN_FAILURES), 'DrainTimedOut'), message: line(500) });
export type DrainFailure = s.Infer<typeof drainFailure>;

const blockedPod = s.object({
  pod: anyText,
  reason: s.changed(anyText, (value) => value as BlockReason),
  message: anyText,
  podDisruptionBudgets: s.ifReadable(v.array(v.string())),
});
/** Answer of drain: one bounded pass. */
export const drainResult = v.pipe(
  s.object({
    /** True: the node is cordoned and nothing is left on it that a drain must remove. */
    done: s.flag(),
    /** Number of evictions of this pass that were accepted. */
    evicted: anyCount,
    /** Number of pods that are still to be evicted. */
    remaining: anyCount,
    blockedBy: v.array(blockedPod, 'a list'),
    /** The drain will not succeed and is not to be repeated for this spec. */
    failure: v.exactOptional(drainFailure),
    /** How much of the drain's time limit is left, milliseconds. */
    limitRemainingMs: v.exactOptional(anyCount),
  }),
  v.check(
    ({ done, remaining, failure }) => !done || (remaining === 0 && failure === undefined),
    'remaining 0 and no failure of a drain that is done',
  ),
);
export type DrainResult = s.Infer<typeof drainResult>;

/** Answer of restore: what was removed, the cordon or the exclusion from load balancers. */
export const restoreResult = s.object({ uncordoned: s.flag(), included: s.flag() });
export type RestoreResult = s.Infer<typeof restoreResult>;

export const API_ERROR_CODES = [
  'BadRequest', // 400: malformed path, header or body; 408: not sent in time
  'Unauthenticated', // 401: no token, or one that is not valid
  'Forbidden', // 403: valid token, but another service account, pod or node
  'NotFound', // 404: no such path, or the Node or the shadow does not exist
  'SpecChanged', // 409: the shadow is another one or has another generation: read the stream again
  'SpecForbids', // 409: the shadow's spec does not call for this
  'Conflict', // 409: another actor changed the object at the same time: repeat
  'TooLarge', // 413: body over the limit; 431: headers over the limit
  'TooManyRequests', // 429: over the rate of the node
  'Unavailable', // 503: not ready, shutting down, or the Kubernetes API is out of reach: repeat
  'Internal', // 500
] as const;
export type ApiErrorCode = (typeof API_ERROR_CODES)[number];

/** The body of every answer that is no success. */
export const apiErrorBody = s.object({ error: s.object({ code: s.oneOf(API_ERROR_CODES), message: line(500) }) });
export type ApiErrorBody = s.Infer<typeof apiErrorBody>;
