import { type PastUpdate, readHistory } from '@brupop/shared/api/history';
import { parseTime } from '@brupop/shared/runtime/clock';
import type { BottlerocketShadow } from '@brupop/shared/api/shadow';
import { nodeRow } from './node.ts';
import type { Screen } from './screen.ts';
import { table } from './table.ts';
import { duration } from './times.ts';

export interface Entry extends PastUpdate {
  readonly node: string;
}

/** The last ten updates of each node, the latest first. */
export function historyOf(shadows: readonly BottlerocketShadow[]): Entry[] {
  return shadows
    .flatMap((shadow) => {
      const { node } = nodeRow(shadow);
      return readHistory(shadow.metadata).map((update) => ({ node, ...update }));
    })
    .toSorted((a, b) => (parseTime(b.start) ?? 0) - (parseTime(a.start) ?? 0));
}

/** With fewer columns, times are without year and seconds. */
const NARROW = 100;

/** How long the update took. */
export function tookOf({ start, end }: Pick<PastUpdate, 'start' | 'end'>): string {
  return duration((parseTime(end) ?? 0) - (parseTime(start) ?? 0));
}

export function historyLines(entries: readonly Entry[], screen: Screen): string[] {
  if (entries.length === 0) return ['No update has ended yet.'];
  const rows = entries.map((one) => {
    const { start, node, from, to, outcome, code = '', attempt } = one;
    return [
      screen.width < NARROW ? start.slice('2026-'.length, -':00Z'.length).replace('T', ' ') : start,
      node,
      from,
      to,
      tookOf(one),
      outcome,
      String(attempt),
      code,
    ];
  });
  return table([['START', 'NODE', 'FROM', 'TO', 'TOOK', 'OUTCOME', 'TRY', 'CODE'], ...rows], screen);
}
