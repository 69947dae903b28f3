import * as v from 'valibot';
import { ERROR_CODES, type ErrorCode } from './error-codes.ts';
import { conditions, type KubernetesObject } from './meta.ts';
import {
  count,
  count64,
  described,
  flag,
  type Infer,
  list,
  nullable,
  object,
  oneOf,
  optional,
  text,
  textThat,
  time,
  whole,
} from './schema.ts';
import { isVersion, isVersionText, VERSION_LIMIT } from './version.ts';

/**
 * The BottlerocketShadow: the update of one node. The controller writes the spec, the agent reports most of the status, and the
 * apiserver writes `status.drain`. Types, readers and the definition of the resource come from these schemas.
 */

/** States of the update state machine. In `spec` the value ErrorReset (written by older operators) means Idle. */
export const SHADOW_STATES = [
  'Idle',
  'StagedAndPerformedUpdate',
  'RebootedIntoUpdate',
  'MonitoringUpdate',
  'ErrorReset',
] as const;
export type ShadowState = (typeof SHADOW_STATES)[number];
/** Steps of an update. */
export const OPERATIONS = ['Stage', 'Drain', 'Activate', 'Reboot', 'Restore'] as const;
export type Operation = (typeof OPERATIONS)[number];
export const OPERATION_STATES = ['Processing', 'Succeeded', 'Failed'] as const;
export type OperationState = (typeof OPERATION_STATES)[number];
export const DRAIN_RESULTS = ['Drained', 'Forced', 'TimedOut', 'Vetoed', 'Cancelled'] as const;
export type DrainResultName = (typeof DRAIN_RESULTS)[number];
export const HANDOVER_PHASES = ['Evicting', 'Detaching', 'Replacing'] as const;
/** Why a pod is still on the node, or what the drain still waits for after it. `docs/runbook.md` explains each. */
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

/** Longest `message` that an agent reports, in characters. */
export const MESSAGE_LIMIT = 4096;
/** Longest ID of a boot, in characters. */
export const ID_LIMIT = 128;
/** Bounds of `spec.timeoutSeconds`. */
const TIMEOUT = { min: 60, max: 86_400 } as const;

/** The rule for versions in the language of the API server. */
const VERSION_RULE = {
  'x-kubernetes-validations': [
    {
      rule: "self.matches('^(0|[1-9][0-9]*)[.](0|[1-9][0-9]*)[.](0|[1-9][0-9]*)(-[0-9A-Za-z-]+([.][0-9A-Za-z-]+)*)?([+][0-9A-Za-z-]+([.][0-9A-Za-z-]+)*)?$')",
      message: 'must be a semantic version such as 1.21.0, without a leading v',
    },
  ],
} as const;
const ATOMIC = { 'x-kubernetes-list-type': 'atomic' } as const;

export const version = textThat(isVersionText, VERSION_LIMIT, 'a version such as 1.20.0');
/** A version lock as hosts store it: `latest` or a version, perhaps with a leading `v`. */
export const versionLock = textThat(
  (value) => value === 'latest' || isVersion(value),
  VERSION_LIMIT,
  'a version or latest',
);
const bootID = textThat((value) => /^[0-9A-Za-z-]+$/u.test(value), ID_LIMIT, 'a boot ID of letters, digits and dashes');
const podName = text(512);
const names = (max: number) => list(text(253), max);

const hostSettings = object({
  versionLock: nullable(
    version,
    'The only version that the host may offer (settings.updates.version-lock).',
    VERSION_RULE,
  ),
  ignoreWaves: nullable(
    flag(),
    'Whether the host offers releases at once instead of when its wave starts (settings.updates.ignore-waves).',
  ),
});
/** Settings of the host's updater that the spec asks for. The host keeps its own value of an absent one. */
export type HostSettings = Infer<typeof hostSettings>;

export const SPEC = {
  state: described(
    oneOf(SHADOW_STATES),
    'State to drive the node to. Idle: update nothing, and undo what an attempt left behind. StagedAndPerformedUpdate: download and ' +
      'write the version, without using it. RebootedIntoUpdate: drain the node, activate the version, reboot into it and return the ' +
      'node to service. MonitoringUpdate: the node runs the version and is watched for a while. ErrorReset is what older operators ' +
      'wrote after a failure; it means Idle.',
  ),
  version: nullable(version, 'Version to drive the node to, such as 1.21.0. Absent or null in Idle.', VERSION_RULE),
  state_transition_timestamp: nullable(time(), 'When the state was set. Time limits of a state count from this time.'),
  timeoutSeconds: nullable(
    whole(TIMEOUT.min, TIMEOUT.max),
    'Time limit of the step that the state calls for, in seconds: of staging, or of the reboot without the drain, which has its ' +
      'own limit. Absent: the default of the agent.',
  ),
  hostSettings: nullable(
    hostSettings,
    "Settings of the host's updater. For an absent setting the host keeps its value, or gets back the value it had before.",
  ),
};
const shadowSpec = object(SPEC);
/** Written by the controller only. */
export type ShadowSpec = Infer<typeof shadowSpec>;

const replaced = <S extends v.GenericSchema>(value: S, description: string) =>
  described(
    object({
      value: described(value, 'Value that the agent set.'),
      before: described(value, 'Value that the host had before.'),
    }),
    description,
  );
/** A setting of the host that was changed for `spec.hostSettings`, and its value before, which is restored when the spec no longer asks. */
export interface ReplacedSetting<T extends string | boolean> {
  readonly value: T;
  readonly before: T;
}

export const HOST_SETTINGS_STATUS = {
  versionLock: v.exactOptional(replaced(versionLock, "The host's settings.updates.version-lock.")),
  ignoreWaves: v.exactOptional(replaced(flag(), "The host's settings.updates.ignore-waves.")),
  message: optional(text(MESSAGE_LIMIT), 'Why the settings are not in force. Absent when they are.'),
};
const hostSettingsStatus = object(HOST_SETTINGS_STATUS);
/** What an agent has changed for `spec.hostSettings`. It outlives the process, so that the host's own settings can be restored. */
export type HostSettingsStatus = Infer<typeof hostSettingsStatus>;

export const LAST_OPERATION = {
  operation: described(
    oneOf(OPERATIONS),
    'Stage: download and write the version. Drain: take the node out of load balancers, cordon it and evict its pods. Activate: boot ' +
      'the version from now on. Reboot: restart the node. Restore: uncordon it and put it back into load balancers.',
  ),
  state: described(oneOf(OPERATION_STATES), 'Whether the step is in progress, done or failed.'),
  version: described(version, 'Version that the update goes to.', VERSION_RULE),
  bootID: described(
    bootID,
    'Boot ID of the node when the step began. Another one in status.bootID means that the node has restarted since.',
  ),
  startTime: described(
    time(),
    "When the step began, by the node's clock. Its time limit counts from this time; that of a drain is in status.drain.",
  ),
  lastUpdateTime: described(time(), "When the state of the step last changed, by the node's clock."),
  errorCode: optional(
    oneOf(Object.keys(ERROR_CODES) as ErrorCode[]),
    'How the step failed. HostUnreachable, HostBusy and StagedImageLost are retried soon. RefreshFailed, VersionNotOffered, ' +
      'PrepareFailed, WrongVersionStaged, DrainTimedOut, ActivateFailed, RebootRefused, RebootTimedOut and StepTimedOut are retried ' +
      'after a wait that doubles. RolledBack: the node did not come up with this version, which is not tried again until a user asks ' +
      'for it with the annotation brupop.bottlerocket.aws/retry. HostUnsupported, HostStatusUnreadable, WrongVersionBooted and ' +
      'CordonRemoved (another actor made the node schedulable twice during its drain) need a manual fix.',
  ),
  message: optional(text(MESSAGE_LIMIT), 'What happened, for users.'),
};
const lastOperation = object(LAST_OPERATION);
/** The step of the current or latest update. Its times are of the node's clock. */
export type LastOperation = Infer<typeof lastOperation>;

/** The part of the status that the agent reports; the apiserver writes it. */
export const AGENT_STATUS = {
  current_state: described(
    oneOf(SHADOW_STATES),
    'State that the node has reached, with the meaning of spec.state. ErrorReset says that an attempt failed (see lastOperation).',
  ),
  current_version: described(version, 'Version of Bottlerocket that the node runs.', VERSION_RULE),
  target_version: described(
    version,
    'Newest version that the host offers, or the running version when it offers nothing.',
    VERSION_RULE,
  ),
  crash_count: described(
    count(),
    'Failed attempts in a row since the last success. The wait before the next attempt grows with it.',
  ),
  state_transition_failure_timestamp: nullable(
    time(),
    'When the latest attempt failed. Absent or null when none has failed since the last success.',
  ),
  observedGeneration: described(
    count64(),
    'The metadata.generation of the spec that the agent answers with this status. Smaller: the agent has not acted on the spec yet.',
  ),
  bootID: described(bootID, 'Boot ID of the node, which changes at every boot.'),
  bootTime: optional(time(), 'When the node booted, by its own clock.'),
  hostSettings: optional(hostSettingsStatus, 'What was changed for spec.hostSettings, so that it can be restored.'),
  lastOperation: optional(
    lastOperation,
    'The step of the current or the latest update. It outlives reboots: an agent that starts learns from it what happened before.',
    {
      'x-kubernetes-validations': [
        {
          rule: "self.state != 'Failed' || has(self.errorCode)",
          message: 'a failed operation must have an error code',
          fieldPath: '.errorCode',
        },
      ],
    },
  ),
};
const agentStatus = object(AGENT_STATUS);
export type AgentStatus = Infer<typeof agentStatus>;

const drainBlock = {
  pod: described(podName, 'The pod, as namespace/name.'),
  reason: described(
    oneOf(BLOCK_REASONS),
    'Why the drain waits for the pod. DisruptionBudget: a budget refuses its eviction for now. MultipleDisruptionBudgets: more than one ' +
      'budget covers it, which the eviction API refuses. BlockedByPolicy: the configuration does not allow its eviction. Forbidden: the ' +
      'eviction is not allowed. Terminating: it is terminating. TerminationStuck: it terminates for longer than its grace period. ' +
      'NamespaceTerminating: its namespace is being deleted. Throttled: the API server asks for fewer requests. VolumeDetach: its ' +
      'volumes are still attached. Replacement: the pod that replaces it is not ready. Error: any other error.',
  ),
  message: described(text(1024), 'Why, for users.'),
  podDisruptionBudgets: optional(
    names(50),
    'Names of the disruption budgets that cover the pod, in its namespace.',
    ATOMIC,
  ),
};
/** A pod that a drain waits for. */
export const drainBlockSchema = object(drainBlock);
export type DrainBlock = Infer<typeof drainBlockSchema>;

const drainBlockStatus = object({ ...drainBlock, since: described(time(), 'Since when the drain waits for the pod.') });
export type DrainBlockStatus = Infer<typeof drainBlockStatus>;

const handover = object({
  pod: described(podName, 'The pod, as namespace/name.'),
  podUID: described(text(ID_LIMIT), 'The UID of that pod.'),
  phase: described(
    oneOf(HANDOVER_PHASES),
    'Evicting: the pod is to leave the node. Detaching: its volumes are. Replacing: the pod that replaces it is to become ready on ' +
      'another node.',
  ),
  since: described(time(), 'When the phase began.'),
  volumes: optional(names(256), 'The PersistentVolumes of its claims.', ATOMIC),
  replaced: optional(flag(), 'Whether a pod of the same name replaces it.'),
});
/** The pod with volumes that the drain moves now. */
export type Handover = Infer<typeof handover>;

const drain = object({
  observedGeneration: described(count64(), 'The metadata.generation of the spec that asked for the drain.'),
  startTime: described(time(), 'When the first pass began. The time limit counts from this time.'),
  resumeTime: optional(
    time(),
    'When the drain resumed after the node had been empty. The time limit then counts from this time.',
  ),
  endTime: optional(time(), 'When the drain ended. Absent while it is in progress.'),
  result: optional(
    oneOf(DRAIN_RESULTS),
    'How the drain ended. Drained: no pods are left to evict. Forced: the pods left at the time limit were deleted. TimedOut: pods ' +
      'were left at the time limit, and the node returned to service. Vetoed: another actor made the node schedulable twice. ' +
      'Cancelled: the update was cancelled.',
  ),
  evicted: described(count(), 'Number of accepted evictions.'),
  remaining: described(count(), 'Number of pods that are still to be evicted.'),
  blockedBy: optional(list(drainBlockStatus, 20), 'What the drain waits for, at most 20 pods.', ATOMIC),
  handover: optional(handover, 'The pod with volumes that the drain moves now. Such pods move one by one.'),
});
/** The drain of the current or latest update: all that one pass leaves to the next, which another replica may run. */
export type DrainStatus = Infer<typeof drain>;

const STATUS = {
  ...AGENT_STATUS,
  waitingFor: optional(
    text(256),
    'In a few words, why the node does not update and, if known, until when; the condition Progressing has the sentence. Empty: ' +
      'nothing holds up the node.',
  ),
  drain: optional(drain, 'The drain of the current or the latest update, and what it waits for.'),
  conditions: conditions(
    'What is true of this node now. The controller writes Progressing: True while the node updates and False while it does not, with ' +
      'the reason and, if known, when that ends.',
  ),
};
const shadowStatus = object(STATUS);
export type ShadowStatus = Infer<typeof shadowStatus>;

/**
 * The resource as the API server stores it. Nothing of the status is required: a shadow of an older operator lacks the newer fields,
 * and the controller may write its condition before the agent has reported.
 */
export const shadowSchema = described(
  object({
    spec: described(shadowSpec, 'What the node is to do. Only the controller writes it.', {
      'x-kubernetes-validations': [
        {
          rule: "self.state in ['Idle', 'ErrorReset'] || has(self.version)",
          message: 'a version is required in this state: only Idle and ErrorReset go without one',
          fieldPath: '.version',
        },
      ],
    }),
    status: nullable(
      object(v.partial(v.object(STATUS)).entries),
      "What the node has done, as its agent last reported it, and the controller's view of its progress. An object of an older " +
        "operator holds only some of these fields, and before the first report it holds none of the agent's.",
    ),
  }),
  'The update of one Bottlerocket node: what the node is to do (spec, written by the controller) and what it has done (status, as its ' +
    'agent reports it). Each managed node has one, named brs-NODE and owned by the Node, so Kubernetes deletes it with the Node. To ' +
    'steer updates, edit the BrupopConfig, not this object.',
);

export interface BottlerocketShadow extends KubernetesObject {
  readonly spec: ShadowSpec;
  readonly status?: ShadowStatus;
}
