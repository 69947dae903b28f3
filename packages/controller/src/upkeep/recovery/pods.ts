/** The pods of a scope: which of them wait in CrashLoopBackOff, and which may be evicted for that. */
import { CRASHING, type DrainPod, FAILING, isTerminating, type RawPod, slimPod } from '@brupop/shared/drain/pods';

export interface CrashingPod {
  readonly uid: string;
  readonly name: string;
  readonly namespace: string;
  /** Where it runs. */
  readonly node: string;
  /** Its eviction deletes an emptyDir volume, which a restart of its container does not. */
  readonly emptyDir?: true;
}

/** What is kept of a listed pod, so that a list of many is small. */
export interface ListedPod {
  readonly uid: string;
  readonly crashing?: CrashingPod;
  /** The DaemonSet that controls it, as `namespace/name`, while it is not Ready and counts for the health of its node. */
  readonly unreadyDaemonSet?: string;
}

export function listedPod(raw: unknown): ListedPod {
  const pod = slimPod(raw);
  const { uid, name, namespace = '' } = pod.metadata;
  const crashing =
    isCrashing(raw as RawPod) && mayBeEvicted(pod)
      ? { uid, name, namespace, node: pod.node, ...(pod.emptyDir && { emptyDir: true as const }) }
      : undefined;
  const counts = !pod.ready && !pod.healthIgnored && !isTerminating(pod);
  return {
    uid,
    ...(crashing !== undefined && { crashing }),
    ...(counts && pod.daemonSet !== undefined && { unreadyDaemonSet: pod.daemonSet }),
  };
}

/** False while a container waits for a reason that a new pod does not end. */
function isCrashing({ status = {} }: RawPod): boolean {
  const containers = [...(status.containerStatuses ?? []), ...(status.initContainerStatuses ?? [])];
  const reasons = containers.map(({ state }) => state?.waiting?.reason);
  return reasons.includes(CRASHING) && reasons.every((one) => one === CRASHING || !FAILING.includes(one));
}

/** Nothing would create a pod without a controller again. */
function mayBeEvicted(pod: DrainPod): boolean {
  return !pod.unmanaged && !pod.mirror && !pod.finished && pod.drainPolicy !== 'skip' && !isTerminating(pod);
}
