import type { BottlerocketShadow } from '@brupop/shared/api/shadow';
import { type NodeRow, nodeRow } from './node.ts';
import type { Screen } from './screen.ts';
import { table } from './table.ts';

export interface Entry {
  readonly time: string;
  readonly node: string;
  readonly result: string;
  readonly version: string;
  readonly details: string;
}

/** The latest success, failure and aborted update of each node, the newest first. The operator keeps no more. */
export function historyOf(shadows: readonly BottlerocketShadow[]): Entry[] {
  return shadows.flatMap((shadow) => entriesOf(nodeRow(shadow))).toSorted((a, b) => (a.time > b.time ? -1 : 1));
}

function entriesOf({ node, record: { succeeded, updated, failed, aborted, rollback } }: NodeRow): Entry[] {
  const success = succeeded?.isReboot === true ? updated : succeeded;
  return [
    ...(success === undefined
      ? []
      : [{ time: success.at, node, result: 'Succeeded', version: success.version, details: '' }]),
    ...(failed === undefined
      ? []
      : [{ time: failed.at, node, result: 'Failed', version: failed.version, details: failed.code }]),
    ...(aborted === undefined
      ? []
      : [{ time: aborted.at, node, result: 'Aborted', version: aborted.version, details: 'by a user' }]),
    ...(rollback === undefined
      ? []
      : [
          {
            time: rollback.since,
            node,
            result: 'Rollback',
            version: rollback.previous,
            details: `from ${rollback.failed}`,
          },
        ]),
  ];
}

export function historyLines(entries: readonly Entry[], screen: Screen): string[] {
  if (entries.length === 0) return ['No node has updated yet.'];
  const rows = entries.map(({ time, node, result, version, details }) => [time, node, result, version, details]);
  return table([['TIME', 'NODE', 'RESULT', 'VERSION', 'DETAILS'], ...rows], screen);
}
