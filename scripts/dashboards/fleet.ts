/** The dashboard of the rollout: which versions run, who waits for what, and what failed. */
import { dashboard, graph, stat, timeline } from './panels.ts';
import { counted, newly, quantiles } from './queries.ts';

const CLUSTER = 'cluster=~"$cluster"';
const GROUP = `${CLUSTER},group=~"$group"`;
const PLACE = `${GROUP},zone=~"$zone"`;

/** Reasons for which only a user can do something; a test compares them with the controller's. */
const ATTENTION = [
  'ManualRetryRequired|AgentNotResponding|DeadlineExceeded|Reverted|Frozen|Held|ClockSkew|ConnectivityLost|HostSettingsNotApplied',
  'UpdateCheckFailed|HostLocked',
  'VersionNotOffered|InvalidVersion|WindowTooShort|SpecWriteRejected',
].join('|');

const PHASES = { UpToDate: 'green', Updating: 'blue', Waiting: 'yellow', Failed: 'red' };
const OUTCOMES = {
  Succeeded: 'green',
  Failed: 'red',
  Cancelled: 'orange',
  CheckFailed: 'dark-red',
  Reverting: 'purple',
  Deferred: 'yellow',
  Interrupted: 'blue',
};
/** What keeps nodes from starting, besides what has a metric of its own. */
const ROLLOUT = 'WaitingForCanary|Soaking|WaitingForApproval|CheckNotPassed';
const FAULTS = 'WatchStale|ClockSkew|InvalidConfiguration';
const waitFor = (reasons: string): string => `(sum(brupop_waiting_nodes{${GROUP},reason=~"${reasons}"}) or vector(0))`;
const phase = (name: string): string => `sum(brupop_rollout_nodes{${GROUP},phase="${name}"})`;

export const fleet = dashboard({
  uid: 'brupop-fleet',
  title: 'Bottlerocket updates / Fleet',
  description: 'The rollout of Bottlerocket versions by the update operator.',
  filters: { cluster: 'brupop_component_info', group: 'brupop_nodes', zone: 'brupop_nodes' },
  annotations: {
    Paused: { expr: `max(brupop_paused{${CLUSTER}}) == 1`, color: 'blue' },
    Frozen: { expr: `max by (version) (brupop_frozen_versions{${CLUSTER}}) == 1`, color: 'red' },
    Held: { expr: `max by (version) (brupop_held_versions{${CLUSTER}}) == 1`, color: 'orange' },
  },
  panels: [
    stat({
      title: 'Up to date',
      description:
        'Share of the nodes that run their version. If it does not rise, look at Who waits for what, and at kubectl get brc.',
      queries: { 'Up to date': `${phase('UpToDate')} / (sum(brupop_rollout_nodes{${GROUP}}) > 0)` },
      unit: 'percentunit',
      width: 3,
      steps: [
        [null, 'text'],
        [1, 'green'],
      ],
    }),
    stat({
      title: 'Updating',
      description:
        'Nodes that update now. If it stays the same for long, find their step with kubectl get brs -A -o wide.',
      queries: { Updating: phase('Updating') },
      width: 2,
    }),
    stat({
      title: 'Failed',
      description:
        'Nodes whose latest attempt failed. Look at Failed nodes for the code, and the code up in docs/error-codes.md.',
      queries: { Failed: phase('Failed') },
      width: 2,
      steps: [
        [null, 'text'],
        [1, 'red'],
      ],
    }),
    stat({
      title: 'Suspect',
      description:
        'Nodes on which workloads fail since their update, although they were Ready before. The condition Suspect of their shadows names the workloads.',
      queries: { Suspect: `max(brupop_suspect_nodes{${CLUSTER}}) or vector(0)` },
      width: 2,
      steps: [
        [null, 'text'],
        [1, 'orange'],
      ],
    }),
    stat({
      title: 'Need a user',
      description: 'Nodes that wait for something that only a user can change. Look the reason up in docs/runbook.md.',
      queries: { Nodes: `sum(brupop_waiting_nodes{${PLACE},reason=~"${ATTENTION}"}) or vector(0)` },
      width: 3,
      steps: [
        [null, 'text'],
        [1, 'red'],
      ],
    }),
    stat({
      title: 'Expected end',
      description:
        'When all nodes that can update are expected to be up to date. If it moves away, allow more nodes at once or longer windows.',
      queries: { End: `max(brupop_expected_completion_timestamp_seconds{${GROUP}}) * 1000` },
      unit: 'dateTimeFromNow',
      width: 4,
    }),
    stat({
      title: 'Next window edge',
      description:
        'When updates may start again, or when the open window closes. If a window never fits, make it longer.',
      queries: {
        Opens: `min(brupop_window_next_open_timestamp_seconds{${GROUP}}) * 1000`,
        Closes: `min(brupop_window_next_close_timestamp_seconds{${GROUP}}) * 1000`,
      },
      unit: 'dateTimeFromNow',
      width: 4,
    }),
    stat({
      title: 'Held back by',
      description:
        'What keeps nodes from starting, in the fleet or in a group. Window: it is closed, or there is a blackout; both end by themselves. End a pause with spec.paused, and a freeze or a hold with spec.rollout.resume; a hold, for workloads that fail, also ends by itself. Rollout: canaries, a soak, an approval or a check. Fault: connectivity is lost, a watch is stale, a clock is wrong, or the configuration has a mistake; kubectl describe brc cluster says which.',
      queries: {
        Window: `2 * clamp_max(1 - min(brupop_window_open{${GROUP}}) + max(brupop_blackout{${GROUP}}), 1)`,
        Pause: `clamp_max(max(brupop_paused{${CLUSTER}}) + ${waitFor('Paused')}, 1)`,
        Freeze: `max(brupop_frozen_versions{${CLUSTER}}) or vector(0)`,
        Hold: `max(brupop_held_versions{${CLUSTER}}) or vector(0)`,
        Rollout: `2 * clamp_max(${waitFor(ROLLOUT)}, 1)`,
        Fault: `clamp_max(max(brupop_connectivity_lost{${CLUSTER}}) + ${waitFor(FAULTS)}, 1)`,
      },
      states: { 0: ['no', 'green'], 1: ['yes', 'red'], 2: ['yes', 'orange'] },
      width: 4,
    }),
    graph({
      title: 'Progress',
      description: 'Nodes by phase. If Waiting does not shrink while nothing updates, look at Who waits for what.',
      queries: { '{{phase}}': counted('phase', `brupop_rollout_nodes{${GROUP}}`) },
      stacked: true,
      colors: PHASES,
      width: 12,
    }),
    graph({
      title: 'Versions',
      description: 'Nodes by the version that they run. If an old version stays, its nodes wait or are not selected.',
      queries: { '{{version}}': counted('version', `brupop_nodes{${PLACE}}`) },
      stacked: true,
      width: 12,
    }),
    graph({
      title: 'Who waits for what',
      description: 'Waiting nodes by reason. Look the reason up in docs/runbook.md, under A node waits.',
      queries: { '{{reason}}': counted('reason', `brupop_waiting_nodes{${PLACE}}`) },
      stacked: true,
      width: 12,
    }),
    timeline({
      title: 'Windows, blackouts, pauses, freezes and holds',
      description:
        'When updates may start, and what holds them back. If no window is green for long, correct spec.maintenance.',
      queries: {
        'Window {{group}}': `max by (group) (brupop_window_open{${GROUP}})`,
        'Blackout {{group}}': `2 * max by (group) (brupop_blackout{${GROUP}})`,
        Paused: `3 * max(brupop_paused{${CLUSTER}})`,
        'Frozen {{version}}': `4 * max by (version) (brupop_frozen_versions{${CLUSTER}})`,
        'Held {{version}}': `5 * max by (version) (brupop_held_versions{${CLUSTER}})`,
      },
      states: {
        0: ['no', 'transparent'],
        1: ['open', 'green'],
        2: ['blackout', 'orange'],
        3: ['paused', 'blue'],
        4: ['frozen', 'red'],
        5: ['held', 'orange'],
      },
      width: 12,
    }),
    graph({
      title: 'Ends of updates',
      description:
        'How updates ended. If others than Succeeded repeat, look at Failed nodes and at the Events on the Nodes.',
      queries: {
        '{{outcome}}': newly(
          `brupop_update_transitions_total{${CLUSTER},outcome=~"${Object.keys(OUTCOMES).join('|')}"}`,
          ['outcome'],
        ),
      },
      bars: true,
      stacked: true,
      colors: OUTCOMES,
      width: 12,
    }),
    graph({
      title: 'Failed nodes',
      description:
        'Nodes that failed with a version and were not accepted, by code. Look the code up in docs/error-codes.md.',
      queries: { '{{version}} {{code}}': `sum by (version, code) (brupop_failed_nodes{${CLUSTER}})` },
      stacked: true,
      shades: 'red',
      width: 12,
    }),
    graph({
      title: 'Duration of steps',
      description:
        'How long nine of ten steps took in the last hour. If RebootedIntoUpdate grows, look at Blocked drains.',
      queries: quantiles(`brupop_update_step_duration_seconds_bucket{${CLUSTER}}`, 'state', '1h'),
      unit: 's',
      width: 12,
    }),
    graph({
      title: 'Blocked drains',
      description:
        'Nodes whose drain waits for a pod. Look at status.drain of their shadows, and raise the disruption budget or the replicas.',
      queries: { '{{reason}}': counted('reason', `brupop_blocked_drains{${CLUSTER}}`) },
      stacked: true,
      width: 6,
    }),
    graph({
      title: 'Updating by zone',
      description: 'Nodes that update, by zone. If one zone has too many at once, set spec.concurrency.maxPerZone.',
      queries: { '{{zone}}': counted('zone', `brupop_nodes{${PLACE},state!~"Idle|NoShadow"}`) },
      stacked: true,
      width: 6,
    }),
  ],
});
