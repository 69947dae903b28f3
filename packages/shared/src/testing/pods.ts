/** For tests: a pod of a Deployment, and a budget that allows nothing. */
import { parseTime } from '../runtime/clock.ts';
import type { Budget } from '../drain/budgets.ts';
import type { DrainPod } from '../drain/pods.ts';

export function aPod(name: string, changes: Partial<DrainPod> & { readonly goneBy?: string } = {}): DrainPod {
  const { goneBy, ...rest } = changes;
  const deletion = goneBy === undefined ? {} : { deletionTimestamp: goneBy };
  return {
    metadata: {
      name,
      namespace: 'apps',
      uid: name,
      resourceVersion: '1',
      creationTimestamp: '2026-01-01T00:00:00Z',
      labels: { app: name },
      ...deletion,
    },
    node: 'node-a',
    finalizers: [],
    mirror: false,
    finished: false,
    pending: false,
    ready: true,
    readyChanged: parseTime('2026-01-01T00:00:00Z'),
    healthIgnored: false,
    failing: false,
    restarts: 0,
    mostRestarts: 0,
    restartedAt: undefined,
    controller: `ReplicaSet apps/${name}`,
    claims: [],
    emptyDir: false,
    unmanaged: false,
    stateful: false,
    priority: 0,
    graceSeconds: 30,
    toleratesCordon: false,
    drainPolicy: undefined,
    servesVolumes: false,
    isLabelled: true,
    own: false,
    ...rest,
  };
}

export function aBudget(name: string, changes: Partial<Budget> = {}): Budget {
  return {
    metadata: { name, namespace: 'apps', uid: name, resourceVersion: '1', generation: 1 },
    selector: {},
    isLarge: false,
    weight: 1,
    counted: true,
    disruptionsAllowed: 0,
    currentHealthy: 3,
    desiredHealthy: 3,
    expectedPods: 3,
    hasDisruptedPods: false,
    failure: undefined,
    evictsUnready: false,
    neverAllows: false,
    closedSince: undefined,
    ...changes,
  };
}
