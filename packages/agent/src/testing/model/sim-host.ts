/** A host on the clock of a test: the pure model of test/framework/host, which the world reboots and disconnects. */
import type { Classified, Leaves, SettingClass } from '@brupop/shared/api/settings';
import type { Clock } from '@brupop/shared/runtime/clock';
import { chooseVersion, offeredVersions } from '../../../../../test/framework/host/versions.ts';
import { type Pin, updaterLeaves, type UpdaterSettings } from '@brupop/shared/testing/settings';
import { HostError, type UpdateStatus } from '../../host/host.ts';
import type { UpdateCommand } from '../../limits.ts';
import { type CommandEnd, HostModel, type RunningCommand } from '../host-model.ts';

/** How the next run of a command ends, instead of well. */
export const COMMAND_ENDS = {
  fails: { exit: 1, stderr: 'it failed' },
  dies: 'dies',
  'writes nothing': { writes: '' },
  'writes another': { writes: '9.9.9' },
} as const satisfies Record<string, CommandEnd>;
export type CommandEndName = keyof typeof COMMAND_ENDS;

const DURATIONS: Readonly<Record<UpdateCommand, number>> = {
  refresh: 1_000,
  prepare: 5_000,
  activate: 500,
  deactivate: 500,
};
/** From storing settings until commands use them. */
const APPLY_MS = 1_000;

export class SimHost {
  boots = 1;
  up = true;
  /** It has accepted a reboot call of this boot. */
  rebootComes = false;
  /** Its API has ended, the rest is about to. */
  stopping = false;
  nextEnd: CommandEndName | undefined;
  /** The next boot of an activated set fails, and the boot after it falls back. */
  rollsBack = false;
  /** Its socket refuses connections until then (monotonic milliseconds). */
  unavailableUntil = 0;
  /** Another process holds the update lock until then. */
  lockedUntil = 0;
  /** The update repository is out of reach until then. */
  repositoryGoneUntil = 0;
  /** Its settings can neither be read nor changed until then. */
  settingsBrokenUntil = 0;
  /** The next change of the settings is stored, but not applied, and the call fails. */
  applyFails = false;
  /** What a change of a setting disrupts. */
  classOf: (key: string) => SettingClass = () => 'Live';
  /** A value that it takes for no setting. */
  rejected: string | undefined;
  #offered: string;
  #running: (RunningCommand & { readonly endsAt: number }) | undefined;
  #appliesAt: number | undefined;
  #toApply: readonly string[] = [];
  readonly #model: HostModel;
  readonly #clock: Clock;

  constructor(clock: Clock, versions: { readonly active: string; readonly offered: string }) {
    this.#clock = clock;
    this.#model = new HostModel(versions.active, () => clock.now());
    this.#offered = versions.offered;
    this.publish(versions.offered);
  }

  /** The running version. */
  get active(): string {
    return this.#model.updates.partitions.running;
  }

  /** The version in the other partition set, if its image is complete. */
  get inactive(): string | undefined {
    return this.#model.updates.partitions.inactive.version;
  }

  /** The other set boots next: on disk, so any reboot boots it. */
  get armed(): boolean {
    return !this.#model.updates.partitions.activeIsNextToBoot();
  }

  /** The newest published version. */
  get offered(): string {
    return this.#offered;
  }

  publish(newest: string): void {
    this.#offered = newest;
    this.#model.publish(newest);
  }

  /** What a refresh with the stored settings would choose. */
  get choice(): string | undefined {
    const { versionLock, ignoreWaves } = this.stored;
    const { repository } = this.#model.updates;
    const offered = offeredVersions(repository, undefined, { versionLock, ignoreWaves, seed: 0 }, this.#clock.now());
    return chooseVersion(offered, versionLock, this.active, undefined);
  }

  get stored(): UpdaterSettings {
    return this.#model.updaterSettings;
  }

  valueOf(key: string): string | undefined {
    return this.#model.settings([key]).get(key);
  }

  /** The value with which its services run. */
  appliedOf(key: string): string | undefined {
    this.#settle();
    return this.#model.appliedOf(key);
  }

  readSettings(keys: readonly string[]): Leaves {
    this.#requireSettings();
    return this.#model.settings(keys);
  }

  classify(changes: Leaves): ReadonlyMap<string, Classified> {
    this.#requireSettings();
    return new Map([...changes.keys()].map((key) => [key, { class: this.classOf(key), reason: `${key} is known` }]));
  }

  changeSettings(changes: Leaves): void {
    this.#requireSettings();
    if ([...changes.values()].some((value) => value === this.rejected))
      throw new HostError('answer', 'PATCH /settings: 400 it is rejected');
    const { applyFails } = this;
    this.applyFails = false;
    this.#store(changes, !applyFails);
    if (applyFails)
      throw new HostError('answer', 'POST /tx/commit_and_apply: 500 Config applier was unable to fork child');
  }

  /** A user on the host stores and applies settings. */
  setSettings(changes: Pin | Leaves): void {
    this.#store(changes instanceof Map ? changes : updaterLeaves(changes as Pin), true);
  }

  /** Of the machine that all of this runs on; it never reboots. */
  uptimeMs(): number {
    return this.#clock.monotonic() + 3_600_000;
  }

  get bootID(): string {
    return `boot-${this.boots}`;
  }

  version(): string {
    this.#requireAPI();
    return this.active;
  }

  updateStatus(): UpdateStatus {
    this.#requireAPI();
    this.#settle();
    return this.#model.status();
  }

  /** Another client of the host runs a command. */
  runForOthers(command: UpdateCommand): void {
    try {
      this.start(command);
    } catch (error) {
      if (!(error instanceof HostError)) throw error;
    }
  }

  loseRepository(ms: number): void {
    this.repositoryGoneUntil = this.#clock.monotonic() + ms;
  }

  withdraw(version: string): void {
    this.#model.updates.repository = this.#model.updates.repository.filter((one) => one.version !== version);
  }

  start(command: UpdateCommand): void {
    this.#requireAPI();
    this.#settle();
    const name = command === 'refresh' && this.nextEnd !== 'fails' ? undefined : this.nextEnd;
    const running = this.#model.start(command, name === undefined ? {} : COMMAND_ENDS[name]);
    if (name !== undefined) this.nextEnd = undefined;
    this.#running = { ...running, endsAt: this.#clock.monotonic() + DURATIONS[command] };
  }

  /** Throws while no reboot can be requested. */
  acceptReboot(): void {
    this.#requireAPI();
  }

  goDown(): void {
    this.#settle();
    this.#running = undefined;
    this.#model.updates.killCommands();
    this.up = false;
    this.stopping = false;
    this.rebootComes = false;
  }

  /** Boots; a boot applies the stored settings. */
  comeUp(): void {
    this.#model.faults = { boot: { rollsBack: this.rollsBack } };
    this.#model.updates.boot();
    this.#model.applySettings();
    this.#appliesAt = undefined;
    this.#toApply = [];
    this.rollsBack = false;
    this.up = true;
    this.boots += 1;
  }

  #requireAPI(): void {
    const isAway = this.stopping || this.unavailableUntil > this.#clock.monotonic();
    if (!this.up || isAway) throw new HostError('refused', 'connect ECONNREFUSED');
  }

  #requireSettings(): void {
    this.#requireAPI();
    const isBroken = this.settingsBrokenUntil > this.#clock.monotonic();
    if (isBroken) throw new HostError('answer', '/settings: 500 Data store error');
  }

  #store(changes: Leaves, applies: boolean): void {
    this.#settle();
    this.#model.storeSettings(changes);
    if (!applies) return;
    this.#toApply = [...this.#toApply, ...changes.keys()];
    this.#appliesAt = this.#clock.monotonic() + APPLY_MS;
  }

  /** Brings the model up to the time of the clock. */
  #settle(): void {
    const now = this.#clock.monotonic();
    this.#model.faults = { ...this.#model.faults, repositoryGone: this.repositoryGoneUntil > now };
    this.#model.updates.lockedByOthers = this.lockedUntil > now ? 1 : 0;
    if (this.#running !== undefined && this.#running.endsAt <= now) {
      this.#model.finish(this.#running);
      this.#running = undefined;
    }
    // A command uses the settings with which it started.
    if (this.#running !== undefined || this.#appliesAt === undefined || this.#appliesAt > now) return;
    this.#model.applySettings(this.#toApply);
    this.#appliesAt = undefined;
    this.#toApply = [];
  }
}
