import { APISERVER, COMPONENT_LABEL, CONTROLLER } from '@brupop/shared/constants';
import type { KubernetesObject, ObjectMeta, OwnerReference } from '@brupop/shared/kubernetes-types';
import type { DrainBlock } from '@brupop/shared/operator-api';

import { slimMetadata } from '../slim.ts';

/** What a drain must know of a pod. */
export interface DrainPod extends KubernetesObject {
  /** Made by a kubelet from a file on the node; the API server cannot end it. */
  readonly mirror: boolean;
  /** Succeeded or Failed. */
  readonly finished: boolean;
  /** Has a volume that follows a PersistentVolumeClaim. */
  readonly attached: boolean;
  /** One of our own Deployments. */
  readonly own: boolean;
  /** The DaemonSet that controls it, as `namespace/name`. */
  readonly daemonSet?: string;
}

interface RawPod {
  readonly metadata: ObjectMeta;
  readonly spec?: { readonly volumes?: readonly Readonly<Record<string, unknown>>[] };
  readonly status?: { readonly phase?: string };
}

/** Kept by the kubelet on the API's copy of a static pod (Kubernetes "Well-Known Annotations"). */
const MIRROR_ANNOTATION = 'kubernetes.io/config.mirror';

/** Cuts a pod of the API to what a drain must know. */
export function slimPod(raw: unknown): DrainPod {
  const { metadata, spec, status } = raw as RawPod;
  const { labels = {}, annotations = {}, ownerReferences } = metadata;
  const daemonSet = controllingDaemonSet(ownerReferences);
  const component = labels[COMPONENT_LABEL];
  return {
    metadata: slimMetadata(metadata),
    mirror: annotations[MIRROR_ANNOTATION] !== undefined,
    finished: status?.phase === 'Succeeded' || status?.phase === 'Failed',
    attached: (spec?.volumes ?? []).some((one) => 'persistentVolumeClaim' in one || 'ephemeral' in one),
    own: component === APISERVER || component === CONTROLLER,
    ...(daemonSet === undefined ? {} : { daemonSet: `${metadata.namespace}/${daemonSet}` }),
  };
}

function controllingDaemonSet(owners: readonly OwnerReference[] | undefined): string | undefined {
  return owners?.find((owner) => owner.controller === true && owner.kind === 'DaemonSet')?.name;
}

/** `namespace/name` */
export function podKey(pod: KubernetesObject): string {
  return `${pod.metadata.namespace}/${pod.metadata.name}`;
}

export interface Staying {
  /** The DaemonSets (`namespace/name`) that do not exist any more. */
  readonly orphaned: ReadonlySet<string>;
  /** UID of the agent's pod that asks for the drain: without it nobody would go on. */
  readonly caller: string;
}

/**
 * The pods that a drain must see gone, as `kubectl drain --ignore-daemonsets --delete-emptydir-data --force` chooses them: all but mirror
 * pods and the unfinished pods of a DaemonSet that exists; and not the pod that asks.
 */
export function podsToGo(pods: readonly DrainPod[], { orphaned, caller }: Staying): readonly DrainPod[] {
  const stays = (pod: DrainPod): boolean =>
    pod.mirror ||
    pod.metadata.uid === caller ||
    (pod.daemonSet !== undefined && !pod.finished && !orphaned.has(pod.daemonSet));
  return pods.filter((pod) => !stays(pod)).toSorted((a, b) => (podKey(a) < podKey(b) ? -1 : 1));
}

/** The DaemonSets (`namespace/name`) whose existence decides about a pod. */
export function daemonSetsInQuestion(pods: readonly DrainPod[]): ReadonlySet<string> {
  return new Set(
    pods.flatMap((pod) => (pod.daemonSet === undefined || pod.mirror || pod.finished ? [] : [pod.daemonSet])),
  );
}

/** What came of the latest request to evict a pod. */
export interface Attempt {
  /** Requests so far in this pass. */
  readonly count: number;
  /** Undefined: accepted, or the pod is gone already. */
  readonly block?: Omit<DrainBlock, 'pod'>;
  /** Not again before this (monotonic milliseconds). */
  readonly notBefore: number;
}

/** By pod UID. */
export type Attempts = ReadonlyMap<string, Attempt>;

/** The pod is on its way out: marked by the API server, or its eviction was accepted and the watch has not told yet. */
export function isLeaving(pod: DrainPod, attempts: Attempts): boolean {
  if (pod.metadata.deletionTimestamp !== undefined) return true;
  const attempt = attempts.get(pod.metadata.uid);
  return attempt !== undefined && attempt.block === undefined;
}

/**
 * The pods whose turn it is. Pods without volumes go first and together; when all of them are on their way, pods with volumes go one by
 * one, each gone before the next; our own Deployments' pods go last. So a budget that holds up the first leaves the later ones undisturbed.
 */
export function turn(pods: readonly DrainPod[], attempts: Attempts): readonly DrainPod[] {
  const staying = pods.filter((pod) => !isLeaving(pod, attempts));
  const plain = staying.filter((pod) => !pod.own && (!pod.attached || pod.finished));
  if (plain.length > 0) return plain;
  const attached = staying.filter((pod) => !pod.own);
  if (attached.length === 0) return staying;
  return pods.some((pod) => pod.attached && isLeaving(pod, attempts)) ? [] : attached;
}

/** The pods of a turn to be asked for now: those due; of pods with volumes one only. */
export function due(inTurn: readonly DrainPod[], attempts: Attempts, now: number): readonly DrainPod[] {
  const ready = inTurn.filter((pod) => (attempts.get(pod.metadata.uid)?.notBefore ?? now) <= now);
  const oneByOne = inTurn.some((pod) => pod.attached && !pod.finished && !pod.own);
  return oneByOne ? leastTried(ready, attempts) : ready;
}

function leastTried(pods: readonly DrainPod[], attempts: Attempts): readonly DrainPod[] {
  const count = (pod: DrainPod): number => attempts.get(pod.metadata.uid)?.count ?? 0;
  return pods.toSorted((a, b) => count(a) - count(b)).slice(0, 1);
}

/** True when waiting longer in this pass is no use: nothing is on its way out, and each pod in turn was refused at least twice. */
export function isStuck(pods: readonly DrainPod[], attempts: Attempts): boolean {
  if (pods.some((pod) => isLeaving(pod, attempts))) return false;
  return turn(pods, attempts).every((pod) => (attempts.get(pod.metadata.uid)?.count ?? 0) >= 2);
}

const MAX_BLOCKS = 50;

/** Why pods are still there; pods whose turn has not come are not mentioned. */
export function blocks(pods: readonly DrainPod[], attempts: Attempts): readonly DrainBlock[] {
  return pods.flatMap((pod) => blockOf(pod, attempts)).slice(0, MAX_BLOCKS);
}

function blockOf(pod: DrainPod, attempts: Attempts): readonly DrainBlock[] {
  const block = attempts.get(pod.metadata.uid)?.block;
  const { deletionTimestamp } = pod.metadata;
  if (deletionTimestamp !== undefined)
    return [{ pod: podKey(pod), reason: 'Terminating', message: `is to be gone by ${deletionTimestamp}` }];
  if (block !== undefined) return [{ pod: podKey(pod), ...block }];
  if (isLeaving(pod, attempts)) return [{ pod: podKey(pod), reason: 'Terminating', message: 'has just been evicted' }];
  return [];
}
