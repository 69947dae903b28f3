import { WAITING_TAINT } from '@brupop/shared/api/names';
import type { KubeClient } from '@brupop/shared/kube/client';
import { corePath } from '@brupop/shared/kube/paths';
import type { KubernetesObject } from '@brupop/shared/api/meta';
import type { Logger } from '@brupop/shared/runtime/log';
import type { TaintChange } from '../plan/plan.ts';
import { forFirstOf, type Writer } from './writer.ts';

export interface TaintWriterOptions {
  readonly client: KubeClient;
  readonly log: Logger;
  readonly writes: Writer;
}

interface Taint {
  readonly key: string;
  readonly effect: string;
}

interface TaintedNode extends KubernetesObject {
  readonly spec?: { readonly taints?: readonly Taint[] };
}

/** In one turn at most so many, so that specs never wait long for the taints of a large fleet. */
const MAX_PER_TURN = 50;

/** Sets and takes back the taint of nodes that wait. Taints are one list, so each write is made from the Node as it is. */
export class TaintWriter {
  readonly #options: TaintWriterOptions;

  constructor(options: TaintWriterOptions) {
    this.#options = options;
  }

  /** Answers whether there is more to write. */
  async write(changes: readonly TaintChange[], signal: AbortSignal): Promise<boolean> {
    const { writes } = this.#options;
    const due = changes.filter(({ node }) => writes.canWrite(keyOf(node)));
    return forFirstOf(due, MAX_PER_TURN, async ({ node, wanted }) => {
      const key = keyOf(node);
      await writes.attempt('node_taint', key, signal, () => this.#send(node.metadata, wanted, signal));
      // Until the watch has shown the result the plan asks for the same again.
      if (writes.canWrite(key)) writes.settle(key);
    });
  }

  async #send({ name, uid }: KubernetesObject['metadata'], wanted: boolean, signal: AbortSignal): Promise<void> {
    const { client, log } = this.#options;
    const path = corePath('nodes', { name });
    const { metadata, spec } = await client.request<TaintedNode>({ method: 'GET', path, signal });
    const { resourceVersion } = metadata;
    const body = { metadata: { uid, resourceVersion }, spec: { taints: taintsWith(spec?.taints ?? [], wanted) } };
    await client.mergePatch(path, body, { signal });
    log.info(wanted ? 'node tainted, since it waits for its update' : 'taint taken back', { node: name });
  }
}

function keyOf({ metadata }: KubernetesObject): string {
  return `taint/${metadata.uid}`;
}

/** A Node's taints with or without ours, the others as they were. */
export function taintsWith(taints: readonly Taint[], wanted: boolean): readonly Taint[] {
  const others = taints.filter(({ key }) => key !== WAITING_TAINT);
  return wanted ? [...others, { key: WAITING_TAINT, effect: 'PreferNoSchedule' }] : others;
}
