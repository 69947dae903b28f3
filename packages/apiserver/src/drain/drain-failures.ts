import type { DrainSettings } from '@brupop/shared/drain/settings';
import type { DrainFailure } from '@brupop/shared/operator-api';

/** Somebody has taken our cordon away twice. */
export const VETOED: DrainFailure = {
  code: 'DrainVetoed',
  message: 'somebody made the node schedulable twice while it was drained, so it is left alone',
};

/** The time is over. */
export function timedOut({ timeoutMs }: Pick<DrainSettings, 'timeoutMs'>): DrainFailure {
  return { code: 'DrainTimedOut', message: `the node was not empty after ${Math.round(timeoutMs / 60_000)} min` };
}
