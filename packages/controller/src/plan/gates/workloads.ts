/**
 * Whether the workloads whose pods the drain of a node evicts have all of their pods now. Off by default.
 * The next list of the pods answers it, which takes a moment.
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
  return workloads.counts ? undefined : notListed(workloads, now);
};

function notListed({ problem }: Workloads, now: number): Blocked {
  if (problem === undefined)
    return { reason: 'WorkloadsNotReady', message: 'The pods of the cluster are being listed', isUnknown: true };
  const message = `The pods of the cluster cannot be listed: ${problem}`;
  return { reason: 'PodListFailed', message, retryAt: now + RETRY_LIST_MS, keepsPosition: true };
}
