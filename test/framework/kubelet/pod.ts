import type { V1Container, V1PodSpec } from '@kubernetes/client-node';
import type { KubernetesObject, ObjectMeta } from '@brupop/shared/api/meta';

/**
 * A pod as its JSON is: client-node's types turn times into Date objects, which plain JSON does not
 * have.
 */
export interface Pod extends KubernetesObject {
  readonly metadata: ObjectMeta & { readonly namespace: string; readonly deletionGracePeriodSeconds?: number };
  readonly spec: V1PodSpec;
  readonly status?: PodStatus;
}

export interface PodCondition {
  readonly type: string;
  readonly status: 'True' | 'False' | 'Unknown';
  readonly reason?: string;
  readonly message?: string;
  readonly lastTransitionTime?: string;
}

export interface TerminatedState {
  readonly exitCode: number;
  readonly signal?: number;
  readonly reason: string;
  readonly message?: string;
  readonly startedAt?: string;
  readonly finishedAt?: string;
  readonly containerID?: string;
}

/** One of the three. */
export interface ContainerState {
  readonly waiting?: { readonly reason: string; readonly message?: string };
  readonly running?: { readonly startedAt: string };
  readonly terminated?: TerminatedState;
}

export interface ContainerStatus {
  readonly name: string;
  readonly image: string;
  readonly imageID: string;
  readonly containerID?: string;
  readonly restartCount: number;
  readonly ready: boolean;
  readonly started: boolean;
  readonly state: ContainerState;
  readonly lastState: ContainerState;
}

export interface PodStatus {
  readonly phase?: string;
  readonly reason?: string;
  readonly message?: string;
  readonly startTime?: string;
  readonly podIP?: string;
  readonly hostIP?: string;
  readonly conditions?: readonly PodCondition[];
  readonly containerStatuses?: readonly ContainerStatus[];
}

/** Field values that a pod takes from where it runs. */
export interface Whereabouts {
  /** As the API shows it, 10.R.x.y. */
  readonly podIP: string;
  /** Of the node. */
  readonly hostIP: string;
}

/** `namespace/name`. */
export function podName(pod: Pod): string {
  return `${pod.metadata.namespace}/${pod.metadata.name}`;
}

/** Containers of a pod by name. Throws when there is none with this name. */
export function containerNamed(pod: Pod, name: string): V1Container {
  const found = pod.spec.containers.find((container) => container.name === name);
  if (found === undefined) throw new Unsupported(`${podName(pod)} has no container ${name}`);
  return found;
}

/** True once a container has been started. */
export function hasRun({ state, lastState }: ContainerStatus): boolean {
  return state.running !== undefined || state.terminated !== undefined || lastState.terminated !== undefined;
}

/**
 * The pod asks for something that this kubelet does not do. It never starts, and the test that
 * caused it must fail.
 */
export class Unsupported extends Error {
  override readonly name = 'Unsupported';
}

/**
 * Something that the pod needs is not there yet; it is tried again. `reason` is what the
 * container's waiting state shows.
 */
export class NotYet extends Error {
  override readonly name = 'NotYet';
  readonly reason: string;

  constructor(reason: string, message: string) {
    super(message);
    this.reason = reason;
  }
}
