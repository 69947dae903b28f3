/** Checks the host's settings: users own them, and the fleet's configuration replaces them for a time. */
import { sameVersion } from '@brupop/shared/api/version';
import { IGNORE_WAVES, VERSION_LOCK } from '@brupop/shared/api/settings';
import { NEW_HOST, pinned, type UpdaterSettings } from '@brupop/shared/testing/settings';
import { PINS } from './faults.ts';
import type { Invariants } from './invariants.ts';
import type { SimWorld } from './sim-world.ts';

/** Between a look at the settings and a change of them an answer may be on its way for 9 s. */
const RACE_MS = 10_000;

export class UserActions {
  readonly #world: SimWorld;
  readonly #invariants: Invariants;
  /** What users have set last. A setting is absent when that cannot be known any more. */
  #userSettings: Partial<UpdaterSettings> = NEW_HOST;
  #setAt = -Infinity;
  #recordLost = false;

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

  /** The agent changes settings; it cannot know of a user's change at the same instant. */
  overwritten(): void {
    if (this.#world.clock.monotonic() - this.#setAt < RACE_MS) this.#userSettings = {};
  }

  /** The record of earlier settings is lost: they cannot be restored. */
  recordLost(): void {
    if (this.#world.cluster.shadow?.status?.settings?.records === undefined) return;
    this.#userSettings = {};
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
    const isAsked = JSON.stringify(cluster.shadow?.spec.settings ?? null) === JSON.stringify(pinned(cluster.wanted));
    return isAsked && (versionLock == null || sameVersion(versionLock, host.stored.versionLock));
  }

  /** What must be true after a long time without faults. */
  atRest(): void {
    const { cluster, host } = this.#world;
    const { stored } = host;
    const { settings } = cluster.shadow?.status ?? {};
    this.#requireSetting('versionLock', sameVersion(stored.versionLock, this.#expected('versionLock')));
    this.#requireSetting('ignoreWaves', stored.ignoreWaves === this.#expected('ignoreWaves'));
    if (settings?.message !== undefined)
      this.#invariants.wrong(`the settings are still reported as not in force: ${settings.message}`);
    if (cluster.wanted === null && settings !== undefined) this.#invariants.wrong('a record remains without a pin');
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
