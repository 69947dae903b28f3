import { type ContainerStatus, hasRun, type PodCondition, type Whereabouts } from './pod.ts';

export interface PodStatusInputs {
  /** Undefined while the pod has no address yet. */
  readonly whereabouts: Whereabouts | undefined;
  readonly containers: readonly ContainerStatus[];
  /** All containers have terminated. */
  readonly ended: boolean;
  readonly startTime: string;
  /** RFC 3339. */
  readonly now: string;
  /** As reported last; keeps the transition times. */
  readonly previous: readonly PodCondition[];
  /** Why the pod is rejected. */
  readonly refusal?: string | undefined;
}

/** In a strategic merge patch: the list is replaced, although its items have a merge key. */
const REPLACE = { $patch: 'replace' };

/** The status that a kubelet reports, as a strategic merge patch. */
export function podStatus(
  inputs: PodStatusInputs,
): { readonly conditions: readonly PodCondition[] } & Record<string, unknown> {
  const { whereabouts, containers, startTime, refusal } = inputs;
  return {
    phase: phaseOf(inputs),
    startTime,
    ...(refusal !== undefined && { reason: UNSUPPORTED, message: refusal }),
    ...(whereabouts !== undefined && {
      podIP: whereabouts.podIP,
      podIPs: [REPLACE, { ip: whereabouts.podIP }],
      hostIP: whereabouts.hostIP,
      hostIPs: [REPLACE, { ip: whereabouts.hostIP }],
    }),
    conditions: conditionsOf(inputs),
    containerStatuses: containers,
  };
}

/** The reason that a rejected pod and its containers show. */
export const UNSUPPORTED = 'StandInKubeletUnsupported';

function phaseOf({ containers, ended }: PodStatusInputs): string {
  if (ended) return containers.some(({ state }) => (state.terminated?.exitCode ?? 137) !== 0) ? 'Failed' : 'Succeeded';
  return containers.length > 0 && containers.every(hasRun) ? 'Running' : 'Pending';
}

function conditionsOf(inputs: PodStatusInputs): PodCondition[] {
  const { containers, whereabouts, now, previous } = inputs;
  const unready = containers.filter(({ ready }) => !ready).map(({ name }) => name);
  const why = inputs.ended
    ? { reason: 'PodCompleted' }
    : { reason: 'ContainersNotReady', message: `containers with unready status: [${unready.join(' ')}]` };
  const allReady = unready.length === 0;
  const states: [type: string, holds: boolean, why?: object][] = [
    ['PodScheduled', true],
    ['PodReadyToStartContainers', whereabouts !== undefined],
    ['Initialized', true],
    ['ContainersReady', allReady, why],
    ['Ready', allReady, why],
  ];
  return states.map(([type, holds, reason]) => {
    const status = holds ? 'True' : 'False';
    const before = previous.find((one) => one.type === type);
    const lastTransitionTime = before?.status === status ? (before.lastTransitionTime ?? now) : now;
    return { type, status, lastTransitionTime, ...(holds ? {} : reason) };
  });
}
