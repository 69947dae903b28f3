import { CONTROLLER } from '@brupop/shared/api/names';
import type { KubeClient } from '@brupop/shared/kube/client';
import { corePath } from '@brupop/shared/kube/paths';
import type { DataObject, Objects } from './inspect.ts';
import { CA_SECRET, MANAGED_BY } from './keys.ts';

interface StoreOptions {
  readonly client: KubeClient;
  readonly namespace: string;
  /** The namespace of the ConfigMap. */
  readonly agentNamespace: string;
  /** The Secret that the API servers mount. */
  readonly secretName: string;
  /** The ConfigMap that the agents mount. */
  readonly configMapName: string;
  /** With cert-manager, the controller has no authority of its own. */
  readonly hasAuthorities: boolean;
}

/** What is to be written: all of the data, in a Secret in base64, and some annotations. */
export interface Contents {
  readonly data: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
}

/** The three objects in the Kubernetes API. */
export class CertificateStore {
  readonly #options: StoreOptions;

  constructor(options: StoreOptions) {
    this.#options = options;
  }

  /** For messages and Events. */
  describe(object: keyof Objects): { readonly kind: string; readonly name: string; readonly namespace: string } {
    const { namespace, agentNamespace, secretName, configMapName } = this.#options;
    if (object === 'bundle') return { kind: 'ConfigMap', name: configMapName, namespace: agentNamespace };
    return { kind: 'Secret', name: object === 'authorities' ? CA_SECRET : secretName, namespace };
  }

  /** Throws KubeError. */
  async read(signal: AbortSignal): Promise<Objects> {
    const [authorities, bundle, serving] = await Promise.all([
      this.#options.hasAuthorities ? this.#find('authorities', signal) : undefined,
      this.#find('bundle', signal),
      this.#find('serving', signal),
    ]);
    return { authorities, bundle, serving };
  }

  /**
   * Creates the object, or replaces its data if it is still as in `before`. Returns it as it is now.
   * Throws KubeError, with 409 when it has changed.
   */
  async write(
    object: keyof Objects,
    before: DataObject | undefined,
    { data, annotations }: Contents,
    signal: AbortSignal,
  ): Promise<DataObject> {
    const { client } = this.#options;
    const { kind, name, namespace } = this.describe(object);
    const metadata = before?.metadata ?? { name, namespace };
    const body = {
      ...before,
      apiVersion: 'v1',
      kind,
      ...(kind === 'Secret' && { type: before?.type ?? (object === 'serving' ? 'kubernetes.io/tls' : 'Opaque') }),
      metadata: {
        ...metadata,
        labels: { ...metadata.labels, [MANAGED_BY]: CONTROLLER },
        annotations: { ...metadata.annotations, ...annotations },
      },
      data,
    };
    return await client.request<DataObject>({
      method: before === undefined ? 'POST' : 'PUT',
      path: this.#path(object, before !== undefined),
      body,
      signal,
    });
  }

  #find(object: keyof Objects, signal: AbortSignal): Promise<DataObject | undefined> {
    return this.#options.client.find<DataObject>(this.#path(object, true), signal);
  }

  #path(object: keyof Objects, isNamed: boolean): string {
    const { kind, name, namespace } = this.describe(object);
    return corePath(kind === 'Secret' ? 'secrets' : 'configmaps', { namespace, ...(isNamed && { name }) });
  }
}
