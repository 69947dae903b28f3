/** The Bottlerocket host API as far as updates need it. */
import type { UpdateCommand } from '../limits.ts';

export const UPDATE_STATES = ['Idle', 'Available', 'Staged', 'Ready'] as const;
export type UpdateState = (typeof UPDATE_STATES)[number];

/** The record of the host's latest finished update command. */
export interface CommandRecord {
  readonly type: UpdateCommand;
  readonly succeeded: boolean;
  /** When it ended. Equal as text or not: it has no fixed number of fraction digits. */
  readonly timestamp: string;
  readonly exitStatus: number | undefined;
  readonly stderr: string;
}

/** The inactive partition set. */
export interface StagedImage {
  readonly version: string;
  readonly nextToBoot: boolean;
}

/** `GET /updates/status`, validated. */
export interface UpdateStatus {
  readonly state: UpdateState;
  /** What the latest good refresh chose; kept when a refresh fails. */
  readonly chosenVersion: string | undefined;
  readonly staged: StagedImage | undefined;
  readonly latestCommand: CommandRecord | undefined;
}

/** The settings of the host's updater that an operator sets, by their names below `settings.updates`. */
export interface UpdaterSettings {
  /** `version-lock`: `latest`, or the one version that the host offers; as it was written, so perhaps with a leading `v`. */
  readonly versionLock: string;
  /** `ignore-waves` */
  readonly ignoreWaves: boolean;
}

export type HostErrorKind =
  /** Nobody listens on the socket, or it does not exist: the API server is down, or the mount is stale. */
  | 'refused'
  /** No answer, or a broken one, in time. The request may have been carried out. */
  | 'silent'
  /** 423: an update command is running. */
  | 'locked'
  /** The status does not exist: no update command has run since the boot. */
  | 'uninitialized'
  /** No in-place updates on this host: the dispatcher or the route is not there. */
  | 'unsupported'
  /** The update status or the partition table cannot be read; no command heals that. */
  | 'unreadable'
  /** 404: no setting is stored. */
  | 'unset'
  /** Any other answer. */
  | 'answer';

/** A call of the host API that did not succeed. The message names the call and what came back. */
export class HostError extends Error {
  override readonly name = 'HostError';
  readonly kind: HostErrorKind;

  constructor(kind: HostErrorKind, message: string, options?: ErrorOptions) {
    super(message, options);
    this.kind = kind;
  }
}

/** A call was not made: what it was decided on was seen too long ago. */
export class StaleDecisionError extends Error {
  override readonly name = 'StaleDecisionError';
}

/** Called right before the bytes of a call go out. Throws StaleDecisionError when it must not be made any more. */
export type Guard = () => void;

export interface Host {
  /** The running version (`version_id` of `GET /os`). Throws HostError. */
  version(signal: AbortSignal): Promise<string>;
  /** Throws HostError: `locked`, `uninitialized`, `unsupported`, `unreadable` are states of the host. */
  updateStatus(signal: AbortSignal): Promise<UpdateStatus>;
  /** Starts an update command; its end shows in the status. Throws HostError, and StaleDecisionError from `guard`. */
  start(command: UpdateCommand, signal: AbortSignal, guard?: Guard): Promise<void>;
  /** Asks for a reboot. Throws HostError `answer` for a definite refusal, `refused` when the call never arrived; every other end is inconclusive and resolves. Throws StaleDecisionError from `guard`. */
  reboot(signal: AbortSignal, guard?: Guard): Promise<void>;
  /** Settings as they are stored; what is not stored is what a new host has. Throws HostError. */
  settings(signal: AbortSignal): Promise<UpdaterSettings>;
  /**
   * Stores settings, each of them also when it is stored already, and has them applied; the next update commands see them about a second later.
   * Throws HostError, after which they may be stored all the same, and StaleDecisionError from `guard`.
   */
  changeSettings(changes: Partial<UpdaterSettings>, signal: AbortSignal, guard?: Guard): Promise<void>;
  /** Milliseconds for which the machine has been up. */
  uptimeMs(): number;
  /** The kernel's boot ID, which only a reboot changes. */
  bootID(): Promise<string>;
}
