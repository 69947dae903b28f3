import { APISERVER, COMPONENT_LABEL } from '../../../packages/shared/src/api/names.ts';
import { localAddress } from '../kubelet/addresses.ts';
import type { Address } from '../kubelet/service-environment.ts';
import type { Fleet } from './fleet.ts';

/** Selects the replicas of the API server on the agent's node; all if there is none. */
export function replicasOnSameNode(fleet: Fleet) {
  return (targets: readonly Address[], node: string): readonly Address[] => {
    const here = replicaAddresses(fleet, node);
    const found = targets.filter(({ host }) => here.has(host));
    return found.length === 0 ? targets : found;
  };
}

function replicaAddresses(fleet: Fleet, node: string): ReadonlySet<string> {
  const pods = fleet.observer.pods
    .list()
    .filter(({ metadata, spec }) => metadata.labels?.[COMPONENT_LABEL] === APISERVER && spec?.nodeName === node);
  return new Set(pods.map(({ status }) => localAddress(status?.podIP ?? '')));
}
