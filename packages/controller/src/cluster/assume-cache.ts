/**
 * What was written but the watch may not have shown yet. Without it, a plan from a cache that lags
 * would start more nodes than the limits allow. The writers in `apply/` add what the API server
 * returned, and `cluster.ts` overlays it on each shadow of a snapshot. A spec is kept until the watch
 * shows its generation or a later one, a condition until the watch shows its text or 30 s have passed.
 */
import type { Condition } from '@brupop/shared/api/meta';
import type { ShadowView } from './shadow.ts';

/** A condition that the watch has not shown by then was overwritten, and is written again. */
const CONDITION_LIMIT_MS = 30_000;

export class AssumeCache {
  readonly #shadows = new Map<string, ShadowView>();
  readonly #conditions = new Map<string, { readonly condition: Condition; readonly until: number }>();

  shadow(shadow: ShadowView): void {
    this.#shadows.set(shadow.metadata.uid, shadow);
  }

  /** Assumes a Progressing condition that was written at `now`, epoch milliseconds. */
  condition(uid: string, condition: Condition, now: number): void {
    this.#conditions.set(uid, { condition, until: now + CONDITION_LIMIT_MS });
  }

  view(cached: ShadowView, now: number): ShadowView {
    const shadow = this.#newest(cached);
    const condition = this.#condition(cached, now);
    return condition === undefined ? shadow : { ...shadow, progressing: condition };
  }

  drop(uid: string): void {
    this.#shadows.delete(uid);
    this.#conditions.delete(uid);
  }

  clear(): void {
    this.#shadows.clear();
    this.#conditions.clear();
  }

  #newest(cached: ShadowView): ShadowView {
    const { uid, generation = 0 } = cached.metadata;
    const written = this.#shadows.get(uid);
    if (written === undefined) return cached;
    if (generation < (written.metadata.generation ?? 0)) return written;
    this.#shadows.delete(uid);
    return cached;
  }

  #condition(cached: ShadowView, now: number): Condition | undefined {
    const { uid } = cached.metadata;
    const assumed = this.#conditions.get(uid);
    if (assumed === undefined) return undefined;
    if (now < assumed.until && !sameCondition(cached.progressing, assumed.condition)) return assumed.condition;
    this.#conditions.delete(uid);
    return undefined;
  }
}

export function sameCondition(
  a: Pick<Condition, 'status' | 'reason' | 'message'> | undefined,
  b: Pick<Condition, 'status' | 'reason' | 'message'>,
): boolean {
  return a?.status === b.status && a.reason === b.reason && a.message === b.message;
}
