import { KubeError } from './kube-error.ts';
import type { KubernetesObject } from './kubernetes-types.ts';

/** One page of a list. */
export interface ListPage {
  readonly items: readonly unknown[];
  readonly resourceVersion: string;
  /** Undefined on the last page. */
  readonly next: string | undefined;
}

export interface WatchEvent {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED' | 'BOOKMARK';
  readonly object: KubernetesObject;
}

const TYPES: readonly unknown[] = ['ADDED', 'MODIFIED', 'DELETED', 'BOOKMARK'] satisfies WatchEvent['type'][];

/**
 * Reads a page of a list. Throws KubeError when the answer is no list or does not say of which time it is: what is taken for a list empties
 * the cache of all that it does not name.
 */
export function readPage(answer: unknown): ListPage {
  const { items, metadata } = (answer ?? {}) as { items?: unknown; metadata?: { continue?: unknown } };
  const resourceVersion = versionOf(answer);
  if (!Array.isArray(items) || resourceVersion === undefined) throw malformed('list', 'items and a resourceVersion');
  const next = metadata?.continue;
  return { items, resourceVersion, next: typeof next === 'string' && next !== '' ? next : undefined };
}

/** Reads a line of a watch. Throws KubeError for an ERROR event, with its status and how long it asks to wait, and for what is no event. */
export function readEvent(line: unknown): WatchEvent {
  const { type, object } = (line ?? {}) as { type?: unknown; object?: KubernetesObject };
  if (type === 'ERROR') throw reported(object);
  if (!TYPES.includes(type) || versionOf(object) === undefined)
    throw malformed('watch', `one of ${TYPES.join(', ')} with an object that has a resourceVersion`);
  return line as WatchEvent;
}

function versionOf(object: unknown): string | undefined {
  const version = (object as Partial<KubernetesObject> | null | undefined)?.metadata?.resourceVersion;
  return typeof version === 'string' && version !== '' ? version : undefined;
}

function malformed(what: string, expected: string): KubeError {
  return new KubeError(0, 'MalformedAnswer', `the ${what} sent something else than ${expected}`);
}

function reported(object: unknown): KubeError {
  const { code, reason, message, details } = (object ?? {}) as {
    readonly code?: number;
    readonly reason?: string;
    readonly message?: string;
    readonly details?: { readonly retryAfterSeconds?: number };
  };
  const seconds = details?.retryAfterSeconds;
  return new KubeError(code ?? 0, reason ?? 'Unknown', `the watch reported: ${message ?? 'an error'}`, {
    ...(seconds !== undefined && { retryAfterMs: seconds * 1000 }),
  });
}
