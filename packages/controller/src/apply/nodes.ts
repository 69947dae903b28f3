/**
 * Cleanups and taints of Nodes. The caches are not of the same instant, and another actor may be
 * faster, so each write is based on a live read or carries the resourceVersion that it was planned
 * from.
 */
import { RESTORE_WRITE_LIMIT_MS } from '@brupop/shared/api/deadlines';
import { AGENT, COMPONENT_LABEL, STARTUP_TAINT, WAITING_TAINT } from '@brupop/shared/api/names';
import type { KubernetesObject } from '@brupop/shared/api/meta';
import { hasStatus } from '@brupop/shared/kube/error';
import { readList } from '@brupop/shared/kube/list';
import { controllerUID, isAgentPod } from '@brupop/shared/node/operator-pods';
import { corePath, groupPath } from '@brupop/shared/kube/paths';
import { releasePatch } from '@brupop/shared/node/ownership';
import type { NodeTaint } from '../cluster/group-metadata.ts';
import { type NodeView, readNode } from '../cluster/node.ts';
import { isOwnedBy, type ShadowView } from '../cluster/shadow.ts';
import { type Cleanup, orphanedAnnotations } from '../upkeep/cleanup.ts';
import type { TaintChange } from '../plan/plan.ts';
import { keepHistory } from './kept-history.ts';
import { type NodeWrite, PRIORITY } from './queue.ts';
import { deleteShadow } from './shadows.ts';
import type { ApplyContext } from './writer.ts';

export function cleanupWrite(context: ApplyContext, cleanup: Cleanup): NodeWrite {
  const { name: object } = cleanup.managedNode;
  const key = `cleanup/${object}`;
  const write = () => context.writer.once(key, () => cleanUpNode(context, cleanup, key));
  return { key, object, priority: PRIORITY.cleanup, write };
}

async function cleanUpNode(context: ApplyContext, cleanup: Cleanup, key: string): Promise<void> {
  const { kind, managedNode } = cleanup;
  const { name, node, shadow } = managedNode;
  if (kind === 'DeleteShadow') {
    if (shadow !== undefined) await deleteOrphan(context, name, shadow, key);
  } else if (kind === 'PruneAnnotations') {
    if (node !== undefined) await pruneAnnotations(context, node, key);
  } else if (kind === 'Restore' || (await agentHasExited(context, name, key))) {
    const restored = await restore(context, cleanup, key);
    if (kind === 'Unmanage' && restored) await unmanage(context, cleanup, key);
  }
}

/** The last request of a node that is not managed any more, so that one that fails is repeated with all before it. */
async function unmanage(
  context: ApplyContext,
  { managedNode: { name, node, shadow }, kept }: Cleanup,
  key: string,
): Promise<void> {
  if (node === undefined || shadow === undefined) return;
  const log = context.logOf(name);
  await context.writer.attempt(
    'shadow_delete',
    key,
    async () => {
      await keepHistory(context, node, shadow);
      // An update may have started since, if the node is managed again.
      const { uid, resourceVersion } = shadow.metadata;
      await deleteShadow(context, shadow, { uid, resourceVersion }, () => {
        if (kept === undefined) return;
        context.events.record(kept);
        log.warn('a node that is not managed any more keeps settings', { code: kept.reason, message: kept.message });
      });
    },
    log,
  );
}

/** Deletes the shadow if a live read confirms that its Node is gone. */
async function deleteOrphan(context: ApplyContext, name: string, shadow: ShadowView, key: string): Promise<void> {
  const remove = async (): Promise<void> => {
    const node = await getNode(context, name);
    if (node === undefined || !isOwnedBy(shadow, node))
      await deleteShadow(context, shadow, { uid: shadow.metadata.uid });
  };
  await context.writer.attempt('shadow_delete', key, remove, context.logOf(name));
}

async function getNode({ client, signal }: ApplyContext, name: string): Promise<NodeView | undefined> {
  try {
    return readNode(await client.request({ method: 'GET', path: corePath('nodes', { name }), signal }));
  } catch (error) {
    if (hasStatus(error, 404)) return undefined;
    throw error;
  }
}

/** Returns whether nothing owned by the operator is left on the Node. */
async function restore(context: ApplyContext, { managedNode, event }: Cleanup, key: string): Promise<boolean> {
  const { node } = managedNode;
  if (node === undefined || event === undefined) return true;
  const { client, events, writer, signal } = context;
  const { name } = node.metadata;
  const log = context.logOf(name);
  const send = async (): Promise<void> => {
    const options = { signal, timeoutMs: RESTORE_WRITE_LIMIT_MS };
    const answer = await client.mergePatch(corePath('nodes', { name }), restorePatch(node), options);
    checkKept(releasePatch(readNode(answer)) === undefined);
    log.info('node restored: its agent has not restored it');
    events.record(event);
  };
  return writer.attempt('node_restore', key, send, log);
}

async function pruneAnnotations(context: ApplyContext, node: NodeView, key: string): Promise<void> {
  const { client, writer, signal } = context;
  const { name } = node.metadata;
  const log = context.logOf(name);
  const send = async (): Promise<void> => {
    const answer = await client.mergePatch(corePath('nodes', { name }), prunePatch(node), { signal });
    checkKept(orphanedAnnotations(readNode(answer)).length === 0);
    log.info('orphaned annotations removed');
  };
  await writer.attempt('node_restore', key, send, log);
}

/** A running agent may be about to reboot its host. Backs off `key` while there is one. */
async function agentHasExited(context: ApplyContext, node: string, key: string): Promise<boolean> {
  const { writer } = context;
  const log = context.logOf(node);
  const hasAgent = await writer.listed('the agent pods of the node', key, () => isAgentOn(context, node), log);
  if (hasAgent !== true) return hasAgent === false;
  log.info('waiting for the agent to exit before the node is restored');
  writer.backOff(key);
  return false;
}

/** Who may create pods may copy labels and name any controller, but not with the UID of the DaemonSet that exists. */
async function isAgentOn({ client, agentNamespace: namespace, signal }: ApplyContext, node: string): Promise<boolean> {
  const query = { labelSelector: `${COMPONENT_LABEL}=${AGENT}`, fieldSelector: `spec.nodeName=${node}` };
  const slim = (raw: unknown): string | undefined => {
    const { metadata } = raw as KubernetesObject;
    return isAgentPod(metadata, namespace) ? controllerUID(metadata) : undefined;
  };
  const { items } = await readList(client, { path: corePath('pods', { namespace }), query, signal, slim });
  if (items.length === 0) return false;
  const path = groupPath('apps/v1', 'daemonsets', { namespace, name: AGENT });
  const daemonSet = await client.find<KubernetesObject>(path, signal);
  // Its pods may outlive it.
  return daemonSet === undefined || items.includes(daemonSet.metadata.uid);
}

export function restorePatch(node: NodeView): object {
  const { uid, resourceVersion } = node.metadata;
  const { metadata, ...rest } = releasePatch(node) ?? {};
  return { metadata: { uid, resourceVersion, ...metadata }, ...rest };
}

export function prunePatch(node: NodeView): object {
  const { uid, resourceVersion } = node.metadata;
  const annotations = Object.fromEntries(orphanedAnnotations(node).map((name) => [name, null]));
  return { metadata: { uid, resourceVersion, annotations } };
}

export function taintWrite(context: ApplyContext, change: TaintChange): NodeWrite {
  const { writer, logOf } = context;
  const { name: object, uid } = change.node.metadata;
  const key = `taint/${uid}`;
  const attempt = () => writer.attempt('node_taint', key, () => writeTaint(context, change), logOf(object));
  const write = () => writer.once(key, attempt);
  return { key, object, priority: PRIORITY.taint, isOfConfig: true, write };
}

/**
 * Throws when the API server has accepted a write and its answer does not have it. The key backs off then: without that, the
 * next plan would send the same again as soon as the watch shows the object.
 */
export function checkKept(isKept: boolean): void {
  if (!isKept)
    throw new Error(
      'the API server accepts the write, but admission undoes it: look for a mutating webhook or a MutatingAdmissionPolicy ' +
        'on nodes, and have it leave the fields of the operator alone',
    );
}

/** As the Kubernetes API has it. */
export interface TaintedNode extends KubernetesObject {
  readonly spec?: { readonly taints?: readonly NodeTaint[] };
}

export function taintsOf({ spec }: TaintedNode): readonly NodeTaint[] {
  return spec?.taints ?? [];
}

/** A merge patch replaces the whole list of taints, so it is made from the Node as it is now. */
async function writeTaint(
  { client, logOf, signal }: ApplyContext,
  { node, waiting, startup }: TaintChange,
): Promise<void> {
  const { name, uid } = node.metadata;
  const path = corePath('nodes', { name });
  const live = await client.request<TaintedNode>({ method: 'GET', path, signal });
  const { resourceVersion } = live.metadata;
  const taints = [
    ...taintsOf(live).filter(({ key }) => key !== WAITING_TAINT && key !== STARTUP_TAINT),
    ...(waiting ? [{ key: WAITING_TAINT, effect: 'PreferNoSchedule' }] : []),
    ...(startup ? [{ key: STARTUP_TAINT, effect: 'NoSchedule' }] : []),
  ];
  const body = { metadata: { uid, resourceVersion }, spec: { taints } };
  const answer = await client.mergePatch<TaintedNode>(path, body, { signal });
  const keys = taintsOf(answer).map(({ key }) => key);
  checkKept(keys.includes(WAITING_TAINT) === waiting && keys.includes(STARTUP_TAINT) === startup);
  logOf(name).info('taints written', { waiting, startup });
}
