import { OperationError } from '@brupop/shared/api/error-codes';
import { sameVersion } from '@brupop/shared/api/version';
import { shorten } from '@brupop/shared/runtime/errors';
import type { UpdateCommand } from '../limits.ts';
import type { CommandRecord, UpdateStatus } from './host.ts';

/** Returns the version that a prepare wrote, by its own output: the status has only the chosen one. */
function writtenVersion(record: CommandRecord): string | undefined {
  return /^Starting update to (\S+)/.exec(record.stderr)?.[1];
}

/**
 * True when `version` is staged and the latest command is the prepare that wrote it. After any
 * other command (a failed prepare leaves `Staged` with nothing there, a refresh hides the record)
 * this cannot be known.
 */
export function isStaged(status: UpdateStatus, version: string): boolean {
  const { state, staged, latestCommand: latest } = status;
  if (state !== 'Staged' || !sameVersion(staged?.version, version)) return false;
  return latest?.type === 'prepare' && latest.succeeded && sameVersion(writtenVersion(latest), version);
}

export function isActivated(status: UpdateStatus, version: string): boolean {
  return status.state === 'Ready' && sameVersion(status.staged?.version, version) && status.staged?.nextToBoot === true;
}

/** True when a prepare would write `version` by what the latest refresh chose. */
export function isOffered(status: UpdateStatus, version: string): boolean {
  return (status.state === 'Available' || status.state === 'Staged') && sameVersion(status.chosenVersion, version);
}

export function describeStatus(status: UpdateStatus): string {
  const { state, staged, latestCommand: latest } = status;
  const command = latest === undefined ? 'none' : `${latest.type} ${latest.succeeded ? 'succeeded' : 'failed'}`;
  return `state ${state}, staged ${staged?.version ?? 'nothing'}, latest command ${command}`;
}

const FAILED = {
  refresh: 'RefreshFailed',
  prepare: 'PrepareFailed',
  activate: 'ActivateFailed',
  deactivate: 'ActivateFailed',
} as const;

export function commandError(command: UpdateCommand, message: string): OperationError {
  return new OperationError(FAILED[command], `${command}: ${shorten(message, 500)}`);
}

export interface Finished {
  readonly command: UpdateCommand;
  /** Timestamp of the record before the command was started. */
  readonly before: string | undefined;
  /** The first status after it that was not 423, undefined when there is none at all. */
  readonly status: UpdateStatus | undefined;
  /** Version that a refresh must offer, a prepare must write, and an activation must boot next. */
  readonly version?: string | undefined;
  /** Version that the host is locked to: a refresh must not offer another one. */
  readonly lock?: string | undefined;
}

export function judgeCommand({ command, before, status, version, lock }: Finished): OperationError | undefined {
  const record = status?.latestCommand;
  if (status === undefined || record === undefined || record.timestamp === before) {
    return commandError(command, 'ended without a record: its process died');
  }
  if (record.type !== command) return commandError(command, `expected its record, found that of ${record.type}`);
  if (!record.succeeded)
    return commandError(command, `exit status ${record.exitStatus ?? 'unknown'}: ${record.stderr}`);
  if (lock !== undefined) return judgeLock(status, lock);
  return version === undefined ? undefined : EFFECTS[command](status, record, version);
}

/** Only the offer shows whether the host has applied its settings. */
function judgeLock({ chosenVersion }: UpdateStatus, lock: string): OperationError | undefined {
  if (chosenVersion === undefined || sameVersion(chosenVersion, lock)) return undefined;
  const message = `expected the host to offer nothing but ${lock}, to which it is locked, found ${chosenVersion}`;
  return new OperationError('VersionNotOffered', message);
}

type Effect = (status: UpdateStatus, record: CommandRecord, version: string) => OperationError | undefined;

const EFFECTS: Readonly<Record<UpdateCommand, Effect>> = {
  refresh: (status, _record, version) =>
    isOffered(status, version)
      ? undefined
      : new OperationError(
          'VersionNotOffered',
          `expected the host to offer ${version}, found ${status.chosenVersion ?? 'nothing'} (state ${status.state}); see its version lock and update waves`,
        ),
  prepare: (status, record, version) =>
    isStaged(status, version)
      ? undefined
      : new OperationError(
          'WrongVersionStaged',
          `expected prepare to write ${version}, found "${shorten(record.stderr, 200)}" (${describeStatus(status)})`,
        ),
  activate: (status, _record, version) =>
    isActivated(status, version)
      ? undefined
      : commandError('activate', `expected ${version} to boot next, found ${describeStatus(status)}`),
  deactivate: () => undefined,
};
