import type { Fleet } from '../fleet/fleet.ts';
import type { Fault } from './fault.ts';
import type { Outcome } from './inject.ts';

/** The figures of a campaign. */
export class Report {
  readonly #tried = new Map<string, number>();
  readonly #recoveriesMs: number[] = [];
  readonly violations: string[] = [];
  #checks = 0;
  #missed = 0;
  #onTime = 0;
  #waits = 0;

  tried(fault: Fault, outcome: Outcome): void {
    if (outcome === 'missed') {
      this.#missed += 1;
      return;
    }
    const what = 'who' in fault ? `${fault.kind}: ${fault.who.program}` : fault.kind;
    this.#tried.set(what, (this.#tried.get(what) ?? 0) + 1);
  }

  /** Records whether a fault's instant occurred. */
  waited(hasCome: boolean): void {
    this.#waits += 1;
    if (hasCome) this.#onTime += 1;
  }

  recovered(ms: number): void {
    this.#recoveriesMs.push(Math.round(ms));
  }

  /** Those that found a victim, and those that did not. */
  get faults(): number {
    return this.#hit + this.#missed;
  }

  get #hit(): number {
    return [...this.#tried.values()].reduce((sum, count) => sum + count, 0);
  }

  /** Adds the violations that the observer has found; returns the new ones. */
  check(fleet: Fleet): readonly string[] {
    this.#checks = fleet.observer.checks;
    const known = new Set(this.violations);
    this.violations.splice(0, Infinity, ...fleet.problems());
    return this.violations.filter((what) => !known.has(what));
  }

  lines(): string[] {
    const sorted = this.#recoveriesMs.toSorted((a, b) => a - b);
    const part = (fraction: number): string =>
      `${((sorted[Math.floor(fraction * (sorted.length - 1))] ?? 0) / 1000).toFixed(1)} s`;
    return [
      `${this.#hit} faults, and ${this.#missed} that found no victim:`,
      ...[...this.#tried]
        .toSorted(([a], [b]) => a.localeCompare(b))
        .map(([what, count]) => `  ${String(count).padStart(5)}  ${what}`),
      `${this.#waits} of all waited for an instant of an update, which came for ${this.#onTime}`,
      `${sorted.length} recoveries, from the end of the last fault until every node was updated: median ${part(0.5)}, nine of ten ${part(0.9)}, longest ${part(1)}`,
      `${this.#checks} times an invariant was checked, ${this.violations.length} violations`,
      ...this.violations.map((what) => `  VIOLATION: ${what}`),
    ];
  }
}
