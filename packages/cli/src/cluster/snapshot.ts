/** What the planner of the controller decides on, made of lists instead of watches. */
import { type BrupopConfig, readBrupopConfig } from '@brupop/shared/api/brupop-config';
import { CONFIG_NAME, CONTROLLER } from '@brupop/shared/api/names';
import type { BottlerocketNodeGroup } from '@brupop/shared/api/node-group';
import { indexedBudgets } from '@brupop/shared/drain/budget-index';
import { type Budget, slimBudget } from '@brupop/shared/drain/budgets';
import { readList } from '@brupop/shared/kube/list';
import { canBeName, configPath, corePath, groupPath, leasePath } from '@brupop/shared/kube/paths';
import { NO_PODS_LISTED } from '@brupop/controller/cluster/all-pods';
import { CONNECTED } from '@brupop/controller/cluster/connectivity';
import { readPod } from '@brupop/controller/cluster/needs';
import { bearsOwnership, isManaged, type NodeView, readNode } from '@brupop/controller/cluster/node';
import { rulesFor } from '@brupop/controller/cluster/policies';
import { nodeOf, readShadow, type ShadowView } from '@brupop/controller/cluster/shadow';
import type { ManagedNode, PodsOfNode, Snapshot } from '@brupop/controller/cluster/snapshot';
import { readNodeGroups } from '@brupop/controller/policy/node-groups';
import { readPolicy } from '@brupop/controller/policy/policy';
import type { Client } from './client.ts';
import { namespaceOf, readGroups, readIfAllowed, shadowsPath } from './fleet.ts';

export interface Objects {
  readonly config: BrupopConfig | undefined;
  readonly groups: readonly BottlerocketNodeGroup[];
  readonly nodes: readonly NodeView[];
  readonly shadows: readonly ShadowView[];
  readonly budgets: readonly Budget[];
  /** The node of the leading controller, which starts after others; empty: not known. */
  readonly leaderNode: string;
  /** The API server of the operator has the right to delete pods, or that is not known. */
  readonly mayForce: boolean;
  /** By the name of the node. */
  readonly pods: ReadonlyMap<string, PodsOfNode>;
}

/** Without pods. Throws UsageError as `namespaceOf` does, and KubeError. */
export async function readObjects(client: Client): Promise<Objects> {
  const list = async <T>(path: string, slim: (raw: unknown) => T): Promise<readonly T[]> =>
    (await readList(client, { path, slim })).items;
  const [configs, groups, nodes, shadows, budgets] = await Promise.all([
    list(configPath(), readBrupopConfig),
    readGroups(client),
    list(corePath('nodes'), readNode),
    list(shadowsPath(client), readShadow),
    list(groupPath('policy/v1', 'poddisruptionbudgets'), slimBudget),
  ]);
  const config = configs.find(({ metadata }) => metadata.name === CONFIG_NAME);
  const namespace = namespaceOf({ namespace: client.namespace, shadows }) ?? '';
  const [leaderNode, mayForce] = await Promise.all([leaderNodeIn(client, namespace), mayForceIn(client, namespace)]);
  return { config, groups, nodes, shadows, budgets, leaderNode, mayForce, pods: new Map() };
}

interface Deployment {
  readonly spec?: { readonly template?: { readonly spec?: { readonly containers?: readonly Container[] } } };
}

interface Container {
  readonly env?: readonly { readonly name: string; readonly value?: string }[];
}

/** The value drain.allowForce of the chart, as controllers get it; true if that is not known. Throws KubeError. */
async function mayForceIn(client: Client, namespace: string): Promise<boolean> {
  if (namespace === '') return true;
  const path = groupPath('apps/v1', 'deployments', { namespace, name: CONTROLLER });
  const deployment = await readIfAllowed<Deployment>(client, path);
  const containers = deployment?.spec?.template?.spec?.containers;
  const variables = containers?.flatMap(({ env = [] }) => env);
  return variables?.some(({ name, value }) => name === 'DRAIN_ALLOW_FORCE' && value === 'true') ?? true;
}

/** Empty without a leader, and for a user who may not read its Lease or its pod. Throws KubeError. */
async function leaderNodeIn(client: Client, namespace: string): Promise<string> {
  if (namespace === '') return '';
  const path = leasePath({ namespace, name: CONTROLLER });
  const lease = await readIfAllowed<{ spec?: { holderIdentity?: string } }>(client, path);
  // The name of the pod, which has no underscore, and its UID.
  const [name = ''] = (lease?.spec?.holderIdentity ?? '').split('_', 1);
  if (!canBeName(name)) return '';
  const pod = await readIfAllowed<{ spec?: { nodeName?: string } }>(client, corePath('pods', { namespace, name }));
  return pod?.spec?.nodeName ?? '';
}

/** The pods on a node, as the controller lists them. Throws KubeError. */
export async function readPods(client: Client, { metadata }: NodeView, now: number): Promise<PodsOfNode> {
  const query = { fieldSelector: `spec.nodeName=${metadata.name}` };
  const { items: pods } = await readList(client, { path: corePath('pods'), query, slim: readPod });
  const namespaces = new Set(pods.map((pod) => pod.metadata.namespace ?? ''));
  return { nodeUID: metadata.uid, pods, namespaces, seenAt: now, problem: undefined, retryAt: 0 };
}

/**
 * What only a controller knows is as if all were well: which Leases have expired, checks, members of quorums, pods of
 * other nodes and of those that were updated just now, and since when it has seen a state.
 */
export function snapshotOf(objects: Objects, now: number): Snapshot {
  const { config, nodes, pods } = objects;
  const policy = readPolicy(config);
  const alive = objects.groups.filter(({ metadata }) => metadata.deletionTimestamp === undefined);
  const groups = readNodeGroups(alive, policy);
  return {
    managedNodes: managedNodes(objects, now).map((one) => ({ ...one, ...rulesFor(one, { fleet: policy, groups }) })),
    nodes,
    config,
    policy,
    groups,
    groupObjects: objects.groups,
    metadataNotes: new Map(),
    pods,
    observed: new Map(nodes.map(({ metadata: { name, uid } }) => [name, { nodeUID: uid, pods: [], listedAt: [now] }])),
    allPods: NO_PODS_LISTED,
    memberPods: new Map(),
    budgets: indexedBudgets(objects.budgets),
    watchLags: [],
    connectivity: CONNECTED,
    clockSkewMs: undefined,
    checks: { namespace: '', evaluations: new Map(), jobs: new Map() },
    ownNamespace: namespaceOf(objects) ?? '',
    mayForce: objects.mayForce,
    ownNode: objects.leaderNode,
  };
}

function managedNodes({ nodes, shadows }: Objects, now: number): Omit<ManagedNode, 'group' | 'policy'>[] {
  const byNode = new Map(shadows.map((shadow) => [nodeOf(shadow), shadow]));
  const known = new Map(nodes.map((node) => [node.metadata.name, node]));
  const names = new Set([...known.keys(), ...byNode.keys()]);
  return [...names].toSorted().flatMap((name) => {
    const [node, shadow] = [known.get(name), byNode.get(name)];
    const counts = shadow !== undefined || (node !== undefined && (isManaged(node) || bearsOwnership(node)));
    return counts ? [{ name, node, shadow, missingSince: now }] : [];
  });
}
