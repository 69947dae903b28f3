/** Where text is printed: how wide it may be, and whether it may have colors. */
export interface Screen {
  readonly width: number;
  readonly hasColors: boolean;
}

const COLORS = { bold: 1, red: 31, green: 32, yellow: 33 } as const;
export type Color = keyof typeof COLORS;

export function colored(text: string, color: Color, { hasColors }: Screen): string {
  return hasColors ? `\u001B[${COLORS[color]}m${text}\u001B[0m` : text;
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
