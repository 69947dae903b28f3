/** Judges what happens to the host's settings: people own them, and the fleet's configuration only borrows them. */
import { sameVersion } from '@brupop/shared/api/version';
import { type UpdaterSettings, DEFAULT_SETTINGS } from '../../host/host.ts';
import { PINS } from './faults.ts';
import type { Invariants } from './invariants.ts';
import type { SimWorld } from './sim-world.ts';

/** Between a look at the settings and a change of them an answer may be on its way for 9 s. */
const RACE_MS = 10_000;

export class UserActions {
  readonly #world: SimWorld;
  readonly #invariants: Invariants;
  /** What people have set last; a setting of which nobody can know it any more is absent. */
  #wish: Partial<UpdaterSettings> = DEFAULT_SETTINGS;
  #setAt = -Infinity;
  #recordLost = false;

  constructor(world: SimWorld, invariants: Invariants) {
    this.#world = world;
    this.#invariants = invariants;
  }

  /** A person sets something else than the host has. */
  set(settings: Partial<UpdaterSettings>): void {
    const { host, clock } = this.#world;
    const changed = Object.entries(settings).filter(([name, value]) => host.stored[keyOf(name)] !== value);
    if (changed.length === 0) return;
    host.setSettings(Object.fromEntries(changed));
    this.#setAt = clock.monotonic();
    for (const [name, value] of changed) {
      if (this.#isBeingSet(keyOf(name), value)) this.#forget(keyOf(name));
      else if (!this.#recordLost) this.#wish = { ...this.#wish, [name]: value };
    }
  }

  /** What is on record and not set yet looks like ours when a person is quicker. */
  #isBeingSet(name: keyof UpdaterSettings, value: unknown): boolean {
    return this.#world.cluster.shadow?.status?.hostSettings?.[name]?.value === value;
  }

  #forget(name: keyof UpdaterSettings): void {
    const { [name]: _unknown, ...known } = this.#wish;
    this.#wish = known;
  }

  /** The agent changes settings: it cannot know what a person has done in the same instant. */
  overwritten(): void {
    if (this.#world.clock.monotonic() - this.#setAt < RACE_MS) this.#wish = {};
  }

  /** What the status said of earlier settings is gone: nobody can put them back. */
  recordLost(): void {
    const { versionLock, ignoreWaves } = this.#world.cluster.shadow?.status?.hostSettings ?? {};
    if (versionLock === undefined && ignoreWaves === undefined) return;
    this.#wish = {};
    this.#recordLost = true;
  }

  /** An update begins toward `version`. */
  begins(version: string): void {
    const { cluster, host } = this.#world;
    this.#invariants.observe(`update to ${version} begins, wanted ${JSON.stringify(cluster.wanted)}`);
    if (this.#recordLost) return;
    const wanted = cluster.wanted?.versionLock;
    if (wanted != null && !sameVersion(wanted, version))
      this.#invariants.wrong(`${version} begins, ${wanted} is wanted`);
    const isPinned = wanted == null && PINS.some((one) => one === version);
    if (isPinned && version !== host.offered && version !== '1.27.0')
      this.#invariants.wrong(`${version} begins, which was only on offer for a pin that is gone`);
  }

  /** The host has what is wanted now: only then can it be told whether an update is still to come. */
  get served(): boolean {
    const { cluster, host } = this.#world;
    const { versionLock } = cluster.wanted ?? {};
    const isAsked = JSON.stringify(cluster.shadow?.spec.hostSettings ?? null) === JSON.stringify(cluster.wanted);
    return isAsked && (versionLock == null || sameVersion(versionLock, host.stored.versionLock));
  }

  /** What must be true when nothing has gone wrong for long. */
  atRest(): void {
    const { cluster, host } = this.#world;
    const { stored } = host;
    const { hostSettings } = cluster.shadow?.status ?? {};
    this.#requireSetting('versionLock', sameVersion(stored.versionLock, this.#expected('versionLock')));
    this.#requireSetting('ignoreWaves', stored.ignoreWaves === this.#expected('ignoreWaves'));
    if (hostSettings?.message !== undefined)
      this.#invariants.wrong(`the host is still said to refuse: ${hostSettings.message}`);
    if (cluster.wanted === null && hostSettings !== undefined) this.#invariants.wrong('a record is left of no pin');
  }

  #expected<K extends keyof UpdaterSettings>(name: K): UpdaterSettings[K] | undefined {
    return (this.#world.cluster.wanted?.[name] as UpdaterSettings[K] | null | undefined) ?? this.#wish[name];
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
