/** One of the two partition sets, with the attributes the boot loader reads. */
export interface PartitionSet {
  /**
   * The version whose images are complete on this set; undefined when it is empty or half-written.
   */
  version: string | undefined;
  priority: number;
  triesLeft: number;
  successful: boolean;
}

/** How a boot attempt of a set that never booted successfully ends. */
export type UnprovenBoot = (version: string | undefined) => 'boots' | 'fails';

const BOOT_ATTEMPTS = 3;

/**
 * The A/B partition sets on the host's disk. What is written here outlives reboots and power cuts,
 * so an activated update boots whatever causes the reboot.
 */
export class PartitionTable {
  readonly sets: readonly [PartitionSet, PartitionSet];
  #active: 0 | 1 = 0;

  constructor(version: string) {
    this.sets = [
      { version, priority: 2, triesLeft: 0, successful: true },
      { version: undefined, priority: 0, triesLeft: 0, successful: false },
    ];
  }

  get active(): PartitionSet {
    return this.sets[this.#active];
  }

  get inactive(): PartitionSet {
    return this.sets[this.#active === 0 ? 1 : 0];
  }

  /** The running version. */
  get running(): string {
    if (this.active.version === undefined) throw new Error('the active partition set holds no complete images');
    return this.active.version;
  }

  /** Start of a prepare: from here on the previous version is lost, even if the prepare fails. */
  clearInactive(): void {
    Object.assign(this.inactive, { version: undefined, priority: 0, triesLeft: 0, successful: false });
  }

  /** End of a prepare: the images are complete and may be tried once. */
  markInactiveValid(version: string): void {
    Object.assign(this.inactive, { version, triesLeft: 1 });
  }

  /** Activates the inactive set; false when it was not marked valid for an upgrade. */
  upgradeToInactive(): boolean {
    const { priority, successful, triesLeft } = this.inactive;
    if (priority !== 0 || successful || triesLeft === 0) return false;
    this.inactive.priority = 2;
    this.active.priority = 1;
    return true;
  }

  /** Undoes an activation; the tries are kept, so that it may be activated again. */
  cancelUpgrade(): void {
    this.inactive.priority = 0;
    this.active.priority = 2;
  }

  /** Whether the boot loader would take the set that runs now. */
  activeIsNextToBoot(): boolean {
    return this.#next() === this.#active;
  }

  /** The version that the boot loader would try first. */
  get nextVersion(): string | undefined {
    const index = this.#next();
    return index === undefined ? undefined : this.sets[index].version;
  }

  /**
   * Boots as the boot loader does: highest priority among the sets that were successful or have a
   * try left; the try is spent before the boot. A failed boot is followed by another, which falls
   * back. Returns the number of attempts.
   */
  boot(unproven: UnprovenBoot): number {
    for (let attempt = 1; attempt <= BOOT_ATTEMPTS; attempt += 1) {
      const index = this.#next();
      if (index === undefined) break;
      const set = this.sets[index];
      set.triesLeft = Math.max(0, set.triesLeft - 1);
      if (set.successful || unproven(set.version) === 'boots') {
        this.#active = index;
        return attempt;
      }
    }
    throw new Error('no partition set is bootable');
  }

  /** What the host does late in a boot; a set never marked so is skipped by the next boot. */
  markSuccessful(): void {
    this.active.successful = true;
  }

  #next(): 0 | 1 | undefined {
    const bootable = ([0, 1] as const).filter((index) => {
      const set = this.sets[index];
      return set.priority > 0 && (set.successful || set.triesLeft > 0);
    });
    return bootable.toSorted((a, b) => this.sets[b].priority - this.sets[a].priority)[0];
  }
}
