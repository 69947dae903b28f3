import type { DrainSettings } from '../api/config-spec.ts';
import { FORCE_LIMIT_MS } from '../api/deadlines.ts';
import type { DrainBlock } from '../api/shadow.ts';
import { formatDuration } from '../api/spec-schema.ts';
import { parseTime, rfc3339 } from '../runtime/clock.ts';
import { budgetsOf, type IndexedBudgets } from './budget-index.ts';
import { type Budget, canIgnoreBudgets, exhaustedBudgets, hasUnhealthyPods, mayBeOpened } from './budgets.ts';
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
  // That of the configuration, or of the group of the node.
  const message = `${why}, and spec.drain.${setting} is Block`;
  return { pod: podKey(pod), reason: 'BlockedByPolicy', message };
}

/** What a drain depends on beside pods, budgets and its settings. */
export interface PreflightFacts {
  /** Epoch milliseconds. */
  readonly now: number;
  /** How long pods may be unhealthy, or terminating past their end, before they are no longer waited for, milliseconds. */
  readonly podGracePeriodMs: number;
  /** False: the API server of the operator has no right to delete pods, so `Force` has no effect. */
  readonly mayForce: boolean;
}

export interface PreflightBlock extends DrainBlock {
  /** The cordon of the node may end it (`spec.drain.blockedBudgets`). */
  readonly mayOpen: boolean;
}

type Rules = DrainSettings & PreflightFacts;

/** What blocks a drain of a node with these pods until the configuration, a pod or a budget changes. */
export function preflight(
  pods: readonly DrainPod[],
  budgets: IndexedBudgets,
  settings: DrainSettings,
  facts: PreflightFacts,
): readonly PreflightBlock[] {
  const rules = { ...settings, ...facts };
  // Every DaemonSet is assumed to exist.
  return podsToEvict(pods, { orphaned: new Set() }).flatMap((pod) => {
    const lasting = policyBlock(pod, settings) ?? terminationBlock(pod, rules) ?? graceBlock(pod, rules);
    if (lasting !== undefined) return [{ ...lasting, mayOpen: false }];
    return budgetBlock(pod, budgets, rules) ?? [];
  });
}

/** Pods are deleted past their budgets at the time limit. */
function forces({ onTimeout, mayForce }: Rules): boolean {
  return onTimeout === 'Force' && mayForce;
}

/** How long a pod may take to end, milliseconds. */
function longestEndMs(rules: Rules): number {
  return rules.timeoutMs + (forces(rules) ? FORCE_LIMIT_MS : 0);
}

/** A pod that is terminating, and known not to end in time. */
function terminationBlock(pod: DrainPod, rules: Rules): DrainBlock | undefined {
  const { deletionTimestamp = '' } = pod.metadata;
  const goneBy = parseTime(deletionTimestamp);
  if (goneBy === undefined) return undefined;
  if (goneBy > rules.now + longestEndMs(rules)) {
    const message = `is terminating until ${deletionTimestamp}, longer than a drain may take (spec.drain.timeout ${formatDuration(rules.timeoutMs)})`;
    return { pod: podKey(pod), reason: 'Terminating', message };
  }
  if (forces(rules) || goneBy + rules.podGracePeriodMs > rules.now) return undefined;
  const message = `was to end at ${deletionTimestamp}: ${heldBy(pod)}`;
  return { pod: podKey(pod), reason: 'TerminationStuck', message };
}

/** Why a pod has not ended after its grace period. */
export function heldBy({ finalizers }: DrainPod): string {
  return finalizers.length === 0 ? 'the kubelet has not terminated it' : `finalizers hold it: ${finalizers.join(', ')}`;
}

function graceBlock(pod: DrainPod, rules: Rules): DrainBlock | undefined {
  if (pod.finished || isTerminating(pod)) return undefined;
  const { maxGracePeriodMs = Infinity, timeoutMs } = rules;
  const graceMs = pod.graceSeconds * 1000;
  if (Math.min(graceMs, maxGracePeriodMs) <= longestEndMs(rules)) return undefined;
  const limited =
    graceMs > maxGracePeriodMs ? `, limited to spec.drain.maxGracePeriod ${formatDuration(maxGracePeriodMs)}` : '';
  const message =
    `has a grace period of ${formatDuration(graceMs)}${limited}, longer than a drain may take (spec.drain.timeout ${formatDuration(timeoutMs)}): ` +
    'raise spec.drain.timeout, or set spec.drain.maxGracePeriod to less';
  return { pod: podKey(pod), reason: 'BlockedByPolicy', message };
}

function budgetBlock(pod: DrainPod, budgets: IndexedBudgets, rules: Rules): PreflightBlock | undefined {
  if (forces(rules) || canIgnoreBudgets(pod)) return undefined;
  const exhausted = exhaustedBudgets(pod, budgetsOf(pod, budgets), rules.now - rules.podGracePeriodMs);
  const [budget] = exhausted;
  if (budget === undefined) return undefined;
  const podDisruptionBudgets = exhausted.slice(0, MAX_NAMED).map(({ metadata }) => metadata.name);
  const found = { pod: podKey(pod), podDisruptionBudgets };
  const unforced = rules.onTimeout === 'Force' ? `; ${MAY_NOT_FORCE}` : '';
  if (!pod.isLabelled) {
    const message =
      `has too many labels to be compared with the disruption budgets of its namespace, so each of them counts for it ` +
      `(${podDisruptionBudgets.join(', ')}): give it fewer labels${unforced}`;
    return { ...found, reason: 'DisruptionBudget', message, mayOpen: false };
  }
  if (exhausted.length > 1) {
    const message = `is covered by more than one disruption budget (${podDisruptionBudgets.join(', ')}), which the eviction API refuses${unforced}`;
    return { ...found, reason: 'MultipleDisruptionBudgets', message, mayOpen: false };
  }
  if (budget.isLarge) {
    const message =
      `is protected by its disruption budget ${budget.metadata.name}, which cannot be read: its selector is too large, or its namespace has too many. ` +
      `It counts as if it selected every pod of its namespace: make it smaller, or delete it${unforced}`;
    return { ...found, reason: 'DisruptionBudget', message, mayOpen: false };
  }
  const message = `is protected by its disruption budget ${budget.metadata.name}, which allows no disruption${whyClosed(pod, budget)}${unforced}`;
  const mayOpen = rules.blockedBudgets === 'TryLast' && rules.onTimeout !== 'Force' && mayBeOpened(budget);
  return { ...found, reason: 'DisruptionBudget', message, mayOpen };
}

const MAX_NAMED = 10;

export const MAY_NOT_FORCE =
  'spec.drain.onTimeout is Force, but the API server may not delete pods: set drain.allowForce=true in the values of the chart, ' +
  'or spec.drain.onTimeout to Abort';

function whyClosed(pod: DrainPod, budget: Budget): string {
  const { failure, expectedPods, currentHealthy, desiredHealthy, closedSince } = budget;
  if (failure !== undefined) return `, since its pods cannot be counted: ${failure.slice(0, 200)}`;
  if (expectedPods === 0) return ', and its controller has counted no pods for it';
  if (!hasUnhealthyPods(budget)) return ` although all ${expectedPods} of its pods are healthy`;
  const since = closedSince === undefined ? '' : ` since ${rfc3339(closedSince)}`;
  const itself = pod.ready ? '' : '; this pod is not Ready';
  return `${since}: ${currentHealthy} of its ${expectedPods} pods are healthy, and it requires ${desiredHealthy}${itself}`;
}
