/** A setting of a program is unusable. The message names the setting, what was expected and what was found; the program ends. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
}

/** The text of anything thrown, with its causes: `outer: inner`. */
export function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const text = error.message === '' ? error.name : error.message;
  return error.cause === undefined ? text : `${text}: ${messageOf(error.cause)}`;
}
