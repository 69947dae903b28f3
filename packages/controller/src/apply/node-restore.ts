import { messageOf } from '@brupop/shared/runtime/errors';
import { AGENT, COMPONENT_LABEL, SHADOW_PLURAL, SHADOW_VERSION } from '@brupop/shared/api/names';
import type { KubeClient } from '@brupop/shared/kube/client';
import { hasStatus } from '@brupop/shared/kube/error';
import type { Events } from '@brupop/shared/kube/events';
import { corePath, crPath } from '@brupop/shared/kube/paths';
import { ownedByUs, releasePatch } from '@brupop/shared/node/ownership';
import type { Logger } from '@brupop/shared/runtime/log';
import { type NodeView, readNode } from '../cluster/node.ts';
import { isOwnedBy, type ShadowView } from '../cluster/shadow.ts';
import type { ManagedNode } from '../cluster/snapshot.ts';
import type { Cleanup } from '../plan/cleanup.ts';
import { orphanedAnnotations } from '../plan/deadlines.ts';
import { eventSource } from './events.ts';
import { forEachOf, type Writer } from './writer.ts';

export interface RestorerOptions {
  readonly client: KubeClient;
  readonly log: Logger;
  readonly writes: Writer;
  readonly events: Events;
  readonly namespace: string;
}

/** Carries out clean-ups. Each looks at the API server itself once more before it changes anything. */
export class Restorer {
  readonly #options: RestorerOptions;

  constructor(options: RestorerOptions) {
    this.#options = options;
  }

  async run(cleanups: readonly Cleanup[], signal: AbortSignal): Promise<void> {
    const { writes } = this.#options;
    await forEachOf(cleanups, async (cleanup) => {
      const key = `clean-up/${cleanup.managedNode.name}`;
      if (writes.canWrite(key)) await this.#cleanup(cleanup, key, signal);
    });
  }

  async #cleanup(cleanup: Cleanup, key: string, signal: AbortSignal): Promise<void> {
    const { kind, managedNode } = cleanup;
    if (kind === 'DeleteShadow') await this.#deleteOrphan(managedNode, key, signal);
    else if (kind === 'PruneAnnotations') await this.#dropMarks(managedNode, key, signal);
    else if (kind === 'Restore' || (await this.#agentHasEnded(managedNode.name, key, signal))) {
      await this.#release(cleanup, key, signal);
    }
    // Until the watch has shown the result the plan asks for the same again.
    if (this.#options.writes.canWrite(key)) this.#options.writes.settle(key);
  }

  /** The caches of Nodes and shadows are not of the same instant: a live look decides whether the shadow's Node is really gone. */
  async #deleteOrphan({ name, shadow }: ManagedNode, key: string, signal: AbortSignal): Promise<void> {
    if (shadow === undefined) return;
    await this.#options.writes.attempt('shadow_delete', key, signal, async () => {
      const node = await this.#readNode(name, signal);
      if (node !== undefined && isOwnedBy(shadow, node)) return;
      await this.#deleteShadow(shadow, signal);
    });
  }

  async #restore({ node, shadow }: ManagedNode, key: string, signal: AbortSignal): Promise<boolean> {
    if (node === undefined || !ownedByUs(node)) return true;
    return this.#options.writes.attempt('node_restore', key, signal, async () => {
      const { name } = node.metadata;
      await this.#options.client.mergePatch(corePath('nodes', { name }), restorePatch(node), { signal });
      this.#options.log.info('node restored', { node: name });
      const message = 'Took back the cordon or load balancer exclusion that an update had left on the Node';
      const event = { reason: 'Restored', node, shadow, message, key: node.metadata.resourceVersion } as const;
      this.#options.events.record(eventSource(event));
    });
  }

  async #release({ kind, managedNode }: Cleanup, key: string, signal: AbortSignal): Promise<void> {
    const restored = await this.#restore(managedNode, key, signal);
    const { shadow } = managedNode;
    if (kind !== 'Unmanage' || !restored || shadow === undefined) return;
    await this.#options.writes.attempt('shadow_delete', key, signal, () => this.#deleteShadow(shadow, signal));
  }

  async #dropMarks({ node }: ManagedNode, key: string, signal: AbortSignal): Promise<void> {
    if (node === undefined) return;
    await this.#options.writes.attempt('node_restore', key, signal, async () => {
      const { name } = node.metadata;
      await this.#options.client.mergePatch(corePath('nodes', { name }), dropPatch(node), { signal });
      this.#options.log.info('signatures dropped, since what they signed was taken back', { node: name });
    });
  }

  /** An agent that still runs may be about to reboot its host: it must have ended before the node is given back. */
  async #agentHasEnded(node: string, key: string, signal: AbortSignal): Promise<boolean> {
    const { writes, log } = this.#options;
    const agents = await this.#agentsOn(node, key, signal);
    if (agents === 0) return true;
    if (agents === undefined) return false;
    log.info('waits for the agent to end before the node is given back', { node });
    writes.backOff(key);
    return false;
  }

  /** Agent pods on the node, read live; undefined when that failed. */
  async #agentsOn(node: string, key: string, signal: AbortSignal): Promise<number | undefined> {
    const { client, namespace, writes, log } = this.#options;
    const query = { labelSelector: `${COMPONENT_LABEL}=${AGENT}`, fieldSelector: `spec.nodeName=${node}`, limit: '1' };
    try {
      const request = { method: 'GET', path: corePath('pods', { namespace }), query, signal } as const;
      const { items } = await client.request<{ readonly items: readonly unknown[] }>(request);
      return items.length;
    } catch (error) {
      if (signal.aborted) throw error;
      log.warn('cannot see whether an agent still runs', { node, error: messageOf(error) });
      writes.backOff(key);
      return undefined;
    }
  }

  async #readNode(name: string, signal: AbortSignal): Promise<NodeView | undefined> {
    try {
      return readNode(await this.#options.client.request({ method: 'GET', path: corePath('nodes', { name }), signal }));
    } catch (error) {
      if (hasStatus(error, 404)) return undefined;
      throw error;
    }
  }

  async #deleteShadow({ metadata: { name, namespace = '', uid } }: ShadowView, signal: AbortSignal): Promise<void> {
    const path = crPath(SHADOW_PLURAL, { version: SHADOW_VERSION, namespace, name });
    await this.#options.client.request({ method: 'DELETE', path, body: { preconditions: { uid } }, signal });
    this.#options.log.info('shadow deleted', { shadow: name });
  }
}

/** Takes back what is ours, only from the Node as it was seen. */
export function restorePatch(node: NodeView): object {
  const { uid, resourceVersion } = node.metadata;
  const { metadata, ...settle } = releasePatch(node) ?? {};
  return { metadata: { uid, resourceVersion, ...metadata }, ...settle };
}

/** Takes off the signatures of what is not there any more, only from the Node as it was seen. */
export function dropPatch(node: NodeView): object {
  const { uid, resourceVersion } = node.metadata;
  return {
    metadata: {
      uid,
      resourceVersion,
      annotations: Object.fromEntries(orphanedAnnotations(node).map((name) => [name, null])),
    },
  };
}
