import type {
  AgentStatus,
  HostSettingsStatus,
  LastOperation,
  Operation,
  ShadowStatus,
} from '@brupop/shared/api/shadow';
import { parseTime, rfc3339 } from '@brupop/shared/runtime/clock';
import { sameVersion } from '@brupop/shared/api/version';
import type { UpdateStatus } from '../host/host.ts';
import type { Observation } from '../state/observe.ts';

/** True when the shadow says already what the agent would report; what others write into the status does not count. */
export function sameStatus(known: ShadowStatus | undefined, next: AgentStatus): boolean {
  return known !== undefined && JSON.stringify(flatten(known)) === JSON.stringify(flatten(next));
}

function flatten(status: AgentStatus): readonly unknown[] {
  const { lastOperation: last } = status;
  return [
    status.current_state,
    status.current_version,
    status.target_version,
    status.crash_count,
    status.state_transition_failure_timestamp ?? null,
    status.observedGeneration,
    status.bootID,
    status.bootTime ?? null,
    flattenSettings(status.hostSettings),
    last === undefined
      ? null
      : [
          last.operation,
          last.state,
          last.version,
          last.bootID,
          last.startTime,
          last.lastUpdateTime,
          last.errorCode ?? null,
          last.message ?? null,
        ],
  ];
}

function flattenSettings({ versionLock, ignoreWaves, message }: HostSettingsStatus = {}): readonly unknown[] {
  const records = [versionLock, ignoreWaves].map((one) => (one === undefined ? null : [one.value, one.before]));
  return [...records, message ?? null];
}

/**
 * When the host booted: what was reported for this boot, so that no two processes disagree by a second, and otherwise the wall clock less the machine's
 * uptime. A machine that was up already when the earlier boot was reported has not booted since, as that of a test in which hosts are processes, or
 * a clock was set: then it is when the new boot ID was first seen.
 */
export function bootTime(
  { bootID, wallMs, uptimeMs }: Pick<Observation, 'bootID' | 'wallMs' | 'uptimeMs'>,
  known: Pick<AgentStatus, 'bootID' | 'bootTime'> | undefined,
): string {
  if (known?.bootTime !== undefined && known.bootID === bootID) return known.bootTime;
  const upSinceMs = wallMs - uptimeMs;
  const earlierMs = parseTime(known?.bootTime) ?? -Infinity;
  return rfc3339(upSinceMs > earlierMs + BOOT_AT_LEAST ? upSinceMs : wallMs);
}

/** No machine boots twice within so long, in milliseconds. */
const BOOT_AT_LEAST = 1000;

export interface Start {
  readonly version: string;
  readonly bootID: string;
  /** Wall clock, epoch milliseconds. */
  readonly wallMs: number;
}

/** A step that begins now. */
export function began(operation: Operation, { version, bootID, wallMs }: Start): LastOperation {
  const time = rfc3339(wallMs);
  const plain = version.replace(/^v/, '');
  return { operation, state: 'Processing', version: plain, bootID, startTime: time, lastUpdateTime: time };
}

/** A step whose time limit counts from now. It stays one of the boot in which it began. */
export function restarted(step: LastOperation, wallMs: number): LastOperation {
  const time = rfc3339(wallMs);
  return { ...step, startTime: time, lastUpdateTime: time };
}

/** True from when a reboot is about to be asked for until it has failed or another step follows. */
export function isRebootUnderWay(step: LastOperation | undefined): step is LastOperation {
  return step?.operation === 'Reboot' && step.state === 'Processing';
}

/** A step that ended well now. */
export function succeeded(operation: LastOperation, wallMs: number): LastOperation {
  const { errorCode: _code, message: _message, ...rest } = operation;
  return { ...rest, state: 'Succeeded', lastUpdateTime: rfc3339(wallMs) };
}

type Known = Pick<AgentStatus, 'current_version' | 'target_version'>;

/**
 * The version that the host would go to, or the running one. A refresh that failed, or none since the boot, says nothing about what is
 * offered: then what was known before stays, as long as the host still runs what it ran then.
 */
export function targetVersion(running: string, update: UpdateStatus | undefined, known: Known | undefined): string {
  const offered = update === undefined ? undefined : offeredVersion(update, running);
  if (offered !== undefined) return offered;
  return known !== undefined && sameVersion(known.current_version, running) ? known.target_version : running;
}

/** What a host offers by its status, or the running version when it offers nothing. Undefined when this cannot be told. */
export function offeredVersion(
  { state, chosenVersion, latestCommand: latest }: UpdateStatus,
  running: string,
): string | undefined {
  const chosen = state === 'Idle' ? undefined : chosenVersion;
  if (latest?.type !== 'refresh') return chosen;
  return latest.succeeded ? (chosen ?? running) : undefined;
}
