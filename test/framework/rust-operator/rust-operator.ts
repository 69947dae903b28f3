/** The Rust operator as the takeover finds it: its objects, and what its agents and its controller write. */
import { join } from 'node:path';
import type { V1Node } from '@kubernetes/client-node';
import { GROUP, SHADOW_PLURAL } from '../../../packages/shared/src/api/names.ts';
import type { BottlerocketShadow } from '../../../packages/shared/src/api/shadow.ts';
import { helm, releaseNamespace } from '../chart.ts';
import { runCommands } from '../commands.ts';
import type { Connection } from '../control-plane/connection.ts';

/** The folder with its two charts, `crd` and `operator`. */
export const rustOperator = import.meta.dirname;
export const definition = `/apis/apiextensions.k8s.io/v1/customresourcedefinitions/${SHADOW_PLURAL}.${GROUP}`;
export const shadows = `/apis/${GROUP}/v2/namespaces/${releaseNamespace}/${SHADOW_PLURAL}`;

export type State = BottlerocketShadow['spec']['state'];

/** Installs both charts; `take` has the options of the one of the definition. */
export async function installRustOperator(cluster: Connection, take: readonly string[] = []): Promise<void> {
  const release = ['--namespace', 'default'];
  await helm(cluster, 'install', 'brupop-crd', join(rustOperator, 'crd'), ...release, ...take);
  await runCommands(cluster, `kubectl wait --for=condition=Established crd/${SHADOW_PLURAL}.${GROUP}`);
  await helm(cluster, 'install', 'brupop', join(rustOperator, 'operator'), ...release);
}

/** A shadow as the agent and the controller of the Rust operator leave it. */
export async function createShadow(
  { api }: Connection,
  node: string,
  desired: State,
  current: State | undefined,
  timestamp = '2026-01-01T00:00:00.123456789+00:00',
): Promise<void> {
  const { metadata } = await api.get<V1Node>(`/api/v1/nodes/${node}`);
  const owner = { apiVersion: 'v1', kind: 'Node', name: node, uid: metadata?.uid };
  await api.create(shadows, {
    apiVersion: `${GROUP}/v2`,
    kind: 'BottlerocketShadow',
    metadata: { name: `brs-${node}`, ownerReferences: [owner] },
    spec: { state: desired, version: desired === 'Idle' ? null : '1.27.0', state_transition_timestamp: timestamp },
  });
  if (current !== undefined) await report(api, node, current);
}

/** What the agent of the Rust operator writes. */
export async function report(api: Connection['api'], node: string, current: State): Promise<void> {
  const failed =
    current === 'ErrorReset'
      ? { crash_count: 1, state_transition_failure_timestamp: '2026-01-01T00:01:00+00:00' }
      : { crash_count: 0, state_transition_failure_timestamp: null };
  const status = { current_state: current, current_version: '1.26.0', target_version: '1.27.0', ...failed };
  await api.patch(`${shadows}/brs-${node}/status`, { status });
}
