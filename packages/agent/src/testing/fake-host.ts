import type { Host, HostError, UpdaterSettings, UpdateStatus } from '../host/host.ts';
import type { UpdateCommand } from '../limits.ts';
import { type CommandEnd, HostModel, type RunningCommand } from './host-model.ts';

export type HostCall = 'version' | 'updateStatus' | 'settings' | 'configure' | UpdateCommand | 'reboot';

/**
 * A host in memory for tests. A command ends after `lockedLooks` further looks at the status; a
 * reboot waits for `boot`.
 */
export class FakeHost implements Host {
  boots = 1;
  lockedLooks = 0;
  /** Whether a change of the settings is applied at once, or never. */
  applies = true;
  /** Whether `reboot` was called since the latest boot. */
  rebootAsked = false;
  /** Every call that may change the host. */
  readonly calls: string[] = [];
  readonly #model: HostModel;
  #running: RunningCommand | undefined;
  #looks = 0;
  readonly #errors = new Map<HostCall, HostError[]>();
  readonly #ends = new Map<UpdateCommand, CommandEnd[]>();

  constructor(running: string, offered?: string) {
    this.#model = new HostModel(running, () => 0);
    this.#model.publish(offered);
  }

  /** The lock with which commands run. */
  get appliedLock(): string {
    return this.#model.updates.settings.versionLock;
  }

  get stored(): UpdaterSettings {
    return this.#model.settings();
  }

  /** Publishes another newest version, or withdraws all. */
  publish(newest: string | undefined): void {
    this.#model.publish(newest);
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
  failCommand(command: UpdateCommand, ...ends: CommandEnd[]): void {
    this.#ends.set(command, ends);
  }

  /** Boots what was activated, or, when that rolls back, the version that ran before. */
  boot({ rollsBack = false } = {}): void {
    this.#model.faults = { boot: { rollsBack } };
    this.#model.updates.boot();
    this.boots += 1;
    this.rebootAsked = false;
    this.#running = undefined;
  }

  /** Runs a command to its end, as a user on the host does. */
  async command(command: UpdateCommand): Promise<void> {
    await this.start(command);
    this.#finish();
  }

  /** Stores and applies settings, as a user on the host does. */
  setSettings(changes: Partial<UpdaterSettings>): void {
    this.#model.storeSettings(changes);
    this.#model.applySettings();
  }

  async bootID(): Promise<string> {
    return `boot-${this.boots}`;
  }

  async version(_signal: AbortSignal): Promise<string> {
    this.#throwNext('version');
    return this.#model.updates.partitions.running;
  }

  async updateStatus(): Promise<UpdateStatus> {
    this.#throwNext('updateStatus');
    if (this.#looks > 0) this.#looks -= 1;
    else this.#finish();
    return this.#model.status();
  }

  async start(command: UpdateCommand): Promise<void> {
    this.calls.push(command);
    this.#throwNext(command);
    const end = this.#ends.get(command)?.shift();
    this.#running = this.#model.start(command, end);
    this.#looks = this.lockedLooks;
  }

  async settings(): Promise<UpdaterSettings> {
    this.#throwNext('settings');
    return this.stored;
  }

  async changeSettings(changes: Partial<UpdaterSettings>): Promise<void> {
    this.calls.push(`configure ${Object.values(changes).join(' ')}`);
    this.#throwNext('configure');
    this.#model.storeSettings(changes);
    if (this.applies) this.#model.applySettings();
  }

  uptimeMs(): number {
    return 3_600_000;
  }

  async reboot(): Promise<void> {
    this.calls.push('reboot');
    this.#throwNext('reboot');
    this.rebootAsked = true;
  }

  #finish(): void {
    if (this.#running !== undefined) this.#model.finish(this.#running);
    this.#running = undefined;
  }

  #throwNext(call: HostCall): void {
    const error = this.#errors.get(call)?.shift();
    if (error !== undefined) throw error;
  }
}
