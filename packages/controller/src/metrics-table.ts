import { counter, gauge, histogram } from '@brupop/shared/runtime/metrics';

/** `docs/metrics.md` is generated from it. */
export const METRICS = {
  nodes: gauge(
    'nodes',
    'Managed nodes by `spec.state`, the Bottlerocket version that they run, [group](node-groups.md) and zone. `state` is `NoShadow` ' +
      'until the controller has created the shadow. Versions beyond 20, zones beyond 50 and groups beyond 50 are `other`.',
    'state',
    'version',
    'group',
    'zone',
  ),
  rolloutNodes: gauge(
    'rollout_nodes',
    'Nodes of the rollout by phase and group. `phase` is `UpToDate`, `Updating`, `Waiting` or `Failed`, as `status.nodes` of the ' +
      '`BrupopConfig` counts them. `group` is empty for nodes without a group.',
    'phase',
    'group',
  ),
  hostsState: gauge(
    'hosts_state',
    'Shadows with a report by `status.current_state`. The Rust operator has this metric, so dashboards that were made for it continue to work.',
    'state',
  ),
  hostsVersion: gauge(
    'hosts_version',
    'Shadows with a report by the Bottlerocket version that their node runs. The Rust operator has this metric too.',
    'bottlerocket_version',
  ),
  waiting: gauge(
    'waiting_nodes',
    'Managed nodes that are neither up to date nor updating, or need attention, by [reason](runbook.md#a-node-waits), group and zone. ' +
      'A node whose agent has never reported counts from five minutes after the creation of its shadow.',
    'reason',
    'group',
    'zone',
  ),
  failedNodes: gauge(
    'failed_nodes',
    'Nodes that failed with a version and were not [accepted](runbook.md#a-version-is-frozen) since.',
    'version',
    'code',
  ),
  failureBudget: gauge(
    'failure_budget_remaining',
    'For each version that nodes failed with, how many more may fail with it until it is frozen; 0 also when it is. A version without ' +
      'failures has no value: it has the whole `spec.rollout.failureBudget`.',
    'version',
  ),
  failures: counter(
    'node_failures_total',
    'Nodes that failed with a version, each counted once when that was first seen, with the code of `status.failedNodes` of the ' +
      '`BrupopConfig`. Versions beyond 20 are `other`.',
    'version',
    'code',
  ),
  frozenVersions: gauge('frozen_versions', '1 for each version that is frozen for the fleet or a group.', 'version'),
  heldVersions: gauge(
    'held_versions',
    '1 for each version that is [held](runbook.md#a-version-is-held) because workloads fail on it.',
    'version',
  ),
  suspectNodes: gauge(
    'suspect_nodes',
    'Nodes on which [workloads fail](runbook.md#a-node-is-suspect) since their update, and no user has accepted it.',
  ),
  paused: gauge('paused', '1 while `spec.paused` lets no update start, else 0.'),
  windowOpen: gauge(
    'window_open',
    '1 while a maintenance window is open or none is configured, else 0. `group` is empty for the `BrupopConfig`.',
    'group',
  ),
  blackout: gauge('blackout', '1 during a blackout, else 0.', 'group'),
  nextOpen: gauge(
    'window_next_open_timestamp_seconds',
    'When updates may start again (Unix time). It has a value only while they may not, and if that is within 400 days.',
    'group',
  ),
  nextClose: gauge(
    'window_next_close_timestamp_seconds',
    'When the open window closes or a blackout begins (Unix time). It has a value only while updates may start and if that will end.',
    'group',
  ),
  expectedCompletion: gauge(
    'expected_completion_timestamp_seconds',
    'When all nodes that can update are expected to be up to date (Unix time). No value if there is nothing to do, or it is unknown.',
    'group',
  ),
  blockedDrains: gauge(
    'blocked_drains',
    'Nodes whose drain waits for a pod, by the [reason](runbook.md#a-drain-does-not-end) of the first one.',
    'reason',
  ),
  blockedSince: gauge(
    'drain_blocked_since_timestamp_seconds',
    'Since when the longest of these waits has lasted for the same reason (Unix time), by reason.',
    'reason',
  ),
  transitions: counter(
    'update_transitions_total',
    'Specs that were written to shadows. `state` is what `spec.state` was set to. `outcome` is `Started`, `Advanced` (to the next ' +
      'step), `Succeeded`, `Failed`, `Cancelled` (a deadline passed), `CheckFailed`, `Reverting` (to the previous version), ' +
      '`Reverted`, `Deferred`, `Interrupted`, `Aborted` (by a user), `Superseded`, `Withdrawn` (the host no longer offers the version), `Configured` (other ' +
      'settings of the host), `SettingsFailed` (the former settings are set again), `Repaired` or `Released` (no longer managed). `code` is the [error code](error-codes.md) of a failure ' +
      '(`other` if this release does not know it), the [reason](runbook.md#a-node-waits) of a deferral, `DeadlineExceeded` or ' +
      '`NotHealthy` of an update that ended after its deadline, `CheckFailed`, `VersionNotOffered` of a withdrawal, and else empty. ' +
      'The versions are those at the start of the update, also after the reboot; the same for a reboot for settings; empty if there is none or it is not recorded. A ' +
      'process distinguishes 20 versions; all further ones are `other`.',
    'from_version',
    'to_version',
    'state',
    'outcome',
    'code',
  ),
  stepDuration: histogram(
    'update_step_duration_seconds',
    [10, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200],
    'How long steps took that were completed, by the `spec.state` of the step, with the waits in it: that for the pods of a drain, for example.',
    'state',
  ),
  rolloutLate: gauge(
    'rollout_late',
    '1 while no node of the fleet, or of a group with a deadline of its own, succeeds for ' +
      '[`spec.rollout.progressDeadline`](runbook.md#the-whole-fleet-waits), else 0.',
  ),
  quorumMembers: gauge(
    'quorum_members',
    'Members of each set of [`spec.quorums`](quorums.md), at most 20 sets. `state` is `ready` or `away`: not Ready, missing, or on a node ' +
      'that is down or being drained. No value while no node with a member waits, starts or is updating, nor while the members cannot be listed.',
    'quorum',
    'state',
  ),
  invalid: gauge(
    'invalid_configurations',
    'Objects with a mistake, whose nodes start no update. `kind` is `BrupopConfig` (also when there is none) or `BottlerocketNodeGroup`.',
    'kind',
  ),
  lostNodes: gauge(
    'lost_nodes',
    'Nodes that [did not return](runbook.md#a-node-is-lost) from the reboot of their update.',
  ),
  countedLeases: gauge(
    'node_leases',
    'Managed nodes, without those that are updating, whose Lease was renewed in the last hour.',
  ),
  expiredLeases: gauge('expired_node_leases', 'Nodes of `brupop_node_leases` whose Lease has expired.'),
  connectivityLost: gauge(
    'connectivity_lost',
    '1 while no update starts, in the fleet or in a zone, since [most Leases have expired](runbook.md#connectivity-is-lost), else 0.',
  ),
  clusterLost: gauge(
    'cluster_connectivity_lost',
    '1 while most nodes of the whole cluster have not renewed their Leases, so that [dependents](dependents.md) are scaled to 0, else 0. ' +
      'Only on the leader, and no value without dependents.',
  ),
  dependents: gauge(
    'dependents',
    'Dependents by `state`, as in `status.dependents` of the `BrupopConfig`: `Up`, `Down`, `ScaledByOthers`, ' +
      '`RecordRemoved`, `NotFound`, `NotAllowed` or `Failed`. Only on the leader.',
    'state',
  ),
  deadlineExceeded: counter(
    'deadline_exceeded_total',
    'Steps of updates that had no result within their limit, by `spec.state`.',
    'state',
  ),
  leader: gauge('controller_leader', '1 on the leader, else 0.'),
  observedGeneration: gauge(
    'config_observed_generation',
    'Generation of the `BrupopConfig` that the latest plan followed. 0 without one, and on a controller that is not the leader.',
  ),
  planDuration: histogram(
    'plan_duration_seconds',
    [0.001, 0.005, 0.02, 0.05, 0.1, 0.5, 2],
    'How long it took to plan for the whole fleet.',
  ),
  reconcileDuration: histogram(
    'controller_reconcile_duration_seconds',
    [0.01, 0.05, 0.2, 1, 5, 20, 60],
    'How long reconciles took, with all of their writes.',
  ),
  watchLag: gauge(
    'controller_watch_lag_seconds',
    'Seconds since a watch was last confirmed: by an event, a bookmark or a successful check. `resource` is `nodes`, ' +
      '`bottlerocketshadows`, `brupopconfigs`, `bottlerocketnodegroups`, `poddisruptionbudgets` or `leases`. No update starts at 120 or more.',
    'resource',
  ),
  watchRestarts: counter(
    'controller_watch_restarts_total',
    'Watches that failed and were opened again, with backoff. `resource` is as above.',
    'resource',
  ),
  reconcileErrors: counter('controller_reconcile_errors_total', 'Reconciles that failed. They are retried.'),
  certificateExpiry: gauge(
    'controller_certificate_expiry_timestamp_seconds',
    'When the certificate of the API servers (`serving`) and each authority in use (`authority`) expire (Unix time). Only on the ' +
      'leader, and not with `tls.mode: provided`.',
    'certificate',
    'issuer',
  ),
  certificateReady: gauge(
    'controller_certificate_ready',
    '1 if the condition [`CertificateReady`](runbook.md#the-certificate) is `True`, else 0. Only on the leader, and not with ' +
      '`tls.mode: provided`.',
    'mode',
  ),
  checks: counter(
    'checks_total',
    'Jobs of [checks and hooks](checks.md) that ended, by name. `phase` is `Before` or `After`, and `result` `Succeeded`, `Failed`, ' +
      '`TimedOut` or `Gone`. For evaluations of queries and alerts, `phase` is `Query`, and `result` `Passed` or `NotPassed`.',
    'check',
    'phase',
    'result',
  ),
  recoveries: gauge(
    'recoveries',
    'What [has recovered](recovery.md) lately, so that pods that wait in CrashLoopBackOff are evicted. `kind` is `Node` or ' +
      '`Service`. Only on the leader.',
    'kind',
  ),
  recoveryEvictions: counter(
    'recovery_evictions_total',
    'Evictions that were requested for this. `result` is `accepted`, `gone` (the pod had been deleted), `unknown` (no response), or why ' +
      'it was refused, as in [blocked drains](runbook.md#a-drain-does-not-end); it is requested again then.',
    'result',
  ),
  notifications: counter(
    'notifications_total',
    '[Notifications](notifications.md) by receiver. `result` is `Sent`, `Refused` (the server does not take the content), `GivenUp` (an ' +
      'hour has passed) or `Dropped` (too many wait). Receivers beyond 20 in the life of a process are `other`.',
    'receiver',
    'result',
  ),
  notificationFailures: counter(
    'notification_failures_total',
    'Attempts to notify, or to read the Secret of a receiver, that failed. `reason` is `Secret`, `Address`, `Timeout`, `Unreachable`, ' +
      '`TLS`, `Proxy`, `Redirected`, `Refused` (status 4xx), `ServerError` (status 5xx) or `Unknown`.',
    'receiver',
    'reason',
  ),
  notificationReceiverReady: gauge(
    'notification_receiver_ready',
    '1 if the latest attempt succeeded, 0 if it failed ([what to do](runbook.md#notifications)). Only on the leader.',
    'receiver',
  ),
  silences: counter(
    'controller_silences_total',
    '[Silences](notifications.md#silences) in Alertmanager. `result` is `Created`, `Prolonged` (also one of a former leader) or `Ended`.',
    'result',
  ),
  silenceFailures: counter(
    'controller_silence_failures_total',
    'Attempts to set or to end a silence, or to find Alertmanager, that failed. `reason` is as for notifications, or `Response` (no list ' +
      'of silences, or one of more than 1 MiB).',
    'reason',
  ),
  silencesReady: gauge(
    'controller_silences_ready',
    '1 if the latest attempt succeeded, 0 if it failed ([what to do](runbook.md#silences)). Only on the leader, and no value without ' +
      '`spec.silences`.',
  ),
  writes: counter(
    'controller_writes_total',
    'Writes to the Kubernetes API. `kind` is `spec`, `condition`, `config_create`, `config_status`, `group_status`, `group_finalizer`, `node_restore`, ' +
      '`node_taint`, `node_metadata`, `node_out_of_service`, `shadow_create`, `shadow_delete`, `record`, `job_record`, `job_create`, `job_delete`, `ca_secret`, ' +
      '`ca_config_map`, `tls_secret`, `dependent`, `recovery_status` or `event`. `result` is `ok`, `conflict` (the object had changed; planned again), `error` ' +
      '(retried with backoff) or `dropped` (Events only, when there are too many).',
    'kind',
    'result',
  ),
  pendingWrites: gauge(
    'controller_pending_writes',
    'Writes that failed and wait for their next attempt, by `kind` as above, and Events (`event`) that wait to be sent. Only the leader ' +
      'has others than `event`; a kind of which none waits has no value.',
    'kind',
  ),
};
