import { DRAIN_KEY, HEALTH_KEY } from '../api/names.ts';
import { type KubernetesObject, type ObjectMeta, type OwnerReference, slimMetadata } from '../api/meta.ts';
import { isReplica } from '../node/operator-pods.ts';
import { parseTime } from '../runtime/clock.ts';
import { truncated } from '../runtime/errors.ts';

/** A pod, reduced to what decides about its drain. */
export interface DrainPod extends KubernetesObject {
  /** Empty before it is scheduled. */
  readonly node: string;
  readonly finalizers: readonly string[];
  /** The API's copy of a static pod, which an eviction does not end. */
  readonly mirror: boolean;
  /** Succeeded or Failed. */
  readonly finished: boolean;
  /** Its phase is Pending. */
  readonly pending: boolean;
  readonly ready: boolean;
  /** When Ready last changed, epoch milliseconds. */
  readonly readyChanged: number | undefined;
  /** Names of the PersistentVolumeClaims that it mounts. */
  readonly claims: readonly string[];
  readonly emptyDir: boolean;
  /** No controller recreates it. */
  readonly unmanaged: boolean;
  /** Of a StatefulSet, which replaces it by a pod of the same name. */
  readonly stateful: boolean;
  /** Of its PriorityClass. */
  readonly priority: number;
  /** Its termination grace period. */
  readonly graceSeconds: number;
  /** A controller may recreate it on a cordoned node. */
  readonly toleratesCordon: boolean;
  readonly drainPolicy: DrainPolicy | undefined;
  /** It serves the volumes of other pods on its node, and cannot go before these have. */
  readonly servesVolumes: boolean;
  /** Its labels are kept; not of one with too many. */
  readonly isLabelled: boolean;
  /** Of the operator's Deployments. */
  readonly own: boolean;
  /** Its readiness does not count for its node. */
  readonly healthIgnored: boolean;
  /** The DaemonSet that controls it, as `namespace/name`. */
  readonly daemonSet?: string;
  /** That is of another API group, as of OpenKruise. It counts as one that exists. */
  readonly foreignDaemonSet?: boolean;
  /** A container of it does not start: it crashes again and again, or has no image or configuration. Not of one that has finished. */
  readonly failing: boolean;
  /** How often its containers were restarted, all together. */
  readonly restarts: number;
  /** How often the one of its running containers was restarted that was restarted most. */
  readonly mostRestarts: number;
  /** When the latest container that was restarted started again, epoch milliseconds. */
  readonly restartedAt: number | undefined;
  /** What controls it, as `Kind namespace/name`; empty: nothing. */
  readonly controller: string;
  /** What it needs of its node that not every node has, where this is asked for; absent: nothing. */
  readonly needs?: readonly string[];
}

/** Of a pod's label or annotation {@link DRAIN_KEY}: never evict it, or after all others. */
export type DrainPolicy = 'skip' | 'last';

interface Toleration {
  readonly key?: string;
  readonly operator?: string;
  readonly effect?: string;
}

interface RawVolume {
  readonly name: string;
  readonly persistentVolumeClaim?: { readonly claimName: string };
  readonly ephemeral?: unknown;
  readonly emptyDir?: unknown;
}

interface RawContainer {
  readonly restartCount?: number;
  readonly state?: {
    readonly waiting?: { readonly reason?: string };
    readonly running?: { readonly startedAt?: string };
  };
}

/** As the Kubernetes API has it. */
export interface RawPod {
  readonly metadata: ObjectMeta;
  readonly spec?: {
    readonly volumes?: readonly RawVolume[];
    readonly nodeName?: string;
    readonly tolerations?: readonly Toleration[];
    readonly priority?: number;
    readonly terminationGracePeriodSeconds?: number;
  };
  readonly status?: {
    readonly phase?: string;
    readonly conditions?: readonly {
      readonly type: string;
      readonly status: string;
      readonly lastTransitionTime?: string;
    }[];
    readonly containerStatuses?: readonly RawContainer[];
    readonly initContainerStatuses?: readonly RawContainer[];
  };
}

/** A node with more pods is not drained: a kubelet may create any number of mirror pods. */
export const MAX_PODS_OF_NODE = 5_000;
/** Nor one of which more is kept: 250 ordinary pods take a twentieth of it. */
export const MAX_CHARS_OF_NODE = 4 * 1024 * 1024;
/** A drain keeps the claims of pods as well, and has to fit where a plan does: of 1,000 pods they take as much as they may. */
export const MAX_CHARS_OF_DRAIN = MAX_CHARS_OF_NODE + 2 * 1024 * 1024;

/** Of most names in Kubernetes. */
const MAX_NAME = 253;
const MIRROR_ANNOTATION = 'kubernetes.io/config.mirror';
const CORDON_TAINT = 'node.kubernetes.io/unschedulable';
const CORDON_EFFECT = 'NoSchedule';
/** kube-apiserver's default. */
const DEFAULT_GRACE_SECONDS = 30;

/** @param namespace - of the operator; without it no pod counts as its own */
export function slimPod(raw: unknown, namespace?: string): DrainPod {
  const { metadata, spec = {}, status = {} } = raw as RawPod;
  const { nodeName: node = '', priority = 0, volumes = [], tolerations = [] } = spec;
  const finished = isFinished(status);
  return {
    ...fromMetadata(metadata, finished),
    own: namespace !== undefined && isReplica(metadata, namespace),
    ...fromOwner(metadata),
    ...fromStatus(status),
    node,
    claims: finished ? [] : claimsIn(metadata.name, volumes),
    emptyDir: volumes.some((volume) => volume.emptyDir !== undefined),
    priority,
    graceSeconds: spec.terminationGracePeriodSeconds ?? DEFAULT_GRACE_SECONDS,
    toleratesCordon: tolerations.some(toleratesCordon),
  };
}

/** Anyone who may create pods decides on the size of what they carry; with more labels than this, none is kept. */
const MAX_LABEL_CHARS = 8_192;
const MAX_FINALIZERS = 5;
const MAX_CLAIMS = 200;
/** With the two quotes and the comma of each. */
const MAX_CLAIM_CHARS = 2_048;

/** Any number of finished pods may be on a node: no budget, and no volume, counts for them. */
function fromMetadata(metadata: ObjectMeta, finished: boolean) {
  const { creationTimestamp = '', labels = {}, annotations = {}, finalizers = [] } = metadata;
  const isSmall =
    Object.entries(labels).reduce((sum, [key, value]) => sum + key.length + value.length, 0) <= MAX_LABEL_CHARS;
  return {
    metadata: { ...slimMetadata(metadata), creationTimestamp, labels: isSmall && !finished ? labels : {} },
    isLabelled: isSmall,
    finalizers: finalizers.slice(0, MAX_FINALIZERS).map((one) => truncated(one, MAX_NAME)),
    mirror: annotations[MIRROR_ANNOTATION] !== undefined,
    drainPolicy: drainPolicyOf(labels[DRAIN_KEY] ?? annotations[DRAIN_KEY]),
    healthIgnored: (labels[HEALTH_KEY] ?? annotations[HEALTH_KEY]) === 'ignore',
  };
}

function fromOwner({ namespace = '', ownerReferences = [] }: ObjectMeta) {
  const controller = ownerReferences.find((owner) => owner.controller === true);
  return {
    unmanaged: controller === undefined,
    controller: controller === undefined ? '' : `${word(controller.kind)} ${namespace}/${word(controller.name)}`,
    stateful: controller?.kind === 'StatefulSet',
    // An instance manager of Longhorn, which deletes its budget once its node is cordoned and no volume is attached there.
    servesVolumes: controller?.kind === 'InstanceManager' && controller.apiVersion.startsWith('longhorn.io/'),
    ...(controller?.kind === 'DaemonSet' && fromDaemonSet(namespace, controller)),
  };
}

/** A reference may be any text: in what names a controller, the namespace is that of its pod, and each character is one byte. */
function word(text: string): string {
  return truncated(text.replaceAll(/[^A-Za-z0-9.:_-]/gu, '_'), MAX_NAME);
}

function fromDaemonSet(namespace: string, { apiVersion, name }: OwnerReference) {
  const isForeign = !apiVersion.startsWith('apps/');
  return { daemonSet: `${namespace}/${truncated(name, MAX_NAME)}`, ...(isForeign && { foreignDaemonSet: true }) };
}

/** Undefined also for another value. */
function drainPolicyOf(value: string | undefined): DrainPolicy | undefined {
  return value === 'skip' || value === 'last' ? value : undefined;
}

export const CRASHING = 'CrashLoopBackOff';
/** Reasons of a waiting container (kubelet), which do not pass by themselves soon. */
export const FAILING: readonly (string | undefined)[] = [
  CRASHING,
  'ErrImagePull',
  'ErrImageNeverPull',
  'ImageInspectError',
  'ImagePullBackOff',
  'InvalidImageName',
  'CreateContainerConfigError',
  'CreateContainerError',
  'RunContainerError',
];

function isFinished({ phase }: NonNullable<RawPod['status']>): boolean {
  return phase === 'Succeeded' || phase === 'Failed';
}

function fromStatus(status: NonNullable<RawPod['status']>) {
  const { phase, conditions = [], containerStatuses = [], initContainerStatuses = [] } = status;
  const ready = conditions.find(({ type }) => type === 'Ready');
  const finished = isFinished(status);
  // Sidecars are among the init containers (Kubernetes "Sidecar Containers").
  const containers = [...containerStatuses, ...initContainerStatuses];
  return {
    finished,
    pending: phase === 'Pending',
    ready: ready?.status === 'True',
    readyChanged: parseTime(ready?.lastTransitionTime),
    ...restartsOf(containers),
    failing: !finished && containers.some(({ state }) => FAILING.includes(state?.waiting?.reason)),
  };
}

function restartsOf(containers: readonly RawContainer[]): Pick<DrainPod, 'restarts' | 'mostRestarts' | 'restartedAt'> {
  const running = containers.filter(({ restartCount = 0, state }) => restartCount > 0 && state?.running !== undefined);
  return {
    restarts: containers.reduce((sum, { restartCount = 0 }) => sum + restartCount, 0),
    mostRestarts: Math.max(0, ...running.map(({ restartCount = 0 }) => restartCount)),
    restartedAt: running
      .flatMap(({ state }) => parseTime(state?.running?.startedAt) ?? [])
      .toSorted((a, b) => a - b)
      .at(-1),
  };
}

/** Whether it tolerates the taint of a cordoned node (Kubernetes "Taints and Tolerations"). */
function toleratesCordon({ key, operator, effect = CORDON_EFFECT }: Toleration): boolean {
  const anyKey = key === undefined || key === '';
  return effect === CORDON_EFFECT && (key === CORDON_TAINT || (anyKey && operator === 'Exists'));
}

/** As many of the first ones as are kept. */
function claimsIn(pod: string, volumes: readonly RawVolume[]): readonly string[] {
  const kept: string[] = [];
  let chars = 0;
  for (const name of volumes.slice(0, MAX_CLAIMS).flatMap((volume) => claimsOf(pod, volume))) {
    chars += name.length + 3;
    if (chars <= MAX_CLAIM_CHARS) kept.push(name);
  }
  return kept;
}

/** A claim of an ephemeral volume is named after both (Kubernetes "Ephemeral Volumes"). */
function claimsOf(pod: string, { name, persistentVolumeClaim, ephemeral }: RawVolume): readonly string[] {
  if (ephemeral !== undefined) return [`${pod}-${name}`];
  return persistentVolumeClaim === undefined ? [] : [truncated(persistentVolumeClaim.claimName, MAX_NAME)];
}

/** `namespace/name` */
export function podKey(pod: KubernetesObject): string {
  return `${pod.metadata.namespace ?? ''}/${pod.metadata.name}`;
}

/** What `namespace/name` refers to. The name may be any text, since anyone may write a reference. */
export function referenceIn(key: string): { readonly namespace: string; readonly name: string } {
  const at = key.indexOf('/');
  return { namespace: key.slice(0, at), name: key.slice(at + 1) };
}

/** True for a pod that the API server has marked for deletion. */
export function isTerminating({ metadata }: KubernetesObject): boolean {
  return metadata.deletionTimestamp !== undefined;
}

/** True for a finished pod that is deleted: nothing of it runs, and a finalizer or an unmount may hold it for long. */
export function hasEnded(pod: DrainPod): boolean {
  return pod.finished && isTerminating(pod);
}

/** True for a pod whose volumes must be detached from the node before another pod may use them. */
export function hasVolumes({ claims }: DrainPod): boolean {
  return claims.length > 0;
}

/** True for a pod that is evicted after the others of its node, so a budget may hold it until these are gone. */
export function goesLast({ drainPolicy, servesVolumes }: DrainPod): boolean {
  return drainPolicy === 'last' || servesVolumes;
}

export interface DrainFilter {
  /** DaemonSets (`namespace/name`) that do not exist any more. */
  readonly orphaned: ReadonlySet<string>;
  /** UIDs of pods of the operator that the rest of the update needs on the node. */
  readonly needed?: ReadonlySet<string>;
  /** Epoch milliseconds, by the clock that writes creation times. Pods that were created later are left. */
  readonly cordonedSince?: number;
}

/**
 * The pods that `kubectl drain --ignore-daemonsets --delete-emptydir-data --force` evicts: all but
 * mirror pods and unfinished pods of a DaemonSet that exists. Also exempt are needed pods, pods
 * with the drain policy `skip`, pods that {@link cameBack}, and pods that {@link hasEnded}.
 */
export function podsToEvict(
  pods: readonly DrainPod[],
  { orphaned, needed, cordonedSince = Infinity }: DrainFilter,
): readonly DrainPod[] {
  const isExempt = (pod: DrainPod): boolean =>
    pod.mirror ||
    pod.drainPolicy === 'skip' ||
    hasEnded(pod) ||
    needed?.has(pod.metadata.uid) === true ||
    cameBack(pod, cordonedSince) ||
    (pod.daemonSet !== undefined && !pod.finished && (pod.foreignDaemonSet === true || !orphaned.has(pod.daemonSet)));
  const going = pods.filter((pod) => !isExempt(pod)).map((pod) => ({ pod, key: podKey(pod) }));
  return going.toSorted((a, b) => (a.key < b.key ? -1 : 1)).map(({ pod }) => pod);
}

/** The scheduler may place pods for a moment until it has seen the cordon. */
const SCHEDULER_LAG_MS = 3_000;

/**
 * True for a pod that was created on the cordoned node: it tolerates the cordon, or was placed past the scheduler (`nodeName`).
 * Its controller would create it again and again, so a drain evicts what was there at the cordon, as `kubectl drain` does.
 */
export function cameBack({ metadata, toleratesCordon }: DrainPod, cordonedSince: number): boolean {
  const lagMs = toleratesCordon ? 0 : SCHEDULER_LAG_MS;
  return (parseTime(metadata.creationTimestamp) ?? 0) > cordonedSince + lagMs;
}

/** The DaemonSets of Kubernetes (`namespace/name`) whose existence decides about a pod. */
export function daemonSetsInQuestion(pods: readonly DrainPod[]): ReadonlySet<string> {
  const asked = pods.filter(
    ({ mirror, finished, foreignDaemonSet }) => !mirror && !finished && foreignDaemonSet !== true,
  );
  return new Set(asked.flatMap(({ daemonSet }) => daemonSet ?? []));
}
