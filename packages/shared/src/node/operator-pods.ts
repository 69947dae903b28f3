/**
 * Which pods belong to the operator: those in its namespace, with its label and controlled by its
 * workload. The label alone is not sufficient: any client that may create pods, including a kubelet,
 * may set it.
 */
import type { ObjectMeta } from '../api/meta.ts';
import { AGENT, APISERVER, COMPONENT_LABEL, CONTROLLER } from '../api/names.ts';

type Metadata = Pick<ObjectMeta, 'namespace' | 'labels' | 'ownerReferences'>;

/** True for a pod of the DaemonSet of the agents, if its controller has the UID of that. */
export function isAgentPod(metadata: Metadata, namespace: string): boolean {
  const controller = controllerOf(metadata, AGENT, namespace);
  return controller?.kind === 'DaemonSet' && controller.name === AGENT;
}

export function controllerUID({ ownerReferences = [] }: Pick<Metadata, 'ownerReferences'>): string | undefined {
  return ownerReferences.find(({ controller }) => controller === true)?.uid;
}

/** True for a pod of one of the two Deployments, whose ReplicaSets have their name and a hash. */
export function isReplica(metadata: Metadata, namespace: string): boolean {
  return [APISERVER, CONTROLLER].some((name) => {
    const controller = controllerOf(metadata, name, namespace);
    return controller?.kind === 'ReplicaSet' && controller.name.startsWith(`${name}-`);
  });
}

function controllerOf({ labels = {}, ownerReferences = [], ...metadata }: Metadata, name: string, namespace: string) {
  if (metadata.namespace !== namespace || labels[COMPONENT_LABEL] !== name) return undefined;
  return ownerReferences.find(({ controller, apiVersion }) => controller === true && apiVersion === 'apps/v1');
}
