import type { KubeClient } from '@brupop/shared/kube/client';
import { hasStatus } from '@brupop/shared/kube/error';
import { corePath } from '@brupop/shared/kube/paths';
import { type Clock, rfc3339 } from '@brupop/shared/runtime/clock';
import { KUBELET_ADDRESS } from './log-server.ts';
import type { Pod } from './pod.ts';
import { persistently } from './retry.ts';

interface NodeObject {
  readonly status?: { readonly addresses?: readonly { readonly type: string; readonly address: string }[] };
}

/**
 * The InternalIP of a node, or `127.0.0.1` when it has none. Throws KubeError when there is no such
 * node.
 */
export async function nodeAddress(
  client: KubeClient,
  clock: Clock,
  name: string,
  signal: AbortSignal,
): Promise<string> {
  const path = corePath('nodes', { name });
  const node = await persistently(clock, signal, () => client.request<NodeObject>({ method: 'GET', path, signal }));
  return node.status?.addresses?.find(({ type }) => type === 'InternalIP')?.address ?? '127.0.0.1';
}

/** Writes to the status of a node where kube-apiserver asks for the logs of its pods. */
export async function announce(
  client: KubeClient,
  clock: Clock,
  node: { readonly name: string; readonly port: number },
  signal: AbortSignal,
): Promise<void> {
  const addresses = [{ type: 'ExternalIP', address: KUBELET_ADDRESS }];
  const request = {
    method: 'PATCH',
    path: corePath('nodes', { name: node.name, subresource: 'status' }),
    body: { status: { addresses, daemonEndpoints: { kubeletEndpoint: { Port: node.port } } } },
    contentType: 'application/strategic-merge-patch+json',
    signal,
  } as const;
  await persistently(clock, signal, () => client.request(request));
}

/** What the node lifecycle controller writes to the pods of a node that is not Ready. */
export async function markPodNotReady(client: KubeClient, clock: Clock, pod: Pod, signal: AbortSignal): Promise<void> {
  const { namespace, name, uid } = pod.metadata;
  const condition = { type: 'Ready', status: 'False', lastTransitionTime: rfc3339(clock.now()) };
  const request = {
    method: 'PATCH',
    path: corePath('pods', { namespace, name, subresource: 'status' }),
    body: { metadata: { uid }, status: { conditions: [condition] } },
    contentType: 'application/strategic-merge-patch+json',
    signal,
  } as const;
  await persistently(clock, signal, () => client.request(request)).catch((error: unknown) => {
    if (!hasStatus(error, 404) && !hasStatus(error, 409)) throw error;
  });
}
