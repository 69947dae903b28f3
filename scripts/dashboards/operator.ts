/** The dashboard of the operator itself: its controllers, its API servers and their calls. */
import { dashboard, graph, stat, timeline } from './panels.ts';
import { newly, quantiles } from './queries.ts';

/** Outcomes of calls to a host API that each update has, such as `locked` while a command runs. */
const EXPECTED = 'ok|locked|uninitialized|unset';

const CLUSTER = 'cluster=~"$cluster"';
const rate = (metric: string, by: string, more = ''): string =>
  `sum by (${by}) (rate(${metric}{${CLUSTER}${more}}[$__rate_interval]))`;
/** The largest value of a metric of the process among the replicas of each program. */
const largest = (metric: string): Record<string, string> => ({
  '{{component}}': `max by (component) (${metric} * on (cluster, job, instance) group_left (component) brupop_component_info{${CLUSTER}})`,
});
const replicas = (component: string): string =>
  `count(brupop_component_info{${CLUSTER},component="${component}"}) or vector(0)`;
const GOOD_FROM_1 = [
  [null, 'red'],
  [1, 'green'],
] as const;

const HOST_OUTCOMES = {
  ok: 'green',
  uninitialized: 'blue',
  unset: 'super-light-blue',
  locked: 'yellow',
  unsupported: 'purple',
  refused: 'orange',
  unanswered: 'red',
  answer: 'dark-red',
  unreadable: 'dark-orange',
};
const AUTHENTICATIONS = {
  Cached: 'green',
  Reviewed: 'blue',
  Rejected: 'red',
  Throttled: 'orange',
  Unavailable: 'dark-red',
};

export const operator = dashboard({
  uid: 'brupop-operator',
  title: 'Bottlerocket updates / Operator',
  description: 'The programs of the Bottlerocket update operator.',
  filters: { cluster: 'brupop_component_info' },
  annotations: {},
  panels: [
    stat({
      title: 'Leaders',
      description: 'Controllers that are the leader. Without one, see docs/runbook.md, No controller is the leader.',
      queries: { Leaders: `sum(brupop_controller_leader{${CLUSTER}}) or vector(0)` },
      steps: GOOD_FROM_1,
      width: 4,
    }),
    stat({
      title: 'Controllers and API servers',
      description: 'Replicas that Prometheus reads. If one is missing, look at the pods of its Deployment.',
      queries: { Controllers: replicas('brupop-controller'), 'API servers': replicas('brupop-apiserver') },
      steps: GOOD_FROM_1,
      width: 6,
    }),
    stat({
      title: 'Agents not connected',
      description:
        'Managed nodes without an open stream. Nodes that reboot have none; see docs/runbook.md, An agent does not respond.',
      queries: {
        Agents: `clamp_min(sum(brupop_nodes{${CLUSTER}}) - (sum(brupop_apiserver_streams{${CLUSTER}}) or vector(0)), 0)`,
      },
      steps: [
        [null, 'green'],
        [1, 'yellow'],
      ],
      width: 4,
    }),
    stat({
      title: 'Longest watch lag',
      description:
        'Time since the oldest confirmation of a watch. At 2 minutes no update starts: look for watch failed in the log.',
      queries: { Lag: `max(brupop_controller_watch_lag_seconds{${CLUSTER}})` },
      unit: 's',
      steps: [
        [null, 'green'],
        [90, 'yellow'],
        [120, 'red'],
      ],
      width: 4,
    }),
    stat({
      title: 'Certificate expires',
      description:
        'When the certificate in use and the authority expire. Within two weeks: see docs/runbook.md, The certificate.',
      queries: {
        Serving: `min(brupop_apiserver_certificate_expiry_timestamp_seconds{${CLUSTER}}) * 1000`,
        Authority: `min(brupop_controller_certificate_expiry_timestamp_seconds{${CLUSTER},certificate="authority"}) * 1000`,
      },
      unit: 'dateTimeFromNow',
      width: 6,
    }),
    timeline({
      title: 'Leader',
      description:
        'Which controller leads. If it changes often, look for lost leadership in the logs, and at the latency of kube-apiserver.',
      queries: { '{{instance}}': `max by (instance) (brupop_controller_leader{${CLUSTER}})` },
      states: { 0: ['standby', 'blue'], 1: ['leader', 'green'] },
      width: 12,
      height: 6,
    }),
    graph({
      title: 'Duration of reconciles',
      description:
        'How long nine of ten reconciles and plans took. If it grows with the same fleet, look at Writes and at kube-apiserver.',
      queries: {
        Reconcile: `histogram_quantile(0.9, ${rate('brupop_controller_reconcile_duration_seconds_bucket', 'le')})`,
        Plan: `histogram_quantile(0.9, ${rate('brupop_plan_duration_seconds_bucket', 'le')})`,
      },
      unit: 's',
      width: 12,
      height: 6,
    }),
    graph({
      title: 'Writes to the Kubernetes API',
      description:
        'Writes of the controller by kind. Some conflicts are normal; errors are in its log with the line write failed.',
      queries: { '{{kind}} {{result}}': newly(`brupop_controller_writes_total{${CLUSTER}}`, ['kind', 'result']) },
      bars: true,
      stacked: true,
      width: 12,
    }),
    graph({
      title: 'Writes that wait',
      description:
        'Writes that failed and are tried again later, and Events to be sent. If one stays, its error is in the log with the line write failed.',
      queries: { '{{kind}}': `sum by (kind) (brupop_controller_pending_writes{${CLUSTER}})` },
      stacked: true,
      width: 6,
    }),
    graph({
      title: 'Errors',
      description:
        'Failed reconciles, failed watches and Events that were dropped. If they repeat, look at the log of the program.',
      queries: {
        'reconciles that failed': newly(`brupop_controller_reconcile_errors_total{${CLUSTER}}`, []),
        'watches of controllers: {{resource}}': newly(`brupop_controller_watch_restarts_total{${CLUSTER}}`, [
          'resource',
        ]),
        'watches of API servers: {{resource}}': newly(`brupop_apiserver_watch_restarts_total{${CLUSTER}}`, [
          'resource',
        ]),
        'Events dropped': newly(`brupop_controller_writes_total{${CLUSTER},kind="event",result="dropped"}`, []),
      },
      bars: true,
      width: 6,
    }),
    graph({
      title: 'Requests of agents',
      description:
        'Answers by route and status. If 401 or 403 repeat, see docs/runbook.md, An agent does not respond; for 5xx look at the log.',
      queries: { '{{route}} {{code}}': rate('brupop_apiserver_requests_total', 'route, code') },
      unit: 'reqps',
      stacked: true,
      width: 12,
    }),
    graph({
      title: 'Duration of requests',
      description: 'How long nine of ten requests took. If shadow/status grows, kube-apiserver answers slowly.',
      queries: quantiles(`brupop_apiserver_request_duration_seconds_bucket{${CLUSTER}}`, 'route', '$__rate_interval'),
      unit: 's',
      width: 12,
    }),
    graph({
      title: 'Calls of host APIs',
      description:
        'Calls of agents to the API of their hosts by outcome; locked is normal during an update. If refused or unanswered lasts, see docs/runbook.md, An agent does not respond.',
      queries: { '{{outcome}}': newly(`brupop_apiserver_host_api_calls_total{${CLUSTER}}`, ['outcome']) },
      bars: true,
      stacked: true,
      colors: HOST_OUTCOMES,
      width: 12,
    }),
    graph({
      title: 'Failed calls of host APIs',
      description:
        'Calls that failed, by route. A host that boots refuses some; if a route repeats, look for it in the logs of agents, and at the host.',
      queries: {
        '{{route}} {{outcome}}': newly(`brupop_apiserver_host_api_calls_total{${CLUSTER},outcome!~"${EXPECTED}"}`, [
          'route',
          'outcome',
        ]),
      },
      bars: true,
      stacked: true,
      shades: 'red',
      width: 12,
    }),
    graph({
      title: 'Agents by release',
      description:
        'Open streams by the release of the agent. If an old release stays, the upgrade of the DaemonSet has not ended.',
      queries: { '{{agent_version}}': `sum by (agent_version) (brupop_apiserver_streams{${CLUSTER}})` },
      stacked: true,
      width: 8,
    }),
    graph({
      title: 'Authentication',
      description:
        'Calls of agents by what decided about their token, and closed connections. If Rejected or closed repeats, look for closing connections in the log; for Unavailable, at kube-apiserver.',
      queries: {
        '{{result}}': newly(`brupop_apiserver_authentications_total{${CLUSTER}}`, ['result']),
        'closed: {{limit}}': newly(`brupop_apiserver_rejected_connections_total{${CLUSTER}}`, ['limit']),
      },
      bars: true,
      stacked: true,
      colors: AUTHENTICATIONS,
      width: 8,
    }),
    graph({
      title: 'Evictions',
      description:
        'Evictions by result. DisruptionBudget is normal while a workload recovers; if it lasts, look at Blocked drains of the fleet.',
      queries: { '{{result}}': newly(`brupop_apiserver_evictions_total{${CLUSTER}}`, ['result']) },
      bars: true,
      stacked: true,
      width: 8,
    }),
    graph({
      title: 'Memory',
      description:
        'Resident memory of the largest replica of each program. If it comes near its limit, raise resources of the chart (docs/sizing.md).',
      queries: largest(`process_resident_memory_bytes{${CLUSTER}}`),
      unit: 'bytes',
      width: 8,
    }),
    graph({
      title: 'CPU',
      description:
        'Processor time of the busiest replica of each program. If it stays high with a quiet fleet, look at Requests of agents for one that repeats.',
      queries: largest(`rate(process_cpu_seconds_total{${CLUSTER}}[$__rate_interval])`),
      unit: 'short',
      width: 8,
    }),
    graph({
      title: 'Delay of the event loop',
      description:
        'The 99th percentile of the slowest replica. Above a second, replicas renew the Lease and answer probes late: give them more processor time.',
      queries: largest(`nodejs_eventloop_lag_p99_seconds{${CLUSTER}}`),
      unit: 's',
      width: 8,
    }),
  ],
});
