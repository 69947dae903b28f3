/**
 * Gates about the pods that the drain of a node evicts: whether their workloads have all of their pods
 * now, and whether there is room for them elsewhere. Both are off by default. The next list of the pods
 * answers them, which takes a moment.
 */
import { RETRY_LIST_MS } from '../../cluster/all-pods.ts';
import type { Workloads } from '../facts/workloads.ts';
import type { Blocked, Gate } from './reasons.ts';

const MAX_NAMED = 3;

/** Another drain would take a pod more from them. A disruption budget, if there is one, is stricter. */
export const workloadsReady: Gate = ({ node, policy, workloads, now }) => {
  if (policy.health.workloads === 'Ignored') return undefined;
  const found = workloads.belowDesired(node) ?? [];
  if (found.length > 0) {
    const which = `${found.slice(0, MAX_NAMED).join(', ')}${found.length > MAX_NAMED ? ' and others' : ''}`;
    const message = `These workloads have a pod on the node, and another pod that is not Ready or is on a node that is being drained: ${which}`;
    return { reason: 'WorkloadsNotReady', message };
  }
  return workloads.counts ? undefined : notListed('WorkloadsNotReady', workloads, now);
};

export const hasRoom: Gate = ({ node, policy, room, workloads, now }) => {
  if (policy.health.room === 'Ignored') return undefined;
  const found = room.check(node);
  if (found === 'unknown' || (found === undefined && !workloads.counts)) return notListed('NoRoom', workloads, now);
  if (found === undefined) return undefined;
  if (found.isLarge) {
    const message = `The requests, node selector and tolerations of the pod ${found.key}, or those of its namespace, are too large, so it counts as a pod that fits on no node`;
    return { reason: 'NoRoom', message };
  }
  const { cpu = 0, memory = 0 } = found.requests;
  const requests = `${Number(cpu.toFixed(3))} CPU and ${Math.ceil(memory / 2 ** 20)} MiB`;
  const message =
    `No other node has room for the pod ${found.key}, which requests ${requests} and perhaps other resources. Nodes that are cordoned, ` +
    'not Ready or being drained do not count. Add a node, or set spec.health.room to Ignored';
  return { reason: 'NoRoom', message };
};

function notListed(reason: 'WorkloadsNotReady' | 'NoRoom', { problem }: Workloads, now: number): Blocked {
  if (problem === undefined) return { reason, message: 'The pods of the cluster are being listed', isUnknown: true };
  const message = `The pods of the cluster cannot be listed: ${problem}`;
  return { reason: 'PodListFailed', message, retryAt: now + RETRY_LIST_MS, keepsPosition: true };
}
