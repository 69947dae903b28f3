import type { Condition } from '@brupop/shared/api/meta';
import type { ShadowView } from './shadow.ts';

/** A condition that the watch has not shown by then was overwritten, and is written again. */
const CONDITION_LIMIT_MS = 30_000;

/**
 * What was written but the watch may not have shown yet. Without it a plan made from a cache that lags would start more nodes than
 * may update at once. The watch has shown a spec when it shows its generation or a later one, and a condition when it shows its text.
 */
export class AssumeCache {
  readonly #shadows = new Map<string, ShadowView>();
  readonly #conditions = new Map<string, { readonly condition: Condition; readonly until: number }>();

  /** Assumes a shadow as the API server returned it. */
  shadow(shadow: ShadowView): void {
    this.#shadows.set(shadow.metadata.uid, shadow);
  }

  /** Assumes a Progressing condition that was written at `now`, epoch milliseconds. */
  condition(uid: string, condition: Condition, now: number): void {
    this.#conditions.set(uid, { condition, until: now + CONDITION_LIMIT_MS });
  }

  /** The newer of the cached and the assumed shadow. */
  view(cached: ShadowView, now: number): ShadowView {
    const shadow = this.#newest(cached);
    const condition = this.#condition(cached, now);
    return condition === undefined ? shadow : { ...shadow, progressing: condition };
  }

  /** Forgets a deleted shadow. */
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

/** True when both conditions have the same status, reason and message. */
export function sameCondition(
  a: Pick<Condition, 'status' | 'reason' | 'message'> | undefined,
  b: Pick<Condition, 'status' | 'reason' | 'message'>,
): boolean {
  return a?.status === b.status && a.reason === b.reason && a.message === b.message;
}
