import type { ErrorCode } from './errors.ts';
import type { Condition, KubernetesObject } from './kubernetes-types.ts';

/** States of the update state machine. In `spec` the value ErrorReset (written by older operators) means Idle. */
export const SHADOW_STATES = [
  'Idle',
  'StagedAndPerformedUpdate',
  'RebootedIntoUpdate',
  'MonitoringUpdate',
  'ErrorReset',
] as const;
export type ShadowState = (typeof SHADOW_STATES)[number];

/** Steps of an update, as `status.lastOperation.operation` names them. */
export const OPERATIONS = ['Stage', 'Drain', 'Activate', 'Reboot', 'Restore'] as const;
export type Operation = (typeof OPERATIONS)[number];

export const OPERATION_STATES = ['Processing', 'Succeeded', 'Failed'] as const;
export type OperationState = (typeof OPERATION_STATES)[number];

/** Written by the controller only. */
export interface ShadowSpec {
  readonly state: ShadowState;
  /** Version to drive the host to; null or absent in Idle. */
  readonly version?: string | null;
  /** When `state` was set (RFC 3339). */
  readonly state_transition_timestamp?: string | null;
}

/** The step of the current or latest update. It survives reboots, so it is what an agent that has just started knows of the past. */
export interface LastOperation {
  readonly operation: Operation;
  readonly state: OperationState;
  /** Version that the update goes to. */
  readonly version: string;
  /** Boot ID of the host when the step began. */
  readonly bootID: string;
  /** When the step began (RFC 3339, the node's clock). Its time limit counts from here. */
  readonly startTime: string;
  /** When `state` last changed (RFC 3339, the node's clock). */
  readonly lastUpdateTime: string;
  readonly errorCode?: ErrorCode;
  readonly message?: string;
}

/** The part of the status that the agent reports; the apiserver writes it. */
export interface AgentStatus {
  readonly current_state: ShadowState;
  readonly current_version: string;
  /** Newest version that the host offers, or the running one when it offers nothing. */
  readonly target_version: string;
  /** Failed attempts since the last success. */
  readonly crash_count: number;
  /** When the latest attempt failed (RFC 3339), null when none has since the last success. */
  readonly state_transition_failure_timestamp?: string | null;
  /** Generation of the spec that this status answers. */
  readonly observedGeneration: number;
  readonly bootID: string;
  readonly lastOperation?: LastOperation;
}

export interface ShadowStatus extends AgentStatus {
  /** Type `Progressing` is the controller's. */
  readonly conditions?: readonly Condition[];
}

export interface BottlerocketShadow extends KubernetesObject {
  readonly spec: ShadowSpec;
  readonly status?: ShadowStatus;
}

const VERSION =
  /^(?:0|[1-9]\d*)\.(?:0|[1-9]\d*)\.(?:0|[1-9]\d*)(?:-[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?$/u;
const VERSION_LENGTH = 128;

/** True when the resource's schema takes `value` as a version: a semantic version without a leading `v`. */
export function isVersionText(value: unknown): value is string {
  return typeof value === 'string' && value.length <= VERSION_LENGTH && VERSION.test(value);
}
