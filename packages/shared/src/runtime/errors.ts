/** The text of anything thrown, with its causes: `outer: inner`. */
export function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const text = error.message === '' ? error.name : error.message;
  return error.cause === undefined ? text : `${text}: ${messageOf(error.cause)}`;
}

/** For messages. Nested values are only named: they may be too deep to print. */
export function describe(found: unknown): string {
  if (found === undefined) return 'nothing';
  if (typeof found === 'object' && found !== null) return Array.isArray(found) ? 'a list' : 'an object';
  return JSON.stringify(typeof found === 'string' ? shorten(found, 100) : found);
}

/** Cuts to `length` characters on one line: kubectl shows only the first line of a column. */
export function shorten(text: string, length: number): string {
  // A pattern that tries every blank would take minutes for a long run of blanks.
  const lines = text.split('\n').map((one) => one.trim());
  const line = lines.filter((one) => one !== '').join('; ');
  if (line.length <= length) return line;
  const head = Math.floor(length / 3);
  return `${line.slice(0, head)} … ${line.slice(head - length)}`;
}
