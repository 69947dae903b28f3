/** A table of a Markdown file: its head, and the cells of its rows. */
export interface Table {
  readonly head: readonly string[];
  readonly rows: readonly (readonly string[])[];
}

const RULE = /^\|(?: *:?-+:? *\|)+$/u;

/** All tables of a Markdown text. */
export function tablesOf(text: string): Table[] {
  const lines = text.split('\n').map((line) => line.trim());
  return lines.flatMap((line, index) => {
    if (!RULE.test(line)) return [];
    const rest = lines.slice(index + 1);
    const end = rest.findIndex((row) => !row.startsWith('|'));
    return [{ head: cells(lines[index - 1] ?? ''), rows: rest.slice(0, end === -1 ? undefined : end).map(cells) }];
  });
}

/** A `|` inside a cell is written `\|`. */
function cells(row: string): string[] {
  return row
    .replace(/^\||\|$/gu, '')
    .split(/(?<!\\)\|/u)
    .map((cell) => cell.trim().replaceAll('\\|', '|'));
}

/** What is between the first two backticks of a cell; throws when there is nothing. */
export function codeOf(cell: string | undefined): string {
  const code = /`(?<code>[^`]+)`/u.exec(cell ?? '')?.groups?.['code'];
  if (code === undefined) throw new Error(`expected a code span, found "${cell}"`);
  return code;
}

/**
 * The text below a heading, up to the next heading of the same or a higher level; throws when there
 * is no such heading.
 */
export function sectionOf(text: string, heading: string): string {
  const lines = text.split('\n');
  const start = lines.findIndex((line) => /^#+ /u.test(line) && line.replace(/^#+ /u, '') === heading);
  if (start === -1) throw new Error(`expected a heading "${heading}"`);
  const level = /^#+/u.exec(lines[start] ?? '')?.[0].length ?? 0;
  const rest = lines.slice(start + 1);
  const end = rest.findIndex((line) => (/^#+(?= )/u.exec(line)?.[0].length ?? Infinity) <= level);
  return rest.slice(0, end === -1 ? undefined : end).join('\n');
}

/** The names of the entries of a list: items that start with a code span. */
export function entriesOf(section: string): string[] {
  return [...section.matchAll(/^- `(?<name>[^`]+)`/gmu)].map(({ groups }) => groups?.['name'] ?? '');
}

/** The code spans in the sentences of a Markdown text, each in one line. */
export function spansOf(text: string): string[] {
  const sentences = text.replaceAll(/^ *```.*?^ *```$/gmsu, '');
  return [...sentences.matchAll(/`(?<span>[^`]+)`/gu)].map(({ groups }) =>
    (groups?.['span'] ?? '').replaceAll(/\s+/gu, ' '),
  );
}

/** The relative links of a Markdown text. */
export function linksOf(text: string): string[] {
  return [...text.matchAll(/\]\((?<target>[^)\s]+)\)/gu)]
    .map(({ groups }) => groups?.['target'] ?? '')
    .filter((target) => !target.includes('://'));
}

/** The anchors of a Markdown text's headings, as GitHub makes them. */
export function anchorsOf(text: string): string[] {
  return [...text.matchAll(/^#+ (?<title>.+)$/gmu)].map(({ groups }) =>
    (groups?.['title'] ?? '')
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-'),
  );
}

/** A fenced block of a Markdown text. */
export interface Fence {
  /** What the fence says about it: the language, and after it what else the page says. */
  readonly info: string;
  /** Without the indent that it has in a list. */
  readonly text: string;
  readonly line: number;
}

/** All fenced blocks of a Markdown text. */
export function fencesOf(text: string): Fence[] {
  const fences = text.matchAll(/^(?<indent> *)```(?<info>[^\n]*)\n(?<body>.*?)^ *```$/gmsu);
  return [...fences].map(({ groups: { indent = '', info = '', body = '' } = {}, index }) => ({
    info,
    text: body.replaceAll(new RegExp(`^ {0,${indent.length}}`, 'gmu'), ''),
    line: text.slice(0, index).split('\n').length,
  }));
}
