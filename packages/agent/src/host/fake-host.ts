import type { CommandRecord, Host, StagedImage, UpdateCommand, UpdateState, UpdateStatus } from './host.ts';
import { HostError } from './host.ts';

export type HostCall = 'version' | 'updateStatus' | UpdateCommand | 'reboot';

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
    this.#chosen = this.offered;
    if (this.#state === 'Staged' || this.#state === 'Ready') return;
    this.#state = this.offered === undefined ? 'Idle' : 'Available';
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
