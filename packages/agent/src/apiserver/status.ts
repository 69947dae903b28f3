import { isDeepStrictEqual } from 'node:util';
import type { AgentShadow } from '@brupop/shared/api/agent-protocol';
import type { AgentStatus, LastOperation, Operation, ShadowStatus } from '@brupop/shared/api/shadow';
import { parseTime, rfc3339 } from '@brupop/shared/runtime/clock';

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

export interface Boot {
  readonly bootID: string;
  /** Epoch milliseconds. */
  readonly wallMs: number;
}

const MIN_BOOT_INTERVAL_MS = 1000;

/**
 * Keeps a time that was reported for this boot, so that two processes agree. Otherwise returns the
 * wall clock less the uptime; if the machine was already up when the earlier boot was reported (a
 * host that is a process, or a clock that was set), when the boot ID was first seen.
 */
export function bootTime(
  { bootID, wallMs, uptimeMs }: Boot & { readonly uptimeMs: number },
  known: Pick<AgentStatus, 'bootID' | 'bootTime'> | undefined,
): string {
  if (known?.bootTime !== undefined && known.bootID === bootID) return known.bootTime;
  const upSinceMs = wallMs - uptimeMs;
  const earlierMs = parseTime(known?.bootTime) ?? -Infinity;
  return rfc3339(upSinceMs > earlierMs + MIN_BOOT_INTERVAL_MS ? upSinceMs : wallMs);
}

export function startStep(operation: Operation, version: string, { bootID, wallMs }: Boot): LastOperation {
  const time = rfc3339(wallMs);
  const plain = version.replace(/^v/, '');
  return { operation, state: 'Processing', version: plain, bootID, startTime: time, lastUpdateTime: time };
}

/** The time limit of the returned step counts from now. */
export function restartStep(step: LastOperation, wallMs: number): LastOperation {
  const time = rfc3339(wallMs);
  return { ...step, startTime: time, lastUpdateTime: time };
}

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

/** True in a state that may change host settings, if the spec requests or the status records some. */
export function concernsSettings({ spec, status }: AgentShadow): boolean {
  if (spec.state === 'RebootedIntoUpdate' || spec.state === 'MonitoringUpdate') return false;
  const { versionLock: wantedLock, ignoreWaves: wantedWaves } = spec.hostSettings ?? {};
  const { versionLock, ignoreWaves } = status?.hostSettings ?? {};
  return [wantedLock, wantedWaves, versionLock, ignoreWaves].some((one) => one != null);
}
