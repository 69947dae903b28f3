import type { KubernetesObject } from '../api/meta.ts';

export interface ReflectorEvent<T> {
  readonly type: 'Added' | 'Modified' | 'Deleted';
  readonly object: T;
  /** The previous object, of a modification. */
  readonly old?: T;
}

export type Listener<T> = (event: ReflectorEvent<T>) => void;

/** How much is kept of what anyone may write. */
export interface StoreLimits<T> {
  readonly maxPerNamespace: number;
  /** Beyond it a namespace gets no more than its equal share, so that one that has few objects loses none to others. */
  readonly maxTotal: number;
  /** What one object counts. Default 1. */
  readonly weightOf?: (object: T) => number;
}

/** Objects by namespace and name, with listeners for changes. Beyond the limits some are omitted. */
export class Store<T extends KubernetesObject> {
  readonly #objects = new Map<string, T>();
  readonly #limits: StoreLimits<T> | undefined;
  /** By namespace. */
  readonly #sizes = new Map<string, number>();
  #total = 0;
  /** The namespaces of which an object was omitted since the latest list. */
  readonly #overfull = new Set<string>();
  readonly #listeners = new Set<Listener<T>>();

  constructor(limits?: StoreLimits<T>) {
    this.#limits = limits;
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
    if (!this.#makeSpace(object, known)) {
      if (known !== undefined) this.remove(known);
      return;
    }
    this.#objects.set(key, object);
    this.#emit(known === undefined ? { type: 'Added', object } : { type: 'Modified', object, old: known });
  }

  remove({ metadata }: Pick<KubernetesObject, 'metadata'>): void {
    const key = keyOf(metadata.name, metadata.namespace);
    const old = this.#objects.get(key);
    if (!this.#objects.delete(key) || old === undefined) return;
    this.#count(old, -this.#weightOf(old));
    this.#emit({ type: 'Deleted', object: old });
  }

  /**
   * Replaces the content by `objects`, with an event for each difference.
   * @param overfull - the namespaces of which objects were omitted before
   */
  replace(objects: readonly T[], overfull: Iterable<string> = []): void {
    this.#overfull.clear();
    for (const namespace of overfull) this.#overfull.add(namespace);
    const present = new Set(objects.map(({ metadata }) => keyOf(metadata.name, metadata.namespace)));
    for (const [key, old] of this.#objects) if (!present.has(key)) this.remove(old);
    for (const object of objects) this.set(object);
  }

  /** Returns false if the namespace may have no other object of this weight. */
  #makeSpace(object: T, known: T | undefined): boolean {
    const { namespace = '' } = object.metadata;
    const by = this.#weightOf(object) - (known === undefined ? 0 : this.#weightOf(known));
    if (by > 0 && this.#isOverfull(namespace, by)) {
      this.#overfull.add(namespace);
      return false;
    }
    this.#count(object, by);
    return true;
  }

  #isOverfull(namespace: string, by: number): boolean {
    if (this.#limits === undefined) return false;
    const { maxPerNamespace, maxTotal } = this.#limits;
    const size = (this.#sizes.get(namespace) ?? 0) + by;
    const share = maxTotal / Math.max(1, this.#sizes.size);
    return size > maxPerNamespace || (this.#total + by > maxTotal && size > share);
  }

  #count({ metadata: { namespace = '' } }: T, by: number): void {
    const size = (this.#sizes.get(namespace) ?? 0) + by;
    this.#total += by;
    if (size === 0) this.#sizes.delete(namespace);
    else this.#sizes.set(namespace, size);
  }

  #weightOf(object: T): number {
    return this.#limits?.weightOf?.(object) ?? 1;
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
