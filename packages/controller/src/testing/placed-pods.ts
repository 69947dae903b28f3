/** Lists of all pods, for tests. */
import type { AllPods, PlacedPod } from '../cluster/all-pods.ts';
import { NOW } from './objects.ts';

/** A Ready pod of the ReplicaSet `web`. */
export function aPlacedPod(node: string, changes: Partial<PlacedPod> = {}): PlacedPod {
  return {
    namespace: 'shop',
    node,
    ready: true,
    mirror: false,
    healthIgnored: false,
    drainPolicy: undefined,
    controller: 'ReplicaSet shop/web',
    isTerminating: false,
    ...changes,
  };
}

export function listed(pods: readonly PlacedPod[], seenAt = NOW): AllPods {
  return { pods, seenAt, asOf: seenAt, problem: undefined, nextAt: seenAt + 5_000 };
}
