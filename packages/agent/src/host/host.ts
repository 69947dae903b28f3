/** The part of the Bottlerocket host API that updates need. */
import * as s from '@brupop/shared/api/schema';
import { type Classified, type Leaves, leavesOf, parseExact, UPDATER_DEFAULTS } from '@brupop/shared/api/settings';
import { sameVersion, version, versionLock } from '@brupop/shared/api/version';
import * as v from 'valibot';
import { readJson } from '../http/exchange.ts';
import { UPDATE_COMMANDS, type UpdateCommand } from '../limits.ts';
import type { Service } from '../settings/classes.ts';

const UPDATE_STATES = ['Idle', 'Available', 'Staged', 'Ready'] as const;
export type UpdateState = (typeof UPDATE_STATES)[number];

const image = s.object({ version });
/**
 * `GET /updates/status`. Absent optionals are null; the latest command is null when the first
 * command since the boot was refused.
 */
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
    staged: staging && { version: staging.image.version, nextToBoot: staging.next_to_boot },
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

/** True when a refresh of another actor may hide the record of the prepare that wrote `version`. */
export function isHidden(status: UpdateStatus, version: string): boolean {
  const { state, staged, latestCommand } = status;
  const isThere = state === 'Staged' && sameVersion(staged?.version, version);
  return isThere && latestCommand?.type === 'refresh' && isOffered(status, version);
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

/** `GET /os`. */
const os = s.object({ version_id: version });

export type HostErrorKind =
  /** The socket is missing or has no listener: the API server is down, or the mount is stale. */
  | 'refused'
  /** No complete answer in time. The host may have carried out the request. */
  | 'unanswered'
  /** 423: an update command is running. */
  | 'locked'
  /** The status does not exist: no update command has run since the boot. */
  | 'uninitialized'
  /** No in-place updates: the dispatcher or the route is missing. */
  | 'unsupported'
  /** The update status or the partition table cannot be read; no command repairs that. */
  | 'unreadable'
  /** 404: no setting is stored. */
  | 'unset'
  /** Any other answer. */
  | 'answer';

export class HostError extends Error {
  override readonly name = 'HostError';
  readonly kind: HostErrorKind;
  /** Since when the host has not answered, monotonic milliseconds. Absent: since this call. */
  readonly sinceMs: number | undefined;
  /** Of the answer; absent: there was none, or it could not be read. */
  readonly status: number | undefined;

  constructor(
    kind: HostErrorKind,
    message: string,
    options: ErrorOptions & { readonly sinceMs?: number; readonly status?: number } = {},
  ) {
    super(message, options);
    this.kind = kind;
    this.sinceMs = options.sinceMs;
    this.status = options.status;
  }
}

/** It has to be decided again: the observation is too old, or another spec has arrived. */
export class StaleDecisionError extends Error {
  override readonly name = 'StaleDecisionError';
}

/** Called right before a call is sent. Throws StaleDecisionError to send nothing. */
export type Guard = () => void;

function read<S extends s.Schema>(schema: S, text: string, call: string, kind: HostErrorKind): s.Infer<S> {
  return readJson(schema, text, 'body', (message, options) => new HostError(kind, `${call}: ${message}`, options));
}

/** Throws HostError `unreadable`, which names the field. */
export function parseUpdateStatus(text: string): UpdateStatus {
  return read(updateStatus, text, 'GET /updates/status', 'unreadable');
}

/** Throws HostError `answer`. */
export function parseVersion(text: string): string {
  return read(os, text, 'GET /os', 'answer').version_id;
}

/** `GET /settings`; settings that are not stored are absent. Those of the updater are checked, others may be anything. */
const settings = s.object({
  updates: v.exactOptional(
    s.object({ 'version-lock': v.exactOptional(versionLock), 'ignore-waves': v.exactOptional(s.flag()) }),
  ),
});

/** The updater needs it, so each host should have it. It is read with all others: a host in lockdown answers that it has none. */
export const ALWAYS_SET = 'settings.updates.metadata-base-url';

/** The settings named by `keys` in an answer of `GET /settings`. Throws HostError `answer`. */
export function parseSettings(text: string, keys: readonly string[]): Leaves {
  read(settings, text, 'GET /settings', 'answer');
  const stored = leavesOf(parseExact(text));
  return new Map(
    keys.flatMap((key) => {
      const value = stored.get(key) ?? UPDATER_DEFAULTS.get(key);
      return value === undefined ? [] : [[key, value] as const];
    }),
  );
}

/** The settings in an answer of `GET /tx`. Throws HostError `answer`. */
export function parsePending(text: string): Leaves {
  read(s.object({}), text, 'GET /tx', 'answer');
  return leavesOf(parseExact(text));
}

const MAX_ITEMS = 100;

/** Unlike valibot's own it refuses a list. */
function records<S extends s.Schema>(item: S) {
  return v.pipe(v.unknown(), v.check(s.isFields, 'an object'), v.record(v.string(), item));
}

/** `GET /metadata/affected-services`; keys without metadata are absent. */
const affectedServices = records(s.list(v.string('the name of a service'), MAX_ITEMS));

/** The names of the services by the key of the setting. Throws HostError `answer`. */
export function parseAffectedServices(text: string): ReadonlyMap<string, readonly string[]> {
  return new Map(Object.entries(read(affectedServices, text, 'GET /metadata/affected-services', 'answer')));
}

/** `GET /services`: how services restart. */
const services = records(s.object({ 'restart-commands': s.list(v.string('a command'), MAX_ITEMS) }));

/** Throws HostError `answer`. */
export function parseServices(text: string): readonly Service[] {
  const found = Object.entries(read(services, text, 'GET /services', 'answer'));
  return found.map(([name, { 'restart-commands': restartCommands }]) => ({ name, restartCommands }));
}

/** Each call throws HostError, and StaleDecisionError when its guard does. */
export interface Host {
  /** Returns the running version. */
  version(signal: AbortSignal): Promise<string>;
  /** The errors `locked`, `uninitialized`, `unsupported` and `unreadable` are states of the host. */
  updateStatus(signal: AbortSignal): Promise<UpdateStatus>;
  /** Starts an update command; its end shows in the status. */
  start(command: UpdateCommand, signal: AbortSignal, guard?: Guard): Promise<void>;
  /** Throws `answer` for a refusal, `refused` when the call never arrived; resolves after any other end. */
  reboot(signal: AbortSignal, guard?: Guard): Promise<void>;
  /** Returns the stored settings of these keys; those of the updater have their defaults. */
  settings(keys: readonly string[], signal: AbortSignal): Promise<Leaves>;
  /** Returns what each change would disrupt, without storing anything. */
  classify(changes: Leaves, signal: AbortSignal): Promise<ReadonlyMap<string, Classified>>;
  /** Stores and applies settings, also unchanged ones; after an error they may be stored or not. */
  changeSettings(changes: Leaves, signal: AbortSignal, guard?: Guard): Promise<void>;
  uptimeMs(): number;
  /** The kernel's boot ID, which only a reboot changes. */
  bootID(): Promise<string>;
}
