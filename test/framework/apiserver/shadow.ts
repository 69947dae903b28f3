import type { AgentShadow, SpecReference } from '../../../packages/shared/src/api/agent-protocol.ts';
import type { KubernetesObject } from '../../../packages/shared/src/api/meta.ts';
import { GROUP, SHADOW_KIND, SHADOW_VERSION, shadowName } from '../../../packages/shared/src/api/names.ts';
import type { AgentStatus, BottlerocketShadow } from '../../../packages/shared/src/api/shadow.ts';
import type { Connection } from '../control-plane/connection.ts';
import type { AgentClient } from './agent-client.ts';
import type { Agent } from './cluster.ts';

export function shadowPath(namespace: string, node?: string): string {
  const collection = `/apis/brupop.bottlerocket.aws/v2/namespaces/${namespace}/bottlerocketshadows`;
  return node === undefined ? collection : `${collection}/brs-${node}`;
}

/** The `lastOperation` of a report after a failure to prepare an update. */
export const FAILED_STAGE = {
  operation: 'Stage',
  state: 'Failed',
  version: '1.21.0',
  bootID: '6a7b1c2d-0000-4000-8000-000000000001',
  startTime: '2026-01-02T03:04:05Z',
  lastUpdateTime: '2026-01-02T03:05:05Z',
  errorCode: 'PrepareFailed',
};

/** A report of an idle node. */
export function idleStatus(changes: Partial<AgentStatus> = {}): AgentStatus {
  return {
    current_state: 'Idle',
    current_version: '1.20.0',
    target_version: '1.21.0',
    crash_count: 0,
    observedGeneration: 1,
    bootID: '6a7b1c2d-0000-4000-8000-000000000001',
    ...changes,
  };
}

/** Writes the spec as the controller does, and returns what an agent must quote to act for it. */
export async function wantState(
  cluster: Connection,
  namespace: string,
  node: string,
  state: string,
): Promise<SpecReference> {
  const spec = { state, version: '1.21.0' };
  const { metadata } = await cluster.api.patch<BottlerocketShadow>(shadowPath(namespace, node), { spec });
  return { shadowUID: metadata.uid, generation: metadata.generation ?? 0 };
}

/** Creates the shadow of a node, and sets its spec to a reboot. */
export async function wantReboot(
  cluster: Connection,
  namespace: string,
  client: AgentClient,
  agent: Agent,
): Promise<SpecReference> {
  await ensureShadow(cluster, namespace, agent.node);
  const { status } = await client.act<AgentShadow>(agent, 'shadow');
  if (status >= 300) throw new Error(`PUT shadow: ${status}`);
  return await wantState(cluster, namespace, agent.node, 'RebootedIntoUpdate');
}

/**
 * Creates the shadow of a node unless it exists, as the controller does; one of an earlier Node of
 * that name is replaced. Returns its UID.
 */
export async function ensureShadow({ api }: Connection, namespace: string, node: string): Promise<string> {
  const { metadata } = await api.get<KubernetesObject>(`/api/v1/nodes/${node}`);
  const owner = { apiVersion: 'v1', kind: 'Node', name: node, uid: metadata.uid };
  const body = {
    apiVersion: `${GROUP}/${SHADOW_VERSION}`,
    kind: SHADOW_KIND,
    metadata: { name: shadowName(node), ownerReferences: [{ ...owner, controller: false, blockOwnerDeletion: false }] },
    spec: { state: 'Idle' },
  };
  const known = await api.get<KubernetesObject>(shadowPath(namespace, node)).catch(() => undefined);
  if (known?.metadata.ownerReferences?.[0]?.uid === metadata.uid) return known.metadata.uid;
  if (known !== undefined) await api.delete(shadowPath(namespace, node));
  return (await api.create<KubernetesObject>(shadowPath(namespace), body)).metadata.uid;
}
