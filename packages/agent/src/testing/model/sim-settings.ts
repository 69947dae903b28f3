/** A host's settings: what is stored, and what its update programs know of it, which is about a second behind. */
import type { Clock } from '@brupop/shared/runtime/clock';
import { HostError, type UpdaterSettings, DEFAULT_SETTINGS } from '../../host/host.ts';

const APPLY_MS = 1_000;

export class SimSettings {
  stored: UpdaterSettings = DEFAULT_SETTINGS;
  /** They can neither be read nor changed until then (monotonic milliseconds). */
  brokenUntil = 0;
  /** The next change is stored, but not applied, and the call fails. */
  applyFails = false;
  #applied: UpdaterSettings = DEFAULT_SETTINGS;
  #appliesAt: number | undefined;
  readonly #clock: Pick<Clock, 'monotonic'>;

  constructor(clock: Pick<Clock, 'monotonic'>) {
    this.#clock = clock;
  }

  read(): UpdaterSettings {
    this.#answer();
    return this.stored;
  }

  /** Stores through the API. */
  change(changes: Partial<UpdaterSettings>): void {
    this.#answer();
    this.inForce();
    this.stored = { ...this.stored, ...changes };
    if (!this.applyFails) return this.#apply();
    this.applyFails = false;
    throw new HostError('answer', 'POST /tx/commit_and_apply: 500 Config applier was unable to fork child');
  }

  /** A person stores them. */
  byHand(changes: Partial<UpdaterSettings>): void {
    this.inForce();
    this.stored = { ...this.stored, ...changes };
    this.#apply();
  }

  /** What the update programs know. */
  inForce(): UpdaterSettings {
    if (this.#appliesAt !== undefined && this.#appliesAt <= this.#clock.monotonic()) this.boot();
    return this.#applied;
  }

  /** A boot applies what is stored. */
  boot(): void {
    this.#appliesAt = undefined;
    this.#applied = this.stored;
  }

  #apply(): void {
    this.#appliesAt = this.#clock.monotonic() + APPLY_MS;
  }

  #answer(): void {
    if (this.brokenUntil > this.#clock.monotonic()) throw new HostError('answer', '/settings: 500 Data store error');
  }
}
