/**
 * The part of a BottlerocketShadow that agents exchange: the spec, and the status that they report.
 * The rest is not in their bundle.
 */
import { ERROR_CODES, type ErrorCode, type Recovery } from './error-codes.ts';
import { NODE_GROUP_KIND } from './names.ts';
import * as s from './schema.ts';
import { MAX_LEAVES, SETTING_CLASSES, settingKey, settingValue } from './settings.ts';
import { version, versionLock } from './version.ts';

/** In `spec` the value ErrorReset (written by older operators) means Idle. */
export const SHADOW_STATES = [
  'Idle',
  'StagedAndPerformedUpdate',
  'RebootedIntoUpdate',
  'MonitoringUpdate',
  'ErrorReset',
] as const;
export type ShadowState = (typeof SHADOW_STATES)[number];
export const OPERATIONS = ['Stage', 'Drain', 'Activate', 'Reboot', 'Restore'] as const;
export type Operation = (typeof OPERATIONS)[number];
export const OPERATION_STATES = ['Processing', 'Succeeded', 'Failed'] as const;
export type OperationState = (typeof OPERATION_STATES)[number];

/** Longest `message` that an agent reports, in characters. */
export const MESSAGE_LIMIT = 4096;
/** Longest ID of a boot, in characters. */
export const ID_LIMIT = 128;

/** What `spec.settings.allow` may say. */
export const ALLOWED = ['None', 'Live', 'RestartsService', 'NeedsReboot'] as const;
export type Allowed = (typeof ALLOWED)[number];
/** Longest list of values that may have been set while changes were in flight. */
export const MAX_EARLIER = 8;

const hash = s.textThat((value) => /^[0-9a-f]{16}$/u.test(value), 16, '16 hexadecimal digits', '^[0-9a-f]{16}$');
const BOOT_ID = '^[0-9A-Za-z-]+$';
const bootID = s.textThat(
  (value) => new RegExp(BOOT_ID, 'u').test(value),
  ID_LIMIT,
  'a boot ID of letters, digits and dashes',
  BOOT_ID,
);

/** Written as a whole, so that their order stays. */
const ATOMIC = { 'x-kubernetes-list-type': 'atomic' } as const;
/** The kind, a slash, and the name of a group, of at most 63 characters. */
const MAX_OWNER = NODE_GROUP_KIND.length + 1 + 63;
const setBy = s.described(
  s.text(MAX_OWNER),
  'Who asks for it: a BottlerocketNodeGroup, or BrupopConfig for spec.versions.',
);

export const SETTING = {
  key: s.described(settingKey, 'Its key, such as settings.motd; parts with dots are in double quotes.'),
  value: s.described(settingValue, 'Its value as compact JSON.'),
  owner: setBy,
  force: s.optional(s.flag(), 'True: a value that a user has set on the host is replaced. Otherwise it stays.'),
};
export const setting = s.object(SETTING);
/** One setting that a host is to have. */
export type Setting = s.Infer<typeof setting>;

const settings = s.object({
  leaves: s.described(s.list(setting, MAX_LEAVES), 'The settings, one by one.', ATOMIC),
  allow: s.described(
    s.oneOf(ALLOWED),
    'What a change may disrupt now. None: the agent only reports the class of each change. Live: nothing. RestartsService: kubelet or ' +
      'container runtime. NeedsReboot: it takes effect with the next boot. The settings of spec.versions are always set.',
  ),
});
export type SettingsSpec = s.Infer<typeof settings>;

export const SPEC = {
  state: s.described(
    s.oneOf(SHADOW_STATES),
    'State to drive the node to. Idle: update nothing, and undo what an attempt left behind. StagedAndPerformedUpdate: download and ' +
      'write the version, without using it. RebootedIntoUpdate: drain the node, activate the version, reboot into it and return the ' +
      'node to service. MonitoringUpdate: the node runs the version and is watched for a while. ErrorReset is what older operators ' +
      'wrote after a failure; it means Idle.',
  ),
  version: s.nullable(version, 'Version to drive the node to, such as 1.21.0. Absent or null in Idle.'),
  state_transition_timestamp: s.nullable(
    s.time(),
    'When the state was set. Time limits of a state count from this time.',
  ),
  timeoutSeconds: s.nullable(
    s.whole(60, 86_400),
    'Time limit of the step that the state calls for, in seconds: of staging, or of the reboot without the drain, which has its ' +
      'own limit. Absent: the default of the agent.',
  ),
  settings: s.nullable(
    settings,
    'Settings that the host is to have. A setting that is no longer here gets back the value that it had before.',
  ),
};
export const shadowSpec = s.object(SPEC);
export type ShadowSpec = s.Infer<typeof shadowSpec>;

const former = s.optional(
  settingValue,
  'Value that the host had before. Absent: it had none, or had the requested value when the agent first saw it.',
);
const RECORD = {
  key: SETTING.key,
  value: s.described(settingValue, 'Value that the agent set, or was about to set.'),
  before: former,
  earlier: s.optional(
    s.list(settingValue, MAX_EARLIER),
    'Values that the agent may have set before this one, while a change was in flight.',
    ATOMIC,
  ),
  owner: setBy,
  bootID: s.optional(
    bootID,
    'Boot ID of the node when the value was stored, if it takes effect with the next boot. Absent: it is in effect.',
  ),
};
export const record = s.closedObject(RECORD);
/** What the agent set, and the value that it restores afterwards. */
export type SettingRecord = s.Infer<typeof record>;

export const applied = s.closedObject({
  hash: s.described(hash, 'Stands for the settings with their values.'),
  time: s.described(s.time(), "When, by the node's clock."),
});
const keys = (what: string) => s.optional(s.list(settingKey, MAX_LEAVES), what, ATOMIC);
export const pending = s.closedObject({
  key: SETTING.key,
  class: s.described(s.oneOf(SETTING_CLASSES), 'What the change disrupts.'),
  reason: s.described(s.text(256), 'Why it has this class.'),
});
export type PendingSetting = s.Infer<typeof pending>;

export const SETTINGS_STATUS = {
  lastApplied: s.optional(
    applied,
    'The latest settings that were in force, without those that are pending or in conflict.',
  ),
  inFlight: s.optional(
    applied,
    'Settings that the agent has started to set. It is recorded before the first call and removed with the write of lastApplied: until ' +
      'then some of them may be set and others not, whatever the host says.',
  ),
  records: s.optional(s.list(record, MAX_LEAVES), 'What was set, so that it can be restored.', ATOMIC),
  pending: s.optional(
    s.list(pending, MAX_LEAVES),
    'Changes that spec.settings.allow does not cover, or that are refused.',
    ATOMIC,
  ),
  conflicts: keys('Settings that a user has changed on the host. They stay as they are.'),
  cannotUnset: keys(
    'Settings that are no longer requested and stay on the host: they had no value before, and the host API cannot remove a setting; or what ' +
      'they had before is not known, since the host had the requested value when the agent first saw it.',
  ),
  hostLock: s.optional(
    versionLock,
    'Version that the host is locked to by its own setting settings.updates.version-lock, although no pin is in force. Absent: it follows ' +
      'the releases that it is offered, or it is pinned.',
  ),
  message: s.optional(s.text(MESSAGE_LIMIT), 'Why the settings are not in force. Absent when they are.'),
};
const settingsStatus = s.closedObject(SETTINGS_STATUS);
export type SettingsStatus = s.Infer<typeof settingsStatus>;

const codes = (recovery: Recovery): string =>
  Object.keys(ERROR_CODES)
    .filter((code) => ERROR_CODES[code as ErrorCode] === recovery)
    .join(', ');

export const LAST_OPERATION = {
  operation: s.described(
    s.oneOf(OPERATIONS),
    'Stage: download and write the version. Drain: exclude the node from load balancers, cordon it and evict its pods. Activate: boot ' +
      'the version from now on. Reboot: restart the node. Restore: uncordon it and include it in load balancers again.',
  ),
  state: s.described(s.oneOf(OPERATION_STATES), 'Whether the step is in progress, done or failed.'),
  version: s.described(version, 'Version that the update goes to.'),
  bootID: s.described(
    bootID,
    'Boot ID of the node when the step started. Another one in status.bootID means that the node has rebooted since.',
  ),
  startTime: s.described(
    s.time(),
    "When the step started, by the node's clock. Its time limit counts from this time; that of a drain is in status.drain.",
  ),
  lastUpdateTime: s.described(s.time(), "When the state of the step last changed, by the node's clock."),
  errorCode: s.optional(
    s.oneOf(Object.keys(ERROR_CODES) as ErrorCode[]),
    `How the step failed. ${codes('RetrySoon')} are retried soon. ${codes('RetryAfterBackoff')} are retried after a wait ` +
      `that doubles. The first ${codes('RetryWithOffered')} since the latest success is no failure: the node starts ` +
      'again with the version that its host offers now. ' +
      `After ${codes('NeverThisVersion')} the version is not tried again until a user asks for it with the ` +
      `annotation brupop.bottlerocket.aws/retry. ${codes('Manual')} need a manual fix.`,
  ),
  message: s.optional(s.text(MESSAGE_LIMIT), 'What happened, for users.'),
};
const lastOperation = s.closedObject(LAST_OPERATION);
export type LastOperation = s.Infer<typeof lastOperation>;

/** Begins the message of the last operation while the agent cannot restore the Node. */
export const RESTORE_ERROR = 'the Node cannot be restored for now: ';

export const AGENT_STATUS = {
  current_state: s.described(
    s.oneOf(SHADOW_STATES),
    'State that the node has reached, with the meaning of spec.state. ErrorReset means that an attempt failed (see lastOperation).',
  ),
  current_version: s.described(version, 'Version of Bottlerocket that the node runs.'),
  target_version: s.described(
    version,
    'Newest version that the host offers, or the running version when it offers nothing.',
  ),
  crash_count: s.described(
    s.count(),
    'Failed attempts in a row since the last success. The wait before the next attempt grows with it. The first attempt ' +
      'that ends because the host no longer offers its version does not count.',
  ),
  state_transition_failure_timestamp: s.nullable(
    s.time(),
    'When the latest attempt failed. Absent or null when none has failed since the last success.',
  ),
  observedGeneration: s.described(
    s.count64(),
    'The metadata.generation of the spec that the agent answers with this status. Smaller: the agent has not acted on the spec yet.',
  ),
  bootID: s.described(bootID, 'Boot ID of the node, which changes at every boot.'),
  bootTime: s.optional(s.time(), 'When the node booted, by its own clock.'),
  settings: s.optional(settingsStatus, 'What was changed for spec.settings, and what was not.'),
  lastOperation: s.optional(
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
export const agentStatus = s.closedObject(AGENT_STATUS);
export type AgentStatus = s.Infer<typeof agentStatus>;
