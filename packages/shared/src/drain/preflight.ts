import type { DrainSettings } from '../api/config-spec.ts';
import type { DrainBlock } from '../api/shadow.ts';
import { budgetsOf, type IndexedBudgets } from './budget-index.ts';
import { exhaustedBudgets } from './budgets.ts';
import { type DrainPod, isTerminating, podKey, podsToEvict } from './pods.ts';

/** Why the configuration forbids to evict the pod, or undefined. */
export function policyBlock(
  pod: DrainPod,
  { emptyDirPods, unmanagedPods }: Pick<DrainSettings, 'emptyDirPods' | 'unmanagedPods'>,
): DrainBlock | undefined {
  if (pod.finished || isTerminating(pod)) return undefined;
  if (emptyDirPods === 'Block' && pod.emptyDir) return block(pod, 'has an emptyDir volume', 'emptyDirPods');
  if (unmanagedPods === 'Block' && pod.unmanaged)
    return block(pod, 'has no controller that recreates it', 'unmanagedPods');
  return undefined;
}

function block(pod: DrainPod, why: string, setting: string): DrainBlock {
  const message = `${why}, and BrupopConfig "cluster" says Block in spec.drain.${setting}`;
  return { pod: podKey(pod), reason: 'BlockedByPolicy', message };
}

/** What blocks a drain of a node with these pods until the configuration or a budget changes. */
export function preflight(
  pods: readonly DrainPod[],
  budgets: IndexedBudgets,
  settings: DrainSettings,
): readonly DrainBlock[] {
  // Every DaemonSet is assumed to exist.
  return podsToEvict(pods, { orphaned: new Set() }).flatMap((pod) => {
    const found = policyBlock(pod, settings) ?? budgetBlock(pod, budgets);
    return found === undefined ? [] : [found];
  });
}

function budgetBlock(pod: DrainPod, budgets: IndexedBudgets): DrainBlock | undefined {
  const exhausted = exhaustedBudgets(pod, budgetsOf(pod, budgets));
  const [budget] = exhausted;
  if (budget === undefined) return undefined;
  const podDisruptionBudgets = exhausted.map(({ metadata }) => metadata.name);
  if (exhausted.length > 1) {
    const message = `is covered by more than one disruption budget (${podDisruptionBudgets.join(', ')}), which the eviction API refuses`;
    return { pod: podKey(pod), reason: 'MultipleDisruptionBudgets', message, podDisruptionBudgets };
  }
  const { metadata, failure, expectedPods } = budget;
  const healthy = `allows no disruption although all ${expectedPods} of its pods are healthy`;
  const why =
    failure === undefined
      ? healthy
      : `allows no disruption, since its pods cannot be counted: ${failure.slice(0, 200)}`;
  const message = `its disruption budget ${metadata.name} ${why}`;
  return { pod: podKey(pod), reason: 'DisruptionBudget', message, podDisruptionBudgets };
}
