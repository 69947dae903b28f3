/**
 * Fields of the spec of a BrupopConfig for sets of pods that work while a majority of them does, such as those of etcd.
 * The rules across fields that the API server checks are in `scripts/crds/brupopconfigs.yaml`.
 */
import * as v from 'valibot';
import { namespaceName, shortName } from './config-values.ts';
import {
  isProtectedSelector,
  type LabelSelector,
  podSelector,
  PROTECTED_PREFIXES,
  selectorOf,
  SMALL_SELECTOR,
} from './label-selector.ts';
import { described, type Infer, issueAt, oneOf, whole } from './schema.ts';
import { always, field, fields, listOf, mapOf, requireThat } from './spec-schema.ts';

export const MAX_QUORUMS = 20;
const MAX_MEMBERS = 99;
const MAX_TOLERATED = 48;

const nodeSelector = selectorOf(
  { what: 'a node', ...SMALL_SELECTOR },
  requireThat<LabelSelector>(
    'matchLabels',
    `only keys that kubelets cannot set (${PROTECTED_PREFIXES.join(' or ')}), and at least one that a node must have`,
    isProtectedSelector,
  ),
);

interface Counts {
  readonly members: number;
  readonly tolerate: number;
  readonly downtime: 'Refused' | 'Allowed';
}

/** The smallest number of members that is more than half of all. */
export function majorityOf(members: number): number {
  return Math.floor(members / 2) + 1;
}

const quorum = fields(
  {
    name: described(shortName, 'The name of the set, once in this list.'),
    namespace: described(namespaceName, 'The namespace of its pods.'),
    podSelector: described(podSelector, 'Its pods, the members. It requires at least one label.'),
    nodeSelector: field(
      nodeSelector,
      'For static pods only: the nodes on which they count, one on each. Only labels that kubelets cannot set on their Nodes are ' +
        'allowed, which are those of node-role.kubernetes.io and node-restriction.kubernetes.io. Without it, no static pod counts, and ' +
        'a node with one that podSelector selects waits. Other pods count on every node.',
    ),
    members: described(
      whole(1, MAX_MEMBERS),
      `How many members the set has when it is complete, from 1 to ${MAX_MEMBERS}. When more pods are found, these count.`,
    ),
    tolerate: field(
      whole(0, MAX_TOLERATED),
      'How many other members may be away when a node with a member starts or is drained. With the member on that node away as well, ' +
        'a majority must be left.',
      always(0),
    ),
    downtime: field(
      oneOf(['Refused', 'Allowed']),
      'For sets of one or two members, of which no majority is left without one. Refused: their nodes wait. Allowed: they update, one ' +
        'at a time, and the set does not work meanwhile.',
      always('Refused'),
    ),
    last: field(
      podSelector,
      'Which members go after the others, such as the leader, by their labels: their nodes wait for the nodes of other members that ' +
        'can update.',
    ),
    checks: field(
      listOf(shortName, 10, 'set'),
      'Names of queries and alerts of health.checks, at most 10, that also have to pass before a node with a member starts or is drained, ' +
        'whatever their phase is.',
      always([]),
    ),
  },
  requireThat<Counts>(
    'tolerate',
    'so few that a majority of members is left with one more away',
    ({ members, tolerate }) => tolerate === 0 || members - tolerate - 1 >= majorityOf(members),
  ),
  requireThat<Counts>(
    'downtime',
    'Refused for sets of more than two members',
    ({ members, downtime }) => downtime === 'Refused' || members <= 2,
  ),
);

export type Quorum = Infer<typeof quorum>;

/** Two sets of one name would be one to whoever reads of it. */
function namedOnce<T extends readonly { readonly name: string }[]>() {
  return v.rawCheck<T>(({ dataset, addIssue }) => {
    if (!dataset.typed) return;
    const input = dataset.value;
    const key = input.findIndex(({ name }, index) => input.findIndex((one) => one.name === name) < index);
    if (key >= 0) addIssue(issueAt(input, key, 'a name that no other set has', input[key]?.name));
  });
}

export const quorums = field(
  v.pipe(mapOf(quorum, MAX_QUORUMS), namedOnce()),
  `Sets of pods, at most ${MAX_QUORUMS}, that work while a majority of their members does, such as etcd. A node with a member starts, and is ` +
    'drained, only while enough other members are there, and its update has succeeded only when its own member is Ready again. A member is ' +
    'away when it is not Ready, being deleted or missing, or on a node that is not Ready, being deleted or updating. Members are ' +
    'counted, not asked: checks and hooks do that.',
  always([]),
);

interface OfSpec {
  readonly quorums: readonly Quorum[];
  readonly hooks: { readonly before: readonly { readonly quorum?: string | undefined }[] };
  readonly health: {
    readonly checks: readonly { readonly name: string; readonly when: readonly string[]; readonly job?: unknown }[];
  };
}

/** What quorums have in common with the rest of the spec. */
export const QUORUM_RULES = [
  requireThat<OfSpec>(
    'quorums',
    'checks that are queries or alerts of health.checks',
    ({ quorums: all, health }) =>
      all.every(({ checks }) =>
        checks.every((name) => health.checks.some((one) => one.name === name && one.job === undefined)),
      ),
    ({ quorums: all }) => all.flatMap(({ checks }) => checks).join(', '),
  ),
  requireThat<OfSpec>(
    'health',
    'in checks[].when at least one phase, except for the checks of quorums',
    ({ quorums: all, health }) =>
      health.checks.every(({ name, when }) => when.length > 0 || all.some(({ checks }) => checks.includes(name))),
    ({ health }) => health.checks.flatMap(({ name, when }) => (when.length === 0 ? [name] : [])).join(', '),
  ),
  requireThat<OfSpec>(
    'hooks',
    'in before[].quorum the name of one of quorums',
    ({ quorums: all, hooks }) =>
      hooks.before.every(({ quorum: name }) => name === undefined || all.some((one) => one.name === name)),
    ({ hooks }) => hooks.before.flatMap(({ quorum: name }) => name ?? []).join(', '),
  ),
];
