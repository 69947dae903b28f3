import {
  CORDONED_ANNOTATION,
  EXCLUDED_ANNOTATION,
  EXCLUSION_LABEL,
  AUTOSCALER_HOLDS_ANNOTATION,
  AUTOSCALER_HOLDS,
  RECORDONED_ANNOTATION,
} from '../api/names.ts';

/** The part of a Node on which this operator leaves marks. */
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

/** Annotations that say what on a Node is ours. Each is written together with what it signs. */
export const OWNERSHIP_ANNOTATIONS = [
  CORDONED_ANNOTATION,
  RECORDONED_ANNOTATION,
  EXCLUDED_ANNOTATION,
  AUTOSCALER_HOLDS_ANNOTATION,
] as const;

/** True when something on the Node is ours. */
export function ownedByUs({ metadata: { annotations = {} } }: OwnableNode): boolean {
  return OWNERSHIP_ANNOTATIONS.some((name) => annotations[name] !== undefined);
}

/** True when the cordon on the Node was set by this operator. */
export function cordonedByUs({ metadata: { annotations = {} } }: OwnableNode): boolean {
  return annotations[CORDONED_ANNOTATION] !== undefined;
}

/** True when the load balancer exclusion label on the Node was set by this operator. */
export function excludedByUs({ metadata: { annotations = {} } }: OwnableNode): boolean {
  return annotations[EXCLUDED_ANNOTATION] !== undefined;
}

/** The annotations that hold autoscalers off and are ours: only ever those that we set, whatever somebody has written. */
export function ownedHolds({ metadata: { annotations = {} } }: OwnableNode): readonly string[] {
  const signed = (annotations[AUTOSCALER_HOLDS_ANNOTATION] ?? '').split(',');
  return AUTOSCALER_HOLDS.filter((name) => signed.includes(name) && annotations[name] === 'true');
}

/** Annotations that hold autoscalers off the Node, where nobody has set them otherwise, and their signature. */
export function holdAnnotations(node: OwnableNode): Readonly<Record<string, string>> {
  const { annotations = {} } = node.metadata;
  const free = AUTOSCALER_HOLDS.filter((name) => annotations[name] === undefined);
  if (free.length === 0) return {};
  const signed = [...ownedHolds(node), ...free].join(',');
  return { ...Object.fromEntries(free.map((name) => [name, 'true'])), [AUTOSCALER_HOLDS_ANNOTATION]: signed };
}

/** Takes back what the annotations say is ours, and the annotations; undefined when there is nothing. */
export function releasePatch(node: OwnableNode): NodePatch | undefined {
  if (!ownedByUs(node)) return undefined;
  const included = excludedByUs(node) && node.metadata.labels?.[EXCLUSION_LABEL] !== undefined;
  const uncordoned = cordonedByUs(node) && node.unschedulable;
  // Removing what is not there changes nothing.
  const annotations = Object.fromEntries([...OWNERSHIP_ANNOTATIONS, ...ownedHolds(node)].map((name) => [name, null]));
  return {
    metadata: { annotations, ...(included && { labels: { [EXCLUSION_LABEL]: null } }) },
    ...(uncordoned && { spec: { unschedulable: null } }),
  };
}
