/** The message names the setting, what was expected and what was found; the program ends. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
}

export type Env = Readonly<Record<string, string | undefined>>;

export function processEnv(): Env {
  return process.env;
}

/** Reads a required text. Throws ConfigError when it is absent or empty. */
export function requiredText(env: Env, name: string): string {
  const value = text(env, name, '');
  if (value === '') throw new ConfigError(`${name}: expected a value, found none; set it in the pod's environment`);
  return value;
}

/** Reads a text with a default; an empty one counts as absent. */
export function text(env: Env, name: string, fallback: string): string {
  return env[name] || fallback;
}

/**
 * Reads the address of an HTTP API; an empty one counts as absent. Throws ConfigError, which does not quote the value, for one
 * with credentials or a query: messages name addresses.
 */
export function address(env: Env, name: string): string {
  const value = text(env, name, '');
  if (value === '') return value;
  const { protocol = '', username, password } = URL.parse(value) ?? {};
  const isPlain = username === '' && password === '' && !/[?#]/u.test(value);
  if (isPlain && ['http:', 'https:'].includes(protocol)) return value;
  throw new ConfigError(
    `${name}: expected an address such as http://prometheus:9090, with http or https and without a user, a password, a query and ` +
      'a fragment, found another text; put credentials into the Secret of secretName in the values of the chart',
  );
}

/** Reads a whole number between `min` and `max`. Throws ConfigError for anything else. */
export function integer(env: Env, name: string, range: { min: number; max: number; fallback: number }): number {
  const { min, max, fallback } = range;
  const value = text(env, name, String(fallback));
  const parsed = Number(value);
  if (Number.isInteger(parsed) && parsed >= min && parsed <= max) return parsed;
  throw new ConfigError(`${name}: expected a whole number from ${min} to ${max}, found "${value}"`);
}

/** Reads one of `values`. Throws ConfigError for anything else. */
export function oneOf<T extends string>(env: Env, name: string, values: readonly T[], fallback: T): T {
  const value = text(env, name, fallback);
  const found = values.find((one) => one === value);
  if (found === undefined) throw new ConfigError(`${name}: expected one of ${values.join(', ')}, found "${value}"`);
  return found;
}
