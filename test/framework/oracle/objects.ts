/** Objects of the fleet as the API server holds them: JSON, without anything that a planner has made of it. */
export interface Metadata {
  readonly name: string;
  readonly namespace?: string;
  readonly uid: string;
  readonly resourceVersion: string;
  readonly generation?: number;
  readonly creationTimestamp: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  readonly ownerReferences?: readonly object[];
}

export interface Taint {
  readonly key: string;
  readonly value?: string;
  readonly effect: string;
}

export interface RawNode {
  readonly metadata: Metadata;
  readonly spec: { readonly unschedulable?: boolean; readonly taints: readonly Taint[] };
  readonly status: {
    readonly conditions: readonly {
      readonly type: string;
      readonly status: string;
      readonly lastTransitionTime: string;
    }[];
    readonly nodeInfo: { readonly bootID: string };
  };
}

export interface RawSetting {
  readonly key: string;
  readonly value: string;
  readonly owner: string;
}

export interface RawShadowSpec {
  readonly state: string;
  readonly version?: string | null;
  readonly state_transition_timestamp?: string | null;
  readonly settings?: { readonly leaves: readonly RawSetting[]; readonly allow: string } | null;
}

export interface RawShadow {
  readonly metadata: Metadata & { readonly generation: number };
  readonly spec: RawShadowSpec;
  readonly status: Readonly<Record<string, unknown>>;
}

export interface RawObject {
  readonly metadata: Metadata;
  readonly spec: Readonly<Record<string, unknown>>;
  readonly status?: Readonly<Record<string, unknown>>;
}

export const START = Date.UTC(2027, 0, 15, 8);
export const NAMESPACE = 'brupop';
const MANAGED = { 'bottlerocket.aws/updater-interface-version': '2.0.0' };

export function timeOf(ms: number): string {
  return new Date(ms).toISOString().replace(/\.\d+Z$/u, 'Z');
}

const DAY_MS = 86_400_000;

/** A Ready node with the label of managed nodes, in one of three zones and one of two pools. */
export function newNode(index: number, uid: string): RawNode {
  const at = timeOf(START - DAY_MS);
  const role = index === 5 || index === 4 ? { 'node-role.kubernetes.io/control-plane': '' } : {};
  const labels = {
    ...MANAGED,
    ...role,
    pool: index % 2 === 0 ? 'even' : 'odd',
    'topology.kubernetes.io/zone': `z${index % 3}`,
  };
  return {
    metadata: {
      name: `node-${index}`,
      uid,
      resourceVersion: '1',
      creationTimestamp: timeOf(START - 30 * DAY_MS),
      labels,
      annotations: {},
    },
    spec: { taints: [] },
    status: {
      conditions: [{ type: 'Ready', status: 'True', lastTransitionTime: at }],
      nodeInfo: { bootID: 'boot-0' },
    },
  };
}

/** As the controller creates it, before its agent has reported. */
export function newShadow(node: RawNode, uid: string, now: number): RawShadow {
  const owner = { apiVersion: 'v1', kind: 'Node', name: node.metadata.name, uid: node.metadata.uid };
  const name = `brs-${node.metadata.name}`;
  const own = { labels: {}, annotations: {}, ownerReferences: [owner] };
  return {
    metadata: {
      name,
      namespace: NAMESPACE,
      uid,
      resourceVersion: '1',
      generation: 1,
      creationTimestamp: timeOf(now),
      ...own,
    },
    spec: { state: 'Idle' },
    status: {},
  };
}

export function newObject(name: string, uid: string, spec: RawObject['spec'], generation: number): RawObject {
  const metadata = {
    name,
    uid,
    resourceVersion: String(generation),
    generation,
    creationTimestamp: timeOf(START),
    labels: {},
    annotations: {},
  };
  return { metadata, spec };
}

const WEB = { apiVersion: 'apps/v1', kind: 'ReplicaSet', name: 'web', uid: 'web', controller: true };
const DB = { apiVersion: 'apps/v1', kind: 'StatefulSet', name: 'db', uid: 'db', controller: true };

const LABELS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  member: { app: 'db' },
  held: { app: 'held' },
  last: { app: 'held', 'brupop.bottlerocket.aws/drain': 'last' },
};

/** The member on the first node leads. */
function labelsOf(kind: string, node: string): Readonly<Record<string, string>> {
  const labels = LABELS[kind] ?? { app: 'web' };
  return kind === 'member' && node === 'node-0' ? { ...labels, role: 'leader' } : labels;
}

/** A pod of one of the kinds of `events.ts`. */
export function newPod(kind: string, node: string, since: string, isReady = true): object {
  const name = `${kind}-${node}`;
  const ready = isReady && kind !== 'unready' && kind !== 'crashing';
  const running = { state: { running: { startedAt: since } } };
  const waiting = { state: { waiting: { reason: 'CrashLoopBackOff' } }, restartCount: 7 };
  const stays = { finalizers: ['example.com/slow'], deletionTimestamp: timeOf(START) };
  return {
    metadata: {
      name,
      namespace: 'apps',
      uid: name,
      resourceVersion: '1',
      creationTimestamp: timeOf(START - DAY_MS),
      labels: labelsOf(kind, node),
      ...(kind !== 'bare' && { ownerReferences: [kind === 'member' ? DB : WEB] }),
      ...(kind === 'finalizer' && stays),
    },
    spec: { nodeName: node },
    status: {
      phase: 'Running',
      conditions: [{ type: 'Ready', status: ready ? 'True' : 'False', lastTransitionTime: since }],
      containerStatuses: [kind === 'crashing' ? waiting : running],
    },
  };
}

/** Of the pods with the label app=held. */
export function newBudget(allows: number, field: 'minAvailable' | 'maxUnavailable'): object {
  return {
    metadata: { name: 'held', namespace: 'apps', uid: 'held', resourceVersion: `${allows}${field}`, generation: 1 },
    spec: { selector: { matchLabels: { app: 'held' } }, [field]: field === 'minAvailable' ? 1 : allows },
    status: {
      observedGeneration: 1,
      disruptionsAllowed: allows,
      currentHealthy: 1,
      desiredHealthy: 1 - allows,
      expectedPods: 1,
    },
  };
}
