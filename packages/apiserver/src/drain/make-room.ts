import type { DrainResult } from '@brupop/shared/api/agent-protocol';
import { APISERVER, COMPONENT_LABEL } from '@brupop/shared/api/names';
import { type DrainPod, isTerminating, podKey, slimPod } from '@brupop/shared/drain/pods';
import type { KubeClient } from '@brupop/shared/kube/client';
import { corePath } from '@brupop/shared/kube/paths';
import type { EvictionOutcome } from './eviction.ts';

export interface MakeRoomOptions {
  readonly client: KubeClient;
  /** Namespace of the operator. */
  readonly namespace: string;
  readonly node: string;
  readonly evict: (pod: DrainPod) => Promise<EvictionOutcome>;
  readonly signal: AbortSignal;
}

/**
 * Evicts one of the apiserver's own pods from a node on which all of them may run, this one perhaps: on the cordoned node no other can start, so
 * its replacement runs elsewhere and can drain. The disruption budget of these pods keeps the others until then. Throws KubeError.
 */
export async function makeRoom({ client, namespace, node, evict, signal }: MakeRoomOptions): Promise<DrainResult> {
  const query = { labelSelector: `${COMPONENT_LABEL}=${APISERVER}`, fieldSelector: `spec.nodeName=${node}` };
  const path = corePath('pods', { namespace });
  const { items } = await client.request<{ items: unknown[] }>({ method: 'GET', path, query, signal });
  const pods = items.map((raw) => slimPod(raw));
  const leaving = pods.some(isTerminating);
  const [first] = pods;
  const outcome = leaving || first === undefined ? undefined : await evict(first);
  const blockedBy =
    outcome?.kind === 'blocked' && first !== undefined ? [{ pod: podKey(first), ...outcome.block }] : [];
  return { done: false, evicted: outcome?.kind === 'accepted' ? 1 : 0, remaining: pods.length, blockedBy };
}
