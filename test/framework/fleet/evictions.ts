import { APISERVER, COMPONENT_LABEL } from '../../../packages/shared/src/api/names.ts';
import type { Fleet } from './fleet.ts';

/** Which replica of the API server evicted which pods, by its log, and where they ran. */
export class Evictions {
  /** Of those that were looked at. */
  count = 0;
  /** Where pods ran, by `namespace/name`; those of a StatefulSet come back elsewhere under the same name. */
  readonly #nodesOf = new Map<string, Set<string>>();
  readonly #replicas = new Set<string>();

  /** Follows the pods from now on. */
  follow(fleet: Fleet): void {
    fleet.observer.pods.subscribe(({ object: { metadata, spec } }) => {
      const name = `${metadata.namespace}/${metadata.name}`;
      const nodes = this.#nodesOf.get(name) ?? new Set<string>();
      if (spec?.nodeName !== undefined) this.#nodesOf.set(name, nodes.add(spec.nodeName));
      if (metadata.labels?.[COMPONENT_LABEL] === APISERVER) this.#replicas.add(name);
    });
  }

  /** Pods that a replica on the only node on which they ever ran evicted. */
  async fromOwnNode(fleet: Fleet): Promise<string[]> {
    const found: string[] = [];
    for (const replica of this.#replicas) {
      const log = await fleet.kubelet.logs(replica);
      const pods = [...log.matchAll(/"msg":"asked to evict a pod".*"pod":"(?<pod>[^"]+)"/gu)].map(
        ({ groups }) => groups?.['pod'] ?? '',
      );
      this.count += pods.length;
      const [home] = this.#nodesOf.get(replica) ?? [];
      found.push(...pods.filter((pod) => isOnly(this.#nodesOf.get(pod), home)));
    }
    return found;
  }
}

function isOnly(nodes: ReadonlySet<string> | undefined, node: string | undefined): boolean {
  return nodes?.size === 1 && node !== undefined && nodes.has(node);
}
