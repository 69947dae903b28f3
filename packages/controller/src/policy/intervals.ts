/** A stretch of time in epoch milliseconds: `fromMs` is part of it, `toMs` is not. */
export interface Span {
  readonly fromMs: number;
  readonly toMs: number;
}

/** The same time as spans in order that neither overlap nor touch. */
export function unite(spans: readonly Span[]): Span[] {
  const united: Span[] = [];
  append(
    united,
    spans.toSorted((a, b) => a.fromMs - b.fromMs),
  );
  return united;
}

/** Adds `spans`, which are in order and begin no earlier than the last of `united`, to `united`, which stays united. */
export function append(united: Span[], spans: readonly Span[]): void {
  for (const span of spans) {
    const last = united.at(-1);
    if (last === undefined || span.fromMs > last.toMs) united.push(span);
    else if (span.toMs > last.toMs) united[united.length - 1] = { fromMs: last.fromMs, toMs: span.toMs };
  }
}

/** What of `spans` is outside every hole. Both are united. */
export function subtract(spans: readonly Span[], holes: readonly Span[]): Span[] {
  return spans.flatMap((span) => pieces(span, holes));
}

function pieces({ fromMs, toMs }: Span, holes: readonly Span[]): Span[] {
  const left: Span[] = [];
  let begin = fromMs;
  for (let i = indexAfter(holes, fromMs); begin < toMs; i += 1) {
    const hole = holes[i] ?? { fromMs: toMs, toMs };
    const end = Math.min(hole.fromMs, toMs);
    if (end > begin) left.push({ fromMs: begin, toMs: end });
    begin = hole.toMs;
  }
  return left;
}

/** The first of the united `spans` that ends after `time`: the one that holds it, else the next one. */
export function spanAfter(spans: readonly Span[], time: number): Span | undefined {
  return spans[indexAfter(spans, time)];
}

/** The index of the first of the united `spans` that ends after `time`, or their number when there is none. */
export function indexAfter(spans: readonly Span[], time: number): number {
  let low = 0;
  let high = spans.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((spans[middle]?.toMs ?? Infinity) > time) high = middle;
    else low = middle + 1;
  }
  return low;
}
