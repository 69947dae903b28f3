/** A stretch of time in epoch milliseconds: `fromMs` is part of it, `toMs` is not. */
export interface Span {
  readonly fromMs: number;
  readonly toMs: number;
}

/** Returns the same time as spans in order that neither overlap nor touch; none is empty. */
export function merge(spans: readonly Span[]): Span[] {
  const merged: Span[] = [];
  for (const { fromMs, toMs } of spans.toSorted((a, b) => a.fromMs - b.fromMs)) {
    const last = merged.at(-1);
    if (fromMs >= toMs) continue;
    if (last === undefined || fromMs > last.toMs) merged.push({ fromMs, toMs });
    else if (toMs > last.toMs) merged[merged.length - 1] = { fromMs: last.fromMs, toMs };
  }
  return merged;
}

/** Returns the parts of `spans` outside every hole. Both are merged. */
export function subtract(spans: readonly Span[], holes: readonly Span[]): Span[] {
  return spans.flatMap(({ fromMs, toMs }) => {
    const inside = holes.filter((hole) => hole.toMs > fromMs && hole.fromMs < toMs);
    const begins = [fromMs, ...inside.map((hole) => hole.toMs)];
    const ends = [...inside.map((hole) => hole.fromMs), toMs];
    return begins
      .map((begin, i) => ({ fromMs: begin, toMs: ends[i] ?? toMs }))
      .filter((part) => part.fromMs < part.toMs);
  });
}
