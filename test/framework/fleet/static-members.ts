/** Members of a quorum that are static pods, and how many of their nodes are away at once. */
import type { V1Node, V1Pod } from '@kubernetes/client-node';
import type { BrupopConfigSpec } from '../../../packages/shared/src/api/config-spec.ts';
import type { Api } from '../control-plane/api.ts';
import { eventually } from '../eventually.ts';
import { mirrorPod } from './compromised-node.ts';
import type { FleetContext } from './with-fleet.ts';

/** The namespace of the members. */
export const DATABASES = 'databases';
const PODS = `/api/v1/namespaces/${DATABASES}/pods`;
/** Kubelets cannot set it. */
const MEMBER_LABEL = 'node-restriction.kubernetes.io/quorum';

type Quorum = NonNullable<NonNullable<BrupopConfigSpec['quorums']>[number]>;

/** The set `name`, of static pods on the nodes that {@link createMembers} gave to it. */
export function staticQuorum(name: string, members: number, more: Partial<Quorum> = {}): Quorum {
  return {
    name,
    namespace: DATABASES,
    podSelector: { matchLabels: { app: name } },
    nodeSelector: { matchLabels: { [MEMBER_LABEL]: name } },
    members,
    ...more,
  };
}

/** What the kubelet of the node creates for a static pod. */
export function staticMember(node: V1Node, quorum: string, labels: Readonly<Record<string, string>> = {}): V1Pod {
  const name = node.metadata?.name ?? '';
  const { annotations, ownerReferences } = mirrorPod(node, { namespace: DATABASES }).metadata ?? {};
  return {
    metadata: {
      name: `${quorum}-${name}`,
      namespace: DATABASES,
      labels: { app: quorum, ...labels },
      ...(annotations && { annotations }),
      ...(ownerReferences && { ownerReferences }),
    },
    spec: { containers: [{ name: 'main', image: 'main' }], nodeName: name },
  };
}

/** Creates a static pod on each of the nodes, and waits until all are Ready. */
export async function createMembers(
  { cluster }: { readonly cluster: { readonly api: Api } },
  quorum: string,
  nodes: readonly string[],
  labelsOf: (node: string) => Readonly<Record<string, string>> = () => ({}),
): Promise<void> {
  const { api } = cluster;
  await createNamespaceOnce(api);
  for (const name of nodes) {
    await api.patch(`/api/v1/nodes/${name}`, { metadata: { labels: { [MEMBER_LABEL]: quorum } } });
    const node = await api.get<V1Node>(`/api/v1/nodes/${name}`);
    await api.create(PODS, staticMember(node, quorum, labelsOf(name)));
  }
  for (const name of nodes) await eventually(async () => expect(await isReady(api, `${quorum}-${name}`)).toBe(true));
}

async function createNamespaceOnce(api: Api): Promise<void> {
  const { items } = await api.get<{ items: { metadata: { name: string } }[] }>('/api/v1/namespaces');
  if (items.some(({ metadata }) => metadata.name === DATABASES)) return;
  await api.create('/api/v1/namespaces', { metadata: { name: DATABASES } });
}

async function isReady(api: Api, pod: string): Promise<boolean> {
  const { status } = await api.get<V1Pod>(`${PODS}/${pod}`);
  return status?.conditions?.some((one) => one.type === 'Ready' && one.status === 'True') === true;
}

/** The most of these nodes that were seen cordoned or not Ready at once from now on, and the order in which they were first. */
export function awayOf({ fleet }: FleetContext, nodes: readonly string[]): { most: number; readonly order: string[] } {
  const away = new Set<string>();
  const seen = { most: 0, order: [] as string[] };
  fleet.observer.nodes.subscribe(({ object: { metadata, spec, status } }) => {
    const { name } = metadata;
    if (!nodes.includes(name)) return;
    const isThere = status?.conditions?.some((one) => one.type === 'Ready' && one.status === 'True') === true;
    if (isThere && spec?.unschedulable !== true) away.delete(name);
    else away.add(name);
    if (away.has(name) && !seen.order.includes(name)) seen.order.push(name);
    seen.most = Math.max(seen.most, away.size);
  });
  return seen;
}
