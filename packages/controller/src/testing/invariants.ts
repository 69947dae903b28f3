/**
 * What holds for every reconcile of a story. Simulating a story takes most of the time of a property
 * test, so all invariants of a test are checked in the same stories.
 */
import type { UpdatePolicy } from '../policy/policy.ts';
import type { Reconcile } from './fleet-simulation.ts';
import { aSnapshot } from './objects.ts';

/** By what must hold: true of a reconcile that breaks it. */
export type Invariants = Readonly<Record<string, (reconcile: Reconcile, policy: UpdatePolicy) => boolean>>;

/** The invariants that a reconcile breaks. */
export function brokenIn(reconciles: readonly Reconcile[], invariants: Invariants): string[] {
  const broken = new Set<string>();
  for (const reconcile of reconciles) {
    const { policy } = aSnapshot([], reconcile.before.config);
    for (const [holds, isBroken] of Object.entries(invariants)) if (isBroken(reconcile, policy)) broken.add(holds);
  }
  return [...broken];
}
