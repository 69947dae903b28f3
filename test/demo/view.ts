import type { Row } from './rows.ts';

export interface Progress {
  readonly rows: readonly Row[];
  /** Since the first node left Idle, milliseconds. */
  readonly elapsedMs: number;
  /** Columns of the terminal. */
  readonly width: number;
}

const HEADINGS = { node: 'NODE', zone: 'ZONE', state: 'STATE', version: 'VERSION', waitsFor: 'WAITS FOR' } as const;
const COLUMNS = Object.keys(HEADINGS) as (keyof typeof HEADINGS)[];
const GAP = '  ';
const BAR_WIDTH = 30;

/** The table with its progress bar, as lines that fit the width. */
export function renderProgress({ rows, elapsedMs, width }: Progress): string[] {
  const widths = COLUMNS.map((column) => Math.max(HEADINGS[column].length, ...rows.map((row) => row[column].length)));
  const line = (cells: readonly string[]): string =>
    cells.map((cell, index) => cell.padEnd(widths[index] ?? 0)).join(GAP);
  const table = [
    line(COLUMNS.map((column) => HEADINGS[column])),
    ...rows.map((row) => line(COLUMNS.map((column) => row[column]))),
  ];
  return [...table, '', bar(rows, elapsedMs)].map((text) => text.trimEnd().slice(0, width));
}

function bar(rows: readonly Row[], elapsedMs: number): string {
  const done = rows.filter((row) => row.done).length;
  const filled = rows.length === 0 ? 0 : Math.round((BAR_WIDTH * done) / rows.length);
  const drawn = '█'.repeat(filled) + '░'.repeat(BAR_WIDTH - filled);
  return `${drawn} ${done} of ${rows.length} nodes, ${seconds(elapsedMs)}${estimate(done, rows.length, elapsedMs)}`;
}

function estimate(done: number, all: number, elapsedMs: number): string {
  if (done === 0 || done === all) return '';
  return `, about ${seconds((elapsedMs / done) * (all - done))} to go`;
}

/** `12 s` or `1 min 5 s`. */
export function seconds(ms: number): string {
  const whole = Math.round(ms / 1000);
  return whole < 60 ? `${whole} s` : `${Math.floor(whole / 60)} min ${whole % 60} s`;
}
