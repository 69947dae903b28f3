import { stripVTControlCharacters } from 'node:util';
import { escapeOf } from '@brupop/shared/runtime/errors';

/** Where text is printed: how wide it may be, and whether it may have colors. */
export interface Screen {
  readonly width: number;
  readonly hasColors: boolean;
  /** Lines of a terminal that can be redrawn; undefined: none. */
  readonly height?: number | undefined;
}

/** Characters that steer a terminal, or change the order in which others are shown; not the ends of lines. */
const UNSAFE = /[\u007F-\u009F\u2028\u2029\p{Cf}]|(?!\n)\p{Cc}/gu;

export function hasUnsafe(text: string): boolean {
  return text.search(UNSAFE) !== -1;
}

/** Each unsafe character of JSON or YAML, which may be in its texts only, as an escape that stands for the same. */
export function escaped(text: string, format: 'json' | 'yaml'): string {
  return text.replaceAll(UNSAFE, (character) => {
    const point = character.codePointAt(0) ?? 0;
    const isWide = format === 'yaml' && point > 0xff_ff;
    return isWide ? `\\U${point.toString(16).padStart(8, '0')}` : escapeOf(character);
  });
}

const HOME = '\u001B[H';
const CLEAR_LINE = '\u001B[K';
const CLEAR_BELOW = '\u001B[J';

/** Lines in the place of what the terminal shows. */
export function redrawn(lines: readonly string[]): string {
  return `${HOME}${lines.map((line) => `${line}${CLEAR_LINE}\n`).join('')}${CLEAR_BELOW}`;
}

const COLORS = { bold: 1, red: 31, green: 32, yellow: 33 } as const;
export type Color = keyof typeof COLORS;

export function colored(text: string, color: Color, { hasColors }: Screen): string {
  return hasColors ? `\u001B[${COLORS[color]}m${text}\u001B[0m` : text;
}

/** How many rows of the terminal a line takes: what does not fit into one continues in the next. */
export function rowsOf(line: string, { width }: Pick<Screen, 'width'>): number {
  return Math.max(1, Math.ceil(stripVTControlCharacters(line).length / width));
}

export function cut(text: string, width: number): string {
  return text.length <= width ? text : `${text.slice(0, Math.max(0, width - 1))}…`;
}

/** What objects say is printed without characters that would steer the terminal. */
export function plain(text: string): string {
  return text.replaceAll(/[\p{Cc}\p{Cf}]+/gu, ' ');
}

/** Lines of at most `width` characters, the second and later ones indented by `indent`. */
export function wrapped(text: string, width: number, indent = 0): string[] {
  const lines: string[] = [];
  let line = '';
  for (const word of plain(text).split(' ')) {
    const longer = line === '' ? word : `${line} ${word}`;
    if (line.trim() !== '' && longer.length > width) {
      lines.push(line);
      line = `${' '.repeat(indent)}${word}`;
    } else line = longer;
  }
  return [...lines, line];
}
