/** The responses of the Kubernetes API to a list and to a watch. */
import type { KubernetesObject } from '../api/meta.ts';
import { errorFromStatus, KubeError } from './error.ts';

/**
 * etcd rejects objects over 1.5 MiB, and a character may take six bytes in JSON, so a longer line is
 * not a watch event.
 */
const MAX_LINE_CHARS = 16 * 1024 * 1024;

/** Throws if a line is not JSON or too long, or if the stream ends within a line. */
export async function* jsonLines(chunks: AsyncIterable<Uint8Array>): AsyncGenerator {
  const decoder = new TextDecoder();
  /** Of the line that has not ended yet; joined once, since a line may have a thousand parts. */
  let parts: string[] = [];
  let length = 0;
  for await (const chunk of chunks) {
    const ends = decoder.decode(chunk, { stream: true }).split('\n');
    const rest = ends.pop() ?? '';
    for (const end of ends) {
      const line = [...parts, end].join('');
      parts = [];
      length = 0;
      if (line.trim() !== '') yield JSON.parse(line);
    }
    parts.push(rest);
    length += rest.length;
    if (length > MAX_LINE_CHARS) throw new Error(`a line of the stream is longer than ${MAX_LINE_CHARS} characters`);
  }
  if (parts.join('').trim() !== '') throw new Error('the stream ended in the middle of a line');
}

/** One page of a list; `next` is undefined on the last one. */
export interface ListPage {
  readonly items: readonly unknown[];
  readonly resourceVersion: string;
  readonly next: string | undefined;
}

export interface WatchEvent {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED' | 'BOOKMARK';
  readonly object: KubernetesObject;
}

const TYPES: readonly unknown[] = ['ADDED', 'MODIFIED', 'DELETED', 'BOOKMARK'] satisfies WatchEvent['type'][];

/** Throws KubeError for anything but a page of a list, which would empty the store. */
export function readPage(answer: unknown): ListPage {
  const { items, metadata } = (answer ?? {}) as { items?: unknown; metadata?: { continue?: unknown } };
  const resourceVersion = versionOf(answer);
  if (!Array.isArray(items) || resourceVersion === undefined) throw malformed('list', 'items and a resourceVersion');
  const next = metadata?.continue;
  return { items, resourceVersion, next: typeof next === 'string' && next !== '' ? next : undefined };
}

/** Throws KubeError for an ERROR event, with its status, and for anything but an event. */
export function readEvent(line: unknown): WatchEvent {
  const { type, object } = (line ?? {}) as { type?: unknown; object?: KubernetesObject };
  if (type === 'ERROR') throw errorFromStatus('the watch reported', object);
  if (!TYPES.includes(type) || versionOf(object) === undefined)
    throw malformed('watch', `one of ${TYPES.join(', ')} with an object that has a resourceVersion`);
  return line as WatchEvent;
}

function versionOf(object: unknown): string | undefined {
  const version = (object as Partial<KubernetesObject> | null | undefined)?.metadata?.resourceVersion;
  return typeof version === 'string' && version !== '' ? version : undefined;
}

function malformed(what: string, expected: string): KubeError {
  return new KubeError(0, 'MalformedAnswer', `the ${what} sent something other than ${expected}`);
}
