/**
 * The targets that are looked at, how each is wanted by what users, the chart and the cluster say, and
 * which are scaled now, pure. Each level of a direction starts when the former is done or timed
 * out, and each dependent of it after its delay:
 *
 *     done        it is scaled, and its pods are gone or Ready; or there is nothing to scale
 *     timed out   delay and timeout have passed since the level started; it is still scaled if it can be
 *
 * What is to be scaled follows from the targets alone. Only the times at which levels started are
 * remembered: a new leader starts the level that it finds again.
 */
import type { DependentStatus } from '@brupop/shared/api/brupop-config';
import { type Dependent, DEPENDENT_KINDS, type TargetName, targetKey } from '@brupop/shared/api/config-dependents';
import type { DependentsView } from '../../cluster/dependents.ts';
import type { Found, Target } from './target.ts';

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

export function observedOf(entry: Entry, found: Found, view: DependentsView): Observed {
  const { scaleDown = AT_ONCE, scaleUp = AT_ONCE } = entry.dependent ?? {};
  const wanted = wantedOf(entry.dependent, found, view);
  return { entry, wanted, phases: { Down: scaleDown, Up: scaleUp }, found };
}

function wantedOf(
  dependent: Dependent | undefined,
  found: Found,
  { loss, problem }: DependentsView,
): Direction | 'Stay' {
  if (loss === undefined || loss.isChanging) return 'Stay';
  if (!loss.lost) return 'Up';
  // What users want may be what has the mistake.
  if (problem !== undefined) return 'Stay';
  if (dependent === undefined || (typeof found !== 'string' && (found.isIgnored || found.losesVolumes))) return 'Up';
  return 'Down';
}

export type Direction = 'Down' | 'Up';

/** Of one dependent, and of a target whose entry was removed. */
interface Observed {
  readonly entry: Entry;
  /** Stay: it is not known which. */
  readonly wanted: Direction | 'Stay';
  readonly phases: Readonly<Record<Direction, Dependent['scaleDown']>>;
  /** NotAllowed, Failed: it cannot be read, or not be written, for a reason of its own. */
  readonly found: Found;
}

/** When levels started, on the monotonic clock, by direction and level. */
export type Started = ReadonlyMap<string, number>;

export interface Scaling {
  readonly entry: Entry;
  readonly target: Target;
  readonly to: Direction;
}

interface Decision {
  readonly scalings: readonly Scaling[];
  readonly started: Started;
  /** When there is more to decide even if no target changes, monotonic; undefined: never. */
  readonly nextAt: number | undefined;
}

export function decide(observed: readonly Observed[], started: Started, now: number): Decision {
  const walks = (['Down', 'Up'] as const).map((direction) => {
    const wanted = observed.filter((one) => one.wanted === direction);
    return walk(direction, wanted, started, now);
  });
  const times = walks.flatMap(({ nextAt }) => nextAt ?? []);
  return {
    scalings: walks.flatMap(({ scalings }) => scalings),
    started: new Map(walks.flatMap((one) => [...one.started])),
    nextAt: times.length === 0 ? undefined : Math.min(...times),
  };
}

function walk(direction: Direction, observed: readonly Observed[], started: Started, now: number): Decision {
  const scalings: Scaling[] = [];
  const next = new Map<string, number>();
  const times: number[] = [];
  // Without anything to scale, pods that are not Ready are no concern.
  const levels = observed.some((one) => scalingOf(one, direction) !== undefined)
    ? Map.groupBy(observed, ({ phases }) => phases[direction].level)
    : new Map<number, Observed[]>();
  for (const [level, members] of [...levels].toSorted(([a], [b]) => a - b)) {
    const key = `${direction} ${level}`;
    const startedAt = started.get(key) ?? now;
    next.set(key, startedAt);
    const isOpen = members.map((one) => {
      const { delayMs, timeoutMs } = one.phases[direction];
      const [dueAt, endsAt] = [startedAt + delayMs, startedAt + delayMs + timeoutMs];
      const scaling = scalingOf(one, direction);
      if (scaling !== undefined && now >= dueAt) scalings.push(scaling);
      if (isDone(one, direction) || now >= endsAt) return false;
      times.push(now < dueAt ? dueAt : endsAt);
      return true;
    });
    if (isOpen.includes(true)) break;
  }
  return { scalings, started: next, nextAt: times.length === 0 ? undefined : Math.min(...times) };
}

function scalingOf({ entry, found }: Observed, to: Direction): Scaling | undefined {
  if (typeof found === 'string') return undefined;
  const isNeeded = to === 'Down' ? found.state === 'Up' && found.replicas > 0 : found.state !== 'Up';
  return isNeeded ? { entry, target: found, to } : undefined;
}

function isDone(one: Observed, direction: Direction): boolean {
  const { found } = one;
  if (typeof found === 'string') return found === 'NotFound';
  if (scalingOf(one, direction) !== undefined) return false;
  // What others have scaled back keeps its pods.
  return found.isSettled || (direction === 'Down' && found.state === 'ScaledByOthers');
}
