import type { BrupopConfig } from '@brupop/shared/api/brupop-config';
import { NO_CONFIG } from './status.ts';
import type { Screen } from './screen.ts';
import { table } from './table.ts';
import { relative } from './times.ts';

function noneText(config: BrupopConfig | undefined): string {
  if (config === undefined) return NO_CONFIG;
  // The definition of the BrupopConfig has 0 for the generation that no controller has seen.
  const { observedGeneration = 0, nodes: { waiting = 0, failed = 0 } = {} } = config.status ?? {};
  if (observedGeneration === 0) return 'No controller has reported on the configuration: there is no plan.';
  // Such as those of silent agents: whether there is an update for them is not known.
  const others = waiting + failed;
  return others > 0
    ? `No node updates next (waiting or failed: ${others}): see "kubectl brupop status".`
    : 'No node waits for an update.';
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
