import { APISERVER, COMPONENT_LABEL } from '../../../packages/shared/src/api/names.ts';
import { localAddress } from '../kubelet/addresses.ts';
import type { Address } from '../kubelet/service-environment.ts';
import type { Fleet } from './fleet.ts';

/** The time from the cordon of a node to the reboot of its host, as a watch shows them. */
export interface CordonTime {
  readonly node: string;
  readonly ms: number;
  /** Whether a replica of the API server ran on the node when it was cordoned. */
  readonly hadReplica: boolean;
}

/** Measures all cordons of a fleet that end in a reboot. */
export class Cordons {
  readonly times: CordonTime[] = [];
  readonly #open = new Map<string, { readonly since: number; readonly hadReplica: boolean }>();

  follow(fleet: Fleet): void {
    const cordoned = new Set<string>();
    fleet.observer.nodes.subscribe(({ object: { metadata, spec, status } }) => {
      const { name: node } = metadata;
      if (spec?.unschedulable !== true) cordoned.delete(node);
      else if (!cordoned.has(node)) {
        cordoned.add(node);
        this.#open.set(node, { since: performance.now(), hadReplica: replicaAddresses(fleet, node).size > 0 });
      }
      const open = this.#open.get(node);
      const isReady = status?.conditions?.find(({ type }) => type === 'Ready')?.status === 'True';
      if (isReady || open === undefined) return;
      this.times.push({ node, ms: performance.now() - open.since, hadReplica: open.hadReplica });
      this.#open.delete(node);
    });
  }
}

/**
 * Selects replicas of the API server on the agent's node, or on other nodes; all if there is none.
 */
export function replicasOn(fleet: Fleet, where: 'sameNode' | 'otherNodes') {
  return (targets: readonly Address[], node: string): readonly Address[] => {
    const here = replicaAddresses(fleet, node);
    const found = targets.filter(({ host }) => here.has(host) === (where === 'sameNode'));
    return found.length === 0 ? targets : found;
  };
}

function replicaAddresses(fleet: Fleet, node: string): ReadonlySet<string> {
  const pods = fleet.observer.pods
    .list()
    .filter(({ metadata, spec }) => metadata.labels?.[COMPONENT_LABEL] === APISERVER && spec?.nodeName === node);
  return new Set(pods.map(({ status }) => localAddress(status?.podIP ?? '')));
}
