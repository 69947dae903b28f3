import pc from 'picocolors';
import type { Row } from './rows.ts';

export interface Progress {
  readonly rows: readonly Row[];
  /** Since the first node left Idle, milliseconds. */
  readonly elapsedMs: number;
  /** Columns and lines of the terminal. */
  readonly width: number;
  readonly height: number;
  /** Default: none. */
  readonly colors?: Colors;
}

export type Colors = ReturnType<typeof pc.createColors>;
const PLAIN = pc.createColors(false);
const BROKEN: ReadonlySet<string> = new Set(['failed', 'down']);

const HEADINGS = { node: 'NODE', zone: 'ZONE', state: 'STATE', version: 'VERSION', waitsFor: 'WAITS FOR' } as const;
const COLUMNS = Object.keys(HEADINGS) as (keyof typeof HEADINGS)[];
const GAP = '  ';
const BAR_WIDTH = 30;

/** Lines around the rows: headings, a blank line, the bar. */
const FRAME_LINES = 3;

/**
 * The table with its progress bar, as lines that fit the terminal. If the terminal is too low, idle
 * nodes are omitted first.
 */
export function renderProgress({ rows, elapsedMs, width, height, colors = PLAIN }: Progress): string[] {
  const shown = fitting(rows, height - FRAME_LINES);
  const widths = COLUMNS.map((column) => Math.max(HEADINGS[column].length, ...shown.map((row) => row[column].length)));
  const line = (cells: readonly string[]): string =>
    cells.map((cell, index) => cell.padEnd(widths[index] ?? 0)).join(GAP);
  const [headings = '', ...table] = [HEADINGS, ...shown].map((row) => line(COLUMNS.map((column) => row[column])));
  const more = shown.length < rows.length ? `… and ${rows.length - shown.length} more` : '';
  const fit = (text: string): string => cut(text.trimEnd(), width);
  return [
    colors.bold(fit(headings)),
    ...table.map((text, index) => colorOf(shown[index], colors)(fit(text))),
    fit(more),
    fit(bar(rows, elapsedMs)),
  ];
}

/** Of a node that has the version, that is broken, that waits, or that is under way. */
function colorOf(row: Row | undefined, colors: Colors): (text: string) => string {
  if (row?.done === true) return colors.green;
  if (BROKEN.has(row?.state ?? '')) return colors.red;
  return row?.state === 'waiting' ? colors.dim : colors.yellow;
}

function fitting(rows: readonly Row[], lines: number): readonly Row[] {
  if (rows.length <= lines) return rows;
  const chosen = new Set(rows.toSorted((a, b) => atRest(a) - atRest(b)).slice(0, Math.max(1, lines)));
  return rows.filter((row) => chosen.has(row));
}

/** 0 = under way. */
function atRest({ done, state }: Row): number {
  if (done) return 2;
  return state === 'waiting' ? 1 : 0;
}

function cut(text: string, width: number): string {
  return text.length <= width ? text : `${text.slice(0, width - 1)}…`;
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
