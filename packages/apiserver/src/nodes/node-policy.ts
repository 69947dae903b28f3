import { parseTime, rfc3339 } from '@brupop/shared/clock';
import { CORDONED_ANNOTATION, EXCLUDED_ANNOTATION, EXCLUSION_LABEL } from '@brupop/shared/constants';
import type { KubernetesObject } from '@brupop/shared/kubernetes-types';
import type { RestoreResult } from '@brupop/shared/operator-api';

/** A Node, cut to what is read. */
export interface Node extends KubernetesObject {
  readonly spec?: { readonly unschedulable?: boolean };
}

/** A JSON merge patch (RFC 7386): null removes. */
export interface NodePatch {
  readonly metadata?: {
    readonly labels?: Readonly<Record<string, string | null>>;
    readonly annotations?: Readonly<Record<string, string | null>>;
  };
  readonly spec?: { readonly unschedulable: true | null };
}

/** What to write, or undefined when nothing is to be, and what to answer then. */
export interface NodeChange<T> {
  readonly patch?: NodePatch;
  readonly result: T;
}

export function isCordoned(node: Node): boolean {
  return node.spec?.unschedulable === true;
}

/** Cordons a node and signs it. One that is cordoned already is left to whoever did that. */
export function cordon(node: Node, now: number): NodeChange<void> {
  if (isCordoned(node)) return { result: undefined };
  const annotations = { [CORDONED_ANNOTATION]: rfc3339(now) };
  return { patch: { metadata: { annotations }, spec: { unschedulable: true } }, result: undefined };
}

/**
 * Takes a node out of load balancers and signs it; the result is how many milliseconds of `waitMs` are left. A label that is there
 * without our annotation is somebody else's, set long ago for all we know: nothing to wait for.
 */
export function exclude(node: Node, waitMs: number, now: number): NodeChange<number> {
  const { labels = {}, annotations = {} } = node.metadata;
  const labelled = labels[EXCLUSION_LABEL] !== undefined;
  const signed = annotations[EXCLUDED_ANNOTATION];
  if (labelled && signed === undefined) return { result: 0 };
  const since = labelled ? parseTime(signed) : undefined;
  if (since !== undefined) return { result: Math.max(0, waitMs - Math.max(0, now - since)) };
  const patch = {
    metadata: { labels: { [EXCLUSION_LABEL]: 'true' }, annotations: { [EXCLUDED_ANNOTATION]: rfc3339(now) } },
  };
  return { patch, result: waitMs };
}

/** Takes back what the annotations say is ours, and the annotations. */
export function restore(node: Node): NodeChange<RestoreResult> {
  const { labels = {}, annotations = {} } = node.metadata;
  const cordonOurs = annotations[CORDONED_ANNOTATION] !== undefined;
  const labelOurs = annotations[EXCLUDED_ANNOTATION] !== undefined;
  const uncordoned = cordonOurs && isCordoned(node);
  const included = labelOurs && labels[EXCLUSION_LABEL] !== undefined;
  const result = { uncordoned, included };
  if (!cordonOurs && !labelOurs) return { result };
  const labelPatch = included ? { labels: { [EXCLUSION_LABEL]: null } } : {};
  const specPatch = uncordoned ? { spec: { unschedulable: null } } : {};
  // Removing what is not there changes nothing.
  const signatures = { [CORDONED_ANNOTATION]: null, [EXCLUDED_ANNOTATION]: null };
  return { patch: { metadata: { annotations: signatures, ...labelPatch }, ...specPatch }, result };
}
