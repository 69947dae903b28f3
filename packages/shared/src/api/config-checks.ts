/** Fields of the spec of a BrupopConfig for the checks and hooks that users define. */
import * as v from 'valibot';
import { shortName } from './config-values.ts';
import { described, type Infer, matching, oneOf } from './schema.ts';
import { always, duration, field, fields, group, listOf, mapOf, requireThat } from './spec-schema.ts';

const cronJob = matching(/^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/, 52, 'the name of a CronJob, at most 52 characters');

function text(maxLength: number) {
  const expected = `a text of 1 to ${maxLength} characters`;
  return v.pipe(v.string(expected), v.minLength(1, expected), v.maxLength(maxLength, expected));
}

const job = fields({
  cronJob: described(
    cronJob,
    "A CronJob in the namespace of the chart's value checks.namespace. Its jobTemplate is the template of the Jobs; suspend it, " +
      'so that its schedule has no effect.',
  ),
});
const prometheus = fields({
  query: described(
    text(2048),
    'A PromQL expression. It passes when the instant query returns a scalar that is not zero, or at least one series and no ' +
      'series whose value is zero, such as sum(rate(http_requests_failed_total[5m])) < bool 1.',
  ),
});
const alerts = fields({
  filter: described(
    v.pipe(listOf(text(256), 10, 'set'), v.minLength(1, 'at least one matcher')),
    'Matchers of Alertmanager, such as severity="critical", of which an alert has to match all. The check does not pass while an ' +
      'alert is active that is neither silenced nor inhibited.',
  ),
});

const PHASES = ['Before', 'After'] as const;
const jobTimeout = field(
  duration('10s', '2h'),
  'How long a Job may take, the start of its pod included, 10m by default.',
  { absent: '10m' },
);

interface Kinds {
  readonly job?: unknown;
  readonly prometheus?: unknown;
  readonly alerts?: unknown;
}

const check = fields(
  {
    name: described(shortName, 'The name of the check, once in this list.'),
    when: described(
      listOf(oneOf(PHASES), 2, 'set'),
      'Before: a node is drained only when the check has passed; a query or an alert also keeps nodes from starting. After: the ' +
        'update of a node succeeds only when the check has passed on the new version. Empty only for a query or an alert that quorums[].checks names: it is asked ' +
        'only before a node with a member goes.',
    ),
    job: field(job, 'A Job, which passes when it completes, once for each node and attempt.'),
    prometheus: field(prometheus, "A query of the Prometheus of the chart's value checks.prometheus.url."),
    alerts: field(alerts, "Alerts of the Alertmanager of the chart's value checks.alertmanager.url."),
    timeout: jobTimeout,
  },
  requireThat<Kinds & { readonly name: string }>(
    'name',
    'exactly one of job, prometheus and alerts',
    ({ job, prometheus, alerts }) => [job, prometheus, alerts].filter((one) => one !== undefined).length === 1,
  ),
);

const HOOK = {
  name: described(shortName, 'The name of the hook, once in this list.'),
  job: described(job, 'The Job that is the hook, once for each node and attempt.'),
  timeout: jobTimeout,
  onTimeout: field(
    oneOf(['Proceed', 'Abort']),
    'What happens when the Job does not end in time. Abort, the default: the same as when it fails. Proceed: the next one runs.',
    { absent: 'Abort' },
  ),
};
const hook = fields(HOOK);
const hookBefore = fields({
  ...HOOK,
  quorum: field(
    shortName,
    'The name of one of quorums: the hook runs only for nodes with a member of it. Without it, for every node.',
  ),
});

export const checks = field(
  mapOf(check, 10),
  'Checks that you define, at most 10: Jobs, queries of Prometheus, alerts. What cannot be evaluated has not passed. A node whose ' +
    'Job fails before the drain is not drained and tried again later; one whose Job fails after the update has failed with the version.',
  always([]),
);

export const HOOKS = {
  hooks: group('Jobs that act for a node before its drain and after its update, one after the other.', {
    before: field(
      mapOf(hookBefore, 10),
      'Hooks before the drain, at most 10, when the node is staged and all checks have passed. Nothing is evicted until ' +
        'the last one has completed; when one fails, the node is not drained, the hooks after run, and it is tried again later.',
      always([]),
    ),
    after: field(
      mapOf(hook, 10),
      'Hooks after the update, at most 10, whether it succeeded or not, if the node may have been drained or a hook before it ' +
        'has run. The node keeps its update slot until they have ended. When one fails, the next ones do not run, and an Event says so; ' +
        'the update has not failed for that.',
      always([]),
    ),
  }),
};

export type Check = Infer<typeof check>;
export type Hook = Infer<typeof hook>;
export type HookBefore = Infer<typeof hookBefore>;
export type Phase = (typeof PHASES)[number];
