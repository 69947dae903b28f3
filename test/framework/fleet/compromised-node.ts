import { randomInt } from 'node:crypto';
import type { V1Node, V1Pod, V1PodSpec } from '@kubernetes/client-node';
import { APISERVER, COMPONENT_LABEL } from '../../../packages/shared/src/api/names.ts';
import type { Values } from './operator.ts';

/** A label that kubelets may not set: NodeRestriction reserves the prefix for administrators. */
export const PLACEMENT_LABEL = 'node-restriction.kubernetes.io/brupop';
export const PLACEMENT_LABELS = { [PLACEMENT_LABEL]: 'apart' };
const SELECTOR_KEY = `nodeSelector.${PLACEMENT_LABEL.replaceAll('.', '\\.')}`;

/** Values that keep API servers and controllers on nodes with the label, as docs/security.md says. */
export const PLACEMENT: Values = { [`apiserver.${SELECTOR_KEY}`]: 'apart', [`controller.${SELECTOR_KEY}`]: 'apart' };

interface MirrorPodOptions {
  readonly namespace: string;
  readonly spec?: Partial<V1PodSpec>;
}

/** What the kubelet of a node may create: a pod with the labels and the port of the apiserver. */
export function mirrorPod({ metadata }: V1Node, { namespace, spec = {} }: MirrorPodOptions): V1Pod {
  const { name = '', uid = '' } = metadata ?? {};
  return {
    metadata: {
      name: `brupop-apiserver-${randomInt(1e9)}`,
      namespace,
      labels: { [COMPONENT_LABEL]: APISERVER },
      annotations: { 'kubernetes.io/config.mirror': 'hash', 'kubernetes.io/config.source': 'file' },
      ownerReferences: [{ apiVersion: 'v1', kind: 'Node', name, uid, controller: true }],
    },
    spec: {
      nodeName: name,
      containers: [{ name: 'main', image: 'main', ports: [{ name: 'https', containerPort: 8443 }] }],
      ...spec,
    },
  };
}

/** The status with which a kubelet makes its pod an endpoint. */
export function readyStatus(podIP: string): object {
  const conditions = ['PodScheduled', 'Initialized', 'ContainersReady', 'Ready'].map((type) => ({
    type,
    status: 'True',
  }));
  return { phase: 'Running', podIP, podIPs: [{ ip: podIP }], conditions };
}
