/** In epoch milliseconds: `fromMs` is part of it, `toMs` is not. */
export interface Interval {
  readonly fromMs: number;
  readonly toMs: number;
}

/** Returns the same time as intervals in order that neither overlap nor touch; none is empty. */
export function merge(intervals: readonly Interval[]): Interval[] {
  const merged: Interval[] = [];
  for (const { fromMs, toMs } of intervals.toSorted((a, b) => a.fromMs - b.fromMs)) {
    const last = merged.at(-1);
    if (fromMs >= toMs) continue;
    if (last === undefined || fromMs > last.toMs) merged.push({ fromMs, toMs });
    else if (toMs > last.toMs) merged[merged.length - 1] = { fromMs: last.fromMs, toMs };
  }
  return merged;
}

/** Returns the parts of `intervals` outside every hole. Both are merged. */
export function subtract(intervals: readonly Interval[], holes: readonly Interval[]): Interval[] {
  return intervals.flatMap(({ fromMs, toMs }) => {
    const inside = holes.filter((hole) => hole.toMs > fromMs && hole.fromMs < toMs);
    const starts = [fromMs, ...inside.map((hole) => hole.toMs)];
    const ends = [...inside.map((hole) => hole.fromMs), toMs];
    return starts
      .map((start, i) => ({ fromMs: start, toMs: ends[i] ?? toMs }))
      .filter((part) => part.fromMs < part.toMs);
  });
}
