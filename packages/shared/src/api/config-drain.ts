/** Fields of the BrupopConfig about drains, which the API servers of the operator follow, too. */
import { DRAIN_TIMEOUT_MAX_MS, EXCLUSION_MAX_MS } from './deadlines.ts';
import { flag, oneOf } from './schema.ts';
import { always, duration, field, formatDuration, group } from './spec-schema.ts';

const POD_POLICIES = ['Evict', 'Block'] as const;

export const DRAIN = {
  drain: group(
    'How a node is drained before its reboot. Pods are evicted as kubectl drain does, within their disruption budgets: ' +
      'those of a lower priority first, then those without volumes, then those with volumes one by one. A pod with the ' +
      'label or annotation brupop.bottlerocket.aws/drain=skip stays, and one with the value last is evicted after all others.',
    {
      timeout: field(
        duration('1m', formatDuration(DRAIN_TIMEOUT_MAX_MS)),
        'How long a drain may take from its first pass.',
        always('30m'),
      ),
      onTimeout: field(
        oneOf(['Abort', 'Force']),
        'What happens after the timeout. Abort: the node is uncordoned and tried again after a wait that doubles. Force: ' +
          'the pods that are left are deleted past their disruption budgets, with their grace period, which takes up to 70 ' +
          'minutes more, and pods that do not end even then are left. Nothing is deleted while emptyDirPods or ' +
          'unmanagedPods block the drain, or without the right to delete pods (value drain.allowForce of the chart).',
        always('Abort'),
      ),
      blockedBudgets: field(
        oneOf(['TryLast', 'Wait']),
        'What happens to a node while a disruption budget allows no disruption although all of its pods are healthy. Some operators ' +
          'open such a budget when the node is cordoned. TryLast: after all nodes that can be drained, the node is cordoned for up to 5 ' +
          'minutes, and no longer than timeout, and only the eviction of these pods is tried. If their budgets do not allow it, nothing ' +
          'else is evicted, and the node is uncordoned and tried again after a wait that doubles from 1 to 24 hours. Pods that are ' +
          'to be evicted last, also the instance managers of Longhorn, do not hold the others back: their drain has the whole timeout. ' +
          'Wait: it is not cordoned. A budget that can never allow one (maxUnavailable 0 or 0%, minAvailable 100%) always waits.',
        { default: 'TryLast', absent: 'Wait' },
      ),
      emptyDirPods: field(
        oneOf(POD_POLICIES),
        'Pods with an emptyDir volume, whose data is lost with them. Evict: they are evicted. Block: their node is not ' +
          'updated while they are on it.',
        always('Evict'),
      ),
      unmanagedPods: field(
        oneOf(POD_POLICIES),
        'Pods without a controller, which nothing recreates. Evict: they are evicted. Block: their node is not updated ' +
          'while they are on it.',
        always('Evict'),
      ),
      maxGracePeriod: field(
        duration('1s', '24h'),
        'The longest grace period of an evicted pod. By default each pod has its own grace period.',
      ),
      volumeDetachTimeout: field(
        duration('0s', '1h'),
        'How long the volumes of an evicted pod may take to detach from the node before the next pod with volumes is ' +
          'evicted all the same.',
        always('2m'),
      ),
      replacementTimeout: field(
        duration('0s', '1h'),
        'How long the next pod with volumes waits until the pod that replaces an evicted one of a StatefulSet is ready on ' +
          'another node. 0s: it does not wait. It does not wait for a pod that was not Ready or has a volume ' +
          'of its node only, nor again in a namespace in which one was not ready in time.',
        always('2m'),
      ),
      taintWaitingNodes: field(
        flag(),
        'True gives nodes that wait for their update, and those that are updating, the taint ' +
          'brupop.bottlerocket.aws/update-pending with the effect PreferNoSchedule, so that evicted pods prefer nodes that ' +
          'need no drain. Nodes that have failed, are left out, or wait for canaries, a soak, an approval or other groups do ' +
          'not have it.',
        always(false),
      ),
      startupTaint: field(
        flag(),
        'True: a node has the taint brupop.bottlerocket.aws/starting with the effect NoSchedule while it is drained and rebooted, so that ' +
          'no other pods start before its DaemonSets. The controller removes it after the reboot when the pods of DaemonSets in ' +
          'health.trustedNamespaces on the node are Ready; with health.daemonSets Ignored, when the Node is Ready. DaemonSets need a ' +
          'toleration for it if their pods may be created in that time.',
        always(false),
      ),
    },
  ),
  loadBalancer: group('How a node leaves external load balancers before it is drained.', {
    exclusion: field(
      duration('0s', formatDuration(EXCLUSION_MAX_MS)),
      'How long load balancers have to remove the node: it gets the label ' +
        'node.kubernetes.io/exclude-from-external-load-balancers, and its first pod is evicted this much later. Choose ' +
        'their deregistration delay or health check time. 0s: the node gets no label.',
      always('0s'),
    ),
  }),
};
