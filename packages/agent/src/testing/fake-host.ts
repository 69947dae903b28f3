import {
  type CommandRecord,
  type Host,
  HostError,
  type StagedImage,
  type UpdaterSettings,
  type UpdateState,
  type UpdateStatus,
} from '../host/host.ts';
import type { UpdateCommand } from '../limits.ts';

export type HostCall = 'version' | 'updateStatus' | 'settings' | 'configure' | UpdateCommand | 'reboot';

/** How a command ends, instead of well. */
export interface CommandFailure {
  readonly stderr?: string;
  /** The command succeeds, but writes another version, or none. */
  readonly writes?: string;
  /** Its process dies without a record. */
  readonly unrecorded?: boolean;
}

const ALLOWED: Readonly<Record<UpdateCommand, readonly UpdateState[]>> = {
  refresh: ['Idle', 'Available', 'Staged', 'Ready'],
  prepare: ['Available', 'Staged'],
  activate: ['Staged'],
  deactivate: ['Ready'],
};

/** A host in memory for tests. Commands end after `lockedLooks` further looks at the status; a reboot waits for `boot`. */
export class FakeHost implements Host {
  running: string;
  offered: string | undefined;
  boots = 1;
  lockedLooks = 0;
  /** Stored settings, and those with which refreshes run; a change is applied at once unless `applies` is false. */
  stored: UpdaterSettings = { versionLock: 'latest', ignoreWaves: false };
  appliedLock = 'latest';
  applies = true;
  /** Whether `reboot` was called since the latest boot. */
  rebootAsked = false;
  /** Every call but looks. */
  readonly calls: string[] = [];
  #state: UpdateState = 'Idle';
  #chosen: string | undefined;
  #staged: StagedImage | undefined;
  #written: string | undefined;
  #latest: CommandRecord | undefined;
  #initialized = false;
  #ended = 0;
  #locked = 0;
  #end: (() => void) | undefined;
  readonly #errors = new Map<HostCall, HostError[]>();
  readonly #failures = new Map<UpdateCommand, CommandFailure[]>();

  constructor(running: string, offered?: string) {
    this.running = running;
    this.offered = offered;
  }

  /** The next calls of this kind throw these. */
  failCall(call: HostCall, ...errors: HostError[]): void {
    this.#errors.set(call, errors);
  }

  /** How many of those are still to come. */
  failing(call: HostCall): number {
    return this.#errors.get(call)?.length ?? 0;
  }

  /** The next runs of this command end like this. */
  failCommand(command: UpdateCommand, ...failures: CommandFailure[]): void {
    this.#failures.set(command, failures);
  }

  /** Comes up again: with what was activated, or, when it rolls back, with what ran before. */
  boot({ rollsBack = false } = {}): void {
    if (this.#state === 'Ready' && !rollsBack) this.running = this.#written ?? this.running;
    this.boots += 1;
    this.rebootAsked = false;
    this.#initialized = false;
    this.#state = 'Idle';
    this.#chosen = undefined;
    this.#staged = undefined;
    this.#latest = undefined;
    this.#end = undefined;
  }

  /** Runs a command as a person on the host would. */
  async command(command: UpdateCommand): Promise<void> {
    await this.start(command);
    this.#end?.();
    this.#end = undefined;
  }

  async bootID(): Promise<string> {
    return `boot-${this.boots}`;
  }

  async version(_signal: AbortSignal): Promise<string> {
    this.#throwNext('version');
    return this.running;
  }

  async updateStatus(): Promise<UpdateStatus> {
    this.#throwNext('updateStatus');
    if (this.#end !== undefined && this.#locked > 0) {
      this.#locked -= 1;
      throw new HostError('locked', 'GET /updates/status: 423');
    }
    this.#end?.();
    this.#end = undefined;
    if (!this.#initialized) throw new HostError('uninitialized', 'GET /updates/status: 404');
    return { state: this.#state, chosenVersion: this.#chosen, staged: this.#staged, latestCommand: this.#latest };
  }

  async start(command: UpdateCommand): Promise<void> {
    this.calls.push(command);
    this.#throwNext(command);
    if (this.#end !== undefined) throw new HostError('locked', `${command}: 423`);
    this.#initialized = true;
    if (!ALLOWED[command].includes(this.#state)) throw new HostError('answer', `${command}: 409 not allowed`);
    const failure = this.#failures.get(command)?.shift();
    this.#locked = this.lockedLooks;
    this.#end = () => this.#finish(command, failure);
  }

  async settings(): Promise<UpdaterSettings> {
    this.#throwNext('settings');
    return this.stored;
  }

  async changeSettings(changes: Partial<UpdaterSettings>): Promise<void> {
    this.calls.push(`configure ${Object.values(changes).join(' ')}`);
    this.#throwNext('configure');
    this.stored = { ...this.stored, ...changes };
    if (this.applies) this.appliedLock = this.stored.versionLock;
  }

  uptimeMs(): number {
    return 3_600_000;
  }

  async reboot(): Promise<void> {
    this.calls.push('reboot');
    this.#throwNext('reboot');
    this.rebootAsked = true;
  }

  #finish(command: UpdateCommand, failure: CommandFailure = {}): void {
    const { unrecorded = false, stderr, writes } = failure;
    if (unrecorded) return;
    this.#ended += 1;
    const timestamp = `t${this.#ended}`;
    if (stderr !== undefined) {
      this.#latest = { type: command, succeeded: false, timestamp, exitStatus: 1, stderr };
      if (command === 'refresh' && this.#state === 'Available') this.#state = 'Idle';
      return;
    }
    const said = command === 'prepare' ? this.#prepareSays(writes) : '';
    this.#latest = { type: command, succeeded: true, timestamp, exitStatus: 0, stderr: said };
    this.#take(command, writes);
  }

  #prepareSays(writes: string | undefined): string {
    return writes === '' ? 'No update required\n' : `Starting update to ${writes ?? this.#chosen}\n`;
  }

  #take(command: UpdateCommand, writes: string | undefined): void {
    switch (command) {
      case 'refresh':
        this.#refreshed();
        break;
      case 'prepare':
        this.#written = writes ?? this.#chosen;
        this.#setStaged(this.#chosen, false);
        break;
      default:
        this.#setStaged(this.#staged?.version, command === 'activate');
    }
  }

  #refreshed(): void {
    const locked = this.appliedLock.replace(/^v/, '');
    const choice = locked === 'latest' ? this.offered : locked;
    this.#chosen = choice === this.running ? undefined : choice;
    if (this.#state === 'Staged' || this.#state === 'Ready') return;
    this.#state = this.#chosen === undefined ? 'Idle' : 'Available';
  }

  #setStaged(version: string | undefined, nextToBoot: boolean): void {
    this.#staged = { version: version ?? '', nextToBoot };
    this.#state = nextToBoot ? 'Ready' : 'Staged';
  }

  #throwNext(call: HostCall): void {
    const error = this.#errors.get(call)?.shift();
    if (error !== undefined) throw error;
  }
}
