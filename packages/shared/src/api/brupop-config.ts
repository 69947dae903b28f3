/** The BrupopConfig: users write how nodes are updated, the controller writes the status. */
import * as v from 'valibot';
import { MAX_QUORUMS } from './config-quorums.ts';
import { type BrupopConfigSpec, specSchema, withDefaults } from './config-spec.ts';
import { NOTIFICATIONS_STATUS } from './config-notifications.ts';
import { MAX_RECORDED_PODS, MAX_RECOVERIES, RECOVERY_KINDS } from './config-recovery.ts';
import { conditions, type KubernetesObject, NOT_SEEN } from './meta.ts';
import {
  count,
  count64,
  described,
  flag,
  type Infer,
  isFields,
  object,
  oneOf,
  optional,
  statusList,
  text,
  time,
} from './schema.ts';
import { type Edit, editsOf } from './edits.ts';
import { datedVersions, ROLLOUTS } from './rollouts.ts';
import { merged } from './spec-schema.ts';

const total = (text: string) => described(count(), text);
/** What is reported of the nodes of the fleet, and of those of a BottlerocketNodeGroup. */
export const ROLLOUT = {
  nodes: optional(
    object({
      managed: total(
        'Nodes with the label bottlerocket.aws/updater-interface-version=2.0.0 that spec.nodeSelector selects.',
      ),
      upToDate: total('Nodes that run the desired version: the pinned one, or the one that their host offers.'),
      updating: total('Nodes that are updating now.'),
      waiting: total('Nodes that wait for their update, and nodes that have not reported yet.'),
      failed: total('Nodes whose latest attempt failed.'),
    }),
    'Counts of the managed nodes.',
  ),
  window: optional(
    object({
      nextOpenTime: optional(time(), 'When nodes may start updates next. Absent while they may start.'),
      nextCloseTime: optional(time(), 'When the open window closes.'),
    }),
    'When nodes may start updates. Absent without windows and blackouts.',
  ),
  expectedCompletionTime: optional(
    time(),
    'When all nodes that can update are expected to be up to date, within some minutes. Absent if no node needs an ' +
      'update, or if the time is unknown.',
  ),
  plan: statusList(
    {
      node: described(text(253), 'Name of the Node.'),
      version: optional(text(128), 'Version that it updates to.'),
      reason: described(text(128), 'Why it waits, as in the condition Progressing of its BottlerocketShadow.'),
      expectedTime: optional(time(), 'When its update is expected to be complete. Absent if the time is unknown.'),
    },
    'The nodes that update next, in their order, at most 20.',
    20,
  ),
};

/** What the controller has seen of the configuration, or of a BottlerocketNodeGroup. */
export const GENERATIONS = {
  observedGeneration: optional(
    count64(),
    'The latest metadata.generation that the controller has seen; the conditions are about it.',
  ),
  confirmedGeneration: optional(
    count64(),
    'The latest metadata.generation that is completely in effect: every node has confirmed it, also those that wait for a window.',
  ),
};

/** What is remembered of versions, of the fleet and of a BottlerocketNodeGroup that has its own `spec.rollout`. */
export const LANE = {
  frozenVersions: datedVersions(
    'When more nodes had failed with it than spec.rollout.failureBudget allows.',
    'The versions that too many nodes failed with: no update to them or to older versions starts, until spec.rollout.resume ' +
      'is set to a later time.',
  ),
  canaries: datedVersions(
    'Since when as many canaries as necessary have updated to it and are healthy.',
    'The versions whose canaries have succeeded. spec.rollout.soak counts from here.',
  ),
  progress: optional(
    object({
      lastProgressTime: described(time(), 'When the rollout began, or a node last succeeded.'),
      countedSeconds: described(
        count(),
        'Seconds since then that count for spec.rollout.progressDeadline, until countedFrom.',
      ),
      countedFrom: optional(time(), 'Since when time counts. Absent while the configuration lets no node start.'),
    }),
    'How long the rollout has made no progress. Absent when no node needs an update.',
  ),
};

const statusSchema = object({
  release: optional(
    text(64),
    'The release of the controller that has written this status, such as 1.2.3. kubectl brupop compares it with its own.',
  ),
  ...GENERATIONS,
  childrenObservedGeneration: optional(
    count64(),
    'The sum of the metadata.generation of all BottlerocketNodeGroups, as of when all of them were completely in effect.',
  ),
  observedDigest: optional(
    text(64),
    'A SHA-256 of the kind, UID and generation of the configuration and of every group, as of when all of them were completely in ' +
      'effect. It changes with every object that is added, removed, replaced or edited.',
  ),
  conditions: conditions(
    'The state of the fleet. Ready: the configuration is in use. Reconciling and Stalled, as kstatus reads them: a change of the spec is being applied, and a user is needed. Paused: a user has paused updates. Frozen: no update ' +
      'starts, because a watch is stale or the configuration is invalid, or none to a version that too many nodes failed with. Held: no update to a version starts for a while, because workloads fail on nodes that run it. Connected: most nodes renew their Leases; while they do not, no update starts. WindowOpen: the maintenance windows allow updates ' +
      'to start. Progressing: nodes are updating. Degraded: something needs a user. PendingChanges: the next change of the spec will also bring defaults of this release. CertificateReady: agents can trust the certificate of the API servers; absent if users provide it. DependentsAvailable: no dependent is scaled to 0; absent without dependents. ' +
      'RecoveryReady: the recovery that spec.recovery asks for works; absent without it. NotificationsReady: all receivers of spec.notifications accept notifications; absent without any. SilencesReady: Alertmanager takes the silences of spec.silences; absent without it. The reasons of one node are on its BottlerocketShadow.',
  ),
  nodes: ROLLOUT.nodes,
  versions: statusList(
    {
      version: described(text(128), 'The Bottlerocket version.'),
      running: total('Managed nodes that run it.'),
      offered: total('Managed nodes that run another one and whose host offers it.'),
      firstOfferedTime: optional(
        time(),
        'When at least two managed nodes, or the only one, began to run it or to be offered it. ' +
          'spec.versions.minimumAge counts from here. Absent while fewer nodes have it.',
      ),
    },
    'The versions that managed nodes run or their hosts offer.',
    50,
    ['version'],
  ),
  ...LANE,
  ...ROLLOUTS,
  failedNodes: statusList(
    {
      name: described(text(253), 'Name of the Node, which may have been deleted since.'),
      version: described(text(128), 'Version that it failed with.'),
      code: described(text(64), 'An error code of its agent, NotReturned, NotHealthy, CheckFailed or WorkloadsFailed.'),
      since: described(time(), 'When it failed, or when its deadline passed.'),
      deleted: optional(
        flag(),
        'True when the Node does not exist any more or is not managed. The failure counts until all managed nodes run the ' +
          'version, or spec.rollout.resume accepts it.',
      ),
      group: optional(text(63), 'Its group, if that has a failureBudget of its own: the failure counts for that, too.'),
    },
    'The nodes that failed with a version and have neither succeeded since nor been accepted by spec.rollout.resume, at most ' +
      '1,000.',
    1_000,
  ),
  dependents: statusList(
    {
      name: optional(text(30), 'Its name in spec.connectivity.dependents. Absent when the entry was removed.'),
      kind: described(text(64), 'The kind of the target.'),
      namespace: described(text(63), 'The namespace of the target.'),
      target: described(text(253), 'The name of the target.'),
      state: described(
        text(64),
        'Up: as its users scaled it. Down: scaled to 0 by the operator. ScaledByOthers: scaled to 0 by the operator and then by ' +
          'another actor. RecordRemoved: scaled to 0 by the operator, and another actor has removed the annotation with the number ' +
          'of replicas. NotFound, NotAllowed, Failed: its state is unknown.',
      ),
      replicas: optional(
        count(),
        'The recorded number of replicas, while the target is Down or RecordRemoved, or was so when it was last read.',
      ),
      since: optional(time(), 'Since when it is at 0, or was when it was last read. Absent if replicas is absent.'),
    },
    'The dependents, and targets whose entry was removed while they were Down.',
    40,
  ),
  clusterLostTime: optional(
    time(),
    'Since when most Nodes of the cluster have not renewed their Leases. Absent while they do, and without dependents.',
  ),
  recovery: statusList(
    {
      kind: described(
        oneOf(RECOVERY_KINDS),
        'What has recovered: the Node after its update, or the Service of an entry of spec.recovery.services.',
      ),
      name: described(text(253), 'Name of the Node, or of the entry.'),
      startTime: described(time(), 'When it recovered.'),
      endTime: described(time(), 'Until when pods that wait in CrashLoopBackOff are evicted.'),
      evicted: described(count(), 'How many pods were evicted since.'),
      pods: statusList(
        {
          uid: described(text(64), 'The metadata.uid of the pod.'),
          time: described(time(), 'When its eviction was recorded, right before it was requested.'),
        },
        'The pods of the last minute, and those before that still exist. None of them is evicted again.',
        MAX_RECORDED_PODS,
      ),
    },
    'What has recovered lately. The leader writes a pod here before it requests its eviction.',
    MAX_RECOVERIES,
  ),
  notifications: NOTIFICATIONS_STATUS,
  quorums: statusList(
    {
      name: described(text(30), 'The name of the set in spec.quorums.'),
      members: total('Its members: as many as the spec says, or as were found if these are more.'),
      ready: optional(
        count(),
        'Those that are Ready, on a node that is neither down nor updating; none if that is not known.',
      ),
      message: optional(text(500), 'Who is away, or why the members are not known.'),
      since: described(time(), 'When this was first seen so.'),
    },
    'The sets of spec.quorums, as they were when a node last asked for them: they are not listed while no node waits, starts or is ' +
      'updating that may have a member.',
    MAX_QUORUMS,
    ['name'],
  ),
  window: ROLLOUT.window,
  updateEstimate: optional(
    text(20),
    'Expected duration of the update of one node, from measured updates, such as 12m30s.',
  ),
  expectedCompletionTime: ROLLOUT.expectedCompletionTime,
  plan: ROLLOUT.plan,
  inForce: optional(
    object({
      generation: described(count64(), 'The metadata.generation of the recorded spec.'),
      spec: described(
        v.unknown() as v.GenericSchema<Readonly<Record<string, unknown>>>,
        'The spec, with all defaults.',
        {
          type: 'object',
          'x-kubernetes-map-type': 'atomic',
          'x-kubernetes-preserve-unknown-fields': true,
        },
      ),
    }),
    'The configuration that nodes are updated by, with every default filled in as it was when the spec was last changed. ' +
      'A new release of the operator does not change it.',
  ),
});
export type BrupopConfigStatus = Infer<typeof statusSchema>;
/** Of another release it may have fields that this one does not know. */
export type InForce = NonNullable<BrupopConfigStatus['inForce']>;
export type VersionStatus = NonNullable<BrupopConfigStatus['versions']>[number];
export type FrozenVersionStatus = NonNullable<BrupopConfigStatus['frozenVersions']>[number];
export type FailedNodeStatus = NonNullable<BrupopConfigStatus['failedNodes']>[number];
export type DependentStatus = NonNullable<BrupopConfigStatus['dependents']>[number];
export type RecoveryStatus = NonNullable<BrupopConfigStatus['recovery']>[number];
export type NotificationsStatus = NonNullable<BrupopConfigStatus['notifications']>;
export type QuorumStatus = NonNullable<BrupopConfigStatus['quorums']>[number];
export type PlannedNode = NonNullable<BrupopConfigStatus['plan']>[number];

export const configSchema = described(
  object({
    spec: described(
      specSchema,
      'What users want. Null, which is what a server-side apply of an empty spec may leave, means all defaults.',
      { nullable: true },
    ),
    status: optional(statusSchema, 'What the controller reports.', NOT_SEEN),
  }),
  'How the Bottlerocket nodes of this cluster are updated. There is one, named cluster. Without it, and for every field left ' +
    'out, the defaults apply. Users write the spec, the controller writes the status.',
);

export interface BrupopConfig extends KubernetesObject {
  readonly spec: BrupopConfigSpec;
  readonly status?: BrupopConfigStatus;
  /** Who has written its spec. */
  readonly edits?: readonly Edit[];
}

export function readBrupopConfig(raw: unknown): BrupopConfig {
  const { metadata, spec, status } = raw as Omit<BrupopConfig, 'spec'> & { spec?: BrupopConfigSpec | null };
  const { name, uid, resourceVersion, generation = 0 } = metadata;
  const edits = editsOf(metadata);
  return {
    metadata: { name, uid, resourceVersion, generation },
    spec: spec ?? {},
    ...(status && { status }),
    ...(edits.length > 0 && { edits }),
  };
}

/**
 * The configuration that is in force unless it is invalid: the spec, with missing fields taken
 * from the record for this generation, else from the defaults. So a release with other defaults
 * changes nothing until the spec changes (ADR 0019).
 */
export function inForceOf({ metadata: { generation = 0 }, spec: given, status: reported }: BrupopConfig): InForce {
  const known = reported?.inForce;
  const isKnown = known !== undefined && known.generation === generation && isFields(known.spec);
  return { generation, spec: isKnown ? merged(known.spec, given) : withDefaults(given) };
}
