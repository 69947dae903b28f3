/** Specs with a mistake in `quorums`. */
import { type InvalidSpec, ITEMS, LENGTHS, wrong, wrongAt } from './spec-with.ts';

const POSITIVE = /must have at least one label that is required, in matchLabels or with In or Exists/u;
const PROTECTED = /must have only keys that kubelets cannot set/u;
const MAJORITY = /must be so few that a majority of members is left with one more away/u;
const OF_TWO = /must be Refused for sets of more than two members/u;
const OF_CHECKS = /must name in checks only queries and alerts of health\.checks/u;
const quorum = (fields: object, field: string, message: RegExp, more: object = {}): InvalidSpec => ({
  spec: { ...more, quorums: [{ ...ITEMS['quorums'], members: 3, ...fields }] },
  field: `spec.quorums${field === '' ? '' : `[0].${field}`}`,
  message,
});
const NOT_A = { matchExpressions: [{ key: 'app', operator: 'NotIn', values: ['a'] }] };

/** By the rule that they violate. */
export const invalidQuorums: Record<string, InvalidSpec> = {
  'a set has a selector': quorum({ podSelector: undefined }, 'podSelector', /Required value/u),
  'a set does not have all pods': quorum({ podSelector: {} }, 'podSelector', POSITIVE),
  'a set does not have all pods but some': quorum({ podSelector: NOT_A }, 'podSelector', POSITIVE),
  'a selector of static pods is not empty': quorum({ nodeSelector: {} }, 'nodeSelector', POSITIVE),
  'the last members are not all': quorum({ last: { matchLabels: {} } }, 'last', POSITIVE),
  'static pods do not count by a label that kubelets set': quorum(
    { nodeSelector: { matchLabels: { pool: 'db' } } },
    'nodeSelector',
    PROTECTED,
  ),
  'no label of static pods is one that kubelets set': quorum(
    {
      nodeSelector: {
        matchLabels: { 'node-role.kubernetes.io/control-plane': '' },
        matchExpressions: [{ key: 'topology.kubernetes.io/zone', operator: 'Exists' }],
      },
    },
    'nodeSelector',
    PROTECTED,
  ),
  'three members tolerate none away': quorum({ tolerate: 1 }, 'tolerate', MAJORITY),
  'four members tolerate none away': quorum({ members: 4, tolerate: 1 }, 'tolerate', MAJORITY),
  'five members do not tolerate two': quorum({ members: 5, tolerate: 2 }, 'tolerate', MAJORITY),
  'a set of one tolerates none away': quorum({ members: 1, tolerate: 1 }, 'tolerate', MAJORITY),
  'three members need no downtime': quorum({ downtime: 'Allowed' }, 'downtime', OF_TWO),
  'a check of a set is one of all': quorum({ checks: ['healthy'] }, '', OF_CHECKS),
  'a check of a set is no Job': quorum({ checks: ['smoke'] }, '', OF_CHECKS, {
    health: { checks: [{ name: 'smoke', when: ['Before'], job: { cronJob: 'smoke' } }] },
  }),
  'a hook is for a set that there is': {
    spec: { hooks: { before: [{ name: 'snapshot', job: { cronJob: 'snapshot' }, quorum: 'etcd' }] } },
    field: 'spec.hooks',
    message: /must have in before\[\]\.quorum the name of one of quorums/u,
  },
  'a name of a set is there once': wrongAt('[1]', 'quorums', [ITEMS['quorums'], ITEMS['quorums']], /Duplicate value/u),
  'there are at most 20 sets': wrong(
    'quorums',
    Array.from({ length: 21 }, (_, i) => ({ ...ITEMS['quorums'], name: `db-${i}` })),
    /must have at most 20 items/u,
    LENGTHS,
  ),
};
