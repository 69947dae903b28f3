import { APISERVER, COMPONENT_LABEL } from '../../../packages/shared/src/api/names.ts';
import type { Fleet } from './fleet.ts';

/** The evictions that the replicas of the API server have requested, by their logs. */
export class Evictions {
  readonly #replicas = new Set<string>();

  /** Follows the pods from now on. */
  follow(fleet: Fleet): void {
    fleet.observer.pods.subscribe(({ object: { metadata } }) => {
      if (metadata.labels?.[COMPONENT_LABEL] === APISERVER)
        this.#replicas.add(`${metadata.namespace}/${metadata.name}`);
    });
  }

  /** Pods (`namespace/name`) that were evicted. */
  async all(fleet: Fleet): Promise<string[]> {
    return (await this.#byReplica(fleet)).flatMap(({ pods }) => pods);
  }

  /** Replicas that have evicted themselves. */
  async ofSelf(fleet: Fleet): Promise<string[]> {
    return (await this.#byReplica(fleet)).flatMap(({ replica, pods }) => (pods.includes(replica) ? [replica] : []));
  }

  async #byReplica(fleet: Fleet): Promise<{ readonly replica: string; readonly pods: readonly string[] }[]> {
    const read = async (replica: string) => {
      const log = await fleet.kubelet.logs(replica);
      const lines = log.matchAll(/"msg":"requested an eviction".*"pod":"(?<pod>[^"]+)","result":"accepted"/gu);
      return { replica, pods: [...lines].map(({ groups }) => groups?.['pod'] ?? '') };
    };
    return await Promise.all([...this.#replicas].map(read));
  }
}
