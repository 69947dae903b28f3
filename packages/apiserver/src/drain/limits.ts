import type { DrainFailure } from '@brupop/shared/api/agent-protocol';
import type { DrainSettings } from '@brupop/shared/api/config-spec';
import { FORCE_LIMIT_MS } from '@brupop/shared/api/deadlines';
import type { DrainStatus } from '@brupop/shared/api/shadow';
import { type DrainPod, isTerminating } from '@brupop/shared/drain/pods';
import { parseTime } from '@brupop/shared/runtime/clock';

/** Evict: as budgets let it. Force: delete what is left. Over: nothing more is tried. */
export type Stage = 'Evict' | 'Force' | 'Over';

/** After the time limit of a drain that is forced, beyond the longest time that a pod gets to end; FORCE_LIMIT_MS in all. */
const FORCE_MS = 10 * 60_000;
/** A pod that is still there so long after it was to be gone stays: whatever holds it, its processes end with the reboot. */
const ABANDON_MS = 60_000;

type Limits = Pick<DrainSettings, 'timeoutMs' | 'onTimeout' | 'maxGracePeriodMs'>;

/** How long a drain may take in all, milliseconds. */
function wholeLimitMs({ timeoutMs, onTimeout, maxGracePeriodMs }: Limits, pods: readonly DrainPod[]): number {
  if (onTimeout === 'Abort') return timeoutMs;
  const longest = pods.reduce((most, { graceSeconds }) => Math.max(most, graceSeconds), 0);
  const graceMs = Math.min(longest * 1000, maxGracePeriodMs ?? Infinity);
  return timeoutMs + Math.min(FORCE_MS + graceMs, FORCE_LIMIT_MS);
}

/** How much of the whole limit is left, milliseconds; not below 0. */
export function limitRemainingMs(drain: DrainStatus, settings: Limits, pods: readonly DrainPod[], now: number): number {
  return Math.max(0, wholeLimitMs(settings, pods) - elapsedMs(drain, now));
}

/** What a drain that has begun may still do. */
export function stageOf(drain: DrainStatus, settings: Limits, pods: readonly DrainPod[], now: number): Stage {
  if (elapsedMs(drain, now) < settings.timeoutMs) return 'Evict';
  return limitRemainingMs(drain, settings, pods, now) > 0 ? 'Force' : 'Over';
}

/** A start that lies ahead was written by a clock that differs. */
function elapsedMs({ startTime, resumeTime = startTime }: DrainStatus, now: number): number {
  return Math.max(0, now - (parseTime(resumeTime) ?? now));
}

/** True for a pod that does not go although it was told to long ago. */
export function isAbandoned(pod: DrainPod, now: number): boolean {
  const goneBy = parseTime(pod.metadata.deletionTimestamp);
  return isTerminating(pod) && goneBy !== undefined && goneBy + ABANDON_MS < now;
}

/** Somebody has taken our cordon away twice. */
export const CORDON_REMOVED: DrainFailure = {
  code: 'CordonRemoved',
  message: 'somebody made the node schedulable twice while it was drained, so it is left alone',
};

/** The time is over. */
export function timedOut({ timeoutMs }: Pick<DrainSettings, 'timeoutMs'>): DrainFailure {
  return { code: 'DrainTimedOut', message: `the node was not empty after ${Math.round(timeoutMs / 60_000)} min` };
}
