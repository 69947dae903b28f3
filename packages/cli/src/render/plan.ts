import type { BrupopConfig } from '@brupop/shared/api/brupop-config';
import { NO_CONFIG } from './status.ts';
import type { Screen } from './screen.ts';
import { table } from './table.ts';
import { relative } from './times.ts';

function noneText(config: BrupopConfig | undefined): string {
  if (config === undefined) return NO_CONFIG;
  // The definition of the BrupopConfig has 0 for the generation that no controller has seen.
  const isReported = (config.status?.observedGeneration ?? 0) > 0;
  return isReported
    ? 'No node waits for an update.'
    : 'No controller has reported on the configuration: there is no plan.';
}

/** The lines of `plan`: the nodes that update next, as the controller has last reported them. */
export function planLines(config: BrupopConfig | undefined, now: number, screen: Screen): string[] {
  const planned = config?.status?.plan ?? [];
  if (planned.length === 0) return [noneText(config)];
  const rows = planned.map(({ node, version = '', reason, expectedTime }, index) => [
    String(index + 1),
    node,
    version,
    reason,
    expectedTime === undefined ? 'unknown' : relative(expectedTime, now),
  ]);
  return table([['#', 'NODE', 'VERSION', 'REASON', 'EXPECTED'], ...rows], screen);
}
