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
  /** What was last reported of it, if it was at 0. */
  readonly before: DependentStatus | undefined;
}

/** Of an entry that was removed from the spec. */
const AT_ONCE = { level: 0, delayMs: 0, timeoutMs: 1_000 };

/** @param targets - those of the chart */
export function entriesOf({ dependents, config }: DependentsView, targets: readonly TargetName[]): Entry[] {
  const allowed = new Set(targets.map(targetKey));
  const wanted = new Map(dependents.map((one) => [targetKey(one), one]));
  const before = new Map<string, DependentStatus>();
  const left = (config?.status?.dependents ?? []).flatMap((one) => {
    const kind = DEPENDENT_KINDS.find((known) => known === one.kind);
    if (kind === undefined || one.replicas === undefined) return [];
    const { namespace, target } = one;
    const key = targetKey({ kind, namespace, target });
    // There is no record to scale back, and no right to read whether a user has scaled it.
    if (one.state === 'RecordRemoved' && !wanted.has(key) && !allowed.has(key)) return [];
    before.set(key, one);
    return [{ kind, namespace, target }];
  });
  const all = new Map([...dependents, ...targets, ...left].map((one) => [targetKey(one), one]));
  return [...all].map(([key, { kind, namespace, target }]) => ({
    key,
    kind,
    namespace,
    target,
    dependent: wanted.get(key),
    isAllowed: allowed.has(key),
    before: before.get(key),
  }));
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
  if (loss === undefined || loss.isChanging) return 'Stay';
  if (!loss.lost) return 'Up';
  // What users want may be what has the mistake.
  if (problem !== undefined) return 'Stay';
  if (dependent === undefined || (typeof found !== 'string' && (found.isIgnored || found.losesVolumes))) return 'Up';
  return 'Down';
}
