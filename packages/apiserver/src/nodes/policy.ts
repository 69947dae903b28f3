import type { RestoreResult } from '@brupop/shared/api/agent-protocol';
import {
  CORDONED_ANNOTATION,
  EXCLUDED_ANNOTATION,
  EXCLUSION_LABEL,
  RECORDONED_ANNOTATION,
} from '@brupop/shared/api/names';
import type { KubernetesObject, ObjectMeta } from '@brupop/shared/api/meta';
import {
  cordonedByUs,
  excludedByUs,
  holdAnnotations,
  type NodePatch,
  releasePatch,
} from '@brupop/shared/node/ownership';
import { parseTime, rfc3339 } from '@brupop/shared/runtime/clock';

export interface Node extends KubernetesObject {
  /** Cordoned, by the operator or by another actor. */
  readonly unschedulable: boolean;
  readonly volumesAttached: readonly string[];
  /** When kube-apiserver last recorded a change of `spec.unschedulable` (RFC 3339). */
  readonly schedulableChanged: string | undefined;
}

interface ManagedFields {
  readonly time?: string;
  readonly fieldsV1?: { readonly 'f:spec'?: { readonly 'f:unschedulable'?: unknown } };
}

interface RawNode extends KubernetesObject {
  readonly metadata: ObjectMeta & { readonly managedFields?: readonly ManagedFields[] };
  readonly spec?: { readonly unschedulable?: boolean };
  readonly status?: { readonly volumesAttached?: readonly { readonly name: string }[] };
}

export function slimNode(raw: unknown): Node {
  const { metadata, spec, status } = raw as RawNode;
  const { name, uid, resourceVersion, labels = {}, annotations = {}, managedFields = [] } = metadata;
  return {
    metadata: { name, uid, resourceVersion, labels, annotations },
    unschedulable: spec?.unschedulable === true,
    volumesAttached: (status?.volumesAttached ?? []).map((one) => one.name),
    schedulableChanged: managedFields.find(({ fieldsV1 }) => fieldsV1?.['f:spec']?.['f:unschedulable'] !== undefined)
      ?.time,
  };
}

/** A change of a Node. Without a patch there is nothing to write. */
export interface NodeChange<T> {
  readonly patch?: NodePatch;
  readonly result: T;
}

/** Whether the node may be drained. `CordonRemoved`: another actor has uncordoned it twice. */
export type Cordon = 'Cordoned' | 'CordonRemoved';

/**
 * Cordons a node, records in an annotation that the operator did, and holds autoscalers off it. A
 * node that another actor has cordoned gets no such annotation. A cordon that was removed is set
 * again, once.
 */
export function cordon(node: Node, now: number): NodeChange<Cordon> {
  const holds = holdAnnotations(node);
  const isHeld = Object.keys(holds).length === 0;
  if (node.unschedulable)
    return { ...(!isHeld && { patch: { metadata: { annotations: holds } } }), result: 'Cordoned' };
  const { annotations = {} } = node.metadata;
  if (annotations[RECORDONED_ANNOTATION] !== undefined) return { result: 'CordonRemoved' };
  const signature = cordonedByUs(node) ? RECORDONED_ANNOTATION : CORDONED_ANNOTATION;
  const patch = {
    metadata: { annotations: { ...holds, [signature]: rfc3339(now) } },
    spec: { unschedulable: true },
  } as const;
  return { patch, result: 'Cordoned' };
}

/**
 * Since when the scheduler places no pods on a node, epoch milliseconds, by the clock of kube-apiserver, which
 * also writes when a pod was created. Undefined when that is not known: the node is not cordoned, or not by
 * the operator.
 */
export function cordonedSince(node: Node | undefined): number | undefined {
  if (node?.unschedulable !== true || !cordonedByUs(node)) return undefined;
  return parseTime(node.schedulableChanged);
}

/**
 * Excludes a node from load balancers and records that in an annotation; the result is how many
 * milliseconds of `waitMs` are left. A label without the annotation was set by another actor, at an
 * unknown time: there is nothing to wait for.
 */
export function exclude(node: Node, waitMs: number, now: number): NodeChange<number> {
  const { labels = {}, annotations = {} } = node.metadata;
  const labelled = labels[EXCLUSION_LABEL] !== undefined;
  const signed = excludedByUs(node);
  if (labelled && !signed) return { result: 0 };
  const since = labelled ? parseTime(annotations[EXCLUDED_ANNOTATION]) : undefined;
  if (since !== undefined) return { result: Math.max(0, waitMs - Math.max(0, now - since)) };
  const signature = { ...holdAnnotations(node), [EXCLUDED_ANNOTATION]: rfc3339(now) };
  return { patch: { metadata: { labels: { [EXCLUSION_LABEL]: 'true' }, annotations: signature } }, result: waitMs };
}

/** Removes what the operator has set, by its annotations, and the annotations. */
export function restore(node: Node): NodeChange<RestoreResult> {
  const patch = releasePatch(node);
  const result = { uncordoned: patch?.spec !== undefined, included: patch?.metadata?.labels !== undefined };
  return patch === undefined ? { result } : { patch, result };
}
