import { type Infer, parse, type Schema } from '@brupop/shared/api/schema';
import { ApiError } from '../errors.ts';

/**
 * Reads the body of a call. Throws ApiError `BadRequest`, which names the field, what was expected
 * and what was found.
 */
export function readAs<S extends Schema>(schema: S, body: unknown): Infer<S> {
  return parse(schema, body, 'body', (message) => new ApiError('BadRequest', message));
}
