import type { KubeClient } from '@brupop/shared/kube/client';
import { corePath } from '@brupop/shared/kube/paths';
import { Reflector } from '@brupop/shared/kube/reflector';
import type { KubernetesObject } from '@brupop/shared/api/meta';
import type { Clock } from '@brupop/shared/runtime/clock';
import type { Logger } from '@brupop/shared/runtime/log';

/** A Secret (`data` in base64) or a ConfigMap (`data` as text, `binaryData` in base64). */
export interface DataObject extends KubernetesObject {
  readonly data?: Readonly<Record<string, string>>;
  readonly binaryData?: Readonly<Record<string, string>>;
}

export type DataKind = 'secrets' | 'configmaps';

export interface DataReference {
  readonly kind: DataKind;
  readonly namespace: string;
  readonly name: string;
}

interface Watched {
  readonly reflector: Reflector<DataObject>;
  readonly end: AbortController;
  users: number;
}

/**
 * Secrets and ConfigMaps that pods refer to: one watch for each object, shared by all pods and
 * ended with the last one, as a kubelet does.
 */
export class ReferencedObjects {
  readonly #options: { readonly client: KubeClient; readonly clock: Clock; readonly log: Logger };
  readonly #watched = new Map<string, Watched>();

  constructor(options: { readonly client: KubeClient; readonly clock: Clock; readonly log: Logger }) {
    this.#options = options;
  }

  /**
   * Watches an object, shared with other pods; calls `onChange` for each later change. Call the
   * returned function to end it. Resolves when `get` returns the object.
   */
  async hold(reference: DataReference, onChange: () => void, signal: AbortSignal): Promise<() => void> {
    const id = idOf(reference);
    const watched = this.#watched.get(id) ?? this.#watch(id, reference);
    watched.users += 1;
    const release = this.#releaser(id, watched);
    try {
      await watched.reflector.waitSynced(signal);
    } catch (error) {
      release();
      throw error;
    }
    const unsubscribe = watched.reflector.subscribe(onChange);
    return () => {
      unsubscribe();
      release();
    };
  }

  /** The object as last seen; undefined when there is none, or when nothing references it. */
  get(reference: DataReference): DataObject | undefined {
    return this.#watched.get(idOf(reference))?.reflector.get(reference.name, reference.namespace);
  }

  #watch(id: string, { kind, namespace, name }: DataReference): Watched {
    const reflector = new Reflector<DataObject>({
      ...this.#options,
      path: corePath(kind, { namespace }),
      query: { fieldSelector: `metadata.name=${name}` },
      slim: (raw) => raw as DataObject,
      name: id,
    });
    const watched = { reflector, end: new AbortController(), users: 0 };
    this.#watched.set(id, watched);
    void reflector.run(watched.end.signal);
    return watched;
  }

  #releaser(id: string, watched: Watched): () => void {
    return () => {
      watched.users -= 1;
      if (watched.users > 0) return;
      watched.end.abort();
      this.#watched.delete(id);
    };
  }
}

function idOf({ kind, namespace, name }: DataReference): string {
  return `${kind}/${namespace}/${name}`;
}

/** The bytes of each key of a Secret or ConfigMap. */
export function dataOf(kind: DataKind, object: DataObject): Map<string, Buffer> {
  const encoding = kind === 'secrets' ? 'base64' : 'utf8';
  const plain = Object.entries(object.data ?? {}).map(([key, text]) => [key, Buffer.from(text, encoding)] as const);
  const binary = Object.entries(object.binaryData ?? {}).map(
    ([key, text]) => [key, Buffer.from(text, 'base64')] as const,
  );
  return new Map([...plain, ...binary]);
}
