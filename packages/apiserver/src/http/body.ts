import type { IncomingMessage } from 'node:http';
import { messageOf } from '@brupop/shared/runtime/errors';
import { ApiError } from '../errors.ts';

/** Media type and charset (RFC 8259, 11 and 8.1). */
const JSON_TYPE = /^application\/json *(; *charset="?utf-8"?)? *$/i;

/**
 * Reads a body of JSON; undefined when there is none. Throws Failure `TooLarge` as soon as it is known that there are more than `limit` bytes,
 * the rest unread, and `BadRequest` for what is not JSON in UTF-8, whole and as it is.
 */
export async function readBody(request: IncomingMessage, limit: number): Promise<unknown> {
  const { headers } = request;
  const length = Number(headers['content-length'] ?? 0);
  if (length === 0 && headers['transfer-encoding'] === undefined) return undefined;
  if (length > limit) throw tooLarge(limit, String(length));
  const type = headers['content-type'] ?? 'none';
  if (!JSON_TYPE.test(type)) throw unreadable(`content-type: expected application/json, found ${type.slice(0, 80)}`);
  if (headers['content-encoding'] !== undefined) throw unreadable('content-encoding: expected none');
  return parsed(await bytesOf(request, limit));
}

async function bytesOf(request: IncomingMessage, limit: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let length = 0;
  try {
    for await (const chunk of request.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
      length += chunk.length;
      if (length > limit) throw tooLarge(limit, 'more');
      chunks.push(chunk);
    }
  } catch (error) {
    if (error instanceof ApiError) throw error;
    throw unreadable(`body: expected all of it: ${messageOf(error)}`, error);
  }
  return Buffer.concat(chunks);
}

function parsed(bytes: Buffer): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch (error) {
    throw unreadable(`body: expected JSON: ${messageOf(error)}`, error);
  }
}

function tooLarge(limit: number, found: string): ApiError {
  return new ApiError('TooLarge', `body: expected at most ${limit} bytes, found ${found}`);
}

function unreadable(message: string, cause?: unknown): ApiError {
  return new ApiError('BadRequest', message, { cause });
}
