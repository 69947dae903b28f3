import {
  CORDONED_ANNOTATION,
  EXCLUDED_ANNOTATION,
  EXCLUSION_LABEL,
  MANAGED_LABEL,
  MANAGED_LABEL_VALUE,
} from '@brupop/shared/constants';
import type { KubernetesObject } from '@brupop/shared/kubernetes-types';

/** A Node cut to what decisions need. */
export interface NodeView extends KubernetesObject {
  /** `spec.unschedulable`: cordoned, by us or by somebody else. */
  readonly unschedulable: boolean;
  /** The Ready condition is True. */
  readonly ready: boolean;
  /** When Ready last changed (RFC 3339). */
  readonly readySince: string | undefined;
  /** Boot ID that the kubelet reports; empty when it has reported none. */
  readonly bootID: string;
}

interface RawNode extends KubernetesObject {
  readonly spec?: { readonly unschedulable?: boolean };
  readonly status?: {
    readonly conditions?: readonly { type: string; status: string; lastTransitionTime?: string }[];
    readonly nodeInfo?: { readonly bootID?: string };
  };
}

const LABELS = [MANAGED_LABEL, EXCLUSION_LABEL];
const ANNOTATIONS = [CORDONED_ANNOTATION, EXCLUDED_ANNOTATION];

/** Cuts a Node as the API server sends it. */
export function readNode(raw: unknown): NodeView {
  const { metadata, spec, status } = raw as RawNode;
  const { name, uid, resourceVersion, deletionTimestamp } = metadata;
  const ready = status?.conditions?.find(({ type }) => type === 'Ready');
  return {
    metadata: {
      name,
      uid,
      resourceVersion,
      labels: pick(metadata.labels, LABELS),
      annotations: pick(metadata.annotations, ANNOTATIONS),
      ...(deletionTimestamp !== undefined && { deletionTimestamp }),
    },
    unschedulable: spec?.unschedulable === true,
    ready: ready?.status === 'True',
    readySince: ready?.lastTransitionTime,
    bootID: status?.nodeInfo?.bootID ?? '',
  };
}

/** The entries of `from` whose keys are in `keys`. */
export function pick(
  from: Readonly<Record<string, string>> | undefined,
  keys: readonly string[],
): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(from ?? {}).filter(([key]) => keys.includes(key)));
}

/** True when people have put the node under the operator's management. */
export function isManaged(node: NodeView): boolean {
  return node.metadata.labels?.[MANAGED_LABEL] === MANAGED_LABEL_VALUE;
}

/** True when the cordon on the node was set by this operator. */
export function hasOurCordon(node: NodeView): boolean {
  return node.metadata.annotations?.[CORDONED_ANNOTATION] !== undefined;
}

/** True when the load balancer exclusion label on the node was set by this operator. */
export function hasOurExclusion(node: NodeView): boolean {
  return node.metadata.annotations?.[EXCLUDED_ANNOTATION] !== undefined;
}

/** True when something of this operator is on the node that must be taken back. */
export function carriesOurs(node: NodeView): boolean {
  return hasOurCordon(node) || hasOurExclusion(node);
}
