/**
 * Reads fields such as `drain.onTimeout` of a BrupopConfig's spec as unknown, since a CustomResourceDefinition of another release may have let
 * other types in. Remembers the first mistake.
 */
export class SpecReader {
  problem: string | undefined;
  readonly #spec: unknown;

  constructor(spec: unknown) {
    this.#spec = spec;
  }

  wholeNumber(field: string, { min, max }: { readonly min: number; readonly max: number }): number | undefined {
    const value = this.valueOf(field);
    if (value === undefined) return undefined;
    if (typeof value === 'number' && Number.isInteger(value) && value >= min && value <= max) return value;
    return this.wrong(field, `a whole number from ${min} to ${max}`, value);
  }

  /** The first of `words` when none is given. */
  oneOf<T extends string>(field: string, words: readonly [T, ...(readonly T[])]): T {
    const value = this.valueOf(field);
    const found = words.find((word) => word === value);
    if (value !== undefined && found === undefined) this.wrong(field, words.join(' or '), value);
    return found ?? words[0];
  }

  flag(field: string): boolean {
    const value = this.valueOf(field);
    if (value !== undefined && typeof value !== 'boolean') this.wrong(field, 'true or false', value);
    return value === true;
  }

  /** Undefined when it is not given, or empty. */
  text(field: string): string | undefined {
    const value = this.valueOf(field);
    if (value === undefined || value === '') return undefined;
    return typeof value === 'string' ? value : this.wrong(field, 'a text', value);
  }

  /** The fields of a list, such as `versions.deny.0`; none when it is not given. */
  items(field: string): readonly string[] {
    const value = this.valueOf(field);
    if (value === undefined) return [];
    if (Array.isArray(value)) return value.map((_, i) => `${field}.${i}`);
    return this.wrong(field, 'a list', value) ?? [];
  }

  /** What is given, or undefined; null counts as not given. */
  valueOf(field: string): unknown {
    let value: unknown = this.#spec;
    for (const part of field.split('.')) {
      value = typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[part] : undefined;
    }
    return value ?? undefined;
  }

  /** Notes a mistake, unless there was one before. */
  wrong(field: string, expected: string, found: unknown): undefined {
    const place = field.replaceAll(/\.(\d+)/gu, '[$1]');
    this.problem ??= `spec.${place}: expected ${expected}, found ${JSON.stringify(found)}`;
    return undefined;
  }
}
