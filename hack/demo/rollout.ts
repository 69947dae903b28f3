import type { BottlerocketShadow } from '../../packages/shared/src/api/shadow.ts';
import type { Fleet } from '../../test/framework/fleet/fleet.ts';
import { type Row, rowOf } from './rows.ts';

/** Duration of each node's update, from a spec other than Idle to the status Idle. */
export class Rollout {
  readonly #fleet: Fleet;
  readonly #goal: string;
  readonly #startedTimes = new Map<string, number>();
  readonly #took = new Map<string, number>();
  #startedAt: number | undefined;

  constructor(fleet: Fleet, goal: string) {
    this.#fleet = fleet;
    this.#goal = goal;
    fleet.observer.shadows.subscribe(({ object }) => this.#note(object));
  }

  /** Since the first node left Idle, milliseconds. */
  get elapsedMs(): number {
    return this.#startedAt === undefined ? 0 : performance.now() - this.#startedAt;
  }

  rows(): Row[] {
    const nodes = this.#fleet.observer.nodes
      .list()
      .toSorted((a, b) => a.metadata.name.localeCompare(b.metadata.name, 'en', { numeric: true }));
    return nodes.map((node) => rowOf(node, this.#fleet.shadow(node.metadata.name), this.#goal));
  }

  /** Milliseconds by shadow, in the order of completion. */
  get times(): ReadonlyMap<string, number> {
    return this.#took;
  }

  #note({ metadata, spec, status }: BottlerocketShadow): void {
    const { name } = metadata;
    const now = performance.now();
    if (spec.state !== 'Idle') {
      this.#startedAt ??= now;
      if (!this.#startedTimes.has(name)) this.#startedTimes.set(name, now);
    } else if (status?.current_state === 'Idle' && status.current_version === this.#goal) {
      const started = this.#startedTimes.get(name);
      if (started !== undefined && !this.#took.has(name)) this.#took.set(name, now - started);
    }
  }
}
