import type { KubernetesObject } from '../api/meta.ts';

export interface ReflectorEvent<T> {
  readonly type: 'Added' | 'Modified' | 'Deleted';
  readonly object: T;
  /** The previous object, of a modification. */
  readonly old?: T;
}

export type Listener<T> = (event: ReflectorEvent<T>) => void;

/**
 * Objects by namespace and name, with listeners for changes. Of a namespace with more than
 * `maxPerNamespace`, some are omitted.
 */
export class Store<T extends KubernetesObject> {
  readonly #objects = new Map<string, T>();
  readonly #maxPerNamespace: number;
  readonly #sizes = new Map<string, number>();
  /** The namespaces of which an object was omitted since the latest list. */
  readonly #overfull = new Set<string>();
  readonly #listeners = new Set<Listener<T>>();

  constructor(maxPerNamespace = Infinity) {
    this.#maxPerNamespace = maxPerNamespace;
  }

  /** The namespaces of which objects are omitted. */
  get overfull(): ReadonlySet<string> {
    return this.#overfull;
  }

  get(name: string, namespace?: string): T | undefined {
    return this.#objects.get(keyOf(name, namespace));
  }

  list(): readonly T[] {
    return [...this.#objects.values()];
  }

  subscribe(listener: Listener<T>): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Ignores an unchanged resourceVersion; a new UID is a deletion and an addition. */
  set(object: T): void {
    const key = keyOf(object.metadata.name, object.metadata.namespace);
    const old = this.#objects.get(key);
    if (old !== undefined && sameVersion(old, object)) return;
    if (old !== undefined && old.metadata.uid !== object.metadata.uid) this.remove(old);
    const known = this.#objects.get(key);
    if (known === undefined && !this.#count(object, 1)) return;
    this.#objects.set(key, object);
    this.#emit(known === undefined ? { type: 'Added', object } : { type: 'Modified', object, old: known });
  }

  remove({ metadata }: Pick<KubernetesObject, 'metadata'>): void {
    const key = keyOf(metadata.name, metadata.namespace);
    const old = this.#objects.get(key);
    if (!this.#objects.delete(key) || old === undefined) return;
    this.#count(old, -1);
    this.#emit({ type: 'Deleted', object: old });
  }

  /** Replaces the content by `objects`, with an event for each difference. */
  replace(objects: readonly T[]): void {
    this.#overfull.clear();
    const present = new Set(objects.map(({ metadata }) => keyOf(metadata.name, metadata.namespace)));
    for (const [key, old] of this.#objects) if (!present.has(key)) this.remove(old);
    for (const object of objects) this.set(object);
  }

  /** Returns false if the namespace has no place for another object. */
  #count({ metadata: { namespace = '' } }: KubernetesObject, by: 1 | -1): boolean {
    const size = (this.#sizes.get(namespace) ?? 0) + by;
    if (size > this.#maxPerNamespace) {
      this.#overfull.add(namespace);
      return false;
    }
    if (size === 0) this.#sizes.delete(namespace);
    else this.#sizes.set(namespace, size);
    return true;
  }

  #emit(event: ReflectorEvent<T>): void {
    for (const listener of this.#listeners) listener(event);
  }
}

function keyOf(name: string, namespace = ''): string {
  return `${namespace}/${name}`;
}

function sameVersion(a: KubernetesObject, b: KubernetesObject): boolean {
  return a.metadata.uid === b.metadata.uid && a.metadata.resourceVersion === b.metadata.resourceVersion;
}
