import type { DrainResult } from '@brupop/shared/api/agent-protocol';
import { DRAIN_PASS_LIMIT_MS } from '@brupop/shared/api/deadlines';
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
import { DrainRecord, isSuccess } from './drain-record.ts';
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

  constructor(options: DrainerOptions) {
    this.#options = options;
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
  async cancel(call: DrainCall): Promise<void> {
    await new DrainRecord({ ...this.#options, ...call }).cancel();
  }

  async #pass({ identity, shadow, signal: callSignal }: DrainCall): Promise<DrainResult> {
    const { clock, namespace, podName } = this.#options;
    const deadline = clock.monotonic() + DRAIN_PASS_LIMIT_MS - RESERVE_MS;
    const settings = this.#options.settings.current();
    const end = new AbortController();
    const signal = AbortSignal.any([callSignal, end.signal]);
    const common = { ...this.#options, identity, shadow, settings, signal };
    const view = new DrainView({ ...common, attachments: this.#attachments });
    const record = new DrainRecord(common);
    const { maxGracePeriodMs } = settings;
    const evictor = new Evictor({ ...common, rateLimit: this.#rateLimit, maxGracePeriodMs });
    const self = `${namespace}/${podName}`;
    try {
      const outcome = await new DrainPass({ ...common, view, record, evictor, self, deadline }).run();
      await record.finish(outcome);
      const { evicted, remaining, blockedBy, failure, result } = outcome;
      return {
        done: isSuccess(result),
        evicted,
        remaining,
        blockedBy,
        limitRemainingMs: limitRemainingMs(record.current, settings, view.pods(), clock.now()),
        ...(failure !== undefined && { failure }),
      };
    } finally {
      end.abort();
      await view.ended();
    }
  }
}
