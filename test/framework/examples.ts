import type { BrupopConfig } from '@brupop/shared/api/brupop-config';
import { condition, type Full, type Named } from './example-shadow.ts';

const dependent = { name: 'ca', namespace: 'kube-system', kind: 'Deployment', target: 'cluster-autoscaler' } as const;
const phase = { level: 1, delay: '10s', timeout: '1m' } as const;

/** A configuration with every field that there is. */
export const fullConfig = {
  apiVersion: 'brupop.bottlerocket.aws/v1alpha1',
  kind: 'BrupopConfig',
  metadata: { name: 'cluster' },
  spec: {
    paused: true,
    pauseMode: 'Interrupt',
    pauseReason: 'change freeze',
    maintenance: {
      timeZone: 'Europe/Berlin',
      windows: [{ schedule: '0 2 * * *', duration: '4h', days: ['Sat'] }],
      blackouts: [{ from: '2026-12-20T00:00:00Z', to: '2027-01-06T00:00:00Z', reason: 'holidays' }],
      updateEstimate: '20m',
      margin: '5m',
    },
    concurrency: { maxUpdating: '10%', maxUnavailable: '20%', maxPerZone: 2, controlPlane: 'Ignored', maxZones: 1 },
    versions: { pin: '1.21.0', minimumAge: '72h', ignoreWaves: true, deny: ['1.20.5'] },
    drain: {
      timeout: '15m',
      onTimeout: 'Force',
      blockedBudgets: 'Wait',
      emptyDirPods: 'Block',
      unmanagedPods: 'Block',
      maxGracePeriod: '5m',
      volumeDetachTimeout: '1m',
      replacementTimeout: '5m',
      taintWaitingNodes: true,
      startupTaint: true,
    },
    loadBalancer: { exclusion: '30s' },
    timeouts: { stage: '1h', reboot: '20m' },
    monitoring: { healthyFor: '2m', timeout: '10m' },
    health: {
      conditions: ['DiskPressure'],
      daemonSets: 'Ignored',
      pods: 'Ignored',
      watchFor: '10m',
      podsBefore: 'Required',
      podGracePeriod: '15m',
      ignoredNamespaces: ['sandbox'],
      trustedNamespaces: ['kube-system', 'networking'],
      workloads: 'Required',
      unhealthyNodes: 'Last',
      checks: [
        { name: 'smoke', when: ['After'], job: { cronJob: 'smoke' }, timeout: '5m' },
        { name: 'errors', when: ['Before', 'After'], prometheus: { query: 'up' }, timeout: '5m' },
        { name: 'pages', when: ['Before'], alerts: { filter: ['severity="critical"'] }, timeout: '5m' },
      ],
    },
    hooks: {
      before: [{ name: 'snapshot', job: { cronJob: 'snapshot' }, timeout: '5m', onTimeout: 'Proceed', quorum: 'etcd' }],
      after: [{ name: 'standby', job: { cronJob: 'exit-standby' }, timeout: '5m', onTimeout: 'Abort' }],
    },
    retry: { backoff: '10m', maxBackoff: '2h', attempts: 3 },
    rollout: {
      failureBudget: '5%',
      resume: '2026-01-02T03:04:05Z',
      rollback: 'Automatic',
      canary: {
        nodes: 2,
        nodeSelector: {
          matchLabels: { pool: 'canary' },
          matchExpressions: [{ key: 'gpu', operator: 'In', values: ['a100'] }],
        },
      },
      soak: '2h',
      approval: 'Required',
      approvedVersion: '1.21.0',
      progressDeadline: '12h',
    },
    lostNode: { after: '1h', action: 'OutOfServiceTaint' },
    connectivity: {
      nodeMonitorGracePeriod: '40s',
      expiredPercent: 50,
      clusterExpiredPercent: 70,
      dependents: [{ ...dependent, optional: true, scaleDown: phase, scaleUp: phase }],
    },
    recovery: {
      updatedNodes: 'Restart',
      services: [
        {
          name: 'postgres',
          namespace: 'shop',
          service: 'postgres',
          podSelectors: [
            { matchLabels: { app: 'api' }, matchExpressions: [{ key: 'tier', operator: 'In', values: ['backend'] }] },
          ],
        },
      ],
      watchFor: '10m',
      maxPerMinute: 5,
    },
    notifications: [
      {
        name: 'events',
        format: 'JSON',
        events: ['Frozen', 'Finished'],
        address: 'http://events.example.com/brupop',
        secretName: 'brupop-events',
        allowHTTP: true,
        cluster: 'prod-eu-1',
      },
    ],
    silences: {
      addresses: ['http://alertmanager.monitoring.svc:9093'],
      secretName: 'brupop-alertmanager',
      allowHTTP: true,
      labels: [{ name: 'node' }],
      matchers: [{ name: 'cluster', operator: 'Matches', value: 'prod-.+' }],
    },
    quorums: [
      {
        name: 'etcd',
        namespace: 'kube-system',
        podSelector: {
          matchLabels: { component: 'etcd' },
          matchExpressions: [{ key: 'tier', operator: 'In', values: ['control-plane'] }],
        },
        nodeSelector: {
          matchLabels: { 'node-restriction.kubernetes.io/etcd': 'main' },
          matchExpressions: [{ key: 'node-role.kubernetes.io/control-plane', operator: 'In', values: [''] }],
        },
        members: 5,
        tolerate: 1,
        downtime: 'Refused',
        last: {
          matchLabels: { role: 'leader' },
          matchExpressions: [{ key: 'role', operator: 'In', values: ['leader'] }],
        },
        checks: ['errors'],
      },
    ],
    nodeSelector: {
      matchLabels: { pool: 'web' },
      matchExpressions: [{ key: 'topology.kubernetes.io/zone', operator: 'In', values: ['a', 'b'] }],
    },
    order: 'OldestBoot',
  },
  status: {
    release: '1.2.3',
    observedGeneration: 3,
    confirmedGeneration: 3,
    childrenObservedGeneration: 7,
    observedDigest: '9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08',
    conditions: [{ ...condition, type: 'Ready' }],
    nodes: { managed: 12, upToDate: 7, updating: 2, waiting: 2, failed: 1 },
    versions: [{ version: '1.21.0', running: 7, offered: 5, firstOfferedTime: '2026-01-01T03:04:05Z' }],
    canaries: [{ version: '1.21.0', since: '2026-01-02T03:04:05Z' }],
    progress: {
      lastProgressTime: '2026-01-02T03:04:05Z',
      countedSeconds: 300,
      countedFrom: '2026-01-02T03:14:05Z',
    },
    frozenVersions: [{ version: '1.21.0', since: '2026-01-02T03:04:05Z' }],
    rollouts: [
      {
        version: '1.21.0',
        group: 'db',
        startTime: '2026-11-22T10:00:00Z',
        endTime: '2026-11-22T12:00:00Z',
        nodes: 3,
        failures: 1,
        changes: [
          {
            object: 'BrupopConfig "cluster"',
            manager: 'kubectl-edit',
            time: '2026-11-22T10:30:00Z',
            fields: ['rollout.approvedVersion'],
          },
        ],
      },
    ],
    heldVersions: [{ version: '1.21.0', since: '2026-01-02T03:04:05Z' }],
    failedNodes: [
      {
        name: 'node-1',
        version: '1.21.0',
        code: 'RolledBack',
        since: '2026-01-02T03:04:05Z',
        deleted: true,
        group: 'db',
      },
    ],
    dependents: [{ ...dependent, state: 'Down', replicas: 2, since: '2026-01-02T03:04:05Z' }],
    clusterLostTime: '2026-01-02T03:04:05Z',
    recovery: [
      {
        kind: 'Service',
        name: 'postgres',
        startTime: '2026-01-02T03:04:05Z',
        endTime: '2026-01-02T03:09:05Z',
        evicted: 1,
        pods: [{ uid: '0b9d1f8e-9f5c-4b1a-b1f5-6f1f4f0c11aa', time: '2026-01-02T03:04:06Z' }],
      },
    ],
    notifications: {
      rolloutStartTime: '2026-01-02T03:04:05Z',
      rolloutEndTime: '2026-01-02T03:04:05Z',
      receivers: [
        {
          name: 'events',
          state: 'NotReady',
          since: '2026-01-02T03:04:05Z',
          message: 'no response within 10 s',
          reason: 'Timeout',
          receiverHash: '0a1b2c3d4e5f',
          lastSentTime: '2026-01-02T03:04:05Z',
          sent: ['0a1b2c3d4e5f'],
        },
      ],
    },
    quorums: [
      {
        name: 'etcd',
        members: 5,
        ready: 4,
        message: 'kube-system/etcd-a on node-1 is not Ready',
        since: '2026-01-02T03:04:05Z',
      },
    ],
    window: { nextOpenTime: '2026-01-03T01:00:00Z', nextCloseTime: '2026-01-03T05:00:00Z' },
    updateEstimate: '7m',
    expectedCompletionTime: '2026-01-03T03:00:00Z',
    plan: [{ node: 'node-1', version: '1.21.0', reason: 'Paused', expectedTime: '2026-01-03T02:00:00Z' }],
    inForce: { generation: 3, spec: { paused: true } },
  },
} as const satisfies Full<Named<Omit<BrupopConfig, 'edits'>>>;
