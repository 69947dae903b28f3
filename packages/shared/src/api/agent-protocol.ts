import type { AgentStatus, DrainBlock, ShadowSpec, ShadowStatus } from './shadow.ts';

/**
 * What agents and the apiserver say to each other: JSON over HTTPS with a bearer token. Dependency-free, since the agent bundles it.
 *
 * Every path names the caller's node. Errors carry an {@link ApiErrorBody}.
 */
export type AgentAction =
  | 'shadow'
  | 'shadow/stream'
  | 'shadow/status'
  | 'load-balancer-exclusion'
  | 'drain'
  | 'restore';

/**
 * Path of an agent's call: PUT shadow (ensure), GET shadow/stream, PUT shadow/status, POST load-balancer-exclusion, POST drain, POST restore.
 */
export function agentPath(node: string, action: AgentAction): string {
  return `/v1/nodes/${encodeURIComponent(node)}/${action}`;
}

/** An agent's own shadow as the apiserver sends it (answer of PUT shadow: exactly this). */
export interface AgentShadow {
  readonly uid: string;
  readonly generation: number;
  readonly spec: ShadowSpec;
  readonly status?: ShadowStatus;
}

/** One line of the stream (newline-delimited JSON). After `end` the server closes the stream and the agent connects again. */
export type StreamMessage =
  | { readonly type: 'shadow'; readonly shadow: AgentShadow }
  | { readonly type: 'deleted' }
  | { readonly type: 'heartbeat' }
  | { readonly type: 'end'; readonly reason: string };

/** Body of PUT shadow/status. The UID keeps a report for one shadow from landing in its successor of the same name. */
export interface StatusReport {
  readonly shadowUID: string;
  readonly status: AgentStatus;
}

/** Body of load-balancer-exclusion, part of that of drain: which spec the agent acts for. Refused with `SpecChanged` when it is not the current one. */
export interface SpecReference {
  readonly shadowUID: string;
  readonly generation: number;
}

/** Body of drain. */
export interface DrainRequest extends SpecReference {
  /**
   * True: many replicas in a row have refused because they run on this node, perhaps because all do. One of them may then make room: it cordons the
   * node and evicts one of the apiserver's own pods from it, so that another comes up elsewhere and drains.
   */
  readonly makeRoom?: boolean;
}

/** Answer of load-balancer-exclusion. */
export interface ExclusionResult {
  /** How long load balancers still need to take the node out; evictions start after that. 0 = go on. */
  readonly remainingMs: number;
}

/** Answer of drain: one bounded pass. */
export interface DrainResult {
  /** True: the node is cordoned and nothing is left on it that a drain must remove. */
  readonly done: boolean;
  /** Evictions that this pass got accepted. */
  readonly evicted: number;
  /** Pods still to go. */
  readonly remaining: number;
  readonly blockedBy: readonly DrainBlock[];
  /** The drain will not succeed and is not to be repeated for this spec. */
  readonly failure?: DrainFailure;
  /** How much of the drain's time limit is left, milliseconds. */
  readonly limitRemainingMs?: number;
}

export const DRAIN_FAILURES = ['DrainTimedOut', 'CordonRemoved'] as const;

/** How a drain has failed: one of the error codes of an update, and why. */
export interface DrainFailure {
  readonly code: (typeof DRAIN_FAILURES)[number];
  readonly message: string;
}

/** Answer of restore: what was ours and was taken back. */
export interface RestoreResult {
  readonly uncordoned: boolean;
  readonly included: boolean;
}

export const API_ERROR_CODES = [
  'BadRequest', // 400: malformed path, header or body; 408: not sent in time
  'Unauthenticated', // 401: no token, or one that is not valid
  'Forbidden', // 403: valid token, but another service account, pod or node
  'NotFound', // 404: no such path, or the Node or the shadow does not exist
  'SpecChanged', // 409: the shadow is another one or has another generation: read the stream again
  'SpecForbids', // 409: the shadow's spec does not call for this
  'Conflict', // 409: changed at the same time by somebody else: repeat
  'TooLarge', // 413: body over the limit; 431: headers over the limit
  'ReplicaOnSameNode', // 421: this replica runs on the node to drain: repeat on a new connection
  'TooManyRequests', // 429: over the rate of the node
  'Unavailable', // 503: not ready, shutting down, or the Kubernetes API is out of reach: repeat
  'Internal', // 500
] as const;
export type ApiErrorCode = (typeof API_ERROR_CODES)[number];

export interface ApiErrorBody {
  readonly error: { readonly code: ApiErrorCode; readonly message: string };
}
