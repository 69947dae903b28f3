/** Texts that `make generate` writes into pages of docs, between their markers. */
import type { Declaration } from '../packages/shared/src/runtime/metrics.ts';

/** The page with `text` between the markers of `part`. */
export function withPart(page: string, part: string, text: string): string {
  const [begin, end] = [`<!-- make generate: ${part} -->`, `<!-- end: ${part} -->`];
  const [head, rest = ''] = page.split(begin);
  const [, tail] = rest.split(end);
  if (head === undefined || tail === undefined) throw new Error(`expected ${begin} and ${end} in a page of docs`);
  return `${head}${begin}\n\n${text}\n\n${end}${tail}`;
}

/** Breaks a list item into lines of at most 120 characters. */
export function wrap(text: string): string {
  const lines: string[] = [];
  for (const word of text.split(' ')) {
    const last = lines.at(-1);
    if (last !== undefined && last.length + 1 + word.length <= 120) lines[lines.length - 1] = `${last} ${word}`;
    else lines.push(last === undefined ? word : `  ${word}`);
  }
  return lines.join('\n');
}

export function metricEntries(table: Readonly<Record<string, Declaration>>): string {
  return Object.values(table)
    .map(({ name, type, labels, help }) => {
      const named = labels.length === 0 ? '' : `; ${labels.map((label) => `\`${label}\``).join(', ')}`;
      return wrap(`- \`brupop_${name}\` (${type}${named}): ${help}`);
    })
    .join('\n');
}
