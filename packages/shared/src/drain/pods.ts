import { APISERVER, COMPONENT_LABEL, CONTROLLER, DRAIN_KEY } from '../api/names.ts';
import type { KubernetesObject, ObjectMeta, OwnerReference } from '../api/meta.ts';
import { parseTime } from '../runtime/clock.ts';

/** What a drain must know of a pod. */
export interface DrainPod extends KubernetesObject {
  /** Where it runs; empty: nowhere yet. */
  readonly node: string;
  readonly finalizers: readonly string[];
  /** Made by a kubelet from a file on the node; the API server cannot end it. */
  readonly mirror: boolean;
  /** Succeeded or Failed. */
  readonly finished: boolean;
  /** It has never run: its phase is Pending. */
  readonly pending: boolean;
  readonly ready: boolean;
  /** Names of the PersistentVolumeClaims that it mounts. */
  readonly claims: readonly string[];
  /** Has a volume whose data goes with it. */
  readonly emptyDir: boolean;
  /** No controller makes it anew. */
  readonly unmanaged: boolean;
  /** Of a StatefulSet, so that a pod of the same name takes its place. */
  readonly stateful: boolean;
  /** Of its PriorityClass. */
  readonly priority: number;
  /** How long its containers get to end, in seconds. */
  readonly graceSeconds: number;
  /** It may be put back on a cordoned node. */
  readonly toleratesCordon: boolean;
  readonly drainPolicy: DrainPolicy | undefined;
  /** One of our own Deployments. */
  readonly own: boolean;
  /** The DaemonSet that controls it, as `namespace/name`. */
  readonly daemonSet?: string;
}

/** Values of the label or annotation {@link DRAIN_KEY} of a pod: leave it where it is, or let all others go first. */
export type DrainPolicy = 'skip' | 'last';

interface Toleration {
  readonly key?: string;
  readonly operator?: string;
  readonly effect?: string;
}

interface RawPod {
  readonly metadata: ObjectMeta;
  readonly spec?: {
    readonly volumes?: readonly (Readonly<Record<string, unknown>> & { readonly name: string })[];
    readonly nodeName?: string;
    readonly tolerations?: readonly Toleration[];
    readonly priority?: number;
    readonly terminationGracePeriodSeconds?: number;
  };
  readonly status?: {
    readonly phase?: string;
    readonly conditions?: readonly { readonly type: string; readonly status: string }[];
  };
}

/** Kept by the kubelet on the API's copy of a static pod (Kubernetes "Well-Known Annotations"). */
const MIRROR_ANNOTATION = 'kubernetes.io/config.mirror';
const CORDON_TAINT = 'node.kubernetes.io/unschedulable';
const CORDON_EFFECT = 'NoSchedule';
/** What the API server writes where a pod names none. */
const DEFAULT_GRACE_SECONDS = 30;

/** Cuts a pod of the API to what a drain must know. */
export function slimPod(raw: unknown): DrainPod {
  const { metadata, spec = {}, status = {} } = raw as RawPod;
  const { nodeName = '', priority = 0, terminationGracePeriodSeconds: graceSeconds = DEFAULT_GRACE_SECONDS } = spec;
  return {
    metadata: slimMetadata(metadata),
    node: nodeName,
    priority,
    graceSeconds,
    ...volumesOf(metadata.name, spec.volumes ?? []),
    toleratesCordon: (spec.tolerations ?? []).some(toleratesCordon),
    ...stateOf(status),
    ...marksOf(metadata),
    ...ownership(metadata),
  };
}

function slimMetadata(metadata: ObjectMeta): ObjectMeta {
  const {
    name,
    namespace = '',
    uid,
    resourceVersion,
    deletionTimestamp,
    creationTimestamp = '',
    labels = {},
  } = metadata;
  const slim = { name, namespace, uid, resourceVersion, creationTimestamp, labels };
  return deletionTimestamp === undefined ? slim : { ...slim, deletionTimestamp };
}

/** Whether it tolerates the taint of a cordoned node (Kubernetes "Taints and Tolerations"). */
function toleratesCordon({ key, operator, effect = CORDON_EFFECT }: Toleration): boolean {
  const anyKey = key === undefined || key === '';
  return effect === CORDON_EFFECT && (key === CORDON_TAINT || (anyKey && operator === 'Exists'));
}

function stateOf({
  phase,
  conditions = [],
}: NonNullable<RawPod['status']>): Pick<DrainPod, 'finished' | 'pending' | 'ready'> {
  return {
    finished: phase === 'Succeeded' || phase === 'Failed',
    pending: phase === 'Pending',
    ready: conditions.some((one) => one.type === 'Ready' && one.status === 'True'),
  };
}

function marksOf({
  labels = {},
  annotations = {},
  finalizers = [],
}: ObjectMeta): Pick<DrainPod, 'finalizers' | 'mirror' | 'drainPolicy' | 'own'> {
  return {
    finalizers,
    mirror: annotations[MIRROR_ANNOTATION] !== undefined,
    drainPolicy: drainPolicyOf(labels[DRAIN_KEY] ?? annotations[DRAIN_KEY]),
    own: [APISERVER, CONTROLLER].includes(labels[COMPONENT_LABEL] ?? ''),
  };
}

/** The claim of an ephemeral volume is named after pod and volume (Kubernetes "Ephemeral Volumes"). */
function volumesOf(
  pod: string,
  volumes: NonNullable<NonNullable<RawPod['spec']>['volumes']>,
): Pick<DrainPod, 'claims' | 'emptyDir'> {
  const claims = volumes.flatMap(({ name, persistentVolumeClaim, ephemeral }) => {
    if (ephemeral !== undefined) return [`${pod}-${name}`];
    const claim = (persistentVolumeClaim as { readonly claimName?: string } | undefined)?.claimName;
    return claim === undefined ? [] : [claim];
  });
  return { claims, emptyDir: volumes.some((one) => 'emptyDir' in one) };
}

function ownership({
  namespace = '',
  ownerReferences = [],
}: ObjectMeta): Pick<DrainPod, 'unmanaged' | 'stateful' | 'daemonSet'> {
  const controller: OwnerReference | undefined = ownerReferences.find((owner) => owner.controller === true);
  return {
    unmanaged: controller === undefined,
    stateful: controller?.kind === 'StatefulSet',
    ...(controller?.kind === 'DaemonSet' ? { daemonSet: `${namespace}/${controller.name}` } : {}),
  };
}

/** Undefined also for another value. */
function drainPolicyOf(value: string | undefined): DrainPolicy | undefined {
  return value === 'skip' || value === 'last' ? value : undefined;
}

/** `namespace/name` */
export function podKey(pod: KubernetesObject): string {
  return `${pod.metadata.namespace ?? ''}/${pod.metadata.name}`;
}

/** True for a pod that the API server has marked for deletion. */
export function isTerminating({ metadata }: KubernetesObject): boolean {
  return metadata.deletionTimestamp !== undefined;
}

/** True for a pod with volumes that must leave the node before another may use them. */
export function hasVolumes({ claims, finished }: DrainPod): boolean {
  return claims.length > 0 && !finished;
}

export interface DrainFilter {
  /** The DaemonSets (`namespace/name`) that do not exist any more. */
  readonly orphaned: ReadonlySet<string>;
  /** UID of the agent's pod that asks for the drain: without it nobody would go on. */
  readonly caller?: string;
  /** Epoch milliseconds. Pods that were created later and tolerate the cordon would come back for ever. */
  readonly cordonedSince?: number;
}

/**
 * The pods that a drain must see gone, as `kubectl drain --ignore-daemonsets --delete-emptydir-data --force` chooses them: all but mirror
 * pods and the unfinished pods of a DaemonSet that exists; and not the pod that asks, nor those that ask to be left, nor those that came back although
 * the node was cordoned.
 */
export function podsToEvict(
  pods: readonly DrainPod[],
  { orphaned, caller, cordonedSince }: DrainFilter,
): readonly DrainPod[] {
  const stays = (pod: DrainPod): boolean =>
    pod.mirror ||
    pod.drainPolicy === 'skip' ||
    pod.metadata.uid === caller ||
    (cordonedSince !== undefined && pod.toleratesCordon && isCreatedAfter(pod, cordonedSince)) ||
    (pod.daemonSet !== undefined && !pod.finished && !orphaned.has(pod.daemonSet));
  return pods.filter((pod) => !stays(pod)).toSorted((a, b) => (podKey(a) < podKey(b) ? -1 : 1));
}

function isCreatedAfter({ metadata }: DrainPod, since: number): boolean {
  return (parseTime(metadata.creationTimestamp) ?? 0) > since;
}

/** The DaemonSets (`namespace/name`) whose existence decides about a pod. */
export function daemonSetsInQuestion(pods: readonly DrainPod[]): ReadonlySet<string> {
  return new Set(
    pods.flatMap((pod) => (pod.daemonSet === undefined || pod.mirror || pod.finished ? [] : [pod.daemonSet])),
  );
}
