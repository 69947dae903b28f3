/**
 * Texts for users: of errors, and quoted from agents, hosts and the Kubernetes API. A terminal executes
 * control characters, bidirectional characters change the order of the text, YAML rejects others or
 * breaks lines at them, and invisible characters make two texts look alike. Therefore every character
 * that Unicode does not class as visible or as a space is replaced, including unpaired surrogates.
 */
const INVISIBLE = /[\p{C}\p{Zl}\p{Zp}]/gu;
/** As Unicode's UAX 14 has mandatory line breaks. */
const LINE_BREAK = /[\n\v\f\r\u0085\u2028\u2029]/u;

/** Returns the text on one line, with U+FFFD for each character that must not be shown. */
export function printable(text: string): string {
  return text.replaceAll('\t', ' ').replaceAll(INVISIBLE, '\uFFFD');
}

/** Returns a JSON text with an escape for each such character, which JSON.stringify does not escape. */
export function escapeInvisible(json: string): string {
  return json.replaceAll(INVISIBLE, escapeOf);
}

/** How JSON and YAML escape a character, by its UTF-16 code units: `\\u2028`. */
export function escapeOf(character: string): string {
  const units = Array.from({ length: character.length }, (_, at) => character.charCodeAt(at));
  return units.map((unit) => `\\u${unit.toString(16).padStart(4, '0')}`).join('');
}

/** The text of anything thrown, with its causes: `outer: inner`. */
export function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return printable(String(error));
  const text = printable(error.message === '' ? error.name : error.message);
  return error.cause === undefined ? text : `${text}: ${messageOf(error.cause)}`;
}

/** For messages. Nested values are only named: they may be too deep to print. */
export function describe(found: unknown): string {
  if (found === undefined) return 'nothing';
  if (typeof found === 'object' && found !== null) return Array.isArray(found) ? 'a list' : 'an object';
  return JSON.stringify(typeof found === 'string' ? shorten(found, 100) : found);
}

/** Returns at most the first `length` characters, in a copy: a slice would keep the whole text in memory. */
export function truncated(text: string, length: number): string {
  return text.length <= length ? text : Buffer.from(text.slice(0, length)).toString();
}

/** Returns a printable line of at most `length` characters: kubectl shows only the first line in a column. */
export function shorten(text: string, length: number): string {
  // A pattern that tries every blank would take minutes for a long run of blanks.
  const lines = text.split(LINE_BREAK).map((one) => one.trim());
  const line = lines.filter((one) => one !== '').join('; ');
  if (line.length <= length) return printable(line);
  const head = Math.floor(length / 3);
  return printable(`${line.slice(0, head)} … ${line.slice(head - length)}`);
}

const MAX_NAMED = 3;

/** The first names in order, for messages. */
export function namesOf(names: readonly string[], most = MAX_NAMED): string {
  const more = names.length > most ? ' and others' : '';
  return `${names.toSorted().slice(0, most).join(', ')}${more}`;
}

/** The first texts as they are, and how many more there are, for messages. */
export function firstFew(texts: readonly string[], most = MAX_NAMED, more = 'more'): string {
  const others = texts.length > most ? ` and ${texts.length - most} ${more}` : '';
  return `${texts.slice(0, most).join(', ')}${others}`;
}

/** The same as one list, such as `a; b; c; 2 more`. */
export function listOf(texts: readonly string[], most = MAX_NAMED, separator = '; '): string {
  const more = texts.length > most ? [`${texts.length - most} more`] : [];
  return [...texts.slice(0, most), ...more].join(separator);
}
