import type { DrainResult } from '@brupop/shared/api/agent-protocol';
import { DRAIN_PASS_LIMIT_MS } from '@brupop/shared/api/deadlines';
import { type DrainPod, isTerminating, podKey, podsToEvict } from '@brupop/shared/drain/pods';
import type { KubeClient } from '@brupop/shared/kube/client';
import type { Events } from '@brupop/shared/kube/events';
import type { Reflector } from '@brupop/shared/kube/reflector';
import type { Clock } from '@brupop/shared/runtime/clock';
import type { Logger } from '@brupop/shared/runtime/log';
import type { Identity } from '../auth/authenticator.ts';
import { ApiError } from '../errors.ts';
import { TokenBucket } from '../http/limits.ts';
import type { Metrics } from '../metrics.ts';
import type { Nodes } from '../nodes/nodes.ts';
import type { SlimShadow } from '../shadows/policy.ts';
import type { Shadows } from '../shadows/shadows.ts';
import { DrainView } from './cluster-view.ts';
import { DrainPass } from './drain-pass.ts';
import { cancelDrain, DrainRecord, isOpen, isSuccess } from './drain-record.ts';
import { Evictor } from './evictor.ts';
import { limitRemainingMs, type Settings } from './settings.ts';
import { Attachments } from './volumes.ts';

export interface DrainerOptions {
  readonly client: KubeClient;
  readonly nodes: Nodes;
  readonly shadows: Pick<Shadows, 'read' | 'writeDrain'>;
  /** The watch cache of the shadows. */
  readonly cache: Pick<Reflector<SlimShadow>, 'get'>;
  readonly settings: Settings;
  readonly events: Events;
  /** Namespace of the operator. */
  readonly namespace: string;
  /** Name of this replica's pod. */
  readonly podName: string;
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics: Pick<Metrics, 'evictions' | 'drainPasses' | 'drainBlocks' | 'drainDuration'>;
  /** Ends what runs between passes. */
  readonly signal: AbortSignal;
}

/** An agent's request, with the live shadow. */
export interface DrainCall {
  readonly identity: Identity;
  readonly shadow: SlimShadow;
  readonly signal: AbortSignal;
}

/** Reserved at the end of a pass for the last list and the response. */
const RESERVE_MS = 1_500;
/** Evictions and deletions of all drains of one replica. */
const EVICTION_RATE = { perSecond: 100, burst: 100 };

/** Drains nodes in bounded passes; the record in the shadow's status is all that one leaves to the next. */
export class Drainer {
  readonly #options: DrainerOptions;
  readonly #running = new Set<string>();
  readonly #rateLimit: TokenBucket;
  readonly #attachments: Attachments;
  /** The pod of this replica, as `namespace/name`. */
  readonly #self: string;

  constructor(options: DrainerOptions) {
    this.#options = options;
    this.#self = `${options.namespace}/${options.podName}`;
    this.#rateLimit = new TokenBucket(options.clock, EVICTION_RATE);
    this.#attachments = new Attachments(options);
  }

  /**
   * Runs one pass of at most DRAIN_PASS_LIMIT_MS. `done` means that a list past the cache shows no
   * pod to evict on a node that is still cordoned. Throws KubeError, the reason of the signal, and
   * ApiError `NotFound`, `Forbidden`, `Unavailable`, or `Conflict` while this replica runs another
   * pass over the node.
   */
  async pass(call: DrainCall): Promise<DrainResult> {
    const { node } = call.identity;
    const { metrics } = this.#options;
    if (this.#running.has(node)) throw new ApiError('Conflict', `a drain pass for ${node} is still running; repeat`);
    this.#running.add(node);
    try {
      const result = await this.#pass(call);
      metrics.drainPasses.inc({ result: result.done ? 'done' : 'unfinished' });
      return result;
    } catch (error) {
      metrics.drainPasses.inc({ result: 'failed' });
      throw error;
    } finally {
      this.#running.delete(node);
    }
  }

  /** Records that a drain which has not ended is cancelled. Throws KubeError and ApiError. */
  async cancel({ identity, shadow, signal }: DrainCall): Promise<void> {
    if (isOpen(shadow.drain)) await cancelDrain(this.#options, identity.node, signal);
  }

  async #pass({ identity, shadow, signal: callSignal }: DrainCall): Promise<DrainResult> {
    const { clock, settings: source } = this.#options;
    const self = this.#self;
    const { node } = identity;
    const deadline = clock.monotonic() + DRAIN_PASS_LIMIT_MS - RESERVE_MS;
    const settings = source.current();
    const end = new AbortController();
    const signal = AbortSignal.any([callSignal, end.signal]);
    const view = new DrainView({ ...this.#options, node, attachments: this.#attachments, signal });
    try {
      await view.synced(signal);
      let replicas: readonly string[] | undefined;
      const needed = async (): Promise<ReadonlySet<string>> => {
        // A replica that is bound elsewhere is enough for the whole pass.
        if (replicas?.length !== 0) replicas = await this.#onlyReplicas(view, signal);
        return new Set([identity.podUID, ...replicas]);
      };
      const stays = await needed();
      const toEvict = podsToEvict(view.pods(), { orphaned: new Set(), needed: stays });
      const record = new DrainRecord({ ...this.#options, node, shadow, signal }, toEvict.length);
      await record.start();
      const drain = record.current;
      const { maxGracePeriodMs } = settings;
      const evictor = new Evictor({ ...this.#options, rateLimit: this.#rateLimit, maxGracePeriodMs, signal });
      const isCurrent = (): boolean => this.#isCurrent(shadow);
      const common = { ...this.#options, view, evictor, record, identity, stays, needed, self, settings, isCurrent };
      const outcome = await new DrainPass({ ...common, deadline, signal }).run();
      await record.finish(outcome);
      const { evicted, remaining, blockedBy, failure, result } = outcome;
      return {
        done: isSuccess(result),
        evicted,
        remaining,
        blockedBy,
        limitRemainingMs: limitRemainingMs(drain, settings, view.pods(), clock.now()),
        ...(failure !== undefined && { failure }),
      };
    } finally {
      end.abort();
      await view.ended();
    }
  }

  /**
   * The UIDs of the replicas on the node, if this one is among them and none is bound to another
   * node: without a replica nothing would uncordon the node, and on a cordoned node none can start.
   */
  async #onlyReplicas(view: DrainView, signal: AbortSignal): Promise<readonly string[]> {
    const self = view.pods().find((pod) => podKey(pod) === this.#self);
    if (self === undefined) return [];
    const replicas = await view.listReplicas(this.#options.namespace, signal);
    const isElsewhere = (pod: DrainPod): boolean =>
      pod.node !== '' && pod.node !== self.node && !pod.mirror && !pod.finished && !isTerminating(pod);
    if (replicas.some(isElsewhere)) return [];
    this.#options.log.info('the replicas stay: none is on another node', { node: self.node });
    return replicas.filter(({ node }) => node === self.node).map(({ metadata }) => metadata.uid);
  }

  /** False when the watch shows another spec than the one that the drain is for. */
  #isCurrent({ metadata: { name, uid, generation = 0 } }: SlimShadow): boolean {
    const known = this.#options.cache.get(name, this.#options.namespace)?.metadata;
    return known === undefined || (known.uid === uid && (known.generation ?? 0) <= generation);
  }
}
