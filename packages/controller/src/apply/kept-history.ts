/**
 * The last updates of a node while it is not managed: a ConfigMap of the name of its shadow, in the namespace of the operator,
 * which the garbage collector deletes with the Node (ADR 77). It has the annotations of the shadow as its own.
 *
 *     the label is removed   the ConfigMap is written, then the shadow is deleted
 *     the label returns      the shadow is created with what the ConfigMap has, which remains
 *
 * Both steps may be repeated, so a controller that stops in between loses and doubles nothing. Neither keeps a node from
 * becoming managed or unmanaged: what is rejected is logged, and the history ends there.
 */
import { historyAnnotations, type PastUpdate, readHistory } from '@brupop/shared/api/history';
import type { KubernetesObject } from '@brupop/shared/api/meta';
import { CONTROLLER, HISTORY_ANNOTATION, shadowName } from '@brupop/shared/api/names';
import { isTransient } from '@brupop/shared/kube/error';
import { readList } from '@brupop/shared/kube/list';
import { corePath, shadowPath } from '@brupop/shared/kube/paths';
import { messageOf } from '@brupop/shared/runtime/errors';
import type { NodeView } from '../cluster/node.ts';
import { isOwnedBy, type ShadowView } from '../cluster/shadow.ts';
import type { ApplyContext } from './writer.ts';

/** Throws KubeError while the API server cannot answer, and what it throws once the signal has aborted. */
export async function keepHistory(context: ApplyContext, node: NodeView, shadow: ShadowView): Promise<void> {
  await unlessRejected(context, node, 'cannot keep the history of a node that is not managed any more', async () => {
    const updates = await historyOf(context, shadow);
    if (updates.length > 0) await write(context, node, updates);
  });
}

/** Returns the annotations of the shadow to create. Throws as {@link keepHistory}. */
export async function keptHistory(
  context: ApplyContext,
  node: NodeView,
): Promise<ReturnType<typeof historyAnnotations>> {
  const { client, namespace, signal } = context;
  const path = corePath('configmaps', { namespace, name: shadowName(node.metadata.name) });
  const what = 'cannot read the history of a node from before it was last managed';
  const found = await unlessRejected(context, node, what, () => client.find<KubernetesObject>(path, signal));
  // Another Node may have had the name.
  return found !== undefined && isOwnedBy(found, node) ? historyAnnotations(readHistory(found.metadata)) : {};
}

/** A list of one, since there is no right to get shadows. */
async function historyOf({ client, namespace, signal }: ApplyContext, shadow: ShadowView): Promise<PastUpdate[]> {
  const { items } = await readList(client, {
    path: shadowPath({ namespace }),
    query: { fieldSelector: `metadata.name=${shadow.metadata.name}` },
    signal,
    slim: (raw) => readHistory((raw as KubernetesObject).metadata),
  });
  return items.flat();
}

async function write(context: ApplyContext, node: NodeView, updates: readonly PastUpdate[]): Promise<void> {
  const { client, namespace, logOf, signal } = context;
  const { name: nodeName, uid } = node.metadata;
  const name = shadowName(nodeName);
  const body = {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: {
      name,
      namespace,
      labels: { 'app.kubernetes.io/part-of': 'bottlerocket-update-operator', [HISTORY_ANNOTATION]: '' },
      annotations: historyAnnotations(updates),
      ownerReferences: [{ apiVersion: 'v1', kind: 'Node', name: nodeName, uid }],
    },
  };
  await client.apply(corePath('configmaps', { namespace, name }), body, { fieldManager: CONTROLLER, signal });
  logOf(nodeName).info('history kept', { updates: updates.length });
}

async function unlessRejected<T>(
  { logOf, signal }: ApplyContext,
  node: NodeView,
  what: string,
  send: () => Promise<T>,
): Promise<T | undefined> {
  try {
    return await send();
  } catch (error) {
    if (signal.aborted || isTransient(error)) throw error;
    logOf(node.metadata.name).warn(what, { error: messageOf(error) });
    return undefined;
  }
}
