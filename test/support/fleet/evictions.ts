import { APISERVER, COMPONENT_LABEL } from '../../../packages/shared/src/constants.ts';
import type { Fleet } from './fleet.ts';

/** Which replica of the API server evicted which pods, by its log, and where they ran. */
export class Evictions {
  /** Of those that were looked at. */
  count = 0;
  /** Of every pod that there was, by `namespace/name`. */
  readonly #nodeOf = new Map<string, string>();
  readonly #replicas = new Set<string>();

  /** Follows the pods from now on. */
  follow(fleet: Fleet): void {
    fleet.observer.pods.subscribe(({ object: { metadata, spec } }) => {
      const name = `${metadata.namespace}/${metadata.name}`;
      if (spec?.nodeName !== undefined) this.#nodeOf.set(name, spec.nodeName);
      if (metadata.labels?.[COMPONENT_LABEL] === APISERVER) this.#replicas.add(name);
    });
  }

  /** Pods that a replica on their own node evicted. */
  async fromOwnNode(fleet: Fleet): Promise<string[]> {
    const found: string[] = [];
    for (const replica of this.#replicas) {
      const log = await fleet.kubelet.logs(replica);
      const pods = [...log.matchAll(/"msg":"asked to evict a pod".*"pod":"(?<pod>[^"]+)"/gu)].map(
        ({ groups }) => groups?.['pod'] ?? '',
      );
      this.count += pods.length;
      found.push(...pods.filter((pod) => this.#nodeOf.get(pod) === this.#nodeOf.get(replica)));
    }
    return found;
  }
}
