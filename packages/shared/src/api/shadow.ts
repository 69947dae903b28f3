import type { Condition, KubernetesObject } from './meta.ts';
import type { ErrorCode } from './error-codes.ts';

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

/** Settings of the host's updater, by the names that Bottlerocket gives them below `settings.updates`. What is absent is left as the host has it. */
export interface HostSettings {
  /** `version-lock`: the one version that the host offers. */
  readonly versionLock?: string | null;
  /** `ignore-waves`: the host is offered releases at once, not when the wave it belongs to has come. */
  readonly ignoreWaves?: boolean | null;
}

/** Written by the controller only. */
export interface ShadowSpec {
  readonly state: ShadowState;
  /** Version to drive the host to; null or absent in Idle. */
  readonly version?: string | null;
  /** When `state` was set (RFC 3339). */
  readonly state_transition_timestamp?: string | null;
  /** How long the step that `state` calls for may take, in seconds: staging, or the reboot. Absent: as long as the agent allows by itself. */
  readonly timeoutSeconds?: number | null;
  readonly hostSettings?: HostSettings | null;
}

/** A setting of the host that was changed for `spec.hostSettings`. */
export interface ReplacedSetting<T extends string | boolean> {
  /** What it was set to. */
  readonly value: T;
  /** What it was before, and becomes again when the spec does not ask for it any more. */
  readonly before: T;
}

/** What an agent has done for `spec.hostSettings`; it outlives the process, so that the host's own settings can be put back. */
export interface HostSettingsStatus {
  readonly versionLock?: ReplacedSetting<string>;
  readonly ignoreWaves?: ReplacedSetting<boolean>;
  /** Why they are not in force. */
  readonly message?: string;
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
  /** When the host booted (RFC 3339, the node's clock). */
  readonly bootTime?: string;
  readonly lastOperation?: LastOperation;
  readonly hostSettings?: HostSettingsStatus;
}

export const DRAIN_RESULTS = ['Drained', 'Forced', 'TimedOut', 'Vetoed', 'Cancelled'] as const;
export type DrainResultName = (typeof DRAIN_RESULTS)[number];

/** Something that a drain waits for. */
export interface DrainBlockStatus extends DrainBlock {
  /** RFC 3339 */
  readonly since: string;
}

export const HANDOVER_PHASES = ['Evicting', 'Detaching', 'Replacing'] as const;

/** The pod with volumes whose turn it is. It is evicted, its volumes leave the node, and the pod that takes its place becomes ready. */
export interface Handover {
  /** `namespace/name` */
  readonly pod: string;
  readonly podUID: string;
  readonly phase: (typeof HANDOVER_PHASES)[number];
  /** When the phase began (RFC 3339). */
  readonly since: string;
  /** Names of the PersistentVolumes of its claims. */
  readonly volumes?: readonly string[];
  /** A pod of the same name takes its place. */
  readonly replaced?: boolean;
}

/** The drain of the current or latest update. It is all that one pass leaves to the next, which another replica may run. */
export interface DrainStatus {
  /** Generation of the spec that asked for it. */
  readonly observedGeneration: number;
  /** When its first pass began (RFC 3339). The time limit counts from here, */
  readonly startTime: string;
  /** or from here: the node had been empty before, and was looked at again. */
  readonly resumeTime?: string;
  readonly endTime?: string;
  /** How it ended. */
  readonly result?: DrainResultName;
  /** Evictions that were accepted. */
  readonly evicted: number;
  /** Pods that are still to go. */
  readonly remaining: number;
  readonly blockedBy?: readonly DrainBlockStatus[];
  readonly handover?: Handover;
}

export interface ShadowStatus extends AgentStatus {
  /** Written by the apiserver on its own account. */
  readonly drain?: DrainStatus;
  /** The controller's, in a few words for a column of kubectl: why the node does not update, and until when. Empty: it does not wait. */
  readonly waitingFor?: string;
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

/** Why a pod is still on the node, or what its leaving waits for. `docs/runbook.md` explains each. */
export const BLOCK_REASONS = [
  'DisruptionBudget',
  'MultipleDisruptionBudgets',
  'BlockedByPolicy',
  'Forbidden',
  'Terminating',
  'TerminationStuck',
  'NamespaceTerminating',
  'Throttled',
  'VolumeDetach',
  'Replacement',
  'Error',
] as const;
export type BlockReason = (typeof BLOCK_REASONS)[number];

/** What one pod makes a drain wait for. */
export interface DrainBlock {
  /** `namespace/name` */
  readonly pod: string;
  readonly reason: BlockReason;
  readonly message: string;
  /** Names of the disruption budgets that hold the pod up, in its namespace. */
  readonly podDisruptionBudgets?: readonly string[];
}
