import * as s from '@brupop/shared/api/schema';
import { version, versionLock } from '@brupop/shared/api/shadow-agent';
import * as v from 'valibot';
import { UPDATE_COMMANDS, type UpdateCommand } from '../limits.ts';

/** The Bottlerocket host API as far as updates need it: what it answers, how it fails, and what the agent asks of it. */

export const UPDATE_STATES = ['Idle', 'Available', 'Staged', 'Ready'] as const;
export type UpdateState = (typeof UPDATE_STATES)[number];

const image = s.object({ version });
/** `GET /updates/status`. Absent optionals are null; the latest command is null when the first command since the boot was refused. */
const updateStatus = s.changed(
  s.object({
    update_state: s.oneOf(UPDATE_STATES),
    chosen_update: s.unlessNull(image),
    staging_partition: s.unlessNull(s.object({ image, next_to_boot: s.flag() })),
    most_recent_command: s.unlessNull(
      s.object({
        cmd_type: s.oneOf(UPDATE_COMMANDS),
        cmd_status: s.oneOf(['Success', 'Failed', 'Unknown']),
        timestamp: s.textThat((value) => value !== '', 256, 'a time'),
        exit_status: s.unlessNull(v.number('a number')),
        stderr: v.nullish(v.string('a text'), ''),
      }),
    ),
  }),
  ({ update_state, chosen_update, staging_partition: staging, most_recent_command: latest }) => ({
    state: update_state,
    /** Version that the latest successful refresh chose; kept when a refresh fails. */
    chosenVersion: chosen_update?.version,
    /** The inactive partition set. */
    staged: staging && { version: staging.image.version, nextToBoot: staging.next_to_boot },
    /** The record of the host's latest finished update command. */
    latestCommand: latest && {
      type: latest.cmd_type,
      succeeded: latest.cmd_status === 'Success',
      /** When it ended, to be compared as text: it has no fixed number of fraction digits. */
      timestamp: latest.timestamp,
      exitStatus: latest.exit_status,
      stderr: latest.stderr,
    },
  }),
);
export type UpdateStatus = s.Infer<typeof updateStatus>;
export type CommandRecord = NonNullable<UpdateStatus['latestCommand']>;
export type StagedImage = NonNullable<UpdateStatus['staged']>;

/** The part of `GET /os` that is read. */
const os = s.object({ version_id: version });

/** The settings of the host's updater that an operator sets, by their names below `settings.updates`. */
export interface UpdaterSettings {
  /** `version-lock`: `latest`, or the only version that the host offers; as it was written, so perhaps with a leading `v`. */
  readonly versionLock: string;
  /** `ignore-waves` */
  readonly ignoreWaves: boolean;
}

/** The query for these settings. Settings that are not stored are left out of the answer. */
export const SETTINGS_QUERY = 'keys=settings.updates.version-lock,settings.updates.ignore-waves';
/** The settings of a new host. */
export const DEFAULT_SETTINGS: UpdaterSettings = { versionLock: 'latest', ignoreWaves: false };

/** `GET /settings` with that query. */
const settings = s.object({
  updates: v.exactOptional(
    s.object({ 'version-lock': v.exactOptional(versionLock), 'ignore-waves': v.exactOptional(s.flag()) }),
  ),
});

/** The body of `PATCH /settings`. */
export function settingsBody({ versionLock: lock, ignoreWaves }: Partial<UpdaterSettings>): string {
  return JSON.stringify({ updates: { 'version-lock': lock, 'ignore-waves': ignoreWaves } });
}

export type HostErrorKind =
  /** No process listens on the socket, or it does not exist: the API server is down, or the mount is stale. */
  | 'refused'
  /** No complete answer in time. The host may have carried out the request. */
  | 'unanswered'
  /** 423: an update command is running. */
  | 'locked'
  /** The status does not exist: no update command has run since the boot. */
  | 'uninitialized'
  /** No in-place updates on this host: the dispatcher or the route is not there. */
  | 'unsupported'
  /** The update status or the partition table cannot be read; no command repairs that. */
  | 'unreadable'
  /** 404: no setting is stored. */
  | 'unset'
  /** Any other answer. */
  | 'answer';

/** A failed call of the host API. The message names the call and the answer. */
export class HostError extends Error {
  override readonly name = 'HostError';
  readonly kind: HostErrorKind;

  constructor(kind: HostErrorKind, message: string, options?: ErrorOptions) {
    super(message, options);
    this.kind = kind;
  }
}

/** A call was not sent: the observation behind the decision is too old. */
export class StaleDecisionError extends Error {
  override readonly name = 'StaleDecisionError';
}

/** Called right before the bytes of a call are sent. Throws StaleDecisionError when the call must not be sent any more. */
export type Guard = () => void;

function read<S extends s.Schema>(schema: S, text: string, call: string, kind: HostErrorKind): s.Infer<S> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new HostError(kind, `${call}: expected JSON`, { cause: error });
  }
  return s.parse(schema, value, 'body', (message) => new HostError(kind, `${call}: ${message}`));
}

/** Reads the host's update status. Throws HostError `unreadable`, which names the field that is not as expected. */
export function parseUpdateStatus(text: string): UpdateStatus {
  return read(updateStatus, text, 'GET /updates/status', 'unreadable');
}

/** Reads `version_id` of `GET /os`. Throws HostError `answer`. */
export function parseVersion(text: string): string {
  return read(os, text, 'GET /os', 'answer').version_id;
}

/** Reads the answer of `GET /settings`. Throws HostError `answer`. */
export function parseSettings(text: string): UpdaterSettings {
  const { updates = {} } = read(settings, text, 'GET /settings', 'answer');
  const { 'version-lock': lock, 'ignore-waves': ignoreWaves } = updates;
  const { versionLock: anyVersion, ignoreWaves: atOnce } = DEFAULT_SETTINGS;
  return { versionLock: lock ?? anyVersion, ignoreWaves: ignoreWaves ?? atOnce };
}

export interface Host {
  /** The running version (`version_id` of `GET /os`). Throws HostError. */
  version(signal: AbortSignal): Promise<string>;
  /** Throws HostError: `locked`, `uninitialized`, `unsupported`, `unreadable` are states of the host. */
  updateStatus(signal: AbortSignal): Promise<UpdateStatus>;
  /** Starts an update command; its end shows in the status. Throws HostError, and StaleDecisionError from `guard`. */
  start(command: UpdateCommand, signal: AbortSignal, guard?: Guard): Promise<void>;
  /**
   * Asks for a reboot. Throws HostError `answer` for a definite refusal and `refused` when the call never arrived; resolves after every
   * other, inconclusive end. Throws StaleDecisionError from `guard`.
   */
  reboot(signal: AbortSignal, guard?: Guard): Promise<void>;
  /** Returns the stored settings; for a setting that is not stored, the value of a new host. Throws HostError. */
  settings(signal: AbortSignal): Promise<UpdaterSettings>;
  /**
   * Stores and applies settings, even if the host has stored the same values; update commands use them about a second later. Throws
   * HostError, after which the settings may be stored or not, and StaleDecisionError from `guard`.
   */
  changeSettings(changes: Partial<UpdaterSettings>, signal: AbortSignal, guard?: Guard): Promise<void>;
  /** Milliseconds for which the machine has been up. */
  uptimeMs(): number;
  /** The kernel's boot ID, which only a reboot changes. */
  bootID(): Promise<string>;
}
