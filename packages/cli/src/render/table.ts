import { cut, plain, type Screen } from './screen.ts';

const GAP = '  ';
const MIN_COLUMN = 8;

/** Columns as wide as their content. What does not fit into the screen is cut, in the widest columns first. */
export function table(rows: readonly (readonly string[])[], { width }: Pick<Screen, 'width'>): string[] {
  const cells = rows.map((row) => row.map(plain));
  const widths = widthsOf(cells, width);
  return cells.map((row) =>
    row
      .map((cell, column) => cut(cell, widths[column] ?? 0).padEnd(widths[column] ?? 0))
      .join(GAP)
      .trimEnd(),
  );
}

function widthsOf(rows: readonly (readonly string[])[], width: number): number[] {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  let excess = widths.reduce((sum, one) => sum + one + GAP.length, -GAP.length) - width;
  while (excess > 0) {
    const widest = widths.indexOf(Math.max(...widths));
    const size = widths[widest] ?? 0;
    if (size <= MIN_COLUMN) break;
    const rest = Math.max(MIN_COLUMN, ...widths.filter((_, column) => column !== widest));
    const less = Math.max(1, Math.min(excess, size - rest));
    widths[widest] = size - less;
    excess -= less;
  }
  return widths;
}
