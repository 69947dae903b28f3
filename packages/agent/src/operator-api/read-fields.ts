import { ApiError } from './api-error.ts';
import { describe } from '../host/host-status.ts';

export type Fields = Readonly<Record<string, unknown>>;

/** The error of an answer that is not what the contract says. */
export function unintelligible(field: string, expected: string, found: unknown): ApiError {
  return new ApiError('Unintelligible', `${field}: expected ${expected}, found ${describe(found)}`);
}

/** All throw ApiError `Unintelligible` that names the field. */
export function fields(value: unknown, name: string): Fields {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Fields;
  throw unintelligible(name, 'an object', value);
}

export function count(value: unknown, name: string): number {
  if (typeof value === 'number' && value >= 0 && Number.isSafeInteger(value)) return value;
  throw unintelligible(name, 'a whole number from 0', value);
}

export function flag(value: unknown, name: string): boolean {
  if (typeof value === 'boolean') return value;
  throw unintelligible(name, 'true or false', value);
}

export function oneOf<T extends string>(value: unknown, values: readonly T[], name: string): T {
  const found = values.find((one) => one === value);
  if (found === undefined) throw unintelligible(name, `one of ${values.join(', ')}`, value);
  return found;
}

/** A text of at most `max` characters. */
export function text(value: unknown, max: number, name: string): string {
  if (typeof value === 'string' && value.length <= max) return value;
  throw unintelligible(name, `a text of at most ${max} characters`, value);
}
