/**
 * How long an update is expected to take. The duration of one is measured from its start to its success. If an update did not
 * fit into its window, the time until it was deferred is recorded. `record-after.ts` writes both to the record of the node.
 */
import type { ShadowView } from '../../cluster/shadow.ts';
import type { ManagedNode } from '../../cluster/snapshot.ts';
import type { UpdatePolicy } from '../../policy/policy.ts';
import { ofParts, type Parts } from '../../kept/parts.ts';

/** With fewer measured nodes, two unusual or false measurements, as long or as short as they like, would apply to all. */
const MIN_MEASURED = 5;
const IGNORED_SLOWEST = 2;

/**
 * The 90th percentile of the nodes' latest updates, or the slowest but two, if that is less. Undefined: fewer than five were
 * measured.
 */
export function measuredMsOf(nodes: Parts<ManagedNode>): number | undefined {
  const measured = Float64Array.from(measuredIn(nodes).flat()).toSorted();
  const percentile = measured[Math.min(Math.floor((measured.length - 1) * 0.9), measured.length - 1 - IGNORED_SLOWEST)];
  return measured.length >= MIN_MEASURED ? percentile : undefined;
}

const measuredIn = ofParts((part: readonly ManagedNode[]) =>
  part.flatMap(({ shadow }) => (shadow === undefined ? [] : (lastUpdateMs(shadow) ?? []))),
);

/** What was measured, or what the policy says. */
export function usualMsOf({ maintenance }: UpdatePolicy, measuredMs: number | undefined): number {
  return measuredMs ?? maintenance.updateEstimateMs;
}

/**
 * How long the update of this node is expected to take, milliseconds: at least as long as usual, as
 * its own latest one, and as it took until it was deferred.
 */
export function expectedMs(shadow: ShadowView, usualMs: number): number {
  const deferredMs = durationMs(shadow.record.deferredAfterSeconds) ?? 0;
  return Math.max(usualMs, deferredMs, lastUpdateMs(shadow) ?? 0);
}

function lastUpdateMs(shadow: ShadowView): number | undefined {
  return durationMs(shadow.record.updateSeconds);
}

/** A longer duration was measured by a clock that jumped. */
const LONGEST_MS = 24 * 60 * 60_000;

function durationMs(seconds: number | undefined): number | undefined {
  return seconds === undefined ? undefined : Math.min(seconds * 1000, LONGEST_MS);
}
