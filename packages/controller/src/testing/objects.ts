/** Objects for tests: healthy and at rest unless a test says otherwise. */
import { CORDONED_ANNOTATION, MANAGED_LABEL, MANAGED_LABEL_VALUE, shadowName } from '@brupop/shared/api/names';
import type { BottlerocketNodeGroup } from '@brupop/shared/api/node-group';
import type { NodeRecord } from '@brupop/shared/api/record';
import type { LastOperation, ShadowSpec, ShadowState, ShadowStatus } from '@brupop/shared/api/shadow';
import type { DrainPod } from '@brupop/shared/drain/pods';
import { type Instant, parseTime, rfc3339 } from '@brupop/shared/runtime/clock';
import { NO_PODS_LISTED } from '../cluster/all-pods.ts';
import type { ChecksView } from '../cluster/checks.ts';
import { CONNECTED } from '../cluster/connectivity.ts';
import type { NodeView } from '../cluster/node.ts';
import { rulesFor } from '../cluster/policies.ts';
import { type ShadowView, shadowView } from '../cluster/shadow.ts';
import type { ManagedNode, PodsOfNode, Snapshot } from '../cluster/snapshot.ts';
import type { Drainable } from '../plan/facts/drainability.ts';
import { type NodeGroup, readNodeGroups } from '../policy/node-groups.ts';
import { readPolicy, type UpdatePolicy } from '../policy/policy.ts';

export const NOW = 1_800_000_000_000;
export const MINUTE = 60_000;
export const OLD = '1.20.0';
export const NEW = '1.21.0';

/** RFC 3339 text of the time `ms` before NOW. */
export function ago(ms: number): string {
  return rfc3339(NOW - ms);
}

export interface NodeParts {
  readonly name?: string;
  readonly uid?: string;
  readonly managed?: boolean;
  readonly annotations?: Readonly<Record<string, string>>;
  /** Beside the one of managed nodes. */
  readonly labels?: Readonly<Record<string, string>>;
  readonly creationTimestamp?: string;
  readonly deletionTimestamp?: string;
  readonly unschedulable?: boolean;
  readonly hasWaitingTaint?: boolean;
  readonly hasStartupTaint?: boolean;
  readonly hasOutOfServiceTaint?: boolean;
  readonly taints?: NodeView['taints'];
  readonly applied?: NodeView['applied'];
  readonly ready?: boolean;
  readonly isUnreachable?: boolean;
  readonly conditions?: readonly string[];
  readonly devices?: readonly string[];
  /** RFC 3339, by type. */
  readonly clearedAt?: Readonly<Record<string, string>>;
  /** RFC 3339. */
  readonly readySince?: string;
  readonly bootID?: string;
}

/** A managed, Ready node. */
export function aNode(parts: NodeParts = {}): NodeView {
  const { name = 'node-a', uid = `uid-${name}`, managed = true, annotations = {}, deletionTimestamp } = parts;
  const labels = { ...parts.labels, ...(managed && { [MANAGED_LABEL]: MANAGED_LABEL_VALUE }) };
  const { creationTimestamp, unschedulable, ready, conditions, readySince, bootID } = { ...HEALTHY, ...parts };
  const found = { ...HEALTHY, ...parts };
  const { hasWaitingTaint, hasStartupTaint, hasOutOfServiceTaint, taints, applied, isUnreachable, clearedAt } = found;
  const metadata = { name, uid, resourceVersion: '1', creationTimestamp, labels, annotations };
  return {
    metadata: { ...metadata, ...(deletionTimestamp !== undefined && { deletionTimestamp }) },
    unschedulable,
    hasWaitingTaint,
    hasStartupTaint,
    hasOutOfServiceTaint,
    taints,
    applied,
    ready,
    isUnreachable,
    conditions,
    clearedAt: timesOf(clearedAt),
    readySince: parseTime(readySince),
    createdAt: parseTime(creationTimestamp),
    bootID,
    devices: found.devices,
    isLarge: false,
  };
}

function timesOf(texts: Readonly<Record<string, string>>): NodeView['clearedAt'] {
  return Object.fromEntries(Object.entries(texts).map(([type, text]) => [type, parseTime(text) ?? NaN]));
}

const HEALTHY = {
  creationTimestamp: ago(30 * 24 * 60 * MINUTE),
  unschedulable: false,
  hasWaitingTaint: false,
  hasStartupTaint: false,
  hasOutOfServiceTaint: false,
  taints: [],
  applied: [],
  devices: [],
  ready: true,
  isUnreachable: false,
  conditions: [],
  clearedAt: {},
  readySince: ago(24 * 60 * MINUTE),
  bootID: 'boot-1',
};

export interface ShadowParts {
  readonly node?: string;
  readonly owner?: string;
  readonly uid?: string;
  readonly generation?: number;
  /** By users. */
  readonly annotations?: Readonly<Record<string, string>>;
  readonly record?: NodeRecord;
  readonly spec?: Partial<ShadowSpec>;
  readonly creationTimestamp?: string;
  /** null: no agent has reported. */
  readonly status?: Partial<ShadowStatus> | null;
  readonly progressing?: ShadowView['progressing'];
}

const AFTER_DRAIN: readonly (string | undefined)[] = ['Activate', 'Reboot', 'Restore'];
/** The end of the drain, if the agent reports something that follows one. */
function drained({ spec, status }: ShadowParts, observedGeneration: number): Pick<ShadowStatus, 'drain'> {
  const { current_state: state, lastOperation } = status ?? {};
  const hasStepAfter = state === 'ErrorReset' || AFTER_DRAIN.includes(lastOperation?.operation);
  const isPast = spec?.state === 'MonitoringUpdate' || (spec?.state === 'RebootedIntoUpdate' && hasStepAfter);
  return isPast ? { drain: { ...DRAINED, observedGeneration } } : {};
}

const DRAINED = { startTime: ago(MINUTE), endTime: ago(MINUTE), result: 'Drained', evicted: 0, remaining: 0 } as const;

const AT_REST = { node: 'node-a', generation: 3, annotations: {}, record: {}, progressing: undefined };

/** The shadow of a node at rest that is offered a newer version; its status answers its spec. */
export function aShadow(parts: ShadowParts = {}): ShadowView {
  const { node, generation, annotations, record, progressing } = { ...AT_REST, ...parts };
  const spec: ShadowSpec = {
    state: 'Idle',
    version: null,
    state_transition_timestamp: ago(24 * 60 * MINUTE),
    ...parts.spec,
  };
  const status: ShadowStatus = {
    current_state: spec.state === 'ErrorReset' ? 'Idle' : spec.state,
    current_version: OLD,
    target_version: NEW,
    crash_count: 0,
    state_transition_failure_timestamp: null,
    observedGeneration: generation,
    bootID: 'boot-1',
    ...drained({ ...parts, spec }, generation),
    ...parts.status,
  };
  return shadowView({
    metadata: {
      name: shadowName(node),
      namespace: 'brupop',
      uid: parts.uid ?? `shadow-${node}`,
      resourceVersion: '1',
      generation,
      annotations,
      ownerReferences: [{ apiVersion: 'v1', kind: 'Node', name: node, uid: parts.owner ?? `uid-${node}` }],
      creationTimestamp: parts.creationTimestamp ?? ago(30 * 24 * 60 * MINUTE),
    },
    record,
    spec,
    ...(parts.status !== null && { status }),
    progressing,
    health: [],
    group: '',
  });
}

/** A spec in the given state since `sinceMs` before NOW. */
export function underWay(state: ShadowState, sinceMs = MINUTE): ShadowSpec {
  return { state, version: NEW, state_transition_timestamp: ago(sinceMs) };
}

/** The step that failed. */
export function failure(errorCode: LastOperation['errorCode'], parts: Partial<LastOperation> = {}): LastOperation {
  return {
    operation: 'Stage',
    state: 'Failed',
    version: NEW,
    bootID: 'boot-1',
    startTime: ago(MINUTE),
    lastUpdateTime: ago(MINUTE),
    ...(errorCode !== undefined && { errorCode }),
    ...parts,
  };
}

/** A pair of the same name. */
export function aManagedNode(name: string, node: NodeParts = {}, shadow: ShadowParts = {}): ManagedNode {
  const pair = { node: aNode({ name, ...node }), shadow: aShadow({ node: name, ...shadow }) };
  return { name, ...pair, group: undefined, policy: POLICY, missingSince: NOW };
}

/** What was just seen on a node: by default nothing, so that it can be drained. */
export function podsOf({ metadata: { uid } }: NodeView, pods: readonly DrainPod[] = [], seenAt = NOW): PodsOfNode {
  const namespaces = new Set(pods.map(({ metadata }) => metadata.namespace ?? ''));
  return { nodeUID: uid, pods, namespaces, seenAt, problem: undefined, retryAt: 0 };
}

/** No check is known; Jobs are allowed. */
export const NO_CHECKS_KNOWN: ChecksView = { namespace: 'brupop-checks', evaluations: new Map(), jobs: new Map() };

/** Nothing speaks against a drain. */
export const DRAINABLE: Drainable = {
  block: undefined,
  mayOpen: false,
  fresh: true,
  recheckAt: NOW,
  problem: undefined,
  seenAt: NOW,
  podHealth: () => ({
    unready: [],
    readySince: 0,
    failing: [],
    restarts: new Map(),
    crashing: [],
    notReadySince: new Map(),
    evicted: [],
    ready: new Map(),
    needs: new Map(),
  }),
  pods: [],
};
/** Most tests are about something else: a node that is healthy has succeeded at once, and is not observed after that. */
const MONITORING = { monitoring: { healthyFor: '0s', timeout: '30m' } };
const UNOBSERVED = { watchFor: '0s' };

/** The defaults, but for `monitoring`. */
export const POLICY = readPolicy(configOf({}));

function configOf(spec: unknown): NonNullable<Snapshot['config']> {
  const metadata = { name: 'cluster', uid: 'config', resourceVersion: '1', generation: 1 };
  const health = isObject(spec) && 'health' in spec && isObject(spec.health) ? spec.health : {};
  const whole = isObject(spec) ? { ...MONITORING, ...spec, health: { ...UNOBSERVED, ...health } } : spec;
  return { metadata, spec: whole } as NonNullable<Snapshot['config']>;
}

/** As the cluster does: the same configuration is read once. */
const policies = new WeakMap<object, UpdatePolicy>();

function policyOf(spec: unknown, config: Snapshot['config']): UpdatePolicy {
  const known = isObject(spec) ? policies.get(spec) : undefined;
  const policy = known ?? readPolicy(config);
  if (isObject(spec)) policies.set(spec, policy);
  return policy;
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}

/** `now`: when the pods were seen. */
export function aSnapshot(managedNodes: readonly ManagedNode[], spec?: unknown, now = NOW): Snapshot {
  const config = spec === undefined ? undefined : configOf(spec);
  const pods = new Map(
    managedNodes.flatMap(({ node }) => (node === undefined ? [] : [[node.metadata.name, podsOf(node, [], now)]])),
  );
  const policy = spec === undefined ? POLICY : policyOf(spec, config);
  const own = { mayForce: true, ownNamespace: 'brupop', ownNode: 'own' };
  const rest = {
    budgets: new Map(),
    watchLags: [],
    connectivity: CONNECTED,
    clockSkewMs: 0,
    checks: NO_CHECKS_KNOWN,
    ...own,
  };
  const nodes = managedNodes.flatMap(({ node }) => node ?? []);
  const all = {
    nodes,
    metadataNotes: new Map(),
    allPods: NO_PODS_LISTED,
    memberPods: new Map(),
    config,
    groups: [],
    groupObjects: [],
    pods,
    observed: new Map(),
    ...rest,
  };
  return withPolicy({ managedNodes, policy, ...all }, policy);
}

/** A group named `name` of the nodes with the label `pool` of that value. */
export function aGroup(name: string, spec: Partial<BottlerocketNodeGroup['spec']> = {}): BottlerocketNodeGroup {
  const metadata = { name, uid: `group-${name}`, resourceVersion: '1', generation: 1 };
  return { metadata, spec: { nodeSelector: { matchLabels: { pool: name } }, ...spec } };
}

/** As {@link policies}, by the policy of the fleet. */
const groupsOf = new WeakMap<UpdatePolicy, WeakMap<readonly BottlerocketNodeGroup[], NodeGroup[]>>();

function groupsReadFrom(groupObjects: readonly BottlerocketNodeGroup[], policy: UpdatePolicy): NodeGroup[] {
  const read = groupsOf.get(policy) ?? new WeakMap<readonly BottlerocketNodeGroup[], NodeGroup[]>();
  groupsOf.set(policy, read);
  const groups = read.get(groupObjects) ?? readNodeGroups(groupObjects, policy);
  read.set(groupObjects, groups);
  return groups;
}

export function withGroups(snapshot: Snapshot, groupObjects: readonly BottlerocketNodeGroup[]): Snapshot {
  const groups = groupsReadFrom(groupObjects, snapshot.policy);
  const rules = { fleet: snapshot.policy, groups };
  const managedNodes = snapshot.managedNodes.map((one) => ({ ...one, ...rulesFor(one, rules) }));
  return { ...snapshot, groups, groupObjects, managedNodes };
}

/** The policy holds for the fleet and for each node. */
export function withPolicy(snapshot: Snapshot, policy: UpdatePolicy): Snapshot {
  // A node that has the policy is the same for a plan that keeps what was found of it.
  const managedNodes = snapshot.managedNodes.map((one) => (one.policy === policy ? one : { ...one, policy }));
  return { ...snapshot, policy, managedNodes };
}

/** With the operator's cordon, set `ms` ago. */
export function cordoned(ms: number): { annotations: Record<string, string>; unschedulable: true } {
  return { annotations: { [CORDONED_ANNOTATION]: ago(ms) }, unschedulable: true };
}

export function withoutShadow(managedNode: ManagedNode): ManagedNode {
  return { ...managedNode, shadow: undefined };
}

/** That time on both clocks of a process that started at NOW. */
export function instantAt(wall: number): Instant {
  return { wall, monotonic: wall - NOW };
}
