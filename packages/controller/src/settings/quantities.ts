import type { SpecReader } from '@brupop/shared/spec-reader';

/** How many nodes: so many, or a percentage of the managed ones. */
export type NodeLimit = { readonly nodes: number } | { readonly percent: number };

const PERCENT = /^(?<number>[1-9]\d?|100)%$/u;
const DURATION = /^(?:(?<hours>\d{1,4})h)?(?:(?<minutes>\d{1,5})m)?$/u;
const MINUTE_MS = 60_000;
const LIMIT_EXPECTED = 'a whole number from 1, such as 2, or a percentage from "1%" to "100%"';

/** How many of `managed` nodes a limit allows: a percentage is rounded down, but at least 1. */
export function nodesAtOnce(limit: NodeLimit, managed: number): number {
  return 'nodes' in limit ? limit.nodes : Math.max(1, Math.floor((managed * limit.percent) / 100));
}

/** Reads a limit; undefined when none is given, or it is wrong, which `read` takes note of. */
export function readNodeLimit(read: SpecReader, field: string): NodeLimit | undefined {
  const value = read.valueOf(field);
  if (value === undefined) return undefined;
  return nodeLimit(value) ?? read.wrong(field, LIMIT_EXPECTED, value);
}

function nodeLimit(value: unknown): NodeLimit | undefined {
  if (typeof value === 'number') return Number.isSafeInteger(value) && value >= 1 ? { nodes: value } : undefined;
  const percent = typeof value === 'string' ? PERCENT.exec(value)?.groups?.['number'] : undefined;
  return percent === undefined ? undefined : { percent: Number(percent) };
}

/** Reads a duration, milliseconds, as {@link readNodeLimit} does. */
export function readDuration(
  read: SpecReader,
  field: string,
  { min, max }: { readonly min: string; readonly max: string },
): number | undefined {
  const value = read.valueOf(field);
  if (value === undefined) return undefined;
  const ms = durationMs(value);
  const fits = ms !== undefined && ms >= (durationMs(min) ?? 0) && ms <= (durationMs(max) ?? 0);
  return fits ? ms : read.wrong(field, `hours and minutes from ${min} to ${max}, such as 1h30m`, value);
}

/** Of a text such as `4h`, `90m` or `1h30m`; undefined when it is none. */
function durationMs(value: unknown): number | undefined {
  const { hours, minutes } = (typeof value === 'string' ? DURATION.exec(value)?.groups : undefined) ?? {};
  if (hours === undefined && minutes === undefined) return undefined;
  return (Number(hours ?? 0) * 60 + Number(minutes ?? 0)) * MINUTE_MS;
}
