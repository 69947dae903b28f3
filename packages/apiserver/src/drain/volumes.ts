import type { DrainPod } from '@brupop/shared/drain/pods';
import type { KubeClient } from '@brupop/shared/kube/client';
import { hasStatus } from '@brupop/shared/kube/error';
import { corePath } from '@brupop/shared/kube/paths';

interface Claim {
  readonly spec?: { readonly volumeName?: string };
}

interface Volume {
  readonly spec?: { readonly csi?: { readonly driver: string; readonly volumeHandle: string } };
}

/** Looks up which PersistentVolumes pods use, and what a Node's status calls them. Remembers the answers. All throw KubeError. */
export class Volumes {
  readonly #client: KubeClient;
  /** By claim, as `namespace/name`; empty: none. */
  readonly #volumes = new Map<string, string>();
  readonly #namesOnNodes = new Map<string, string | undefined>();

  constructor(client: KubeClient) {
    this.#client = client;
  }

  /** The PersistentVolumes of a pod's claims; a claim that is gone or not bound has none. */
  async of(pod: DrainPod, signal: AbortSignal): Promise<readonly string[]> {
    await Promise.all(pod.claims.map((claim) => this.#learnClaim(claimKey(pod, claim), signal)));
    return this.known(pod);
  }

  /** The same of what was looked up before. */
  known(pod: DrainPod): readonly string[] {
    return pod.claims.map((claim) => this.#volumes.get(claimKey(pod, claim)) ?? '').filter((name) => name !== '');
  }

  async #learnClaim(key: string, signal: AbortSignal): Promise<void> {
    if (this.#volumes.has(key)) return;
    const [namespace = '', name = ''] = key.split('/');
    const path = corePath('persistentvolumeclaims', { namespace, name });
    this.#volumes.set(key, (await this.#find<Claim>(path, signal))?.spec?.volumeName ?? '');
  }

  /** Makes `nameOnNode` know these volumes. */
  async learn(volumes: readonly string[], signal: AbortSignal): Promise<void> {
    await Promise.all(
      volumes
        .filter((name) => !this.#namesOnNodes.has(name))
        .map(async (name) => {
          const volume = await this.#find<Volume>(corePath('persistentvolumes', { name }), signal);
          const csi = volume?.spec?.csi;
          const nameOnNode = csi === undefined ? undefined : `kubernetes.io/csi/${csi.driver}^${csi.volumeHandle}`;
          this.#namesOnNodes.set(name, nameOnNode);
        }),
    );
  }

  /** The name in `node.status.volumesAttached` (pkg/volume/util/util.go of Kubernetes); undefined when there is none or it was not learnt. */
  nameOnNode(volume: string): string | undefined {
    return this.#namesOnNodes.get(volume);
  }

  async #find<T>(path: string, signal: AbortSignal): Promise<T | undefined> {
    try {
      return await this.#client.request<T>({ method: 'GET', path, signal });
    } catch (error) {
      if (hasStatus(error, 404)) return undefined;
      throw error;
    }
  }
}

function claimKey({ metadata: { namespace = '' } }: DrainPod, claim: string): string {
  return `${namespace}/${claim}`;
}
