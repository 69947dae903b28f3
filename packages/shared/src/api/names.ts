/** Names that programs, chart and people share. The chart's tests hold the templates against these. */

export const GROUP = 'brupop.bottlerocket.aws';
export const SHADOW_VERSION = 'v2';
export const SHADOW_KIND = 'BottlerocketShadow';
export const SHADOW_PLURAL = 'bottlerocketshadows';
export const CONFIG_VERSION = 'v1alpha1';
export const CONFIG_KIND = 'BrupopConfig';
export const CONFIG_PLURAL = 'brupopconfigs';
/** The one BrupopConfig name that the API server accepts. */
export const CONFIG_NAME = 'cluster';

/** Nodes with this label and value are managed. */
export const MANAGED_LABEL = 'bottlerocket.aws/updater-interface-version';
export const MANAGED_LABEL_VALUE = '2.0.0';

/** On a Node: the cordon is ours; the value is the time it was set (RFC 3339). */
export const CORDONED_ANNOTATION = `${GROUP}/cordoned`;
/** On a Node: the load balancer exclusion label is ours; the value is the time it was set (RFC 3339). */
export const EXCLUDED_ANNOTATION = `${GROUP}/excluded-from-load-balancers`;
/** On a Node, beside the former: somebody took our cordon away once, and it was set again. The value is that time (RFC 3339). */
export const RECORDONED_ANNOTATION = `${GROUP}/recordoned-at`;
/** On a Node: the annotations among {@link AUTOSCALER_HOLDS} that are ours, with commas between them. */
export const AUTOSCALER_HOLDS_ANNOTATION = `${GROUP}/autoscaler-holds`;
/**
 * Annotations with the value `true` that keep autoscalers from removing a Node: the cluster autoscaler's (its FAQ, "How can I prevent Cluster
 * Autoscaler from scaling down a particular node?") and Karpenter's ("Node-Level Controls" of its disruption page).
 */
export const AUTOSCALER_HOLDS = [
  'cluster-autoscaler.kubernetes.io/scale-down-disabled',
  'karpenter.sh/do-not-disrupt',
] as const;
/** Key of the taint, with the effect PreferNoSchedule, of nodes that wait for their update. */
export const WAITING_TAINT = `${GROUP}/update-pending`;
/** Label or annotation of a pod: what its owner asks of a drain, `skip` or `last`. */
export const DRAIN_KEY = `${GROUP}/drain`;
/** The well-known label that takes a node out of external load balancers (Kubernetes "Well-Known Labels"). */
export const EXCLUSION_LABEL = 'node.kubernetes.io/exclude-from-external-load-balancers';
/** On a shadow: a person asks to try again a version that is not tried by itself any more; the value is that version. */
export const RETRY_ANNOTATION = `${GROUP}/retry`;
/** On a shadow: how many attempts the controller has called off without a report of the agent since the latest success. */
export const UNREPORTED_ATTEMPTS_ANNOTATION = `${GROUP}/unreported-attempts`;
/** On a shadow: when its latest update began (RFC 3339). */
export const UPDATE_STARTED_ANNOTATION = `${GROUP}/update-started`;
/** On a shadow: how long its latest update took, whole seconds. Maintenance windows reckon with it. */
export const UPDATE_SECONDS_ANNOTATION = `${GROUP}/update-seconds`;
/** On a shadow: after how long, whole seconds, its update was put off since its maintenance window was over. Its next one takes at least as long. */
export const DEFERRED_AFTER_ANNOTATION = `${GROUP}/deferred-after-seconds`;
/** On a shadow: how many attempts with one version have failed, as `1.21.0=3`. */
export const FAILED_ATTEMPTS_ANNOTATION = `${GROUP}/failed-attempts`;
/** On a Node, by people: a whole number; nodes with a higher one are updated first. */
export const PRIORITY_ANNOTATION = `${GROUP}/priority`;
/** On a Node, by people: with any value but `false`, the node begins no update. */
export const SKIP_ANNOTATION = `${GROUP}/skip`;
/** The well-known label that names the zone of a Node (Kubernetes "Well-Known Labels"). */
export const ZONE_LABEL = 'topology.kubernetes.io/zone';

/** Label on the pods of our own workloads; values are the component names below. */
export const COMPONENT_LABEL = `${GROUP}/component`;
export const AGENT = 'brupop-agent';
export const CONTROLLER = 'brupop-controller';
export const APISERVER = 'brupop-apiserver';
/** Audience of the projected tokens with which agents call the apiserver. */
export const TOKEN_AUDIENCE = 'brupop-apiserver';

/** Name of the shadow of a node. */
export function shadowName(node: string): string {
  return `brs-${node}`;
}
