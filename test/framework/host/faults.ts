import type { CommandType } from './status-file.ts';

/** How the next runs of an update command go; without `exit` and `signal` they succeed. */
export interface CommandFault {
  /** Exit code of the update program. */
  exit?: number;
  /** Number of the signal that kills the update program. */
  signal?: number;
  stderr?: string;
  /** What the update program prints instead of its list of updates (refresh only). */
  stdout?: string;
  /** How long the command runs, in milliseconds, instead of the host's duration. */
  delayMs?: number;
  /** The command runs on until this resolves. */
  until?: Promise<void>;
  /**
   * Where a prepare fails: before or after the inactive set was cleared; default `images`, which is
   * after.
   */
  failAt?: 'migrations' | 'images';
  /**
   * The version that a prepare writes instead of its own choice: published since the refresh.
   * Empty: withdrawn since.
   */
  writes?: string;
  /** How many runs are concerned; default all until the fault is cleared. */
  times?: number;
}

/** How the next reboot calls go. */
export interface RebootFault {
  /** `systemctl` fails with this exit code: 500, and no reboot. */
  exit?: number;
  /** `systemctl` dies by this signal: 500, and no reboot. */
  signal?: number;
  stderr?: string;
  /** How long the call takes, in milliseconds, while every other request waits. */
  delayMs?: number;
  /**
   * `systemctl` is still running when the shutdown kills it: 500 with exit code 15, and the host
   * reboots nevertheless.
   */
  lingerMs?: number;
  /** The connection breaks without an answer, and the host reboots. */
  answerLost?: boolean;
  /** 204, but the host never goes down. */
  ignored?: boolean;
  /** The host goes down and stays down until `powerOn()`. */
  neverReturns?: boolean;
  times?: number;
}

/** How boots of a set that never booted successfully go. */
export interface BootFault {
  /** The boot fails and the one after it falls back to the other set. */
  rollsBack?: boolean;
  /** The set boots but is never marked successful, so the reboot after it falls back. */
  neverMarkedSuccessful?: boolean;
  /** Only boots of this version. */
  version?: string;
}

/**
 * How the server answers every request, or only those for `path`. Instead of serving it: `hang`
 * (never answers), `garbage` (200, but no JSON), `error` (500). Served, but the answer is late
 * (`slow`), breaks off inside the body (`truncated`) or never comes because the connection closes
 * (`empty`).
 */
export interface ApiFault {
  answer: 'hang' | 'garbage' | 'truncated' | 'empty' | 'error' | 'slow';
  path?: string;
  /** Milliseconds before the answer, with `slow`. */
  delayMs?: number;
  times?: number;
}

/** How the next applies of settings go, which are committed in any case. */
export interface ApplyFault {
  /** The applier cannot be started: 500. */
  exit?: number;
  /** It takes this time, in milliseconds, instead of the host's duration. */
  delayMs?: number;
  /** It fails after the answer, which no answer shows: nothing is applied before the next boot. */
  fails?: boolean;
  times?: number;
}

/** All faults of a host. */
export interface FaultValues {
  refresh?: CommandFault;
  prepare?: CommandFault;
  activate?: CommandFault;
  deactivate?: CommandFault;
  reboot?: RebootFault;
  boot?: BootFault;
  api?: ApiFault;
  settings?: ApplyFault;
  /** A host that is too old for the settings routes: 404 with an empty body. */
  noSettings?: boolean;
  /** The data store is not there, as in lockdown: settings read by their keys are empty, and none is taken. */
  datastoreMissing?: boolean;
  /** No socket file: ENOENT. */
  socketGone?: boolean;
  /** A socket file without a listener: ECONNREFUSED. */
  socketStale?: boolean;
  /** A variant without the update programs. */
  noInPlaceUpdates?: boolean;
  /** The update program cannot be started: commands end without a record. */
  updogMissing?: boolean;
  /** The update repository is out of reach, which each command of the update program loads before anything else. */
  repositoryGone?: boolean;
  /** The dispatcher's configuration file is missing, or its lock is unusable. */
  dispatcherConfig?: 'missing' | 'unusable';
  unreadablePartitionTable?: boolean;
  lockFolderGone?: boolean;
  systemctlMissing?: boolean;
  /** `VERSION_ID` of the release file; null when the line is missing. */
  osReleaseVersion?: string | null;
}

type Limited = CommandType | 'reboot' | 'api' | 'settings';

/**
 * The faults of one host. Values, not scripts: a fault holds until it is set to undefined, cleared
 * or used up.
 */
export class Faults {
  #values: FaultValues = {};
  readonly #apply: () => Promise<void>;

  /** `apply` brings the host's socket in line with the values. */
  constructor(apply: () => Promise<void>) {
    this.#apply = apply;
  }

  get values(): Readonly<FaultValues> {
    return this.#values;
  }

  /** Replaces the faults named, leaves the others; resolves when they are in effect. */
  async set(values: { [K in keyof FaultValues]?: FaultValues[K] | undefined }): Promise<void> {
    const merged: Record<string, unknown> = { ...this.#values, ...values };
    this.#values = Object.fromEntries(Object.entries(merged).filter(([, value]) => value !== undefined));
    await this.#apply();
  }

  /** Clears all faults. */
  async clear(): Promise<void> {
    this.#values = {};
    await this.#apply();
  }

  /** The fault for one use, counting down its `times`. */
  take<K extends Limited>(kind: K): FaultValues[K] | undefined {
    const fault = this.#values[kind];
    if (fault?.times === undefined) return fault;
    if (fault.times <= 0) return undefined;
    this.#values = { ...this.#values, [kind]: { ...fault, times: fault.times - 1 } };
    return fault;
  }
}
