/** What a plan means for each node, and how two plans differ. */
import type { Plan } from '@brupop/controller/plan/plan';
import type { Screen } from './screen.ts';
import { table } from './table.ts';

export interface Outcome {
  readonly node: string;
  /** What happens to the node now, such as Started; empty: nothing. */
  readonly change: string;
  readonly version: string;
  /** Of the condition Progressing. */
  readonly reason: string;
  readonly message: string;
}

export function outcomesOf({ decisions }: Pick<Plan, 'decisions'>): Outcome[] {
  return decisions.flat().map(({ managedNode: { name, shadow }, change, progressing }) => {
    const { reason = '', message = '' } = progressing ?? shadow?.progressing ?? {};
    return { node: name, change: change?.outcome ?? '', version: change?.spec.version ?? '', reason, message };
  });
}

/** The nodes for which something differs. */
export function differencesOf(before: readonly Outcome[], after: readonly Outcome[]): [was: Outcome, is: Outcome][] {
  const known = new Map(before.map((one) => [one.node, one]));
  return after.flatMap((is) => {
    const was = known.get(is.node) ?? { node: is.node, change: '', version: '', reason: '', message: '' };
    const keys = ['change', 'version', 'reason', 'message'] as const;
    return keys.some((key) => was[key] !== is[key]) ? [[was, is]] : [];
  });
}

export function differenceLines(before: readonly Outcome[], after: readonly Outcome[], screen: Screen): string[] {
  const differences = differencesOf(before, after);
  if (differences.length === 0) return ['The edit changes nothing for any node now.'];
  const rows = differences.map(([was, is]) => [is.node, textOf(was), textOf(is)]);
  return [
    ...table([['NODE', 'NOW', 'WITH THE EDIT'], ...rows], screen),
    '',
    `${differences.length} of ${after.length} nodes differ. Nothing was applied.`,
  ];
}

function textOf({ change, version, reason }: Outcome): string {
  return change === '' ? reason : [change, version].filter((text) => text !== '').join(' ');
}
