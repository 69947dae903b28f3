/** The targets that are looked at, and how each is wanted: what users, the chart and the cluster say, pure. */
import type { DependentStatus } from '@brupop/shared/api/brupop-config';
import { type Dependent, DEPENDENT_KINDS, type TargetName, targetKey } from '@brupop/shared/api/config-dependents';
import type { DependentsView } from '../../cluster/dependents.ts';
import type { Direction, Observed } from './decide.ts';
import type { Shown } from './report.ts';

/** Also of a target that has no entry in the spec: it may have been left at 0. */
export interface Entry extends TargetName {
  readonly key: string;
  readonly dependent: Dependent | undefined;
  /** The chart has it, so there is a right to read and to scale it. */
  readonly isAllowed: boolean;
  /** What was reported of one that neither the spec nor the chart has any more. */
  readonly left: DependentStatus | undefined;
}

/** Of an entry that was removed from the spec. */
const AT_ONCE = { level: 0, delayMs: 0, timeoutMs: 1_000 };

/** @param targets - those of the chart */
export function entriesOf({ dependents, config }: DependentsView, targets: readonly TargetName[]): Entry[] {
  const allowed = new Set(targets.map(targetKey));
  const left = (config?.status?.dependents ?? []).flatMap((one) => {
    const kind = DEPENDENT_KINDS.find((known) => known === one.kind);
    return kind !== undefined && ['Down', 'ScaledByOthers'].includes(one.state)
      ? [{ target: { ...one, kind }, left: one }]
      : [];
  });
  const all = [
    ...dependents.map((dependent) => ({ target: dependent, dependent })),
    ...targets.map((target) => ({ target })),
    ...left,
  ];
  const byKey = new Map<string, Entry>();
  for (const { target: object, ...more } of all) {
    const key = targetKey(object);
    const { kind, namespace, target } = object;
    const entry = { key, kind, namespace, target, dependent: undefined, left: undefined, isAllowed: allowed.has(key) };
    if (!byKey.has(key)) byKey.set(key, { ...entry, ...more });
  }
  return [...byKey.values()];
}

export function observedOf({ key, dependent }: Entry, found: Shown['found'], view: DependentsView): Observed {
  const { scaleDown = AT_ONCE, scaleUp = AT_ONCE } = dependent ?? {};
  const wanted = wantedOf(dependent, found, view);
  return { key, wanted, phases: { Down: scaleDown, Up: scaleUp }, found: found === 'NotAllowed' ? 'Failed' : found };
}

function wantedOf(
  dependent: Dependent | undefined,
  found: Shown['found'],
  { loss, problem }: DependentsView,
): Direction | 'Stay' {
  if (loss === undefined) return 'Stay';
  if (!loss.lost) return 'Up';
  // What users want may be what has the mistake.
  if (problem !== undefined) return 'Stay';
  if (dependent === undefined || (typeof found !== 'string' && found.isIgnored)) return 'Up';
  return 'Down';
}
