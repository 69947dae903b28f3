/**
 * What the annotations of a shadow tell of its earlier attempts; `spec-change.ts` writes them.
 *
 * The agent counts the failures that it reports (`status.crash_count`). The annotations count the
 * attempts that were cancelled without a report, and those that failed with one version; both counts
 * end with a success. How long an update took is measured from its start to its success; one that
 * did not fit into its window leaves how long it took until then.
 */
import {
  DEFERRED_AFTER_ANNOTATION,
  FAILED_ATTEMPTS_ANNOTATION,
  UNREPORTED_ATTEMPTS_ANNOTATION,
  UPDATE_SECONDS_ANNOTATION,
  UPDATE_STARTED_ANNOTATION,
} from '@brupop/shared/api/names';
import { sameVersion } from '@brupop/shared/api/version';
import { parseTime } from '@brupop/shared/runtime/clock';
import type { ShadowView } from '../../cluster/shadow.ts';
import type { ManagedNode } from '../../cluster/snapshot.ts';
import type { MaintenanceSettings } from '../../policy/policy.ts';

/** How many attempts were cancelled without a report of the agent since the latest success. */
export function unreported({ metadata: { annotations = {} } }: ShadowView): number {
  const text = annotations[UNREPORTED_ATTEMPTS_ANNOTATION];
  if (text === undefined) return 0;
  const count = Number(text);
  return Number.isSafeInteger(count) && count > 0 ? count : 1;
}

export function failures(shadow: ShadowView): number {
  return Math.max(0, shadow.status?.crash_count ?? 0) + unreported(shadow);
}

/** How many attempts with `version` failed or were cancelled since the latest success. */
export function attempts({ metadata: { annotations = {} } }: ShadowView, version: string): number {
  const [of = '', count = ''] = (annotations[FAILED_ATTEMPTS_ANNOTATION] ?? '').split('=');
  return sameVersion(of, version) && /^\d{1,6}$/u.test(count) ? Number(count) : 0;
}

export interface Estimate {
  /** 90th percentile of the nodes' latest updates; of a few, all but the slowest. Undefined: none. */
  readonly measuredMs: number | undefined;
  readonly usualMs: number;
  readonly marginMs: number;
}

export function estimateOf(
  managedNodes: readonly ManagedNode[],
  { updateEstimateMs, marginMs }: MaintenanceSettings,
): Estimate {
  const measured = managedNodes
    .flatMap(({ shadow }) => (shadow === undefined ? [] : (lastUpdateMs(shadow) ?? [])))
    .toSorted((a, b) => a - b);
  const measuredMs = measured[Math.floor((measured.length - 1) * 0.9)];
  return { measuredMs, usualMs: measuredMs ?? updateEstimateMs, marginMs };
}

/**
 * How long the update of this node is expected to take, milliseconds: at least as long as usual, as
 * its own latest one, and as it took until it was deferred.
 */
export function expectedMs(shadow: ShadowView, { usualMs }: Estimate): number {
  const deferredMs = durationMs(shadow, DEFERRED_AFTER_ANNOTATION) ?? 0;
  return Math.max(usualMs, deferredMs, lastUpdateMs(shadow) ?? 0);
}

/** When its latest update started, epoch milliseconds. */
export function startedAt({ metadata: { annotations = {} } }: ShadowView): number | undefined {
  return parseTime(annotations[UPDATE_STARTED_ANNOTATION]);
}

function lastUpdateMs(shadow: ShadowView): number | undefined {
  return durationMs(shadow, UPDATE_SECONDS_ANNOTATION);
}

/** A longer duration was measured by a clock that jumped. */
const LONGEST_MS = 24 * 60 * 60_000;

function durationMs({ metadata: { annotations = {} } }: ShadowView, name: string): number | undefined {
  const text = annotations[name] ?? '';
  return /^\d{1,7}$/u.test(text) ? Math.min(Number(text) * 1000, LONGEST_MS) : undefined;
}
