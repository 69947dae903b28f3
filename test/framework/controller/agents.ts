import { setTimeout as sleep } from 'node:timers/promises';
import type { V1Node } from '@kubernetes/client-node';
import {
  GROUP,
  SHADOW_KIND,
  SHADOW_PLURAL,
  SHADOW_VERSION,
  shadowName,
} from '../../../packages/shared/src/api/names.ts';
import { rfc3339 } from '../../../packages/shared/src/runtime/clock.ts';
import { UPDATER_DEFAULTS, VERSION_LOCK } from '../../../packages/shared/src/api/settings.ts';
import type { AgentStatus, BottlerocketShadow, SettingsSpec } from '../../../packages/shared/src/api/shadow.ts';
import { releaseNamespace } from '../chart.ts';
import type { ApiError } from '../control-plane/api.ts';
import type { Connection } from '../control-plane/connection.ts';
import { createNode } from '../control-plane/nodes.ts';
import { eventually } from '../eventually.ts';

type Cluster = Pick<Connection, 'api'>;

export const shadowsPath = `/apis/${GROUP}/${SHADOW_VERSION}/namespaces/${releaseNamespace}/${SHADOW_PLURAL}`;
export const managedLabel = { 'bottlerocket.aws/updater-interface-version': '2.0.0' };
export const oldVersion = '1.20.0';
export const newVersion = '1.21.0';
const LATEST = UPDATER_DEFAULTS.get(VERSION_LOCK);

export async function readShadow({ api }: Cluster, node: string): Promise<BottlerocketShadow> {
  return await api.get(`${shadowsPath}/${shadowName(node)}`);
}

export async function readShadows({ api }: Cluster): Promise<readonly BottlerocketShadow[]> {
  return (await api.get<{ items: BottlerocketShadow[] }>(shadowsPath)).items;
}

/** Writes the status of a node's shadow, as its agent does through the apiserver. */
export async function report({ api }: Cluster, node: string, status: Partial<AgentStatus>): Promise<void> {
  await api.patch(`${shadowsPath}/${shadowName(node)}/status`, { status });
}

/** Creates a managed node and its idle shadow. The host offers `target`. */
export async function createMember(
  cluster: Cluster,
  name: string,
  target = newVersion,
  annotations: Readonly<Record<string, string>> = {},
): Promise<V1Node> {
  const node = await createNode(cluster, { name, labels: managedLabel, bootID: `boot-of-${name}`, annotations });
  const owner = { apiVersion: 'v1', kind: 'Node', name, uid: node.metadata?.uid };
  const body = {
    apiVersion: `${GROUP}/${SHADOW_VERSION}`,
    kind: SHADOW_KIND,
    metadata: { name: shadowName(name), ownerReferences: [owner] },
    spec: { state: 'Idle' },
  };
  const status = {
    current_state: 'Idle',
    current_version: oldVersion,
    target_version: target,
    crash_count: 0,
    observedGeneration: 1,
    bootID: `boot-of-${name}`,
  } as const;
  // A controller that runs creates it, too, and deletes that of an earlier Node of this name.
  await eventually(async () => {
    await cluster.api.create(shadowsPath, body).catch((error: unknown) => {
      if ((error as ApiError).status !== 409) throw error;
    });
    const { metadata } = await readShadow(cluster, name);
    const isOwn = metadata.ownerReferences?.some(({ uid }) => uid === owner.uid) === true;
    if (!isOwn) throw new Error(`the shadow of ${name} is that of an earlier Node`);
    await report(cluster, name, status);
  });
  return node;
}

/** Deletes nodes with their shadows. */
export async function deleteMembers({ api }: Cluster, names: readonly string[]): Promise<void> {
  for (const name of names) {
    await api.delete(`/api/v1/nodes/${name}`);
    await api.delete(`${shadowsPath}/${shadowName(name)}`);
  }
}

/** Simulated agents, which report the state of their spec at once. */
export interface Agents {
  /** The most nodes that had a spec other than Idle at the same time. */
  mostUnderWay(): number;
  stop(): Promise<void>;
}

/** Acts as the agents of all shadows, polling every 25 ms, and counts the nodes that update. */
export function playAgents(cluster: Cluster): Agents {
  const stopped = new AbortController();
  let most = 0;
  const play = async (): Promise<void> => {
    while (!stopped.signal.aborted) {
      const items = await readShadows(cluster);
      most = Math.max(most, items.filter(({ spec }) => spec.state !== 'Idle').length);
      for (const shadow of items) await answer(cluster, shadow);
      await sleep(25);
    }
  };
  const playing = play();
  return {
    mostUnderWay: () => most,
    stop: async () => {
      stopped.abort();
      await playing;
    },
  };
}

export function isAnswered({ metadata, status }: BottlerocketShadow): boolean {
  return status?.observedGeneration === metadata.generation;
}

/** Reports the state of the spec, and boots the version that it calls for. */
export async function answer(cluster: Cluster, shadow: BottlerocketShadow): Promise<void> {
  if (isAnswered(shadow)) return;
  const { metadata, spec } = shadow;
  const { generation = 0 } = metadata;
  const reboots = spec.state === 'RebootedIntoUpdate' && spec.version != null;
  const name = metadata.name.slice(shadowName('').length);
  const booted = reboots ? await reboot(cluster, name, generation) : {};
  const reported = report(cluster, name, {
    current_state: spec.state,
    observedGeneration: generation,
    ...(reboots && { current_version: spec.version ?? '' }),
    ...booted,
    ...(spec.settings != null && settingsOf(spec.settings)),
  });
  await reported.catch((error: unknown) => {
    // A test deleted the node since the list.
    if ((error as ApiError).status !== 404) throw error;
  });
}

/** The host has the settings of the spec, and offers the version that it pins. */
function settingsOf({ leaves }: SettingsSpec): Partial<AgentStatus> {
  const records = leaves.map(({ key, value, owner }) => ({ key, value, owner }));
  const lock = leaves.find(({ key }) => key === VERSION_LOCK)?.value;
  return {
    settings: { records },
    ...(lock !== undefined && lock !== LATEST && { target_version: JSON.parse(lock) as string }),
  };
}

/** The node is drained, as the API server records it, and its kubelet reports another boot. */
async function reboot({ api }: Cluster, name: string, generation: number): Promise<Partial<AgentStatus>> {
  const bootID = `boot-of-${name.replaceAll('.', '-')}-${generation}`;
  const drain = { observedGeneration: generation, startTime: rfc3339(Date.now()), evicted: 0, remaining: 0 };
  try {
    await api.patch(`${shadowsPath}/${shadowName(name)}/status`, {
      status: { drain: { ...drain, result: 'Drained' } },
    });
    await api.patch(`/api/v1/nodes/${name}/status`, { status: { nodeInfo: { bootID } } });
  } catch (error) {
    if ((error as ApiError).status !== 404) throw error;
  }
  return { bootID };
}
