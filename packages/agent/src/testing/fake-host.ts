import { type Pin, updaterLeaves, type UpdaterSettings } from '@brupop/shared/testing/settings';
import type { Guard, Host, HostError, UpdateStatus } from '../host/host.ts';
import type { SettingClass, Classified, Leaves } from '@brupop/shared/api/settings';
import type { UpdateCommand } from '../limits.ts';
import { type CommandEnd, HostModel, type RunningCommand } from './host-model.ts';

export type HostCall = 'version' | 'updateStatus' | 'settings' | 'classify' | 'configure' | UpdateCommand | 'reboot';

/**
 * A host in memory for tests. A command ends after `lockedLooks` further looks at the status; a
 * reboot waits for `boot`.
 */
export class FakeHost implements Host {
  boots = 1;
  lockedLooks = 0;
  /** Before each answer. */
  delay: () => Promise<void> = async () => undefined;
  /** Whether a change of the settings is applied at once, or never. */
  applies = true;
  /** Whether `reboot` was called since the latest boot. */
  rebootAsked = false;
  /** What the host makes of a value. */
  normalize: (value: string) => string = (value) => value;
  /** What a change of a setting disrupts. */
  classOf: (key: string) => SettingClass = () => 'Live';
  #reads = 0;
  #onSettings: (read: number) => void = () => undefined;
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
    return this.#model.updaterSettings;
  }

  /** The stored value of a setting. */
  valueOf(key: string): string | undefined {
    return this.#model.settings([key]).get(key);
  }

  /** The value with which the services of the host run. */
  appliedOf(key: string): string | undefined {
    return this.#model.appliedOf(key);
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

  /** Whether the update repository is out of reach. */
  set repositoryGone(repositoryGone: boolean) {
    this.#model.faults = { repositoryGone };
  }

  /** Boots what was activated, or, when that rolls back, the version that ran before. */
  boot({ rollsBack = false } = {}): void {
    this.#model.faults = { boot: { rollsBack } };
    this.#model.updates.boot();
    this.#model.applySettings();
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
  setSettings(changes: Pin | Leaves): void {
    this.#model.storeSettings(changes instanceof Map ? changes : updaterLeaves(changes as Pin));
    this.#model.applySettings();
  }

  async bootID(): Promise<string> {
    return `boot-${this.boots}`;
  }

  async version(_signal: AbortSignal): Promise<string> {
    await this.delay();
    this.#throwNext('version');
    return this.#model.updates.partitions.running;
  }

  async updateStatus(): Promise<UpdateStatus> {
    await this.delay();
    this.#throwNext('updateStatus');
    if (this.#looks > 0) this.#looks -= 1;
    else this.#finish();
    return this.#model.status();
  }

  async start(command: UpdateCommand, _signal?: AbortSignal, guard?: Guard): Promise<void> {
    guard?.();
    this.calls.push(command);
    await this.delay();
    this.#throwNext(command);
    const end = this.#ends.get(command)?.shift();
    this.#running = this.#model.start(command, end);
    this.#looks = this.lockedLooks;
  }

  /** Called before each read of the settings, with its number from now on. */
  set onSettings(called: (read: number) => void) {
    this.#reads = 0;
    this.#onSettings = called;
  }

  async settings(keys: readonly string[]): Promise<Leaves> {
    this.#reads += 1;
    this.#onSettings(this.#reads);
    await this.delay();
    this.#throwNext('settings');
    return this.#model.settings(keys);
  }

  async classify(changes: Leaves): Promise<ReadonlyMap<string, Classified>> {
    await this.delay();
    this.#throwNext('classify');
    return new Map([...changes.keys()].map((key) => [key, { class: this.classOf(key), reason: `${key} is known` }]));
  }

  async changeSettings(changes: Leaves, _signal?: AbortSignal, guard?: Guard): Promise<void> {
    guard?.();
    await this.delay();
    this.calls.push(`configure ${[...changes.values()].map((value) => String(JSON.parse(value))).join(' ')}`);
    this.#throwNext('configure');
    this.#model.storeSettings(new Map([...changes].map(([key, value]) => [key, this.normalize(value)])));
    if (this.applies) this.#model.applySettings(changes.keys());
  }

  uptimeMs(): number {
    return 3_600_000;
  }

  async reboot(_signal?: AbortSignal, guard?: Guard): Promise<void> {
    guard?.();
    this.calls.push('reboot');
    await this.delay();
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
