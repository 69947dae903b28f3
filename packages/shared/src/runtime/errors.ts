/**
 * Texts for users: of errors, and quoted from agents, hosts and the Kubernetes API. A terminal obeys
 * control characters, bidirectional ones change the order in which it shows text, YAML refuses or
 * breaks at others, and invisible ones make two texts look alike. So all that Unicode does not class
 * as visible or a space is replaced, which includes half a surrogate pair.
 */
const INVISIBLE = /[\p{C}\p{Zl}\p{Zp}]/gu;
/** As Unicode's UAX 14 has mandatory line breaks. */
const LINE_BREAK = /[\n\v\f\r\u0085\u2028\u2029]/u;

/** The text with U+FFFD for each character that is not to be shown, on one line. */
export function printable(text: string): string {
  return text.replaceAll('\t', ' ').replaceAll(INVISIBLE, '\uFFFD');
}

/** A JSON text with an escape for each such character, which JSON.stringify leaves as it is. */
export function escapeInvisible(json: string): string {
  return json.replaceAll(INVISIBLE, (character) =>
    Array.from({ length: character.length }, (_, at) => character.charCodeAt(at))
      .map((unit) => `\\u${unit.toString(16).padStart(4, '0')}`)
      .join(''),
  );
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

/** Printable and cut to `length` characters, on one line: kubectl shows only the first of a column. */
export function shorten(text: string, length: number): string {
  // A pattern that tries every blank would take minutes for a long run of blanks.
  const lines = text.split(LINE_BREAK).map((one) => one.trim());
  const line = lines.filter((one) => one !== '').join('; ');
  if (line.length <= length) return printable(line);
  const head = Math.floor(length / 3);
  return printable(`${line.slice(0, head)} … ${line.slice(head - length)}`);
}
