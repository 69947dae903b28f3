import { parseTime } from '@brupop/shared/runtime/clock';

const UNITS = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['m', 60_000],
  ['s', 1000],
] as const;

/** The largest two units, such as 2h5m. */
export function duration(ms: number): string {
  let rest = Math.max(0, Math.round(ms / 1000) * 1000);
  const parts: string[] = [];
  for (const [unit, size] of UNITS) {
    const count = Math.floor(rest / size);
    rest %= size;
    if (count > 0) parts.push(`${count}${unit}`);
    else if (parts.length > 0) break;
    if (parts.length === 2) break;
  }
  return parts.join('') || '0s';
}

/** The time and how far away it is, such as `2026-11-28T14:00:00Z (in 55m)`. */
export function relative(time: string, now: number): string {
  const at = parseTime(time);
  if (at === undefined) return time;
  return at >= now ? `${time} (in ${duration(at - now)})` : `${time} (${duration(now - at)} ago)`;
}
