import { isDeepStrictEqual } from 'node:util';
import type { AgentStatus, LastOperation, Operation, ShadowStatus } from '@brupop/shared/api/shadow';
import { parseTime, rfc3339 } from '@brupop/shared/runtime/clock';

/**
 * True when the shadow has all that the agent would report. Fields of other writers are ignored.
 */
export function sameStatus(known: ShadowStatus | undefined, next: AgentStatus): boolean {
  return known !== undefined && isDeepStrictEqual(reported(known), reported(next));
}

/** The fields that an agent reports; null and an empty record count as absent. */
function reported({ hostSettings = {}, ...status }: ShadowStatus | AgentStatus): unknown {
  const { current_state, current_version, target_version, crash_count, lastOperation } = status;
  const { state_transition_failure_timestamp, observedGeneration, bootID, bootTime } = status;
  const facts = { current_state, current_version, target_version, crash_count, bootID, bootTime };
  const fields = { ...facts, state_transition_failure_timestamp, observedGeneration, lastOperation, hostSettings };
  return JSON.parse(JSON.stringify(fields, (_name, value: unknown) => value ?? undefined));
}

/** What is seen of the current boot. */
export interface Boot {
  readonly bootID: string;
  /** Wall clock, epoch milliseconds. */
  readonly wallMs: number;
}

/** Two boots of a machine are at least this far apart, in milliseconds. */
const MIN_BOOT_INTERVAL = 1000;

/**
 * Returns when the host booted. A time that was reported for this boot stays, so that two processes
 * never disagree by a second. Otherwise it is the wall clock less the uptime; if the machine was
 * already up when the earlier boot was reported (hosts that are processes in a test, or a clock
 * that was set), it is the time at which the boot ID was first seen.
 */
export function bootTime(
  { bootID, wallMs, uptimeMs }: Boot & { readonly uptimeMs: number },
  known: Pick<AgentStatus, 'bootID' | 'bootTime'> | undefined,
): string {
  if (known?.bootTime !== undefined && known.bootID === bootID) return known.bootTime;
  const upSinceMs = wallMs - uptimeMs;
  const earlierMs = parseTime(known?.bootTime) ?? -Infinity;
  return rfc3339(upSinceMs > earlierMs + MIN_BOOT_INTERVAL ? upSinceMs : wallMs);
}

/** Returns a step toward `version` that starts now. */
export function startStep(operation: Operation, version: string, { bootID, wallMs }: Boot): LastOperation {
  const time = rfc3339(wallMs);
  const plain = version.replace(/^v/, '');
  return { operation, state: 'Processing', version: plain, bootID, startTime: time, lastUpdateTime: time };
}

/** Returns the step, of the same boot, with a time limit that counts from now. */
export function restartStep(step: LastOperation, wallMs: number): LastOperation {
  const time = rfc3339(wallMs);
  return { ...step, startTime: time, lastUpdateTime: time };
}

/** Returns the step as one that succeeded now. */
export function succeedStep(step: LastOperation, wallMs: number): LastOperation {
  const { errorCode: _code, message: _message, ...rest } = step;
  return { ...rest, state: 'Succeeded', lastUpdateTime: rfc3339(wallMs) };
}

/** True from right before the reboot is requested until it has failed or another step follows. */
export function isRebootInProgress(step: LastOperation | undefined): step is LastOperation {
  return step?.operation === 'Reboot' && step.state === 'Processing';
}

/** True for the steps in which the agent activates, or has activated, a verified image. */
export function mayBeActive(step: LastOperation | undefined): step is LastOperation {
  return step?.operation === 'Activate' || step?.operation === 'Reboot';
}
