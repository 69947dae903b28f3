import type { LabelSelector } from '../api/label-selector.ts';
import type { KubernetesObject, ObjectMeta } from '../api/meta.ts';
import { parseTime } from '../runtime/clock.ts';
import { truncated } from '../runtime/errors.ts';
import { type DrainPod, isTerminating } from './pods.ts';

const NOTHING_COUNTED = { disruptionsAllowed: 0, currentHealthy: 0, desiredHealthy: 0, expectedPods: 0 };
type Counts = Readonly<typeof NOTHING_COUNTED>;

/** A PodDisruptionBudget, reduced to what decides about evictions. */
export interface Budget extends KubernetesObject, Counts {
  readonly selector: LabelSelector | null;
  /** Its selector is not kept, and counts as if it selected every pod of its namespace. */
  readonly isLarge: boolean;
  /** How many budgets it counts as, of those that are kept. */
  readonly weight: number;
  /** Its controller has counted the pods for the current spec. */
  readonly counted: boolean;
  /** Pods were evicted since its controller has counted. */
  readonly hasDisruptedPods: boolean;
  /** Why its controller cannot count its pods. */
  readonly failure: string | undefined;
  /** `unhealthyPodEvictionPolicy: AlwaysAllow` */
  readonly evictsUnready: boolean;
  /** Its spec allows no disruption, whatever its pods do. */
  readonly neverAllows: boolean;
  /** Since when it has allowed no disruption, epoch milliseconds; undefined: it does, or its controller has not said. */
  readonly closedSince: number | undefined;
}

interface RawBudget {
  readonly metadata: ObjectMeta;
  readonly spec?: {
    readonly selector?: LabelSelector;
    readonly unhealthyPodEvictionPolicy?: string;
    readonly minAvailable?: number | string;
    readonly maxUnavailable?: number | string;
  };
  readonly status?: Partial<Counts> & {
    readonly observedGeneration?: number;
    readonly disruptedPods?: Readonly<Record<string, string>>;
    readonly conditions?: readonly {
      readonly type: string;
      readonly status?: string;
      readonly reason?: string;
      readonly message?: string;
      readonly lastTransitionTime?: string;
    }[];
  };
}

/** Anyone who may create budgets in one namespace decides on the size of their selectors. */
const MAX_SELECTOR_CHARS = 4_096;
/** More of them are not kept, nor of one drain read. */
export const MAX_BUDGETS_OF_NAMESPACE = 2_000;
/** Of the cluster: with an index some 60 MiB, if each is as large as it may be. */
const MAX_BUDGETS = 20_000;
const MAX_FAILURE_CHARS = 300;

/** Values that a pod must not have are compared one by one. */
const MAX_SELECTOR_VALUES = 100;

/** A budget with a large selector counts as several. */
export const BUDGET_LIMITS = {
  maxPerNamespace: MAX_BUDGETS_OF_NAMESPACE,
  maxTotal: MAX_BUDGETS,
  weightOf: ({ weight }: Budget): number => weight,
};

/** Represents the budgets of a namespace that has more of them than are kept. */
export function tooManyBudgets(namespace: string): Budget {
  const name = 'one of too many budgets';
  const found = slimBudget({ metadata: { name, namespace, uid: '', resourceVersion: '' } });
  return { ...found, selector: {}, isLarge: true };
}

/** A budget with more than this counts as several. */
const ORDINARY = { values: 10, chars: 512 };

function sizeOf(selector: LabelSelector | undefined): { readonly isLarge: boolean; readonly weight: number } {
  const values = (selector?.matchExpressions ?? []).reduce((sum, one) => sum + (one.values?.length ?? 0), 0);
  const chars = JSON.stringify(selector ?? null).length;
  if (values > MAX_SELECTOR_VALUES || chars > MAX_SELECTOR_CHARS) return { isLarge: true, weight: 1 };
  return { isLarge: false, weight: 1 + Math.floor(values / ORDINARY.values) + Math.floor(chars / ORDINARY.chars) };
}

export function slimBudget(raw: unknown): Budget {
  const { metadata, spec = {}, status = {} } = raw as RawBudget;
  const { isLarge, weight } = sizeOf(spec.selector);
  const { name, namespace = '', uid, resourceVersion, generation = 0 } = metadata;
  const { observedGeneration = -1, ...counts } = { ...NOTHING_COUNTED, ...status };
  const { disruptionsAllowed, currentHealthy, desiredHealthy, expectedPods } = counts;
  return {
    metadata: { name, namespace, uid, resourceVersion, generation },
    selector: isLarge ? {} : (spec.selector ?? null),
    isLarge,
    weight,
    counted: observedGeneration >= generation,
    disruptionsAllowed,
    currentHealthy,
    desiredHealthy,
    expectedPods,
    hasDisruptedPods: Object.keys(status.disruptedPods ?? {}).length > 0,
    failure: failureOf(status),
    evictsUnready: spec.unhealthyPodEvictionPolicy === 'AlwaysAllow',
    neverAllows: neverAllows(spec),
    closedSince: closedSince(status),
  };
}

/** Of any number of pods. A number of pods that must stay is not among them: the pod that they are may change. */
function neverAllows({ minAvailable, maxUnavailable }: NonNullable<RawBudget['spec']>): boolean {
  return maxUnavailable === 0 || percentOf(maxUnavailable) === 0 || percentOf(minAvailable) === 100;
}

/** As kube-apiserver accepts it, also with leading zeros. */
function percentOf(value: number | string | undefined): number | undefined {
  return typeof value === 'string' && value.endsWith('%') ? Number(value.slice(0, -1)) : undefined;
}

/** pkg/controller/disruption of Kubernetes changes this time with the status of the condition only. */
function closedSince({ conditions = [] }: NonNullable<RawBudget['status']>): number | undefined {
  const closed = conditions.find(({ type, status }) => type === 'DisruptionAllowed' && status === 'False');
  return parseTime(closed?.lastTransitionTime);
}

/** Set by pkg/controller/disruption of Kubernetes, with which kube-apiserver allows no eviction. */
function failureOf({ conditions = [] }: NonNullable<RawBudget['status']>): string | undefined {
  const failed = conditions.find(({ type, reason }) => type === 'DisruptionAllowed' && reason === 'SyncFailed');
  if (failed === undefined) return undefined;
  return truncated(failed.message ?? 'its controller gives no reason', MAX_FAILURE_CHARS);
}

/** As `canIgnorePDB` of kube-apiserver (pkg/registry/core/pod/storage/eviction.go). */
export function canIgnoreBudgets(pod: DrainPod): boolean {
  return pod.finished || pod.pending || isTerminating(pod);
}

/** True when the budget allows the eviction because the pod is not ready, by the same source. */
function canEvictUnready(pod: DrainPod, budget: Budget): boolean {
  const healthy = budget.currentHealthy >= budget.desiredHealthy && budget.desiredHealthy > 0;
  return !pod.ready && (budget.evictsUnready || healthy);
}

/** True when a budget allows evictions now, or may once its pods are counted again or healthy. */
function mayAllow(budget: Budget, closedBefore: number): boolean {
  if (budget.failure !== undefined) return false;
  if (!budget.counted || budget.hasDisruptedPods) return true;
  if (budget.disruptionsAllowed > 0) return true;
  return hasUnhealthyPods(budget) && (budget.closedSince ?? Infinity) > closedBefore;
}

/**
 * True while the budgets refuse the eviction of a pod, for whatever reason.
 * @param all - the budgets that select the pod
 */
export function isHeld(pod: DrainPod, all: readonly Budget[]): boolean {
  const known = all.filter(({ isLarge }) => !isLarge);
  const [budget] = known;
  if (budget === undefined || canIgnoreBudgets(pod)) return false;
  if (known.length > 1) return true;
  const isOpen = budget.counted && budget.failure === undefined && budget.disruptionsAllowed > 0;
  return !isOpen && !canEvictUnready(pod, budget);
}

/** By an actor that sees the cordon. None makes the pods healthy that are not. */
export function mayBeOpened(budget: Budget): boolean {
  return !budget.neverAllows && !budget.isLarge && budget.failure === undefined && !hasUnhealthyPods(budget);
}

export function hasUnhealthyPods({ currentHealthy, expectedPods }: Budget): boolean {
  return currentHealthy < expectedPods;
}

/**
 * The budgets that block the eviction of a pod until they are changed: more than one, which
 * kube-apiserver cannot handle; one whose selector is too large to be kept; one whose controller cannot
 * count its pods; one that allows no disruption although all of its pods are healthy; or one that has
 * allowed none for long because of pods that are not.
 * @param all - the budgets that select the pod
 * @param closedBefore - epoch milliseconds; one that has allowed no disruption since then is not waited for
 */
export function exhaustedBudgets(pod: DrainPod, all: readonly Budget[], closedBefore = -Infinity): readonly Budget[] {
  const [budget] = all;
  if (canIgnoreBudgets(pod)) return [];
  const large = all.find(({ isLarge }) => isLarge);
  if (large !== undefined) return [large];
  if (budget === undefined || all.length > 1) return all;
  return mayAllow(budget, closedBefore) || canEvictUnready(pod, budget) ? [] : [budget];
}
