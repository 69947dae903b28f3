/** metav1: metadata and conditions, cut to the fields that more than one program reads. */
import * as v from 'valibot';
import * as s from './schema.ts';

export interface OwnerReference {
  readonly apiVersion: string;
  readonly kind: string;
  readonly name: string;
  readonly uid: string;
  readonly controller?: boolean;
  readonly blockOwnerDeletion?: boolean;
}

export interface ObjectMeta {
  readonly name: string;
  readonly uid: string;
  readonly resourceVersion: string;
  readonly namespace?: string;
  readonly generation?: number;
  readonly creationTimestamp?: string;
  readonly deletionTimestamp?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly ownerReferences?: readonly OwnerReference[];
  readonly finalizers?: readonly string[];
}

export interface KubernetesObject {
  readonly apiVersion?: string;
  readonly kind?: string;
  readonly metadata: ObjectMeta;
}

const condition = s.object({
  type: s.described(s.text(316), 'What the condition is about.', { minLength: 1 }),
  status: s.described(s.oneOf(['True', 'False', 'Unknown']), 'Whether the condition is true.'),
  reason: s.described(s.text(1024), 'Why, in one word for programs.', {
    minLength: 1,
    pattern: '^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$',
  }),
  message: s.described(s.text(32_768), 'Why, in one sentence for users.'),
  lastTransitionTime: s.described(s.time(), 'When the status last changed.'),
  observedGeneration: s.optional(s.count64(), 'The metadata.generation that the condition is about.'),
});
export type Condition = s.Infer<typeof condition>;

/** What a condition says, before it is written. */
export interface ConditionReport<R extends string = string> extends Pick<Condition, 'status' | 'message'> {
  readonly reason: R;
}

/** The field `conditions` of a custom resource: one condition of each type. */
export function conditions(description: string) {
  const keys = { 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['type'] };
  return s.optional(v.array(condition, 'a list'), description, keys);
}

/**
 * Of a status. An object that no controller has seen has a generation that was not observed, so that tools wait: those that
 * find none, such as kstatus, take it for current.
 */
export const NOT_SEEN = { default: { observedGeneration: 0 } };

export function slimMetadata(metadata: ObjectMeta): ObjectMeta {
  const { name, namespace = '', uid, resourceVersion, generation, deletionTimestamp } = metadata;
  return {
    name,
    namespace,
    uid,
    resourceVersion,
    ...(generation === undefined ? {} : { generation }),
    ...(deletionTimestamp === undefined ? {} : { deletionTimestamp }),
  };
}
