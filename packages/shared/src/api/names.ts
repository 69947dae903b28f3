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
export const CONFIG_OBJECT = { apiVersion: `${GROUP}/${CONFIG_VERSION}`, kind: CONFIG_KIND };
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
/** On a shadow: what the controller remembers of its node; see record.ts. */
export const RECORD_ANNOTATION = `${GROUP}/record`;
/** On a shadow: the start of the names of ten annotations with its last updates; see history.ts. Label of ConfigMaps that have them. */
export const HISTORY_ANNOTATION = `${GROUP}/history`;
/** On a shadow, by users: the version to retry now. */
export const RETRY_ANNOTATION = `${GROUP}/retry`;
/** On a shadow, by users: with {@link ABORT_VALUE}, the update of the node ends, unless its host may reboot already. */
export const ABORT_ANNOTATION = `${GROUP}/abort`;
export const ABORT_VALUE = 'true';
/** On a shadow, by users: the version to update to now, before other nodes and outside of windows. */
export const UPDATE_NOW_ANNOTATION = `${GROUP}/update-now`;
/** On the Lease of the controllers: why the BrupopConfig pauses the fleet; empty: it does not. Outlives the configuration. */
export const PAUSED_ANNOTATION = `${GROUP}/paused`;
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
