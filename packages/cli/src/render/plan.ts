import type { BrupopConfig } from '@brupop/shared/api/brupop-config';
import type { Screen } from './screen.ts';
import { table } from './table.ts';
import { relative } from './times.ts';

/** The lines of `plan`: the nodes that update next, as the controller has last reported them. */
export function planLines(config: BrupopConfig | undefined, now: number, screen: Screen): string[] {
  const planned = config?.status?.plan ?? [];
  if (planned.length === 0) return ['No node waits for an update.'];
  const rows = planned.map(({ node, version = '', reason, expectedTime }, index) => [
    String(index + 1),
    node,
    version,
    reason,
    expectedTime === undefined ? 'unknown' : relative(expectedTime, now),
  ]);
  return table([['#', 'NODE', 'VERSION', 'REASON', 'EXPECTED'], ...rows], screen);
}
