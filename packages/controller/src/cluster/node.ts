import { isProtectedLabel, selects } from '@brupop/shared/api/label-selector';
import {
  AUTOSCALER_HOLDS,
  EXCLUSION_LABEL,
  GROUP_KEYS_ANNOTATION,
  GROUP_TAINTS_ANNOTATION,
  MANAGED_LABEL,
  MANAGED_LABEL_VALUE,
  OUT_OF_SERVICE_ANNOTATION,
  OUT_OF_SERVICE_TAINT,
  PRIORITY_ANNOTATION,
  SKIP_ANNOTATION,
  STARTUP_TAINT,
  WAITING_TAINT,
  ZONE_LABEL,
} from '@brupop/shared/api/names';
import type { KubernetesObject, ObjectMeta } from '@brupop/shared/api/meta';
import { type AppliedKeys, appliedKeys, type ManagedFields, type NodeTaint } from './group-metadata.ts';
import { isExtended } from './needs.ts';
import { ownedByUs, OWNERSHIP_ANNOTATIONS } from '@brupop/shared/node/ownership';
import { parseTime } from '@brupop/shared/runtime/clock';
import { truncated } from '@brupop/shared/runtime/errors';
import type { UpdatePolicy } from '../policy/policy.ts';

export interface NodeView extends KubernetesObject {
  /** `spec.unschedulable`: cordoned by the operator or by another actor. */
  readonly unschedulable: boolean;
  readonly hasWaitingTaint: boolean;
  readonly hasStartupTaint: boolean;
  /** Set by the operator or by another actor. */
  readonly hasOutOfServiceTaint: boolean;
  readonly taints: readonly NodeTaint[];
  /** What BottlerocketNodeGroups have applied. */
  readonly applied: readonly AppliedKeys[];
  readonly ready: boolean;
  /** Ready is Unknown: its kubelet has stopped reporting. */
  readonly isUnreachable: boolean;
  /** Its other conditions, in order: `Type` if True, else `Type=Status`, such as `KernelReady=False`. */
  readonly conditions: readonly string[];
  /** When the others last changed, epoch milliseconds, by type. */
  readonly clearedAt: Readonly<Record<string, number>>;
  /** When Ready last changed, epoch milliseconds. */
  readonly readySince: number | undefined;
  /** Epoch milliseconds. */
  readonly createdAt: number | undefined;
  /** Boot ID that the kubelet reports; empty when it has reported none. */
  readonly bootID: string;
  /** The extended resources of which it has any to give, in order. */
  readonly devices: readonly string[];
  /** Not all of its labels, taints, conditions and keys of groups are kept. */
  readonly isLarge: boolean;
}

interface RawNode extends KubernetesObject {
  readonly metadata: ObjectMeta & { readonly managedFields?: readonly ManagedFields[] };
  readonly spec?: { readonly unschedulable?: boolean; readonly taints?: readonly NodeTaint[] };
  readonly status?: {
    readonly conditions?: readonly { type: string; status: string; lastTransitionTime?: string }[];
    readonly nodeInfo?: { readonly bootID?: string };
    readonly allocatable?: Readonly<Record<string, string>>;
  };
}

const ANNOTATIONS = [
  ...OWNERSHIP_ANNOTATIONS,
  OUT_OF_SERVICE_ANNOTATION,
  ...AUTOSCALER_HOLDS,
  PRIORITY_ANNOTATION,
  SKIP_ANNOTATION,
  GROUP_KEYS_ANNOTATION,
  GROUP_TAINTS_ANNOTATION,
];

/**
 * A kubelet decides on the size of its Node. Real ones have far less. Of labels beyond this, only those of the operator
 * are kept, and those that no kubelet can set: without these it would leave its group, and lose the taints of that.
 */
const MAX_LABEL_CHARS = 65_536;
/** Of the taints and of the conditions. */
const MAX_ITEMS = 200;
const MAX_NAME = 317;

export function readNode(raw: unknown): NodeView {
  const { metadata, spec = {}, status = {}, isLarge } = reduced(raw as RawNode);
  const { unschedulable = false, taints = [] } = (raw as RawNode).spec ?? {};
  const { applied, omitted } = appliedKeys(metadata.managedFields);
  return {
    metadata: readMetadata(metadata, applied),
    unschedulable,
    hasWaitingTaint: taints.some(({ key }) => key === WAITING_TAINT),
    hasStartupTaint: taints.some(({ key }) => key === STARTUP_TAINT),
    hasOutOfServiceTaint: taints.some(({ key }) => key === OUT_OF_SERVICE_TAINT),
    taints: (spec.taints ?? []).map(({ key, value = '', effect }) => ({ key, value, effect })),
    applied,
    createdAt: parseTime(metadata.creationTimestamp),
    ...readReady(status.conditions),
    conditions: otherConditions(status.conditions),
    clearedAt: changesOf(status.conditions),
    devices: devicesOf(status),
    bootID: truncated(status.nodeInfo?.bootID ?? '', MAX_NAME),
    isLarge: isLarge || omitted > 0,
  };
}

/** Returns the Node with as much as is kept of what its kubelet may fill. */
function reduced(raw: RawNode): RawNode & { readonly isLarge: boolean } {
  const { metadata, spec = {}, status = {} } = raw;
  const { labels = {} } = metadata;
  const { taints = [] } = spec;
  const { conditions = [] } = status;
  const hasManyLabels = JSON.stringify(labels).length > MAX_LABEL_CHARS;
  const named = conditions.filter(({ type, status: found }) => type.length + found.length <= MAX_NAME);
  const kept = named.slice(0, MAX_ITEMS);
  return {
    metadata: { ...metadata, labels: hasManyLabels ? pick(labels, keptOf(labels)) : labels },
    spec: { taints: taints.slice(0, MAX_ITEMS) },
    status: { ...status, conditions: kept },
    isLarge: hasManyLabels || taints.length > MAX_ITEMS || kept.length < conditions.length,
  };
}

function keptOf(labels: Readonly<Record<string, string>>): readonly string[] {
  return [...OWN_LABELS, ...Object.keys(labels).filter(isProtectedLabel)];
}

function devicesOf({ allocatable = {} }: NonNullable<RawNode['status']>): readonly string[] {
  const found = Object.entries(allocatable).filter(([name, count]) => isExtended(name) && count !== '0');
  const names = found.map(([name]) => name).filter((name) => name.length <= MAX_NAME);
  return names.slice(0, MAX_ITEMS).toSorted();
}

type Conditions = NonNullable<RawNode['status']>['conditions'];

function readReady(conditions: Conditions = []): Pick<NodeView, 'ready' | 'isUnreachable' | 'readySince'> {
  const { status, lastTransitionTime } = conditions.find(({ type }) => type === 'Ready') ?? {};
  return { ready: status === 'True', isUnreachable: status === 'Unknown', readySince: parseTime(lastTransitionTime) };
}

function otherConditions(conditions: Conditions = []): readonly string[] {
  return conditions
    .flatMap(({ type, status }) => (type === 'Ready' ? [] : [status === 'True' ? type : `${type}=${status}`]))
    .toSorted();
}

function changesOf(conditions: Conditions = []): Readonly<Record<string, number>> {
  return Object.fromEntries(
    conditions.flatMap(({ type, lastTransitionTime }) => {
      const time = type === 'Ready' ? undefined : parseTime(lastTransitionTime);
      return time === undefined ? [] : [[type, time]];
    }),
  );
}

function readMetadata(
  { name, uid, resourceVersion, creationTimestamp = '', deletionTimestamp, labels = {}, annotations }: ObjectMeta,
  applied: readonly AppliedKeys[],
): ObjectMeta {
  const metadata = {
    name,
    uid,
    resourceVersion,
    creationTimestamp,
    labels,
    annotations: pick(annotations, [...ANNOTATIONS, ...applied.flatMap((one) => one.annotations)]),
  };
  return deletionTimestamp === undefined ? metadata : { ...metadata, deletionTimestamp };
}

export function pick(
  from: Readonly<Record<string, string>> | undefined,
  keys: readonly string[],
): Readonly<Record<string, string>> {
  if (from === undefined) return {};
  const found = [...new Set(keys)].filter((key) => Object.hasOwn(from, key));
  return Object.fromEntries(found.map((key) => [key, from[key] ?? '']));
}

export function bearsOwnership(node: NodeView): boolean {
  return ownedByUs(node) || node.hasWaitingTaint || node.hasStartupTaint || outOfServiceByUs(node);
}

/** True when a group may have given something to the Node. */
export function hasGroupMetadata({ applied, metadata: { annotations = {} } }: NodeView): boolean {
  const records = [GROUP_KEYS_ANNOTATION, GROUP_TAINTS_ANNOTATION];
  return applied.length > 0 || records.some((name) => annotations[name] !== undefined);
}

/** True when the operator has tainted the Node as out of service. */
export function outOfServiceByUs({ metadata: { annotations = {} } }: NodeView): boolean {
  return annotations[OUT_OF_SERVICE_ANNOTATION] !== undefined;
}

/**
 * On a Node whose machine is about to be removed, or is off, by who sets them: cluster-autoscaler, Karpenter,
 * aws-node-termination-handler, GKE, and the cloud controller managers. Not those of a machine that may well stay, such as
 * DeletionCandidateOfClusterAutoscaler and aws-node-termination-handler/rebalance-recommendation.
 */
const REMOVAL_TAINTS = [
  'ToBeDeletedByClusterAutoscaler',
  'karpenter.sh/disrupted',
  'karpenter.sh/disruption',
  'aws-node-termination-handler/spot-itn',
  'aws-node-termination-handler/asg-lifecycle-termination',
  'cloud.google.com/impending-node-termination',
  'node.cloudprovider.kubernetes.io/shutdown',
];

/** True for a Node that is being deleted, or whose machine is about to be removed. */
export function isBeingRemoved({ metadata, taints }: NodeView): boolean {
  return metadata.deletionTimestamp !== undefined || taints.some(({ key }) => REMOVAL_TAINTS.includes(key));
}

/** True for a Node that is not Ready or is being removed. */
export function isDown(node: NodeView): boolean {
  return !node.ready || isBeingRemoved(node);
}

/** The zone of a node. Nodes without a zone share the empty one. */
export function zoneOf({ metadata: { labels = {} } }: NodeView): string {
  return labels[ZONE_LABEL] ?? '';
}

/** True for a managed node that the configuration selects. */
export function isSelected(node: NodeView, { nodeSelector }: UpdatePolicy): boolean {
  return isManaged(node) && (nodeSelector === undefined || selects(nodeSelector, node.metadata.labels ?? {}));
}

/** Why a user has left the node out: any value of the annotation other than false; undefined: it is not left out. */
export function skippedBy({ metadata: { annotations } }: NodeView): string | undefined {
  const value = annotations?.[SKIP_ANNOTATION];
  return value === 'false' ? undefined : value;
}

/** Of kubeadm, also before Kubernetes 1.24, and of distributions with etcd on nodes of its own. */
const CONTROL_PLANE_LABELS = ['control-plane', 'master', 'controlplane', 'etcd'].map(
  (role) => `node-role.kubernetes.io/${role}`,
);

/** What decides whether, and with which others, a node is updated, beside labels that no kubelet can set. */
const OWN_LABELS = [MANAGED_LABEL, ZONE_LABEL, EXCLUSION_LABEL];

export function isControlPlane({ metadata: { labels = {} } }: NodeView): boolean {
  return CONTROL_PLANE_LABELS.some((label) => labels[label] !== undefined);
}

export function isManaged(node: NodeView): boolean {
  return node.metadata.labels?.[MANAGED_LABEL] === MANAGED_LABEL_VALUE;
}

/** True for a Node whose changes may make a plan differ, also without a shadow. */
export function concernsOperator(node: NodeView): boolean {
  return isManaged(node) || bearsOwnership(node) || hasGroupMetadata(node) || isControlPlane(node);
}
