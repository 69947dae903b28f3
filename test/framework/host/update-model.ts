import type { CommandFault, FaultValues } from './faults.ts';
import { PartitionTable } from './partitions.ts';
import { type CommandType, formatTimestamp, type Image, parseStatus, type UpdateStatus } from './status-file.ts';
import { chooseVersion, offeredVersions, type PublishedVersion, type UpdateSettings } from './versions.ts';

/** An HTTP answer sent at once instead of running the command. */
export interface Refusal {
  status: number;
  text: string;
}

/** A command under way. */
export interface Job {
  readonly command: CommandType;
  readonly fault: CommandFault;
  /** The version that a prepare writes, as the update program chooses at its start. */
  readonly writes: string | undefined;
}

/** What the model depends on. */
export interface ModelOptions {
  version: string;
  variant: string;
  arch: string;
  repository: readonly PublishedVersion[];
  /** Milliseconds since the epoch. */
  now: () => number;
  /** The faults in force; read at every step. */
  faults: () => Readonly<FaultValues>;
}

const NOT_FOUND = 'No such file or directory (os error 2)';
const DISPATCHER_FAILED: Refusal = { status: 500, text: 'Update dispatcher failed' };
const ALLOWED: Record<CommandType, readonly string[]> = {
  refresh: ['Idle', 'Available', 'Staged', 'Ready'],
  prepare: ['Available', 'Staged'],
  activate: ['Staged'],
  deactivate: ['Ready'],
};
const NO_REPOSITORY =
  "Metadata error: Failed to fetch 'http://localhost/metadata/timestamp.json': error sending request for url\n";
const NOT_VALID =
  'Could not mark inactive partition for boot: Inactive partition /dev/nvme0n1 has not been marked valid for upgrade\n';

/**
 * The update part of a host: its status file (lost at every reboot), its lock, its partition sets
 * and what each command does to them. It keeps no time of its own: `dispatch` starts a command, the
 * owner of the model calls `finish` later.
 */
export class UpdateModel {
  readonly partitions: PartitionTable;
  readonly variant: string;
  readonly arch: string;
  repository: readonly PublishedVersion[];
  /** No published maximum when undefined. */
  maxVersion: string | undefined;
  /** The settings as the update programs read them. */
  settings: UpdateSettings = { versionLock: 'latest', ignoreWaves: false, seed: 512 };
  /** The text of the status file; undefined before the first command since boot. */
  statusFile: string | undefined;
  /** How many processes other than the model's own command hold the update lock. */
  lockedByOthers = 0;
  #running: Job | undefined;
  #orphans = new Set<Job>();
  #lastTimestamp = 0n;
  readonly #options: ModelOptions;

  constructor(options: ModelOptions) {
    this.#options = options;
    this.variant = options.variant;
    this.arch = options.arch;
    this.repository = options.repository;
    this.partitions = new PartitionTable(options.version);
  }

  get locked(): boolean {
    return this.#running !== undefined || this.lockedByOthers > 0;
  }

  /** `GET /updates/status`. */
  readStatus(): UpdateStatus | Refusal {
    const faults = this.#options.faults();
    if (faults.lockFolderGone === true) return { status: 500, text: `Unable to open update lock file: ${NOT_FOUND}` };
    if (this.locked) {
      const reason = 'Resource temporarily unavailable (os error 11)';
      return { status: 423, text: `Unable to obtain shared lock for reading update status: ${reason}` };
    }
    if (this.statusFile === undefined) {
      return { status: 404, text: 'Update status is uninitialized, refresh-updates to initialize it' };
    }
    return parseStatus(this.statusFile) ?? DISPATCHER_FAILED;
  }

  /** `POST /actions/…`: a rejection, or the command started; the lock is held until `finish`. */
  dispatch(command: CommandType, fault: CommandFault = {}): Job | Refusal {
    const refusal = this.#dispatcherTrouble() ?? this.#refusal(command);
    if (refusal !== undefined) return refusal;
    const job: Job = { command, fault, writes: command === 'prepare' ? this.#startPrepare(fault) : undefined };
    this.#running = job;
    return job;
  }

  /**
   * Ends a command: what the update program did, then the record, then the lock. A command that was
   * killed does nothing.
   */
  finish(job: Job): void {
    const status = this.statusFile === undefined ? undefined : parseStatus(this.statusFile);
    if (this.#orphans.delete(job)) this.#work(job);
    if (job !== this.#running) return;
    this.#running = undefined;
    if (this.#options.faults().updogMissing === true || status === undefined) return;
    const { exit, stderr } = this.#work(job);
    if (exit === 0) this.#succeed(job, status);
    else if (job.command === 'refresh' && status.update_state === 'Available') status.update_state = 'Idle';
    status.most_recent_command = {
      cmd_type: job.command,
      cmd_status: exit === 0 ? 'Success' : 'Failed',
      timestamp: this.#timestamp(),
      exit_status: exit,
      stderr,
    };
    this.statusFile = JSON.stringify(status);
  }

  /**
   * The dispatcher's process dies: the lock is free, nothing is recorded, the update program
   * continues to write.
   */
  killDispatcher(): void {
    if (this.#running !== undefined) this.#orphans.add(this.#running);
    this.#running = undefined;
  }

  /** The dispatcher and the update program die where they are. */
  killCommands(): void {
    this.#running = undefined;
    this.#orphans.clear();
  }

  /**
   * Power off, then boot; returns how many boot attempts it took. Everything outside the disk is
   * lost.
   */
  boot(): number {
    this.killCommands();
    this.lockedByOthers = 0;
    this.statusFile = undefined;
    const fault = this.#options.faults().boot ?? {};
    const concerns = (version: string | undefined): boolean => fault.version === undefined || fault.version === version;
    const attempts = this.partitions.boot((version) =>
      fault.rollsBack === true && concerns(version) ? 'fails' : 'boots',
    );
    const marked = fault.neverMarkedSuccessful !== true || !concerns(this.partitions.running);
    if (marked) this.partitions.markSuccessful();
    return attempts;
  }

  #dispatcherTrouble(): Refusal | undefined {
    const faults = this.#options.faults();
    if (faults.noInPlaceUpdates === true) {
      return { status: 500, text: `Unable to start the update dispatcher: ${NOT_FOUND} ` };
    }
    if (faults.lockFolderGone === true) return DISPATCHER_FAILED;
    if (this.locked) return { status: 423, text: 'Update lock held' };
    if (this.statusFile === undefined && faults.unreadablePartitionTable === true) return DISPATCHER_FAILED;
    return undefined;
  }

  #refusal(command: CommandType): Refusal | undefined {
    this.statusFile ??= this.#firstStatus();
    const status = parseStatus(this.statusFile);
    if (status === undefined) return DISPATCHER_FAILED;
    if (!ALLOWED[command].includes(status.update_state)) {
      return { status: 409, text: 'Update action not allowed according to update state' };
    }
    if (command === 'prepare' && status.chosen_update === null) {
      return { status: 404, text: 'Previously chosen Update no longer exists' };
    }
    if ((command === 'activate' || command === 'deactivate') && status.staging_partition === null) {
      return { status: 404, text: 'No update image applied to staging partition' };
    }
    return undefined;
  }

  #firstStatus(): string {
    const next_to_boot = this.partitions.activeIsNextToBoot();
    const status: UpdateStatus = {
      update_state: 'Idle',
      available_updates: [],
      chosen_update: null,
      active_partition: { image: this.#image(this.partitions.running), next_to_boot },
      staging_partition: null,
      most_recent_command: null,
    };
    return JSON.stringify(status);
  }

  #startPrepare(fault: CommandFault): string | undefined {
    const { updogMissing, repositoryGone } = this.#options.faults();
    if (updogMissing === true || repositoryGone === true) return undefined;
    const version = fault.writes === undefined ? this.#choose() : fault.writes || undefined;
    const fails = (fault.exit ?? 0) !== 0 || fault.signal !== undefined;
    const stopsEarly = fails && fault.failAt === 'migrations';
    if (version !== undefined && !stopsEarly) this.partitions.clearInactive();
    return version;
  }

  #work(job: Job): { exit: number; stderr: string } {
    if (this.#options.faults().repositoryGone === true) return { exit: 1, stderr: NO_REPOSITORY };
    const exit = job.fault.exit ?? job.fault.signal ?? 0;
    const stderr = job.fault.stderr ?? '';
    if (job.command === 'prepare') return this.#workPrepare(job, exit, stderr);
    if (exit !== 0) return { exit, stderr };
    if (job.command === 'activate' && !this.partitions.upgradeToInactive()) return { exit: 1, stderr: NOT_VALID };
    if (job.command === 'deactivate') this.partitions.cancelUpgrade();
    return { exit, stderr };
  }

  #workPrepare(job: Job, exit: number, stderr: string): { exit: number; stderr: string } {
    if (job.writes === undefined) return { exit, stderr: `No update required\n${stderr}` };
    if (exit === 0) this.partitions.markInactiveValid(job.writes);
    return { exit, stderr: `Starting update to ${job.writes}\n${stderr}` };
  }

  #succeed(job: Job, status: UpdateStatus): void {
    if (job.command === 'refresh') return this.#refreshed(job, status);
    if (job.command === 'prepare') {
      status.update_state = 'Staged';
      status.staging_partition = status.chosen_update && { image: status.chosen_update, next_to_boot: false };
      return undefined;
    }
    const activated = job.command === 'activate';
    status.update_state = activated ? 'Ready' : 'Staged';
    if (status.active_partition !== null) status.active_partition.next_to_boot = !activated;
    if (status.staging_partition !== null) status.staging_partition.next_to_boot = activated;
    return undefined;
  }

  #refreshed(job: Job, status: UpdateStatus): void {
    const offered = job.fault.stdout === undefined ? this.#offered() : parseList(job.fault.stdout);
    if (offered === undefined) return;
    status.available_updates = offered;
    if (this.#options.faults().dispatcherConfig !== undefined) return;
    const version = this.#choose(offered);
    status.chosen_update = version === undefined ? null : this.#image(version);
    if (status.update_state === 'Staged' || status.update_state === 'Ready') return;
    status.update_state = version === undefined ? 'Idle' : 'Available';
  }

  #offered(): string[] {
    return offeredVersions(this.repository, this.maxVersion, this.settings, this.#options.now());
  }

  #choose(offered: readonly string[] = this.#offered()): string | undefined {
    return chooseVersion(offered, this.settings.versionLock, this.partitions.running, this.maxVersion);
  }

  #image(version: string): Image {
    return { arch: this.arch, version, variant: this.variant };
  }

  /** Unique, because agents distinguish records by it. */
  #timestamp(): string {
    const now = BigInt(Math.floor(this.#options.now())) * 1_000_000n + (process.hrtime.bigint() % 1_000_000n);
    this.#lastTimestamp = now > this.#lastTimestamp ? now : this.#lastTimestamp + 1n;
    return formatTimestamp(this.#lastTimestamp);
  }
}

function parseList(text: string): string[] | undefined {
  try {
    const list: unknown = JSON.parse(text);
    return Array.isArray(list) ? list.map(String) : undefined;
  } catch {
    return undefined;
  }
}
