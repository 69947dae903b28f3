import { FORCE_LIMIT_MS } from '@brupop/shared/drain/settings';
import type { DrainSettings } from '@brupop/shared/drain/settings';
import type { FleetSettings } from './fleet-settings.ts';

/** What is set about the course of an update that has begun. */
export interface Rules {
  /** How long a node must have been healthy after its update, milliseconds. */
  readonly monitoringMs: number;
  /** How long load balancers and the drain may take together, milliseconds. */
  readonly drainMs: number;
  /** Updates whose host was not yet asked to reboot are called off. */
  readonly interrupt: boolean;
}

/** Puts them together. */
export function rulesOf({ paused, pauseMode, drain }: FleetSettings, monitoringMs: number): Rules {
  return { monitoringMs, drainMs: drainLimitMs(drain), interrupt: paused && pauseMode === 'Interrupt' };
}

function drainLimitMs({ exclusionMs, timeoutMs, onTimeout }: DrainSettings): number {
  return exclusionMs + timeoutMs + (onTimeout === 'Force' ? FORCE_LIMIT_MS : 0);
}
