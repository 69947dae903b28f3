/**
 * What was written but the watch may not have shown yet. Without it, a plan from a cache that lags
 * would start more nodes than the limits allow. The writers in `apply/` add what the API server
 * returned, and `cluster.ts` overlays it on each shadow of a snapshot. A spec is kept until the watch
 * shows its generation or a later one, a condition until the watch shows its text or 30 s have passed.
 */
import type { Condition } from '@brupop/shared/api/meta';
import { type HealthCondition, nodeOf, type ShadowView } from './shadow.ts';

/** A condition that the watch has not shown by then was overwritten, and is written again. */
const CONDITION_LIMIT_MS = 30_000;

/** What the controller writes into the status of a shadow. */
export interface Shown {
  readonly progressing: Condition;
  readonly health: readonly HealthCondition[];
  readonly group: string;
}

export class AssumeCache {
  readonly #shadows = new Map<string, ShadowView>();
  readonly #conditions = new Map<string, Assumed>();
  /** Names of the nodes of which something has been assumed, or no longer is, since {@link changed}. */
  readonly #changed = new Set<string>();

  shadow(shadow: ShadowView): void {
    this.#shadows.set(shadow.metadata.uid, shadow);
    this.#changed.add(nodeOf(shadow));
  }

  /** Assumes a Progressing condition that was written at `now`, epoch milliseconds. */
  condition(shadow: ShadowView, shown: Shown, now: number): void {
    this.#conditions.set(shadow.metadata.uid, { ...shown, node: nodeOf(shadow), until: now + CONDITION_LIMIT_MS });
    this.#changed.add(nodeOf(shadow));
  }

  /** What was written into the status of a shadow, while the watch may not have shown it. */
  shown(uid: string): Shown | undefined {
    return this.#conditions.get(uid);
  }

  /** The UIDs of the shadows for which {@link shown} has something. */
  withConditions(): Iterable<string> {
    return this.#conditions.keys();
  }

  /**
   * Returns the names of the nodes of which {@link view} may differ from the time of the latest call, unless another version of
   * the shadow is the cause.
   * @param now - epoch milliseconds
   */
  changed(now: number): readonly string[] {
    for (const [uid, { node, until }] of this.#conditions) {
      if (now < until) continue;
      this.#conditions.delete(uid);
      this.#changed.add(node);
    }
    const names = [...this.#changed];
    this.#changed.clear();
    return names;
  }

  view(cached: ShadowView, now: number): ShadowView {
    const shadow = this.#newest(cached);
    const shown = this.#condition(cached, now);
    if (shown === undefined) return shadow;
    const { progressing, health, group } = shown;
    return { ...shadow, progressing, health, group };
  }

  drop(uid: string): void {
    this.#shadows.delete(uid);
    this.#conditions.delete(uid);
  }

  clear(): void {
    for (const shadow of this.#shadows.values()) this.#changed.add(nodeOf(shadow));
    for (const { node } of this.#conditions.values()) this.#changed.add(node);
    this.#shadows.clear();
    this.#conditions.clear();
  }

  #newest(cached: ShadowView): ShadowView {
    const { uid, generation = 0 } = cached.metadata;
    const written = this.#shadows.get(uid);
    if (written === undefined) return cached;
    if (generation < (written.metadata.generation ?? 0)) return written;
    this.#forget(this.#shadows, cached);
    return cached;
  }

  #condition(cached: ShadowView, now: number): Shown | undefined {
    const { uid } = cached.metadata;
    const assumed = this.#conditions.get(uid);
    if (assumed === undefined) return undefined;
    if (now < assumed.until && !isShown(cached, assumed)) return assumed;
    this.#forget(this.#conditions, cached);
    return undefined;
  }

  #forget(assumed: Map<string, unknown>, cached: ShadowView): void {
    assumed.delete(cached.metadata.uid);
    this.#changed.add(nodeOf(cached));
  }
}

interface Assumed extends Shown {
  readonly node: string;
  /** Epoch milliseconds. */
  readonly until: number;
}

interface Wanted {
  readonly progressing: Pick<Condition, 'status' | 'reason' | 'message'>;
  readonly health: readonly Pick<HealthCondition, 'type' | 'status'>[];
  readonly group: string;
}

/** True when the status of the shadow has it already. */
export function isShown(
  {
    progressing,
    health,
    group,
  }: Pick<Wanted, 'health' | 'group'> & { readonly progressing?: Wanted['progressing'] | undefined },
  wanted: Wanted,
): boolean {
  const { status, reason, message } = wanted.progressing;
  const isSame = progressing?.status === status && progressing.reason === reason && progressing.message === message;
  const isThere = (one: Wanted['health'][number]): boolean =>
    health.some(({ type, status: found }) => type === one.type && found === one.status);
  return isSame && group === wanted.group && health.length === wanted.health.length && wanted.health.every(isThere);
}
