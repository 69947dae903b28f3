/** Fields of the spec of a BrupopConfig that keep a bad update, or a bad moment, from spreading. */
import { conditionType, failureLimit, when } from './config-values.ts';
import { oneOf, whole } from './schema.ts';
import { always, duration, field, group, listOf } from './spec-schema.ts';

export const SAFETY = {
  monitoring: group('How a node is watched after its update, while it holds its update slot. A change acts at once.', {
    healthyFor: field(
      duration('0s', '24h'),
      'How long a node must have been healthy after its update, without a break, before the update has succeeded and the ' +
        'next one starts.',
      always('0s'),
    ),
    timeout: field(
      duration('1m', '24h'),
      'How long a node may take to become healthy, beside healthyFor, until it counts as failed. It keeps its update slot.',
      always('30m'),
    ),
  }),
  health: group('What makes a node healthy, beside being Ready.', {
    conditions: field(
      listOf(conditionType, 50, 'set'),
      'Types of conditions of the Node that are a problem when True, such as those of node-problem-detector, at most 50. A node with ' +
        'one starts no update, and one that has it after its update is not healthy.',
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
      'Required: after its update, a node is healthy when the pods of DaemonSets on it are Ready, except those that were not Ready ' +
        'before its drain, and those with the label or annotation brupop.bottlerocket.aws/health=ignore. Ignored: these pods do not count.',
      { default: 'Required', absent: 'Ignored' },
    ),
  }),
  rollout: group('When the rollout of a version stops.', {
    failureBudget: field(
      failureLimit,
      'Nodes that may fail with a version: a number from 0, or a percentage of the managed nodes, rounded down but at ' +
        'least 1 node. When more fail, the version is frozen: no node starts an update to it or to an older version, and none that has only staged ' +
        'it is drained. A node fails when it boots the old or a wrong version, or when it is not back and healthy in time ' +
        'after its reboot; a failure before the reboot does not count.',
      always(1),
    ),
    resume: field(
      when,
      'Failures up to this time are accepted, such as 2026-11-23T10:00:00Z: they freeze no version, and a node that missed ' +
        'a deadline before it no longer holds its update slot. A time in the future has no effect until then.',
    ),
  }),
  connectivity: group(
    'When most nodes have lost the control plane: then no update and no drain starts, and no node that is updating counts ' +
      'as failed. It ends by itself, 20 seconds after enough nodes have renewed their Leases.',
    {
      nodeMonitorGracePeriod: field(
        duration('10s', '1h'),
        'After which time kube-controller-manager gives a node up: its flag --node-monitor-grace-period, 50s since ' +
          'Kubernetes 1.32 and 40s before. The Lease of a node has expired after three quarters of it.',
        always('50s'),
      ),
      expiredPercent: field(
        whole(0, 100),
        'The percentage of the managed nodes, of all or of one zone, whose Leases have to be expired, and at least 2 nodes. ' +
          'Nodes that are updating, being deleted or younger than a minute are not counted. 0: Leases do not matter.',
        always(60),
      ),
    },
  ),
};
