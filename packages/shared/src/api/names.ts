/** Names that programs, chart and users share. Tests compare the chart's templates with them. */

export const GROUP = 'brupop.bottlerocket.aws';
export const SHADOW_VERSION = 'v2';
export const SHADOW_KIND = 'BottlerocketShadow';
export const SHADOW_PLURAL = 'bottlerocketshadows';
export const CONFIG_VERSION = 'v1alpha1';
export const CONFIG_KIND = 'BrupopConfig';
export const CONFIG_PLURAL = 'brupopconfigs';
/** The one BrupopConfig name that the API server accepts. */
export const CONFIG_NAME = 'cluster';
export const NODE_GROUP_VERSION = 'v1alpha1';
export const NODE_GROUP_KIND = 'BottlerocketNodeGroup';
export const NODE_GROUP_PLURAL = 'bottlerocketnodegroups';

/** Nodes with this label and value are managed. */
export const MANAGED_LABEL = 'bottlerocket.aws/updater-interface-version';
export const MANAGED_LABEL_VALUE = '2.0.0';

/** On a Node: the operator cordoned it at this time (RFC 3339). */
export const CORDONED_ANNOTATION = `${GROUP}/cordoned`;
/** On a Node: the operator set the label {@link EXCLUSION_LABEL} at this time (RFC 3339). */
export const EXCLUDED_ANNOTATION = `${GROUP}/excluded-from-load-balancers`;
/** On a Node: when the operator cordoned it again after another actor's uncordon (RFC 3339). */
export const RECORDONED_ANNOTATION = `${GROUP}/recordoned-at`;
/** On a Node: which of {@link AUTOSCALER_HOLDS} the operator set, separated by commas. */
export const AUTOSCALER_HOLDS_ANNOTATION = `${GROUP}/autoscaler-holds`;
/**
 * With the value `true` they keep autoscalers from removing a Node: the FAQ of the cluster
 * autoscaler, and "Node-Level Controls" of Karpenter's page on disruption.
 */
export const AUTOSCALER_HOLDS = [
  'cluster-autoscaler.kubernetes.io/scale-down-disabled',
  'karpenter.sh/do-not-disrupt',
] as const;
/** Key of the taint, with the effect NoSchedule, of nodes from their drain until their DaemonSets are Ready again. */
export const STARTUP_TAINT = `${GROUP}/starting`;
/** Key of the taint, with the effect PreferNoSchedule, of nodes that wait for their update. */
export const WAITING_TAINT = `${GROUP}/update-pending`;
/**
 * Key of the taint by which Kubernetes moves the volumes of a Node whose host is known to be down (Kubernetes "Non-graceful
 * node shutdown"). The operator sets it with {@link OUT_OF_SERVICE_VALUE} and the effect NoExecute.
 */
export const OUT_OF_SERVICE_TAINT = 'node.kubernetes.io/out-of-service';
export const OUT_OF_SERVICE_VALUE = 'brupop';
/** On a Node: when the operator set that taint (RFC 3339). Without it, the taint belongs to another actor. */
export const OUT_OF_SERVICE_ANNOTATION = `${GROUP}/out-of-service`;
/** Label or annotation of a pod, by users: `skip` or `last`. */
export const DRAIN_KEY = `${GROUP}/drain`;
/** Label or annotation of a pod of a DaemonSet; with the value `ignore` its readiness does not count. */
export const HEALTH_KEY = `${GROUP}/health`;
/** On a Node: external load balancers leave it out (Kubernetes "Well-Known Labels"). */
export const EXCLUSION_LABEL = 'node.kubernetes.io/exclude-from-external-load-balancers';
/** Field manager of what a BottlerocketNodeGroup applies to Nodes, followed by its name, of at most 63 characters. */
export const GROUP_MANAGER_PREFIX = 'brupop-group-';
/** On a Node: the labels and annotations that its group set, for when metadata.managedFields are lost. */
export const GROUP_KEYS_ANNOTATION = `${GROUP}/node-group-keys`;
/** On a Node: the taints that groups set. */
export const GROUP_TAINTS_ANNOTATION = `${GROUP}/node-group-taints`;
/** On a BottlerocketNodeGroup: it is removed from its Nodes before it ends. */
export const NODE_METADATA_FINALIZER = `${GROUP}/node-metadata`;
/** On a shadow: the BottlerocketNodeGroup that its update began with. */
export const NODE_GROUP_ANNOTATION = `${GROUP}/node-group`;
/** On a shadow, by users: the version to retry now. */
export const RETRY_ANNOTATION = `${GROUP}/retry`;
/** On a shadow: how many attempts since the latest success failed or were cancelled. */
export const UNSUCCESSFUL_ATTEMPTS_ANNOTATION = `${GROUP}/unsuccessful-attempts`;
/**
 * On a shadow: how many attempts since the latest success ended without a failure because the host no
 * longer offered their version.
 */
export const WITHDRAWN_ATTEMPTS_ANNOTATION = `${GROUP}/withdrawn-attempts`;
/** On a shadow: the DaemonSets whose pods were not ready before the drain, `namespace/name`, separated by commas. */
export const UNREADY_BEFORE_ANNOTATION = `${GROUP}/unready-before`;
/** On a shadow: the workloads whose pods its drain evicts, `Kind namespace/name`, separated by commas. */
export const EVICTED_WORKLOADS_ANNOTATION = `${GROUP}/evicted-workloads`;
/** On a shadow: the members of quorums that were on its node when its update started, `QUORUM=POD`, separated by commas. */
export const QUORUM_MEMBERS_ANNOTATION = `${GROUP}/quorum-members`;
/** On a shadow: when its latest update started (RFC 3339). */
export const UPDATE_STARTED_ANNOTATION = `${GROUP}/update-started`;
/**
 * On a shadow: a rollback, as the version that failed, the previous one, and the time (RFC 3339), joined
 * by `=`.
 */
export const ROLLBACK_ANNOTATION = `${GROUP}/rollback`;
/** On a shadow: the version that the node ran when its latest update started; after the reboot nothing else shows it. */
export const STARTED_FROM_ANNOTATION = `${GROUP}/started-from`;
/**
 * On a shadow: when the configuration ended its latest update (a pause, a window, `spec.versions`), so
 * that the attempt does not count for the order of nodes (RFC 3339).
 */
export const ENDED_BY_CONFIG_ANNOTATION = `${GROUP}/ended-by-config`;
/**
 * On a shadow: the version of its latest update and when that succeeded, as
 * `1.21.0=2026-11-22T10:00:00Z`; absent from a start until a success.
 */
export const UPDATE_SUCCEEDED_ANNOTATION = `${GROUP}/update-succeeded`;
/**
 * On a shadow: when its latest update was first allowed to drain and reboot the host (RFC 3339);
 * absent after its end.
 */
export const REBOOT_REQUESTED_ANNOTATION = `${GROUP}/reboot-requested`;
/** On a shadow: how long its latest update took, whole seconds. */
export const UPDATE_SECONDS_ANNOTATION = `${GROUP}/update-seconds`;
/** On a shadow: seconds until its update was deferred, a lower bound of the next estimate. */
export const DEFERRED_AFTER_ANNOTATION = `${GROUP}/deferred-after-seconds`;
/**
 * On a shadow: how often its node was cordoned for pods that disruption budgets held, and when the latest of these
 * attempts started, as `3=2026-11-22T10:00:00Z`; absent after a success.
 */
export const BLOCKED_DRAINS_ANNOTATION = `${GROUP}/blocked-drains`;
/** On a shadow: how many attempts with one version have failed, as `1.21.0=3`. */
export const FAILED_ATTEMPTS_ANNOTATION = `${GROUP}/failed-attempts`;
/**
 * On a shadow: the version with which its node failed, why and when, as
 * `1.21.0=RolledBack=2026-11-22T10:00:00Z`; absent after a success.
 */
export const FAILED_VERSION_ANNOTATION = `${GROUP}/failed-version`;
/** On a shadow: settings that failed on its host, as `HASH=2026-11-22T10:00:00Z`. */
export const SETTINGS_FAILED_ANNOTATION = `${GROUP}/settings-failed`;
/** On a shadow: the boot ID of its node when its host was allowed to change settings. */
export const SETTINGS_BOOT_ANNOTATION = `${GROUP}/settings-boot-id`;
/** On the Lease of the controllers: why the BrupopConfig pauses the fleet; empty: it does not. Outlives the configuration. */
export const PAUSED_ANNOTATION = `${GROUP}/paused`;
/** On a shadow: the settings of the group that its host has last proved, as `[["KEY","VALUE"]]`. */
export const SETTINGS_PROVED_ANNOTATION = `${GROUP}/settings-proved`;
/** On a shadow: the boot ID of its Node when its drain was requested. */
export const BOOT_BEFORE_ANNOTATION = `${GROUP}/boot-id-before`;
/** On a shadow: settings for which its node was rebooted, as `HASH=2026-11-22T10:00:00Z`. */
export const SETTINGS_REBOOTED_ANNOTATION = `${GROUP}/settings-rebooted`;
/**
 * On a shadow: the Jobs of its latest attempt, as `Before/check/NAME=Succeeded`, separated by commas. A Job
 * is recorded before it is created, so that no other controller creates it again.
 */
export const JOBS_ANNOTATION = `${GROUP}/jobs`;
/** Label of the Jobs of checks and hooks, and of their pods: the name of the check or hook. */
export const CHECK_LABEL = `${GROUP}/check`;
/** On such a Job: whose it is, as `shadow UID/start of the update/PHASE/KIND/NAME`. */
export const JOB_OF_ANNOTATION = `${GROUP}/job-of`;
/** On a dependent that is scaled to 0: the replicas that it gets back. */
export const DEPENDENT_REPLICAS_ANNOTATION = `${GROUP}/dependent-replicas`;
/** On a dependent, by users: with the value `true` it is not kept at 0. */
export const IGNORE_SCALING_ANNOTATION = `${GROUP}/ignore-scaling`;
/** On a Node, by users: a whole number; nodes with a higher one are updated first. */
export const PRIORITY_ANNOTATION = `${GROUP}/priority`;
/** On a Node, by users: with any value but `false`, the node starts no update. */
export const SKIP_ANNOTATION = `${GROUP}/skip`;
/** The well-known label that names the zone of a Node (Kubernetes "Well-Known Labels"). */
export const ZONE_LABEL = 'topology.kubernetes.io/zone';

/** Label on the pods of the operator; its values are the component names below. */
export const COMPONENT_LABEL = `${GROUP}/component`;
export const AGENT = 'brupop-agent';
export const CONTROLLER = 'brupop-controller';
export const APISERVER = 'brupop-apiserver';
/** Audience of the projected tokens with which agents call the apiserver. */
export const TOKEN_AUDIENCE = 'brupop-apiserver';

/** Condition of a shadow: False if the agent's release does not work with that of the API server. */
export const AGENT_SUPPORTED = 'AgentSupported';

const SHADOW_PREFIX = 'brs-';
/** Longest name of a Node whose shadow can exist: names of objects have at most 253 characters. */
export const MAX_NODE_NAME = 253 - SHADOW_PREFIX.length;

export function shadowName(node: string): string {
  return `${SHADOW_PREFIX}${node}`;
}
