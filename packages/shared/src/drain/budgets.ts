import { type LabelSelector, selects } from '../api/label-selector.ts';
import type { KubernetesObject, ObjectMeta } from '../api/meta.ts';
import { type DrainPod, isTerminating } from './pods.ts';

/** A PodDisruptionBudget, cut to what evictions are decided by. */
export interface Budget extends KubernetesObject {
  readonly selector: LabelSelector | null;
  /** Its controller has counted the pods for the spec as it is now. */
  readonly counted: boolean;
  readonly disruptionsAllowed: number;
  readonly currentHealthy: number;
  readonly desiredHealthy: number;
  readonly expectedPods: number;
  /** Pods were evicted, and not counted since. */
  readonly inFlux: boolean;
  /** Why its controller cannot count its pods; undefined: it can. */
  readonly failure: string | undefined;
  /** `unhealthyPodEvictionPolicy: AlwaysAllow` */
  readonly freesUnready: boolean;
}

interface RawBudget {
  readonly metadata: ObjectMeta;
  readonly spec?: { readonly selector?: LabelSelector; readonly unhealthyPodEvictionPolicy?: string };
  readonly status?: {
    readonly observedGeneration?: number;
    readonly disruptionsAllowed?: number;
    readonly currentHealthy?: number;
    readonly desiredHealthy?: number;
    readonly expectedPods?: number;
    readonly disruptedPods?: Readonly<Record<string, string>>;
    readonly conditions?: readonly { readonly type: string; readonly reason?: string; readonly message?: string }[];
  };
}

const NOTHING_COUNTED = { disruptionsAllowed: 0, currentHealthy: 0, desiredHealthy: 0, expectedPods: 0 };

/** Cuts a PodDisruptionBudget of the API. */
export function slimBudget(raw: unknown): Budget {
  const { metadata, spec = {}, status = {} } = raw as RawBudget;
  const { name, namespace = '', uid, resourceVersion, generation = 0 } = metadata;
  const { observedGeneration = -1, ...counts } = { ...NOTHING_COUNTED, ...status };
  const { disruptionsAllowed, currentHealthy, desiredHealthy, expectedPods } = counts;
  return {
    metadata: { name, namespace, uid, resourceVersion, generation },
    selector: spec.selector ?? null,
    counted: observedGeneration >= generation,
    disruptionsAllowed,
    currentHealthy,
    desiredHealthy,
    expectedPods,
    inFlux: Object.keys(status.disruptedPods ?? {}).length > 0,
    failure: failureOf(status),
    freesUnready: spec.unhealthyPodEvictionPolicy === 'AlwaysAllow',
  };
}

/** Its controller says so where it cannot tell how many pods there should be (pkg/controller/disruption of Kubernetes); no eviction is let through then. */
function failureOf({ conditions = [] }: NonNullable<RawBudget['status']>): string | undefined {
  const failed = conditions.find(({ type, reason }) => type === 'DisruptionAllowed' && reason === 'SyncFailed');
  return failed === undefined ? undefined : (failed.message ?? 'its controller gives no reason');
}

/** The budgets that protect a pod. */
export function budgetsOf({ metadata }: DrainPod, budgets: readonly Budget[]): readonly Budget[] {
  const { namespace, labels = {} } = metadata;
  return budgets.filter((budget) => budget.metadata.namespace === namespace && selects(budget.selector, labels));
}

/** True when a budget does not matter: kube-apiserver evicts these without one (pkg/registry/core/pod/storage/eviction.go). */
function isFree(pod: DrainPod): boolean {
  return pod.finished || pod.pending || isTerminating(pod);
}

/** True when the budget lets the pod go because it is not ready anyway, by the same source. */
function isFreeAsUnready(pod: DrainPod, budget: Budget): boolean {
  const healthy = budget.currentHealthy >= budget.desiredHealthy && budget.desiredHealthy > 0;
  return !pod.ready && (budget.freesUnready || healthy);
}

/** True when a budget lets pods go now, or may when its pods are counted anew or healthy. */
function isPassing({ failure, counted, inFlux, disruptionsAllowed, currentHealthy, expectedPods }: Budget): boolean {
  if (failure !== undefined) return false;
  return !counted || inFlux || disruptionsAllowed > 0 || currentHealthy < expectedPods;
}

/**
 * The budgets that keep a pod from being evicted for as long as nobody changes them: more than one, which kube-apiserver cannot handle, or
 * one whose controller cannot count, or one that
 * allows no disruption although all of its pods are healthy. One whose pods are not all healthy may let go when they are.
 */
export function exhaustedBudgets(pod: DrainPod, budgets: readonly Budget[]): readonly Budget[] {
  if (isFree(pod)) return [];
  const all = budgetsOf(pod, budgets);
  const [budget] = all;
  if (budget === undefined || all.length > 1) return all;
  return isPassing(budget) || isFreeAsUnready(pod, budget) ? [] : [budget];
}
