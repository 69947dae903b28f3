/** Fields of the spec of a BrupopConfig that keep a bad update, or a bad moment, from spreading. */
import { checks, HOOKS } from './config-checks.ts';
import { DEPENDENTS } from './config-dependents.ts';
import { badCondition, failureLimit, namespaceName, nodeLimit, when } from './config-values.ts';
import { labelSelector } from './label-selector.ts';
import { oneOf, whole } from './schema.ts';
import { always, duration, field, group, listOf } from './spec-schema.ts';
import { version } from './version.ts';

export const SAFETY = {
  monitoring: group('How a node is watched after its update, while it holds its update slot. A change acts at once.', {
    healthyFor: field(
      duration('0s', '24h'),
      'How long a node must have been healthy after its update, without a break, before the update has succeeded and the ' +
        'next one starts.',
      { default: '30s', absent: '0s' },
    ),
    timeout: field(
      duration('1m', '24h'),
      'How long a node may take to become healthy, beside healthyFor, until it counts as failed. It keeps its update slot.',
      { default: '5m', absent: '30m' },
    ),
  }),
  health: group('What makes a node healthy, beside being Ready.', {
    conditions: field(
      listOf(badCondition, 50, 'set'),
      'Conditions of the Node that are a problem, at most 50: a type that is one when True, such as those of node-problem-detector, ' +
        'or a type with its bad status, such as KernelReady=False (True, False or Unknown). A node that ' +
        'has one after its update, and did not have it before, is not healthy; unhealthyNodes says when one that has it starts.',
      {
        default: [
          'DiskPressure',
          'MemoryPressure',
          'PIDPressure',
          'NetworkUnavailable',
          'KernelDeadlock',
          'ReadonlyFilesystem',
        ],
        absent: [],
      },
    ),
    daemonSets: field(
      oneOf(['Required', 'Ignored']),
      'Required: after its update, a node is healthy when the pods of DaemonSets in trustedNamespaces on it are Ready, except those ' +
        'that were not Ready before its drain, and those with the label or annotation brupop.bottlerocket.aws/health=ignore. Ignored: ' +
        'these pods do not count.',
      { default: 'Required', absent: 'Ignored' },
    ),
    trustedNamespaces: field(
      listOf(namespaceName, 50, 'set'),
      'Namespaces whose DaemonSets count for daemonSets, and whose workloads count as failures for pods, at most 50. That of the operator counts as well. ' +
        'Anyone who may create pods there can stop the updates of the fleet.',
      { default: ['kube-system'], absent: ['kube-system'] },
    ),
    pods: field(
      oneOf(['Required', 'Compared', 'Ignored']),
      'Compared: for watchFor after its update, a node is suspect when pods of a workload cannot start on it, crash, find a device or a label no longer that they needed there, or take much longer to become ' +
        'Ready than before, and pods of the same workload were Ready on a node that was drained within the last hour. When a workload fails so on two ' +
        'nodes, no other node starts for an hour in all, or until rollout.resume. A workload in trustedNamespaces also counts as a failure of the ' +
        'node, for rollout.failureBudget. Required: as Compared, all namespaces are trusted, and after its update a node is healthy only when no pod on it, but those of DaemonSets, ' +
        'fails to start (crashes again and again, or has no image or configuration) or was restarted within monitoring.healthyFor, except pods of a controller ' +
        'whose pods did so before its drain. With Required, anyone who may create pods can freeze a version with pods that crash: use it only where you trust them. ' +
        'Pods with health=ignore never count. Ignored: these pods do not count.',
      { default: 'Compared', absent: 'Ignored' },
    ),
    watchFor: field(
      duration('0s', '24h'),
      'How long pods are compared after the update of a node, while other nodes start. Its pods are listed at the end of that time, and up to twice before. 0s: they are not compared.',
      { default: '5m', absent: '0s' },
    ),
    podsBefore: field(
      oneOf(['Required', 'Prefer', 'Ignored']),
      'What happens to a node that is about to start while a pod on it cannot start, or has not been Ready for podGracePeriod. Prefer: other nodes go first, and ' +
        'the node starts after an hour even so, or after 30 minutes if no such pod is in trustedNamespaces. Required: it does not start meanwhile. Pods ' +
        'without a controller and pods with health=ignore do not count. With unhealthyNodes First or Last, these pods do not count ' +
        'either. With Required, anyone who may create pods can keep nodes from updating: use it only where you trust them. Ignored: these pods do not count.',
      { default: 'Prefer', absent: 'Ignored' },
    ),
    podGracePeriod: field(
      duration('0s', '24h'),
      'How long a pod may be not Ready before it counts for podsBefore.',
      always('10m'),
    ),
    ignoredNamespaces: field(
      listOf(namespaceName, 50, 'set'),
      'Namespaces whose pods do not count for podsBefore, daemonSets and pods, at most 50.',
      { default: [], absent: [] },
    ),
    workloads: field(
      oneOf(['Required', 'Ignored']),
      'Required: no node starts an update or is drained while a workload with a pod on it (a ReplicaSet, a StatefulSet or another ' +
        'controller, but no DaemonSet and no Job) has a pod that is not Ready. After the update, the workloads whose pods were evicted, ' +
        'at most 50, must be Ready again; pods that wait to be scheduled do not count then. Pods with health=ignore never count as not ' +
        'Ready. Anyone who may create pods can stop the updates of the fleet: use it only where you trust them. Ignored: only ' +
        'disruption budgets count.',
      always('Ignored'),
    ),
    unhealthyNodes: field(
      oneOf(['Wait', 'First', 'Last']),
      'When a node with one of the conditions, or with pods that count for podsBefore, starts its update. Wait: not while it has one. First: before ' +
        'all others. Last: after all others. With First and Last, the condition does not count after the update.',
      always('Wait'),
    ),
    checks,
  }),
  ...HOOKS,
  rollout: group('How a version spreads, and when it stops.', {
    failureBudget: field(
      failureLimit,
      'Nodes that may fail with a version: a number from 0, or a percentage of the managed nodes, rounded down but at ' +
        'least 1 node. When more fail, the version is frozen: no node starts an update to it or to an older version, and none that has only staged ' +
        'it is drained. A node fails when its host cannot activate the version after the drain or refuses the reboot, when it boots the ' +
        'old or a wrong version, when it is not back and healthy in time after its reboot, or when its host does not answer or the Job of ' +
        'a check fails then. Other failures before the reboot do not count.',
      always(1),
    ),
    resume: field(
      when,
      'Failures up to this time are accepted, such as 2026-11-23T10:00:00Z: they freeze no version, and a node that missed ' +
        'a deadline, or failed the Job of a check, before it no longer holds its update slot. Nodes that went back to their previous ' +
        'version try the failed one again, and no further node goes back. A time in the future has no effect until then.',
    ),
    rollback: field(
      oneOf(['None', 'Automatic']),
      'What happens to a node that runs a new version and was not healthy in time, or failed the Job of a check. None: it keeps that ' +
        'version and keeps its update slot. Automatic: it updates back to its previous version, if its host is still offered that: it is ' +
        'drained and rebooted once more, also outside of windows and during a blackout. A node goes back once, and the failure still counts.',
      always('None'),
    ),
    canary: group('Which nodes update to a version before all others.', {
      nodes: field(
        nodeLimit,
        'How many: a number from 1, or a percentage of the managed nodes that canary.nodeSelector selects, without those that joined ' +
          'with the version, rounded down but at least 1 node. The other nodes start when as many have succeeded. With 100% ' +
          'and no canary.nodeSelector no node waits for another.',
        always('100%'),
      ),
      nodeSelector: field(labelSelector, 'Which nodes may be canaries. Without it, all.'),
    }),
    soak: field(
      duration('0s', '720h'),
      'How long the canaries must have been Ready, without one of health.conditions, after the last of them has succeeded and before ' +
        'the other nodes start. When one becomes unhealthy in that time, or a query or an alert of health.checks after the update does not ' +
        'pass, it starts again. Without rollout.canary.nodes or canary.nodeSelector it has no effect.',
      always('0s'),
    ),
    approval: field(
      oneOf(['NotRequired', 'Required']),
      'Required: the nodes that are no canaries start an update only to approvedVersion. Where every node is a canary, all ' +
        'nodes wait for it.',
      always('NotRequired'),
    ),
    approvedVersion: field(version, 'The version that a user has approved, such as 1.21.0.'),
    progressDeadline: field(
      duration('10m', '8760h'),
      'A rollout is late when no node has succeeded for this long, beside soak; the condition Degraded then says so. Pauses, ' +
        'closed windows and other times in which the configuration lets no node start do not count.',
      { default: '24h' },
    ),
  }),
  lostNode: group('What happens when a node does not return from the reboot of its update.', {
    after: field(
      duration('5m', '24h'),
      'How long the kubelet of a node must have been silent after its reboot was requested, until the node counts as lost. The time ' +
        'starts again after a loss of connectivity.',
      always('30m'),
    ),
    action: field(
      oneOf(['Report', 'OutOfServiceTaint']),
      'Report: the loss is only shown. OutOfServiceTaint: the Node also gets the taint node.kubernetes.io/out-of-service with the ' +
        'effect NoExecute until it returns, so that Kubernetes deletes the pods that the drain left and moves their volumes. Only for ' +
        'hosts that are certain to be down by then: one that is cut off and still runs would write to volumes that another node has mounted.',
      always('Report'),
    ),
  }),
  connectivity: group(
    'When most nodes of the fleet have lost the control plane: then no update and no drain starts, and no node that is ' +
      'updating counts as failed. A zone that has lost it stops its own nodes only. It ends by itself, 20 seconds after ' +
      'enough nodes have renewed their Leases, or an hour after they fell silent.',
    {
      nodeMonitorGracePeriod: field(
        duration('10s', '1h'),
        'After which time kube-controller-manager gives a node up: its flag --node-monitor-grace-period, 50s since ' +
          'Kubernetes 1.32 and 40s before. The Lease of a node has expired after three quarters of it.',
        always('50s'),
      ),
      expiredPercent: field(
        whole(0, 100),
        'The percentage of the managed nodes, of all or of one zone, whose Leases have to be expired: at least 2 nodes, ' +
          'or 3 of a zone. Nodes that are updating, being deleted, younger than a minute, or silent for more ' +
          'than an hour are not counted. 0: Leases do not matter.',
        always(60),
      ),
      ...DEPENDENTS,
    },
  ),
};
