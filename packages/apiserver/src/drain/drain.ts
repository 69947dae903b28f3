import type { Clock } from '@brupop/shared/clock';
import type { KubeClient } from '@brupop/shared/kube';
import { hasStatus } from '@brupop/shared/kube-error';
import { corePath, groupPath } from '@brupop/shared/kube-paths';
import type { Logger } from '@brupop/shared/log';
import { DRAIN_PASS_LIMIT_MS } from '@brupop/shared/operator-api';
import type { DrainResult } from '@brupop/shared/operator-api';
import { Reflector } from '@brupop/shared/reflector';

import type { Identity } from '../auth/authenticator.ts';
import { DrainPass } from './drain-pass.ts';
import { daemonSetsInQuestion, podKey, podsToGo, slimPod } from './drain-policy.ts';
import type { DrainPod } from './drain-policy.ts';
import { evict } from './eviction.ts';
import { makeRoom } from './make-room.ts';
import { Failure } from '../failure.ts';
import type { Metrics } from '../metrics.ts';
import { isCordoned } from '../nodes/node-policy.ts';
import type { Nodes } from '../nodes/nodes.ts';

export interface DrainerOptions {
  readonly client: KubeClient;
  readonly nodes: Nodes;
  /** Namespace of the operator. */
  readonly namespace: string;
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics: Pick<Metrics, 'evictions' | 'drainPasses'>;
}

/** The first list of pods gets at most this share of a pass. */
const SYNC_LIMIT_MS = 5_000;
/** Kept of a pass for the last look and the answer. */
const RESERVE_MS = 1_500;

/** Drains nodes in bounded passes. Between passes it remembers nothing. */
export class Drainer {
  readonly #options: DrainerOptions;
  readonly #running = new Set<string>();

  constructor(options: DrainerOptions) {
    this.#options = options;
  }

  /**
   * One pass of at most DRAIN_PASS_LIMIT_MS: cordons the node and evicts what it can. `done` means that a fresh list shows nothing left on
   * a node that is still cordoned. Throws KubeError, Failure `NotFound`, `Forbidden`, `Conflict` while another pass for the node runs here, and
   * the reason of `signal`.
   */
  async pass(identity: Identity, signal: AbortSignal): Promise<DrainResult> {
    const { node } = identity;
    const { metrics } = this.#options;
    if (this.#running.has(node)) throw new Failure('Conflict', `a drain pass for ${node} is still running; repeat`);
    this.#running.add(node);
    try {
      const result = await this.#pass(identity, signal);
      metrics.drainPasses.inc({ result: result.done ? 'done' : 'unfinished' });
      return result;
    } catch (error) {
      metrics.drainPasses.inc({ result: 'failed' });
      throw error;
    } finally {
      this.#running.delete(node);
    }
  }

  /** For a replica on the node itself, when there may be none elsewhere. Throws as `pass` does. */
  async makeRoom(identity: Identity, signal: AbortSignal): Promise<DrainResult> {
    const { client, nodes, namespace } = this.#options;
    await nodes.cordon(identity, signal);
    return makeRoom({ client, namespace, node: identity.node, evict: (pod) => this.#evict(pod), signal });
  }

  async #pass(identity: Identity, signal: AbortSignal): Promise<DrainResult> {
    const { clock, nodes } = this.#options;
    const deadline = clock.monotonic() + DRAIN_PASS_LIMIT_MS - RESERVE_MS;
    await nodes.cordon(identity, signal);
    const end = new AbortController();
    const stop = AbortSignal.any([signal, end.signal]);
    const reflector = this.#reflect(identity.node);
    const watching = reflector.run(stop);
    try {
      await this.#synced(reflector, stop);
      const daemonSets = new Map<string, boolean>();
      const orphaned = await this.#orphaned(reflector.list(), daemonSets, stop);
      const pods = (): readonly DrainPod[] => podsToGo(reflector.list(), { orphaned, caller: identity.podUID });
      const pass = new DrainPass({ pods, evict: (pod) => this.#evict(pod), clock, deadline });
      const unsubscribe = reflector.subscribe(() => pass.wake());
      const result = await pass.run(stop).finally(unsubscribe);
      return result.remaining > 0 ? result : await this.#confirm(identity, result, daemonSets, stop);
    } finally {
      end.abort();
      await watching;
    }
  }

  #reflect(node: string): Reflector<DrainPod> {
    const { client, clock, log } = this.#options;
    const query = { fieldSelector: `spec.nodeName=${node}` };
    const quiet = log.with({ node });
    return new Reflector({ client, path: corePath('pods'), query, slim: slimPod, clock, log: quiet, name: 'pods' });
  }

  async #synced(reflector: Reflector<DrainPod>, signal: AbortSignal): Promise<void> {
    const limit = new AbortController();
    const late = new Failure('Unavailable', `the pods of the node could not be listed within ${SYNC_LIMIT_MS} ms`);
    const cancel = this.#options.clock.after(SYNC_LIMIT_MS, () => limit.abort(late));
    await reflector.waitSynced(AbortSignal.any([signal, limit.signal])).finally(cancel);
  }

  /**
   * The DaemonSets that are gone: nothing but a drain removes their pods. Any answer but "yes" or "no" ends the pass.
   * @param known - what was asked in this pass already, by `namespace/name`: whether it exists
   */
  async #orphaned(
    pods: readonly DrainPod[],
    known: Map<string, boolean>,
    signal: AbortSignal,
  ): Promise<ReadonlySet<string>> {
    const inQuestion = daemonSetsInQuestion(pods);
    for (const daemonSet of inQuestion) {
      if (!known.has(daemonSet)) known.set(daemonSet, await this.#exists(daemonSet, signal));
    }
    return new Set([...inQuestion].filter((daemonSet) => known.get(daemonSet) === false));
  }

  async #exists(daemonSet: string, signal: AbortSignal): Promise<boolean> {
    const [namespace = '', name = ''] = daemonSet.split('/');
    const path = groupPath('apps/v1', 'daemonsets', { namespace, name });
    try {
      await this.#options.client.request({ method: 'GET', path, signal });
      return true;
    } catch (error) {
      if (!hasStatus(error, 404)) throw error;
      return false;
    }
  }

  async #evict(pod: DrainPod): ReturnType<typeof evict> {
    const { client, metrics, log } = this.#options;
    const outcome = await evict(client, pod);
    metrics.evictions.inc({ result: outcome.kind === 'blocked' ? outcome.block.reason : outcome.kind });
    const why = outcome.kind === 'blocked' ? outcome.block : {};
    log.info('asked to evict a pod', { pod: podKey(pod), result: outcome.kind, ...why });
    return outcome;
  }

  /** Asks once more, past every cache, before the host is rebooted. */
  async #confirm(
    identity: Identity,
    result: DrainResult,
    daemonSets: Map<string, boolean>,
    signal: AbortSignal,
  ): Promise<DrainResult> {
    const query = { fieldSelector: `spec.nodeName=${identity.node}` };
    const { client, nodes } = this.#options;
    const list = await client.request<{ items: unknown[] }>({ method: 'GET', path: corePath('pods'), query, signal });
    const pods = list.items.map((raw) => slimPod(raw));
    const orphaned = await this.#orphaned(pods, daemonSets, signal);
    const remaining = podsToGo(pods, { orphaned, caller: identity.podUID }).length;
    const cordoned = isCordoned(await nodes.read(identity, signal));
    return { ...result, remaining, done: remaining === 0 && cordoned };
  }
}
