import type { RestoreResult } from '@brupop/shared/api/agent-protocol';
import { RESTORE_WRITE_LIMIT_MS } from '@brupop/shared/api/deadlines';
import { MANAGED_LABEL, MANAGED_LABEL_VALUE } from '@brupop/shared/api/names';
import type { KubeClient } from '@brupop/shared/kube/client';
import { hasStatus } from '@brupop/shared/kube/error';
import { corePath } from '@brupop/shared/kube/paths';
import { backoff } from '@brupop/shared/runtime/backoff';
import type { Clock } from '@brupop/shared/runtime/clock';
import type { NodeLog } from '@brupop/shared/runtime/log';
import type { Identity } from '../auth/authenticator.ts';
import { ApiError } from '../errors.ts';
import { cordon, type Cordon, exclude, type Node, type NodeChange, restore, slimNode } from './policy.ts';

const WRITE_ATTEMPTS = 6;
const WRITE_RETRY = { baseMs: 50, capMs: 500 };

export interface NodesOptions {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly logOf: NodeLog;
}

/** Reads and changes Nodes. Every call throws KubeError, and ApiError as `read` does. */
export class Nodes {
  readonly #options: NodesOptions;

  constructor(options: NodesOptions) {
    this.#options = options;
  }

  /** Reads the Node. Throws ApiError `NotFound`, and `Forbidden` when its UID is not the token's. */
  async read(identity: Identity, signal: AbortSignal): Promise<Node> {
    const found = await this.#options.client.find<object>(corePath('nodes', { name: identity.node }), signal);
    return requireNode(found && slimNode(found), identity);
  }

  /** As `read`. Throws ApiError `Forbidden` also when the Node lacks the label of managed nodes. */
  async readManaged(identity: Identity, signal: AbortSignal): Promise<Node> {
    const found = await this.read(identity, signal);
    const value = found.metadata.labels?.[MANAGED_LABEL];
    if (value === MANAGED_LABEL_VALUE) return found;
    const expected = `label ${MANAGED_LABEL}=${MANAGED_LABEL_VALUE}`;
    throw new ApiError(
      'Forbidden',
      `Node ${identity.node} is not managed: expected ${expected}, found ${value ?? 'none'}`,
    );
  }

  /**
   * Cordons the node, or returns `CordonRemoved`: another actor has uncordoned it twice.
   * @param known - the Node as it was just read
   */
  async cordon(identity: Identity, signal: AbortSignal, known: Node): Promise<Cordon> {
    return this.#change(identity, 'cordoned', (node) => cordon(node, this.#options.clock.now()), { signal }, known);
  }

  /**
   * Excludes the node from load balancers unless `waitMs` is 0. Returns the milliseconds of `waitMs`
   * that they still need.
   */
  async exclude(identity: Identity, waitMs: number, signal: AbortSignal): Promise<number> {
    const { clock } = this.#options;
    if (waitMs === 0) return 0;
    const decide = (node: Node): NodeChange<number> => exclude(node, waitMs, clock.now());
    return this.#change(identity, 'excluded from load balancers', decide, { signal });
  }

  async restore(identity: Identity, signal: AbortSignal): Promise<RestoreResult> {
    return this.#change(identity, 'restored', restore, { signal, timeoutMs: RESTORE_WRITE_LIMIT_MS });
  }

  /** Decides on the live Node and writes it; repeats both after a conflict. */
  async #change<T>(
    identity: Identity,
    what: string,
    decide: (node: Node) => NodeChange<T>,
    write: { readonly signal: AbortSignal; readonly timeoutMs?: number },
    known?: Node,
  ): Promise<T> {
    const { client, clock, logOf } = this.#options;
    const { signal } = write;
    const retry = backoff(WRITE_RETRY);
    let found = known;
    for (let attempt = 1; ; attempt += 1) {
      const node = found ?? (await this.read(identity, signal));
      const { patch, result } = decide(node);
      if (patch === undefined) return result;
      const { resourceVersion, uid } = node.metadata;
      const body = { ...patch, metadata: { ...patch.metadata, resourceVersion, uid } };
      try {
        await client.mergePatch(corePath('nodes', { name: identity.node }), body, write);
        logOf(identity.node).info(`node ${what}`);
        return result;
      } catch (error) {
        if (!hasStatus(error, 409) || attempt === WRITE_ATTEMPTS) throw error;
      }
      found = undefined;
      await clock.sleep(retry.next(), signal);
    }
  }
}

/** Throws ApiError `NotFound`, and `Forbidden` when the UID of the Node is not the token's. */
export function requireNode(found: Node | undefined, { node, nodeUID }: Identity): Node {
  if (found === undefined) throw new ApiError('NotFound', `Node ${node} does not exist`);
  const { uid } = found.metadata;
  if (nodeUID === undefined || nodeUID === uid) return found;
  const problem = `Node ${node}: expected UID ${nodeUID} as in the token, found ${uid}`;
  throw new ApiError('Forbidden', `${problem}; the Node was created again: delete the agent's pod on it`);
}
