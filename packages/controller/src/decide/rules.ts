import { FORCE_LIMIT_MS } from '@brupop/shared/drain/settings';
import type { DrainSettings } from '@brupop/shared/drain/settings';
import type { HostSettings } from '@brupop/shared/shadow';
import { hostSettings } from '../settings/fleet-settings.ts';
import type { FleetSettings, Timeouts, VersionSettings } from '../settings/fleet-settings.ts';

/** What is set about the course of an update that has begun. */
export interface Rules {
  /** How long a node must have been healthy after its update, milliseconds. */
  readonly monitoringMs: number;
  /** How long load balancers and the drain may take together, milliseconds. */
  readonly drainMs: number;
  readonly timeouts: Timeouts;
  /** Updates whose host was not yet asked to reboot are called off. */
  readonly interrupt: boolean;
  readonly versions: VersionSettings;
  /** What the hosts are to be set to; undefined: they keep what they have. */
  readonly hostSettings: HostSettings | undefined;
}

/** Puts them together. */
export function rulesOf(fleet: FleetSettings, monitoringMs: number): Rules {
  const { paused, pauseMode, drain, timeouts, versions } = fleet;
  const interrupt = paused && pauseMode === 'Interrupt';
  return {
    monitoringMs,
    drainMs: drainLimitMs(drain),
    timeouts,
    interrupt,
    versions,
    hostSettings: hostSettings(fleet),
  };
}

function drainLimitMs({ exclusionMs, timeoutMs, onTimeout }: DrainSettings): number {
  return exclusionMs + timeoutMs + (onTimeout === 'Force' ? FORCE_LIMIT_MS : 0);
}
