/** Fields of the spec of a BrupopConfig for what is scaled to 0 while most nodes of the cluster have lost the control plane. */
import { namespaceName, shortName } from './config-values.ts';
import { described, flag, type Infer, matching, oneOf, whole } from './schema.ts';
import { always, duration, field, fields, group, mapOf } from './spec-schema.ts';

export const DEPENDENT_KINDS = ['Deployment', 'StatefulSet'] as const;
export type DependentKind = (typeof DEPENDENT_KINDS)[number];

const OBJECT = 'the name of a Deployment or StatefulSet, at most 253 characters';
const objectName = matching(/^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/, 253, OBJECT);

function phase(text: string, done: string) {
  return group(text, {
    level: field(
      whole(0, 100),
      'Its place in the order, 0 by default: those with a lower level go first, and those with the same one go together.',
      { absent: 0 },
    ),
    delay: field(duration('0s', '1h'), 'How long it waits after its level has started, 0s by default.', {
      absent: '0s',
    }),
    timeout: field(
      duration('1s', '1h'),
      `The next level starts this long after delay although ${done}, 30s by default.`,
      { absent: '30s' },
    ),
  });
}

const dependent = fields({
  name: described(shortName, 'The name of the dependent, for messages.'),
  namespace: described(namespaceName, 'The namespace of the target.'),
  kind: described(oneOf(DEPENDENT_KINDS), 'The kind of the target.'),
  target: described(
    objectName,
    "The name of the target. The chart's value dependents.targets has to have it as well, which grants the right to scale it.",
  ),
  optional: field(flag(), 'True: a target that does not exist is no problem. False is the default.', { absent: false }),
  scaleDown: phase('How it is scaled to 0.', 'pods of it are left'),
  scaleUp: phase('How it is scaled back.', 'not all of its pods are Ready'),
});
export type Dependent = Infer<typeof dependent>;

/** Two entries for one target would contradict each other. */
const dependents = mapOf(dependent, 20, ['kind', 'namespace', 'target']);

export const DEPENDENTS = {
  clusterExpiredPercent: field(
    whole(1, 100),
    'The percentage of all Nodes of the cluster, managed or not, whose Leases have to be expired until dependents are scaled to 0: ' +
      'at least 3 Nodes, and not those of one zone alone. Nodes that are updating, being deleted or younger than a minute count only ' +
      'while they renew their Leases. Nodes that had been silent for an hour when the loss began do not count.',
    always(60),
  ),
  dependents: field(
    dependents,
    'Deployments and StatefulSets that act on silent nodes, such as cluster-autoscaler, at most 20, each target once. They are scaled to 0 while ' +
      'most Nodes of the cluster have lost the control plane, and back to their numbers of replicas afterwards.',
    always([]),
  ),
};

export interface TargetName {
  readonly kind: DependentKind;
  readonly namespace: string;
  /** Of the object. */
  readonly target: string;
}

/** Unique to the object in the cluster, and as messages name it. */
export function targetKey({ kind, namespace, target }: TargetName): string {
  return `${kind} ${namespace}/${target}`;
}
