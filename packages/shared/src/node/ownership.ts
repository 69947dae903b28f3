/**
 * What the operator owns on a Node, and may therefore remove: its cordon, the label that excludes
 * it from load balancers, and the annotations that hold autoscalers off it.
 *
 *     free --> owned: set by one patch, together with an annotation that records it --> free
 *
 * Without that annotation a cordon, label or hold belongs to another actor and stays as it is, as does
 * a label or hold with another value. The apiserver sets and releases them when an agent asks for it
 * (`nodes/policy.ts`). The controller starts no node that is owned, and releases a Node where no agent
 * does (`apply/nodes.ts`).
 */
import {
  CORDONED_ANNOTATION,
  EXCLUDED_ANNOTATION,
  EXCLUSION_LABEL,
  AUTOSCALER_HOLDS_ANNOTATION,
  AUTOSCALER_HOLDS,
  RECORDONED_ANNOTATION,
} from '../api/names.ts';

/** The part of a Node that the operator may change. */
export interface OwnableNode {
  readonly metadata: {
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
  };
  readonly unschedulable: boolean;
}

/** A JSON merge patch of a Node (RFC 7386): null removes. */
export interface NodePatch {
  readonly metadata?: {
    readonly labels?: Readonly<Record<string, string | null>>;
    readonly annotations?: Readonly<Record<string, string | null>>;
  };
  readonly spec?: { readonly unschedulable: true | null };
}

/** Each is written together with what it records. */
export const OWNERSHIP_ANNOTATIONS = [
  CORDONED_ANNOTATION,
  RECORDONED_ANNOTATION,
  EXCLUDED_ANNOTATION,
  AUTOSCALER_HOLDS_ANNOTATION,
] as const;

export function ownedByUs({ metadata: { annotations = {} } }: OwnableNode): boolean {
  return OWNERSHIP_ANNOTATIONS.some((name) => annotations[name] !== undefined);
}

export function cordonedByUs({ metadata: { annotations = {} } }: OwnableNode): boolean {
  return annotations[CORDONED_ANNOTATION] !== undefined;
}

export function excludedByUs({ metadata: { annotations = {} } }: OwnableNode): boolean {
  return annotations[EXCLUDED_ANNOTATION] !== undefined;
}

/** Autoscaler holds that the operator set; a user may have written anything into the record. */
export function ownedHolds({ metadata: { annotations = {} } }: OwnableNode): readonly string[] {
  const recorded = (annotations[AUTOSCALER_HOLDS_ANNOTATION] ?? '').split(',');
  return AUTOSCALER_HOLDS.filter((name) => recorded.includes(name) && annotations[name] === 'true');
}

/** The autoscaler holds that are not set yet, and the record of them. */
export function holdAnnotations(node: OwnableNode): Readonly<Record<string, string>> {
  const { annotations = {} } = node.metadata;
  const free = AUTOSCALER_HOLDS.filter((name) => annotations[name] === undefined);
  if (free.length === 0) return {};
  const recorded = [...ownedHolds(node), ...free].join(',');
  return { ...Object.fromEntries(free.map((name) => [name, 'true'])), [AUTOSCALER_HOLDS_ANNOTATION]: recorded };
}

/** `True` is that of the Rust operator, which a takeover adopts. Karpenter and others write their names over it. */
const OWN_EXCLUSION = /^true$/iu;

/** Removes what the operator set, and the record of it; undefined when there is nothing. */
export function releasePatch(node: OwnableNode): NodePatch | undefined {
  if (!ownedByUs(node)) return undefined;
  const included = excludedByUs(node) && OWN_EXCLUSION.test(node.metadata.labels?.[EXCLUSION_LABEL] ?? '');
  const uncordoned = cordonedByUs(node) && node.unschedulable;
  // Removing what is not there changes nothing.
  const annotations = Object.fromEntries([...OWNERSHIP_ANNOTATIONS, ...ownedHolds(node)].map((name) => [name, null]));
  return {
    metadata: { annotations, ...(included && { labels: { [EXCLUSION_LABEL]: null } }) },
    ...(uncordoned && { spec: { unschedulable: null } }),
  };
}
