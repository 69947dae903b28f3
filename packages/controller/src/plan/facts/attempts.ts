/**
 * What the annotations of a shadow tell of its earlier attempts; `spec-change.ts` writes them.
 *
 * The annotations count the attempts that failed or were cancelled, in all and with one version; both
 * counts end with a success. The agent counts the failures that it reports (`status.crash_count`),
 * and may report anything: its count can only be the larger one. How long an update took is measured
 * from its start to its success; one that did not fit into its window leaves how long it took until
 * then.
 */
import {
  DEFERRED_AFTER_ANNOTATION,
  FAILED_ATTEMPTS_ANNOTATION,
  UNSUCCESSFUL_ATTEMPTS_ANNOTATION,
  UPDATE_SECONDS_ANNOTATION,
  WITHDRAWN_ATTEMPTS_ANNOTATION,
} from '@brupop/shared/api/names';
import { isVersion, sameVersion } from '@brupop/shared/api/version';
import type { ShadowView } from '../../cluster/shadow.ts';
import type { ManagedNode } from '../../cluster/snapshot.ts';
import type { MaintenanceSettings } from '../../policy/policy.ts';

/** How many attempts failed or were cancelled since the latest success, as this controller saw it. */
export function unsuccessful(shadow: ShadowView): number {
  return countOf(shadow, UNSUCCESSFUL_ATTEMPTS_ANNOTATION);
}

/** How many attempts ended since the latest success because their version was not offered any more. */
export function withdrawn(shadow: ShadowView): number {
  return countOf(shadow, WITHDRAWN_ATTEMPTS_ANNOTATION);
}

function countOf({ metadata: { annotations = {} } }: ShadowView, name: string): number {
  const text = annotations[name];
  if (text === undefined) return 0;
  const count = Number(text);
  return Number.isSafeInteger(count) && count > 0 ? count : 1;
}

/** How many attempts in a row had no success. The agent's count only adds. */
export function failures(shadow: ShadowView): number {
  const { crash_count = 0 } = shadow.status ?? {};
  return Math.max(unsuccessful(shadow), crash_count - (isOutdated(shadow) ? 1 : 0));
}

/** True when the latest attempt failed only because the host offers another version by now, or none. */
export function isOutdated({ status }: ShadowView): boolean {
  const { lastOperation: last, target_version: offered = '' } = status ?? {};
  if (last?.state !== 'Failed' || last.errorCode !== 'VersionNotOffered') return false;
  return isVersion(offered) && !sameVersion(offered, last.version);
}

/** How many attempts with `version` failed or were cancelled since the latest success. */
export function attempts({ metadata: { annotations = {} } }: ShadowView, version: string): number {
  const [of = '', count = ''] = (annotations[FAILED_ATTEMPTS_ANNOTATION] ?? '').split('=');
  return sameVersion(of, version) && /^\d{1,6}$/u.test(count) ? Number(count) : 0;
}

/** With fewer measured nodes one slow update must not close the windows for all. */
const MIN_MEASURED = 3;

export interface Estimate {
  /**
   * 90th percentile of the nodes' latest updates; of a few, all but the slowest. Undefined: none, or one
   * or two that took longer than `maintenance.updateEstimate`.
   */
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
  const percentile = measured[Math.floor((measured.length - 1) * 0.9)];
  const counts = measured.length >= MIN_MEASURED || (percentile ?? Infinity) <= updateEstimateMs;
  const measuredMs = counts ? percentile : undefined;
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

function lastUpdateMs(shadow: ShadowView): number | undefined {
  return durationMs(shadow, UPDATE_SECONDS_ANNOTATION);
}

/** A longer duration was measured by a clock that jumped. */
const LONGEST_MS = 24 * 60 * 60_000;

function durationMs({ metadata: { annotations = {} } }: ShadowView, name: string): number | undefined {
  const text = annotations[name] ?? '';
  return /^\d{1,7}$/u.test(text) ? Math.min(Number(text) * 1000, LONGEST_MS) : undefined;
}
