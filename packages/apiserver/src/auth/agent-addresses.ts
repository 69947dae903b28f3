/**
 * The addresses of the agents' pods, as reported by the kubelets. http/connections.ts uses them to
 * limit connections from agents separately from other connections.
 *
 * A kubelet can report any address for the pods of its own node, but cannot create a pod that the
 * DaemonSet controls. Therefore an address only indicates the nodes whose pods report it: usually one
 * node. At most two addresses of a pod are used.
 */
import type { Listener, Reflector } from '@brupop/shared/kube/reflector';
import type { AgentPod } from './agent-pods.ts';

export class AgentAddresses {
  /** By address: the pods that report it by their UID, with their nodes. */
  readonly #claims = new Map<string, Map<string, string>>();

  constructor(pods: Pick<Reflector<AgentPod>, 'subscribe'>) {
    pods.subscribe(this.#update);
  }

  /** Returns the nodes of the agents' pods with this address, as one key. */
  nodesAt(address: string): string | undefined {
    const claims = this.#claims.get(address);
    return claims && [...new Set(claims.values())].toSorted().join(' ');
  }

  readonly #update: Listener<AgentPod> = ({ type, object, old }) => {
    for (const pod of [object, old]) if (pod !== undefined) this.#remove(pod);
    if (type !== 'Deleted') this.#add(object);
  };

  #add({ metadata: { uid }, isAgent, nodeName, addresses }: AgentPod): void {
    if (!isAgent || nodeName === undefined) return;
    for (const address of addresses) {
      const claims = this.#claims.get(address) ?? new Map<string, string>();
      this.#claims.set(address, claims.set(uid, nodeName));
    }
  }

  #remove({ metadata: { uid }, addresses }: AgentPod): void {
    for (const address of addresses) {
      const claims = this.#claims.get(address);
      claims?.delete(uid);
      if (claims?.size === 0) this.#claims.delete(address);
    }
  }
}
