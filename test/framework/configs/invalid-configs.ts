import { formatDuration, parseDuration } from '@brupop/shared/api/spec-schema';
import { specFields } from './fields.ts';
import { invalidMaintenance } from './maintenance.ts';
import { invalidQuorums } from './quorums.ts';
import { type InvalidSpec, LENGTHS, OTHER_RELEASE, TWICE, wrong, wrongAt } from './spec-with.ts';

const NODES = /must be a whole number of at least 1 \(such as 3\) or a percentage from "1%" to "100%" \(in quotes\)/u;
const OF_NODES = /must be of type integer,string/u;
const nodes = (value: unknown, message = NODES): InvalidSpec => wrong('concurrency.maxUpdating', value, message);

const concurrency: Record<string, InvalidSpec> = {
  'no node at once is a pause': nodes(0, /to stop updates, set spec\.paused/u),
  'there are not less than 0 nodes at once': nodes(-1),
  'no percent of the nodes at once is a pause': nodes('0%', /to stop updates, set spec\.paused/u),
  'there are no more nodes than all of them': nodes('101%'),
  'a percentage is a whole one': nodes('2.5%'),
  'a percentage has no space': nodes('5 %'),
  'a percentage has no leading zero': nodes('05%'),
  'a number of nodes has no quotes': nodes('3'),
  'a number of nodes is no word': nodes('all'),
  'a number of nodes is not empty': nodes(''),
  'nodes are not halved': nodes(1.5, OF_NODES),
  'a number of nodes is not endless': nodes(1e20, OF_NODES),
  'a number of nodes is no list': nodes([1], OF_NODES),
  'a number of nodes is not true': nodes(true, OF_NODES),
  'no unavailable node is a pause': wrong('concurrency.maxUnavailable', 0, NODES),
  'no more nodes are unavailable than all of them': wrong('concurrency.maxUnavailable', '200%', NODES),
  'unavailable nodes are not halved': wrong('concurrency.maxUnavailable', 0.5, OF_NODES),
  'nodes of a zone are not counted in percent': wrong('concurrency.maxPerZone', '10%', /must be of type integer/u),
};

const VERSION = /must be a semantic version such as 1\.21\.0, without a leading v/u;
const PIN = /must not be one of deny; take it off that list, or pin another version/u;
const MINIMUM_AGE = /must be a duration from 0s to 8760h/u;
const pin = (value: unknown, message = VERSION): InvalidSpec => wrong('versions.pin', value, message);
const pinAndDeny = (one: string, deny: string): InvalidSpec => ({
  spec: { versions: { pin: one, deny: ['1.20.0', deny] } },
  field: 'spec.versions.pin',
  message: PIN,
});

const versions: Record<string, InvalidSpec> = {
  'a version has no leading v': pin('v1.20.0'),
  'a version has three numbers': pin('1.20'),
  'a version is a number, not latest': pin('latest'),
  'a version is no range': pin('^1.20.0'),
  'a version has no leading zeros': pin('1.020.0'),
  'a version is not empty': pin(''),
  'a version is a text': pin(1.2, /must be of type string/u),
  'a version has at most 128 characters': pin(`1.20.0-${'a'.repeat(122)}`, /(?:more|longer) than 128/u),
  'a denied version is not pinned': pinAndDeny('1.21.0', '1.21.0'),
  'a denied version is not pinned in another build': pinAndDeny('1.21.0+a', '1.21.0'),
  'a denied version has no leading v': wrong('versions.deny[0]', 'v1.20.0', VERSION),
  'a denied version has no wildcard': wrong('versions.deny[0]', '1.20.x', VERSION),
  'a denied version is not null': wrong('versions.deny[0]', null, /must be of type string/u),
  'denied versions are a list': wrong('versions.deny', '1.20.0', /must be of type array/u),
  'a version is denied once': wrongAt(
    '[1]',
    'versions.deny',
    ['1.20.0', '1.20.0'],
    /Duplicate value: "1\.20\.0"/u,
    TWICE,
  ),
  'at most 50 versions are denied': wrong(
    'versions.deny',
    Array.from({ length: 51 }, (_, index) => `1.20.${index}`),
    /must have at most 50 items/u,
    LENGTHS,
  ),
  'a minimum age has no days': wrong('versions.minimumAge', '3d', MINIMUM_AGE),
  'a minimum age is at most a year': wrong('versions.minimumAge', '8760h1m', MINIMUM_AGE),
};

const TIME = /must be a date and time with an offset from UTC, such as 2026-12-20T00:00:00Z or/u;
const resume = (value: unknown): InvalidSpec => wrong('rollout.resume', value, TIME);
const rollout: Record<string, InvalidSpec> = {
  'a time of acceptance is no word': resume('now'),
  'a time of acceptance has an offset': resume('2026-11-29T21:00:00'),
  'a time of acceptance has a T between date and time': resume('2026-11-29 21:00:00Z'),
  'a time of acceptance is not empty': resume(''),
};

const CAP = /must not be less than backoff, which is 5m when it is left out/u;
const retry: Record<string, InvalidSpec> = {
  'the longest wait is not shorter than the first': {
    spec: { retry: { backoff: '601s', maxBackoff: '10m' } },
    field: 'spec.retry.maxBackoff',
    message: CAP,
  },
  'the longest wait is not shorter than the default of the first': wrong('retry.maxBackoff', '299s', CAP),
};

const VALUES = /must be given for In and NotIn, and not for Exists and DoesNotExist/u;
const KEY = /must be the key of a label, such as pool or topology\.kubernetes\.io\/zone/u;
const VALUE = /must be the value of a label: at most 63 letters/u;
const requirement = (field: string, value: unknown, message: RegExp): InvalidSpec =>
  wrong(`nodeSelector.matchExpressions[0].${field}`, value, message);
const withValues = (operator: string, values?: readonly string[]): InvalidSpec => ({
  spec: { nodeSelector: { matchExpressions: [{ key: 'pool', operator, values }] } },
  field: 'spec.nodeSelector.matchExpressions[0].values',
  message: VALUES,
});
const labels = (value: unknown, message: RegExp): InvalidSpec => wrong('nodeSelector.matchLabels', value, message);

const nodeSelector: Record<string, InvalidSpec> = {
  'In has values': withValues('In'),
  'In has not an empty list of values': withValues('In', []),
  'NotIn has values': withValues('NotIn'),
  'Exists has no values': withValues('Exists', ['web']),
  'DoesNotExist has no values': withValues('DoesNotExist', ['web']),
  'an operator is not that of a node affinity': requirement(
    'operator',
    'Gt',
    /"In", "NotIn", "Exists", "DoesNotExist"/u,
  ),
  'an operator is no sign': requirement('operator', '==', /"In", "NotIn", "Exists", "DoesNotExist"/u),
  'a requirement has an operator': requirement('operator', undefined, /Required value/u),
  'a requirement has a key': requirement('key', undefined, /Required value/u),
  'a key is not empty': requirement('key', '', KEY),
  'a key has no spaces': requirement('key', 'node pool', KEY),
  'a key has one slash': requirement('key', 'example.com/a/b', KEY),
  'a value has no spaces': requirement('values[0]', 'web pool', VALUE),
  'a value is not null': requirement('values[0]', null, /must be of type string/u),
  'a value is a text': requirement('values[0]', 1, /must be of type string/u),
  'values are a list': requirement('values', 'web', /must be of type array/u),
  'requirements are a list': wrong('nodeSelector.matchExpressions', 'pool in (web)', /must be of type array/u),
  'labels are no list': labels(['pool'], /must be of type object/u),
  'labels have texts, also for true': labels({ gpu: true }, /must be of type string/u),
  'labels have values': labels({ pool: null }, /each label must have a value; for any value, use matchExpressions/u),
  'labels have keys without spaces': labels({ 'node pool': 'web' }, KEY),
  'labels have values without spaces': labels({ pool: 'web pool' }, VALUE),
  'labels have values of at most 63 characters': labels({ pool: 'a'.repeat(64) }, /(?:more|longer) than 63/u),
  'labels are below matchLabels': wrong('nodeSelector.pool', 'web', /unknown field/u, OTHER_RELEASE),
  'a selector is no text': wrong('nodeSelector', 'pool=web', /must be of type object/u),
};

const KINDS = /must have exactly one of job, prometheus and alerts/u;
const check = (more: object, message = KINDS, field = 'name'): InvalidSpec => ({
  spec: { health: { checks: [{ name: 'smoke', when: ['After'], ...more }] } },
  field: `spec.health.checks[0].${field}`,
  message,
});
const hook = (field: string, value: unknown, message: RegExp): InvalidSpec =>
  wrong(`hooks.before[0].${field}`, value, message);

const checks: Record<string, InvalidSpec> = {
  'a check asks something': check({}),
  'a check asks one thing': check({ job: { cronJob: 'smoke' }, prometheus: { query: 'up' } }),
  'a check has a name': check({ name: undefined, job: { cronJob: 'smoke' } }, /Required value/u),
  'a check has a phase': {
    spec: { health: { checks: [{ name: 'smoke', when: [], job: { cronJob: 'smoke' } }] } },
    field: 'spec.health',
    message: /must have in checks\[\]\.when at least one phase/u,
  },
  'a check is before or after': check({ when: ['Never'], job: { cronJob: 'x' } }, /"Before", "After"/u, 'when[0]'),
  'an ignored namespace has a name': wrong('health.ignoredNamespaces[0]', 'Sand box', /should match/u),
  'a query is not empty': check({ prometheus: { query: '' } }, /at least 1 chars long/u, 'prometheus.query'),
  'alerts are not all there are': check({ alerts: { filter: [] } }, /at least 1 items/u, 'alerts.filter'),
  'a name of a hook is one of a DNS label': hook('name', 'Standby', /should match/u),
  'a name of a hook has at most 30 characters': hook('name', 'a'.repeat(31), /(?:more|longer) than 30/u),
  'a hook has a CronJob': hook('job', {}, /Required value/u),
  'a hook proceeds or aborts': hook('onTimeout', 'Ignore', /supported values: "Proceed", "Abort"/u),
  'a name of a check is there once': wrongAt(
    '[1]',
    'health.checks',
    ['smoke', 'smoke'].map((name) => ({ name, when: ['After'], job: { cronJob: 'smoke' } })),
    /Duplicate value/u,
    TWICE,
  ),
};

const REQUIRED = /must have at least one label that is required, in matchLabels or with In or Exists/u;
const SELECTOR = 'recovery.services[0].podSelectors[0]';
const NOT_API = { matchExpressions: [{ key: 'app', operator: 'NotIn', values: ['api'] }] };

const recovery: Record<string, InvalidSpec> = {
  'a recovery does not select all pods': wrong(SELECTOR, {}, REQUIRED),
  'a recovery does not select all pods but some': wrong(SELECTOR, NOT_API, REQUIRED),
  'a recovery selects pods': wrong('recovery.services[0].podSelectors', [], /at least 1 items/u),
  'a Service has the name of one': wrong('recovery.services[0].service', 'Postgres', /should match/u),
};

const others: Record<string, InvalidSpec> = {
  'a pause is not yes': wrong('paused', 'yes', /must be of type boolean/u),
  'a pause is not 1': wrong('paused', 1, /must be of type boolean/u),
  'a pause finishes or interrupts': wrong('pauseMode', 'Stop', /supported values: "Finish", "Interrupt"/u),
  'a reason for a pause is a text': wrong('pauseReason', 5, /must be of type string/u),
  'a reason for a pause is not empty': wrong('pauseReason', '', /at least 1 chars long/u, 'an empty reason is none'),
  'a reason for a pause has at most 1024 characters': wrong(
    'pauseReason',
    'x'.repeat(1025),
    /(?:more|longer) than 1024/u,
    LENGTHS,
  ),
  'waves are ignored or not': wrong('versions.ignoreWaves', 'false', /must be of type boolean/u),
  'nodes are tainted or not': wrong('drain.taintWaitingNodes', 'no', /must be of type boolean/u),
  'a drain aborts or forces': wrong('drain.onTimeout', 'Ignore', /supported values: "Abort", "Force"/u),
  'pods with an emptyDir are evicted or block': wrong('drain.emptyDirPods', 'Skip', /"Evict", "Block"/u),
  'pods without a controller are evicted or block': wrong('drain.unmanagedPods', true, /"Evict", "Block"/u),
  'an order has a capital': wrong('order', 'name', /supported values: "Name", "Random", "OldestBoot"/u),
  'there is one order': wrong('order', ['Name'], /must be of type string/u),
  'a field is spelt as it is': wrong('pausedReason', 'freeze', /unknown field/u, OTHER_RELEASE),
  'a field is where it is': wrong('maxUpdating', 3, /unknown field/u, OTHER_RELEASE),
  'a duration is not in seconds': wrong('drain.timeoutSeconds', 1_800, /unknown field/u, OTHER_RELEASE),
};

const WRONG_VALUES = {
  boolean: 'yes',
  string: 5,
  duration: 30,
  integer: '5m',
  'integer,string': true,
  array: 'default',
  object: 'default',
} as const;

const wrongTypes = specFields.map(({ field, type }): [string, InvalidSpec] => {
  const named = type === 'duration' ? 'string' : type;
  const message = new RegExp(`must be of type ${named}|Unsupported value`, 'u');
  return [`${field} has its type, ${type}`, wrong(field, WRONG_VALUES[type], message)];
});

const ofNumber = (field: string, [min, max]: readonly [string, string]): [string, InvalidSpec][] => [
  [`${field} is not below ${min}`, wrong(field, Number(min) - 1, new RegExp(`greater than or equal to ${min}`, 'u'))],
  ...(Number(max) === Number.MAX_SAFE_INTEGER
    ? []
    : [above(field, max, wrong(field, Number(max) + 1, new RegExp(`less than or equal to ${max}`, 'u')))]),
  [`${field} is whole`, wrong(field, Number(min) + 0.5, /must be of type integer/u)],
];
const ofDuration = (field: string, [min, max]: readonly [string, string]): [string, InvalidSpec][] => {
  const message = new RegExp(`must be a duration from ${min} to ${max}`, 'u');
  const shorter = (parseDuration(min) ?? 0) - 1000;
  return [
    ...(shorter < 0
      ? []
      : [[`${field} is not below ${min}`, wrong(field, formatDuration(shorter), message)] as [string, InvalidSpec]]),
    above(field, max, wrong(field, formatDuration((parseDuration(max) ?? 0) + 1000), message)),
    [`${field} has a unit`, wrong(field, '300', message)],
  ];
};

function above(field: string, max: string, spec: InvalidSpec): [string, InvalidSpec] {
  return [`${field} is not above ${max}`, spec];
}

const outOfRange = specFields.flatMap(({ field, type, range = ['0', '0'] }) => {
  if (type === 'integer') return ofNumber(field, range);
  return type === 'duration' ? ofDuration(field, range) : [];
});

const groups = ['maintenance', 'concurrency', 'versions', 'drain', 'loadBalancer', 'timeouts', 'monitoring', 'retry'];
const flat = groups.flatMap((field): [string, InvalidSpec][] => [
  [`${field} is no text`, wrong(field, 'default', /must be of type object/u)],
  [`${field} is no list`, wrong(field, [], /must be of type object/u)],
]);

/** Invalid specs, by the rule that they violate. */
export const invalidSpecs: Readonly<Record<string, InvalidSpec>> = {
  ...invalidMaintenance,
  ...concurrency,
  ...versions,
  ...retry,
  ...rollout,
  ...nodeSelector,
  ...checks,
  ...recovery,
  ...invalidQuorums,
  ...others,
  ...Object.fromEntries(wrongTypes),
  ...Object.fromEntries(outOfRange),
  ...Object.fromEntries(flat),
};
