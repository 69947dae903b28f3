/** Lists the pods of a scope, in pages; only pods that wait in CrashLoopBackOff, and the UIDs of the others, are kept. */
import type { RecoveryService } from '@brupop/shared/api/config-recovery';
import { selectorText } from '@brupop/shared/api/label-selector';
import { MAX_PODS_OF_NODE } from '@brupop/shared/drain/pods';
import type { KubeClient } from '@brupop/shared/kube/client';
import { readList } from '@brupop/shared/kube/list';
import { corePath } from '@brupop/shared/kube/paths';
import { type ListedPod, listedPod } from './pods.ts';

/** Of a selector; with more, none of them is evicted. */
const MAX_SELECTED = 20_000;

/** Throws KubeError. */
export async function podsOfService(
  client: KubeClient,
  { namespace, podSelectors }: RecoveryService,
  signal: AbortSignal,
): Promise<readonly ListedPod[]> {
  const found = new Map<string, ListedPod>();
  for (const selector of podSelectors) {
    const { items } = await readList(client, {
      path: corePath('pods', { namespace }),
      query: { labelSelector: selectorText(selector) },
      signal,
      slim: listedPod,
      maxItems: MAX_SELECTED,
    });
    for (const pod of items) found.set(pod.uid, pod);
  }
  return [...found.values()];
}

/** Throws KubeError. */
export async function podsOnNode(client: KubeClient, name: string, signal: AbortSignal): Promise<readonly ListedPod[]> {
  const { items } = await readList(client, {
    path: corePath('pods'),
    // From the watch cache: other lists read the pods of all nodes up to Kubernetes 1.30.
    query: { fieldSelector: `spec.nodeName=${name}`, resourceVersion: '0' },
    signal,
    slim: listedPod,
    maxItems: MAX_PODS_OF_NODE,
  });
  return items;
}
