import type { BottlerocketShadow } from '@brupop/shared/api/shadow';
import type { KubernetesObject } from '@brupop/shared/api/meta';

/** Of these a check has one. */
type CheckKind = 'job' | 'prometheus' | 'alerts';
type EachKind<T> = { [K in CheckKind]: Omit<T, Exclude<CheckKind, K>> }[CheckKind];

/** `T` with every field set, at every depth. */
export type Full<T> = T extends readonly (infer E)[]
  ? [Full<E>, ...Full<E>[]]
  : T extends object
    ? [string, CheckKind] extends [Exclude<string, keyof T>, keyof T]
      ? Full<EachKind<T>>
      : { readonly [K in keyof T]-?: Full<Exclude<T[K], null | undefined>> }
    : T;

export type Named<T extends KubernetesObject> = Omit<T, 'metadata'> & { metadata: Pick<T['metadata'], 'name'> };

export const condition = {
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
    timeoutSeconds: 900,
    settings: {
      leaves: [
        {
          key: 'settings.motd',
          value: '"hello"',
          owner: 'BottlerocketNodeGroup/web',
          force: true,
        },
      ],
      allow: 'RestartsService',
    },
  },
  status: {
    current_state: 'ErrorReset',
    current_version: '1.20.3',
    target_version: '1.21.0',
    crash_count: 2,
    state_transition_failure_timestamp: '2026-01-02T03:04:05.678Z',
    observedGeneration: 3,
    bootID: '3cbb0d1a-9a4f-4c57-8a66-9f2f1f4f0c11',
    bootTime: '2026-01-01T03:04:05Z',
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
    group: 'ingress',
    drain: {
      observedGeneration: 3,
      startTime: '2026-01-02T03:04:05Z',
      resumeTime: '2026-01-02T03:04:08Z',
      endTime: '2026-01-02T03:34:05Z',
      result: 'TimedOut',
      held: true,
      unreplaced: ['databases'],
      returned: ['default/nfs-1'],
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
    settings: {
      lastApplied: { hash: '0123456789abcdef', time: '2026-01-02T03:04:05Z' },
      inFlight: { hash: 'fedcba9876543210', time: '2026-01-02T03:04:05Z' },
      records: [
        {
          key: 'settings.updates.version-lock',
          value: '"1.21.0"',
          before: '"latest"',
          earlier: ['"1.20.0"'],
          owner: 'BrupopConfig',
          bootID: '9d3b1c1e-0000-4000-8000-000000000001',
        },
      ],
      pending: [{ key: 'settings.kubernetes.max-pods', class: 'RestartsService', reason: 'it restarts kubelet' }],
      conflicts: ['settings.motd'],
      cannotUnset: ['settings.kernel.sysctl."vm.max_map_count"'],
      hostLock: '1.20.0',
      message: 'the host refuses the version lock',
    },
    waitingFor: 'OutsideMaintenanceWindow until 2026-01-03T01:00:00Z',
    waitingReason: 'OutsideMaintenanceWindow',
    conditions: [condition],
  },
} as const satisfies Full<Named<BottlerocketShadow>>;
