/**
 * The BottlerocketShadow: the update of one node. The controller writes the spec, the agent reports
 * most of the status, and the apiserver writes `status.drain`. Types, readers and the definition of
 * the resource come from these schemas.
 */
import { conditions, type KubernetesObject } from './meta.ts';
import * as s from './schema.ts';
import { AGENT_STATUS, ID_LIMIT, shadowSpec, type ShadowSpec } from './shadow-agent.ts';

export * from './shadow-agent.ts';

export const DRAIN_RESULTS = ['Drained', 'Forced', 'TimedOut', 'Blocked', 'CordonRemoved', 'Cancelled'] as const;
export type DrainResultName = (typeof DRAIN_RESULTS)[number];
const HANDOVER_PHASES = ['Evicting', 'Detaching', 'Replacing'] as const;
/** `docs/runbook.md` explains each. */
export const BLOCK_REASONS = [
  'DisruptionBudget',
  'MultipleDisruptionBudgets',
  'BlockedByPolicy',
  'Forbidden',
  'Terminating',
  'TerminationStuck',
  'NamespaceTerminating',
  'Throttled',
  'VolumeDetach',
  'Replacement',
  'Error',
] as const;
export type BlockReason = (typeof BLOCK_REASONS)[number];

const ATOMIC = { 'x-kubernetes-list-type': 'atomic' } as const;
const podName = s.text(512);
function names(max: number) {
  return s.list(s.text(253), max);
}
const drainBlock = {
  pod: s.described(podName, 'The pod, as namespace/name.'),
  reason: s.described(
    s.oneOf(BLOCK_REASONS),
    'Why the drain waits for the pod. DisruptionBudget: a budget refuses its eviction for now. MultipleDisruptionBudgets: more than one ' +
      'budget covers it, which the eviction API refuses. BlockedByPolicy: the configuration does not allow its eviction. Forbidden: the ' +
      'eviction is not allowed. Terminating: it is terminating. TerminationStuck: it terminates for longer than its grace period. ' +
      'NamespaceTerminating: its namespace is being deleted. Throttled: the API server limits requests. VolumeDetach: its ' +
      'volumes are still attached. Replacement: the pod that replaces it is not ready. Error: any other error.',
  ),
  message: s.described(s.text(1024), 'Why, for users.'),
  podDisruptionBudgets: s.optional(
    names(50),
    'Names of the disruption budgets that cover the pod, in its namespace.',
    ATOMIC,
  ),
};
export type DrainBlock = Omit<DrainBlockStatus, 'since'>;

const drainBlockStatus = s.object({
  ...drainBlock,
  since: s.described(s.time(), 'Since when the drain waits for the pod.'),
});
export type DrainBlockStatus = s.Infer<typeof drainBlockStatus>;

const handover = s.object({
  pod: s.described(podName, 'The pod, as namespace/name.'),
  podUID: s.described(s.text(ID_LIMIT), 'The UID of that pod.'),
  phase: s.described(
    s.oneOf(HANDOVER_PHASES),
    'Evicting: the pod is to leave the node. Detaching: its volumes are. Replacing: the pod that replaces it is to become ready on ' +
      'another node.',
  ),
  since: s.described(s.time(), 'When the phase started.'),
  volumes: s.optional(names(256), 'The PersistentVolumes of its claims.', ATOMIC),
  replaced: s.optional(s.flag(), 'Whether a pod of the same name replaces it.'),
});
export type Handover = s.Infer<typeof handover>;

const drain = s.object({
  observedGeneration: s.described(s.count64(), 'The metadata.generation of the spec that requested the drain.'),
  startTime: s.described(s.time(), 'When the first pass started. The time limit counts from this time.'),
  resumeTime: s.optional(
    s.time(),
    'When the drain resumed after the node had been empty, or disruption budgets had allowed the first eviction. The time limit then counts ' +
      'from this time.',
  ),
  endTime: s.optional(s.time(), 'When the drain ended. Absent while it is in progress.'),
  result: s.optional(
    s.oneOf(DRAIN_RESULTS),
    'How the drain ended. Drained: no pods are left to evict. Forced: the pods left at the time limit were deleted. TimedOut: pods ' +
      'were left at the time limit, and the node returned to service. Blocked: disruption budgets allowed no eviction while the node was ' +
      'cordoned, and no other pod was evicted. CordonRemoved: another actor made the node schedulable twice. ' +
      'Cancelled: the update was cancelled.',
  ),
  held: s.optional(
    s.flag(),
    'True: disruption budgets block the eviction of pods of the node that are not to be evicted last, and no other pod is ' +
      'evicted until they allow it.',
  ),
  unreplaced: s.optional(
    names(100),
    'Namespaces with an evicted pod of a StatefulSet whose replacement was not ready in time. The drain waits for no other replacement ' +
      'in them.',
    ATOMIC,
  ),
  returned: s.optional(
    s.list(podName, 20),
    'Pods that came back to the cordoned node past the scheduler, or since they tolerate the cordon, as namespace/name, at most ' +
      '20. They are left on the node.',
    ATOMIC,
  ),
  evicted: s.described(s.count(), 'Number of accepted evictions.'),
  remaining: s.described(s.count(), 'Number of pods that are still to be evicted.'),
  blockedBy: s.optional(s.list(drainBlockStatus, 20), 'What the drain waits for, at most 20 pods.', ATOMIC),
  handover: s.optional(handover, 'The pod with volumes that the drain moves now. Such pods move one by one.'),
});
/** All that one pass of a drain leaves to the next, which another replica may run. */
export type DrainStatus = s.Infer<typeof drain>;

const STATUS = {
  ...AGENT_STATUS,
  waitingFor: s.optional(
    s.text(256),
    'In a few words, why the node does not update and, if known, until when; while it updates, what it waits for; the condition Progressing has the sentence. Empty: ' +
      'the node does not wait.',
  ),
  waitingReason: s.optional(
    s.text(64),
    'The reason of waitingFor, in one word and without a time, so that tables stay narrow.',
  ),
  group: s.optional(
    s.text(63),
    'The BottlerocketNodeGroup whose rules hold for the node: that of its labels, or, while it updates, the one with which its update ' +
      'began. Empty: those of the BrupopConfig hold.',
  ),
  drain: s.optional(drain, 'The drain of the current or the latest update, and what it waits for.'),
  conditions: conditions(
    'What is true of this node now. The controller writes Progressing: True while the node updates and False while it does not, with ' +
      'the reason and, if known, when that ends; Ready: False while it is changed or needs a user; Reconciling and Stalled, as kstatus ' +
      'reads them, for these two; Suspect: True while workloads fail on it since its update, and absent otherwise. The API server of the operator writes AgentSupported: False if the release of ' +
      'the agent is too old or too new for it. It is absent otherwise.',
  ),
};
const shadowStatus = s.object(STATUS);
export type ShadowStatus = s.Infer<typeof shadowStatus>;

/**
 * Nothing of the status is required: a shadow of an older operator lacks the newer fields, and the
 * controller may write its condition before the agent has reported.
 */
export const shadowSchema = s.described(
  s.object({
    spec: s.described(shadowSpec, 'What the node is to do. Only the controller writes it.', {
      'x-kubernetes-validations': [
        {
          rule: "self.state in ['Idle', 'ErrorReset'] || has(self.version)",
          message: 'a version is required in this state: only Idle and ErrorReset go without one',
          fieldPath: '.version',
        },
      ],
    }),
    status: s.nullable(
      s.partial(STATUS),
      "What the node has done, as its agent last reported it, and the controller's view of its progress. An object of an older " +
        "operator has only some of these fields, and none of the agent's before its first report.",
    ),
  }),
  'The update of one Bottlerocket node: what the node is to do (spec, written by the controller) and what it has done (status, as its ' +
    'agent reports it). Each managed node has one, named brs-NODE and owned by the Node, so Kubernetes deletes it with the Node. To ' +
    'steer updates, edit the BrupopConfig, not this object.',
);

export interface BottlerocketShadow extends KubernetesObject {
  readonly spec: ShadowSpec;
  readonly status?: ShadowStatus;
}
