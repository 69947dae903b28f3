import type { BrupopConfig } from '@brupop/shared/brupop-config';
import type { KubernetesObject } from '@brupop/shared/kubernetes-types';
import type { BottlerocketShadow } from '@brupop/shared/shadow';

/** `T` with every field set, at every depth. */
export type Full<T> = T extends readonly (infer E)[]
  ? [Full<E>, ...Full<E>[]]
  : T extends object
    ? { readonly [K in keyof T]-?: Full<Exclude<T[K], null | undefined>> }
    : T;

type Named<T extends KubernetesObject> = Omit<T, 'metadata'> & { metadata: Pick<T['metadata'], 'name'> };

const condition = {
  type: 'Progressing',
  status: 'False',
  reason: 'Paused',
  message: 'Updates are paused: change freeze.',
  lastTransitionTime: '2026-01-02T03:04:05Z',
  observedGeneration: 3,
} as const;

/** A shadow with every field that there is. */
export const fullShadow = {
  apiVersion: 'brupop.bottlerocket.aws/v2',
  kind: 'BottlerocketShadow',
  metadata: { name: 'brs-node-1' },
  spec: {
    state: 'RebootedIntoUpdate',
    version: '1.21.0',
    state_transition_timestamp: '2026-01-02T03:04:05Z',
  },
  status: {
    current_state: 'ErrorReset',
    current_version: '1.20.3',
    target_version: '1.21.0',
    crash_count: 2,
    state_transition_failure_timestamp: '2026-01-02T03:04:05.678Z',
    observedGeneration: 3,
    bootID: '3cbb0d1a-9a4f-4c57-8a66-9f2f1f4f0c11',
    lastOperation: {
      operation: 'Drain',
      state: 'Failed',
      version: '1.21.0',
      bootID: '3cbb0d1a-9a4f-4c57-8a66-9f2f1f4f0c11',
      startTime: '2026-01-02T03:04:05.678Z',
      lastUpdateTime: '2026-01-02T03:34:05.678Z',
      errorCode: 'DrainTimedOut',
      message: 'After 30 min, default/web-0 is still there.',
    },
    drain: {
      observedGeneration: 3,
      startTime: '2026-01-02T03:04:05Z',
      resumeTime: '2026-01-02T03:04:08Z',
      endTime: '2026-01-02T03:34:05Z',
      result: 'TimedOut',
      evicted: 4,
      remaining: 1,
      blockedBy: [
        {
          pod: 'default/web-0',
          reason: 'DisruptionBudget',
          message: 'the disruption budget web needs 3 healthy pods and has 3 currently',
          podDisruptionBudgets: ['web'],
          since: '2026-01-02T03:04:06Z',
        },
      ],
      handover: {
        pod: 'default/db-0',
        podUID: '0b9d1f8e-9f5c-4b1a-b1f5-6f1f4f0c11aa',
        phase: 'Detaching',
        since: '2026-01-02T03:04:06Z',
        volumes: ['pv-1'],
        replaced: true,
      },
    },
    conditions: [condition],
  },
} as const satisfies Full<Named<BottlerocketShadow>>;

/** A configuration with every field that there is. */
export const fullConfig = {
  apiVersion: 'brupop.bottlerocket.aws/v1alpha1',
  kind: 'BrupopConfig',
  metadata: { name: 'cluster' },
  spec: {
    paused: true,
    pauseMode: 'Interrupt',
    pauseReason: 'change freeze',
    concurrency: { maxUpdating: '10%' },
    drain: {
      timeoutSeconds: 900,
      onTimeout: 'Force',
      emptyDirPods: 'Block',
      unmanagedPods: 'Block',
      maxGracePeriodSeconds: 300,
      volumeDetachTimeoutSeconds: 60,
      replacementTimeoutSeconds: 300,
      taintWaitingNodes: true,
    },
    loadBalancer: { exclusionSeconds: 30 },
  },
  status: {
    observedGeneration: 3,
    conditions: [{ ...condition, type: 'Ready' }],
    nodes: { managed: 12, upToDate: 7, updating: 2, waiting: 2, failed: 1 },
  },
} as const satisfies Full<Named<BrupopConfig>>;
