import type { AgentShadow, SpecReference } from '../../../packages/shared/src/api/agent-protocol.ts';
import type { AgentStatus, BottlerocketShadow } from '../../../packages/shared/src/api/shadow.ts';
import type { Connection } from '../control-plane/connection.ts';
import type { AgentClient } from './agent-client.ts';
import type { Agent } from './cluster.ts';

export function shadowPath(namespace: string, node?: string): string {
  const collection = `/apis/brupop.bottlerocket.aws/v2/namespaces/${namespace}/bottlerocketshadows`;
  return node === undefined ? collection : `${collection}/brs-${node}`;
}

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
  const { status } = await client.act<AgentShadow>(agent, 'shadow');
  if (status >= 300) throw new Error(`PUT shadow: ${status}`);
  return await wantState(cluster, namespace, agent.node, 'RebootedIntoUpdate');
}
