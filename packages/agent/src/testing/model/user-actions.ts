/** Checks the host's settings: users own them, and the fleet's configuration replaces them for a time. */
import { sameVersion } from '@brupop/shared/api/version';
import { IGNORE_WAVES, type Leaves, VERSION_LOCK } from '@brupop/shared/api/settings';
import type { SettingsStatus } from '@brupop/shared/api/shadow';
import { NEW_HOST, type UpdaterSettings } from '@brupop/shared/testing/settings';
import { PINS } from './faults.ts';
import type { Invariants } from './invariants.ts';
import type { SimWorld } from './sim-world.ts';

const MOTD = 'settings.motd';
const OWN_MOTD = '"Welcome to Bottlerocket!"';
/** Former values that are set again may replace one that a user has set since the change. */
const REVERT_MS = 15 * 60_000;
/** Between a look at the settings and a change of them an answer may be on its way for 9 s. */
const RACE_MS = 10_000;

export class UserActions {
  readonly #world: SimWorld;
  readonly #invariants: Invariants;
  /** What users have set last. A setting is absent when that cannot be known any more. */
  #userSettings: Partial<UpdaterSettings> = NEW_HOST;
  #setAt = -Infinity;
  #recordLost = false;
  /** What `settings.motd` is without a group; undefined: unknown. */
  #motd: string | undefined = OWN_MOTD;
  #motdSetAt = -Infinity;

  constructor(world: SimWorld, invariants: Invariants) {
    this.#world = world;
    this.#invariants = invariants;
  }

  /** A user changes settings. */
  set(settings: Partial<UpdaterSettings>): void {
    const { host, clock } = this.#world;
    const changed = Object.entries(settings).filter(([name, value]) => host.stored[keyOf(name)] !== value);
    if (changed.length === 0) return;
    host.setSettings(Object.fromEntries(changed));
    this.#setAt = clock.monotonic();
    for (const [name, value] of changed) {
      if (this.#isBeingSet(keyOf(name), value)) this.#forget(keyOf(name));
      else if (!this.#recordLost) this.#userSettings = { ...this.#userSettings, [name]: value };
    }
  }

  /** A user changes the message of the day. */
  setMotd(motd: string): void {
    const { host, clock } = this.#world;
    const value = JSON.stringify(motd);
    if (host.valueOf(MOTD) === value) return;
    host.setSettings(new Map([[MOTD, value]]));
    this.#motdSetAt = clock.monotonic();
    this.#motd = value;
  }

  /** A value that is recorded but not set yet looks like the agent's when a user sets it first. */
  #isBeingSet(name: keyof UpdaterSettings, value: unknown): boolean {
    const key = name === 'versionLock' ? VERSION_LOCK : IGNORE_WAVES;
    const record = this.#world.cluster.shadow?.status?.settings?.records?.find((one) => one.key === key);
    return [record?.value, ...(record?.earlier ?? [])].includes(JSON.stringify(value));
  }

  #forget(name: keyof UpdaterSettings): void {
    const { [name]: _unknown, ...known } = this.#userSettings;
    this.#userSettings = known;
  }

  /**
   * The agent changes settings; it cannot know of a user's change at the same instant. Those of the updater end with their
   * defaults after it, whatever a user had set.
   */
  overwritten(changes: Leaves): void {
    const now = this.#world.clock.monotonic();
    const { versionLock, ignoreWaves } = NEW_HOST;
    const ended = {
      ...(changes.has(VERSION_LOCK) && { versionLock }),
      ...(changes.has(IGNORE_WAVES) && { ignoreWaves }),
    };
    this.#userSettings = now - this.#setAt < RACE_MS ? {} : { ...this.#userSettings, ...ended };
    if (now - this.#motdSetAt < REVERT_MS && this.#world.host.valueOf(MOTD) === this.#motd) this.#motd = undefined;
  }

  /** The record of earlier settings is lost: they cannot be restored. */
  recordLost(): void {
    if (this.#world.cluster.shadow?.status?.settings?.records === undefined) return;
    this.#userSettings = {};
    this.#motd = undefined;
    this.#recordLost = true;
  }

  /** An update to `version` starts. */
  starts(version: string): void {
    const { cluster, host } = this.#world;
    this.#invariants.observe(`update to ${version} starts, requested ${JSON.stringify(cluster.wanted)}`);
    if (this.#recordLost) return;
    const wanted = cluster.wanted?.versionLock;
    if (wanted != null && !sameVersion(wanted, version))
      this.#invariants.wrong(`${version} starts, ${wanted} is requested`);
    const isPinned = wanted == null && PINS.some((one) => one === version);
    if (isPinned && version !== host.offered && version !== '1.27.0')
      this.#invariants.wrong(`${version} starts, which was only available for a removed pin`);
  }

  /** True when the host has the requested settings: only then is it known whether an update is still due. */
  get served(): boolean {
    const { cluster, host } = this.#world;
    const { versionLock } = cluster.wanted ?? {};
    const isAsked = JSON.stringify(cluster.shadow?.spec.settings ?? null) === JSON.stringify(cluster.settings);
    return isAsked && (versionLock == null || sameVersion(versionLock, host.stored.versionLock));
  }

  /** What must be true after a long time without faults. */
  atRest(): void {
    const { cluster, host } = this.#world;
    const { stored } = host;
    const { settings } = cluster.shadow?.status ?? {};
    this.#requireSetting('versionLock', sameVersion(stored.versionLock, this.#expected('versionLock')));
    this.#requireSetting('ignoreWaves', stored.ignoreWaves === this.#expected('ignoreWaves'));
    this.#motdAtRest();
    this.#lockAtRest(settings?.hostLock);
    if (settings !== undefined && !this.wasReverted) this.#recordAtRest(settings);
  }

  #recordAtRest({ message, hostLock: _lock, ...others }: SettingsStatus): void {
    const { leaves: wanted = [] } = this.#world.cluster.settings ?? {};
    if (message !== undefined) this.#invariants.wrong(`the settings are still reported as not in force: ${message}`);
    const isRecord = wanted.length === 0 && Object.keys(others).length > 0 && !this.#recordLost;
    if (isRecord) this.#invariants.wrong('a record remains without a request');
  }

  #lockAtRest(reported: string | undefined): void {
    const { versionLock } = this.#world.host.stored;
    const isOwn = versionLock !== 'latest' && this.#world.cluster.wanted?.versionLock == null;
    const expected = isOwn ? versionLock : undefined;
    if (reported !== expected) this.#invariants.wrong(`the lock ${expected} is reported as ${reported}`);
  }

  /** A change has cut the agent off, so the host has the former values until the next spec. */
  get wasReverted(): boolean {
    return this.#world.cluster.shadow?.status?.settings?.message?.endsWith('the former values were set again') === true;
  }

  get #isInConflict(): boolean {
    return this.#world.cluster.shadow?.status?.settings?.conflicts?.includes(MOTD) === true;
  }

  #motdAtRest(): void {
    const { cluster, host } = this.#world;
    const value = host.valueOf(MOTD);
    if (host.appliedOf(MOTD) !== value)
      this.#invariants.wrong(`motd ${value} is stored, ${host.appliedOf(MOTD)} applied`);
    if (this.wasReverted) return;
    const expected = cluster.motd !== null && !this.#isInConflict ? JSON.stringify(cluster.motd) : this.#motd;
    if (expected !== undefined && value !== expected) this.#invariants.wrong(`motd is ${value}, expected ${expected}`);
  }

  #expected<K extends keyof UpdaterSettings>(name: K): UpdaterSettings[K] | undefined {
    return this.#world.cluster.wanted?.[name] ?? this.#userSettings[name];
  }

  #requireSetting(name: keyof UpdaterSettings, holds: boolean): void {
    const expected = this.#expected(name);
    const { stored } = this.#world.host;
    if (expected !== undefined && !holds) this.#invariants.wrong(`${name} is ${stored[name]}, expected ${expected}`);
  }
}

function keyOf(name: string): keyof UpdaterSettings {
  return name === 'versionLock' ? 'versionLock' : 'ignoreWaves';
}
