/**
 * Which targets are scaled now, pure. Each level of a direction starts when the former is done or timed
 * out, and each dependent of it after its delay:
 *
 *     done        it is scaled, and its pods are gone or Ready; or there is nothing to scale
 *     timed out   delay and timeout have passed since the level started; it is still scaled if it can be
 *
 * What is to be scaled follows from the targets alone. Only the times at which levels started are
 * remembered: a new leader starts the level that it finds again.
 */
import type { Dependent } from '@brupop/shared/api/config-dependents';
import type { Target } from './target.ts';

export type Direction = 'Down' | 'Up';
type Phase = Dependent['scaleDown'];

/** Of one dependent, and of a target whose entry was removed. */
export interface Observed {
  readonly key: string;
  /** Stay: it is not known which. */
  readonly wanted: Direction | 'Stay';
  readonly phases: Readonly<Record<Direction, Phase>>;
  /** Failed: it cannot be read, or not be written, for a reason of its own. */
  readonly found: Target | 'NotFound' | 'Failed';
}

/** When levels started, on the monotonic clock, by direction and level. */
export type Started = ReadonlyMap<string, number>;

export interface Scaling {
  readonly key: string;
  readonly target: Target;
  readonly to: Direction;
}

export interface Decision {
  readonly scalings: readonly Scaling[];
  readonly started: Started;
  /** When there is more to decide even if no target changes, monotonic; undefined: never. */
  readonly nextAt: number | undefined;
}

export function decide(observed: readonly Observed[], started: Started, now: number): Decision {
  const walks = (['Down', 'Up'] as const).map((direction) =>
    walk(
      direction,
      observed.filter(({ wanted }) => wanted === direction),
      started,
      now,
    ),
  );
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

function scalingOf({ key, found }: Observed, to: Direction): Scaling | undefined {
  if (typeof found === 'string') return undefined;
  const isNeeded = to === 'Down' ? found.state === 'Up' && found.replicas > 0 : found.state !== 'Up';
  return isNeeded ? { key, target: found, to } : undefined;
}

function isDone(one: Observed, direction: Direction): boolean {
  const { found } = one;
  if (typeof found === 'string') return found === 'NotFound';
  if (scalingOf(one, direction) !== undefined) return false;
  // What others have scaled back keeps its pods.
  return found.isSettled || (direction === 'Down' && found.state === 'ScaledByOthers');
}
