/**
 * Drains nodes in passes of at most DRAIN_PASS_LIMIT_MS. The routes call `pass` for each request of
 * an agent, and `cancel` when the node is restored.
 *
 *     Drainer ─▶ DrainPass ─▶ DrainView (what is known) · Evictor (requests) · DrainRecord (status.drain)
 *
 * A replica runs one pass per node at a time. The record in the shadow's status is all that a pass
 * leaves to the next one, which any replica may run; so a pass may end anywhere. All drains of a
 * replica share a rate of evictions and one watch of VolumeAttachments.
 */
import { currentAttempt } from '@brupop/shared/api/attempt';
import type { DrainResult } from '@brupop/shared/api/agent-protocol';
import { DRAIN_PASS_LIMIT_MS } from '@brupop/shared/api/deadlines';
import { ApiError } from '../errors.ts';
import { RetriedProblem } from '@brupop/shared/runtime/log';
import { TokenBucket } from '@brupop/shared/runtime/token-bucket';
import { Semaphore } from '../http/limits.ts';
import { DrainView } from './cluster-view.ts';
import type { DrainCall, DrainContext } from './context.ts';
import { DrainPass } from './drain-pass.ts';
import { DrainRecord, isSuccess, MAX_BLOCKS, type PassOutcome } from './drain-record.ts';
import { Evictor } from './evictor.ts';
import { limitRemainingMs, type Settings } from './settings.ts';
import { Attachments } from './volumes.ts';

/** Reserved at the end of a pass for the last list and the response. */
const RESERVE_MS = 1_500;
/** Evictions and deletions of all drains of one replica. */
const EVICTION_RATE = { perSecond: 100, burst: 100 };
/**
 * Of one replica. A pass holds up to four of its 1,024 connections to the Kubernetes API for watches, and an eviction
 * holds another one while an admission webhook takes its time. So connections are left for requests that end soon.
 */
const MAX_PASSES = 200;
const MAX_EVICTIONS = 100;

export class Drainer {
  readonly #context: DrainContext;
  readonly #settings: Settings;
  readonly #running = new Set<string>();
  readonly #rateLimit: TokenBucket;
  readonly #evictions = new Semaphore(MAX_EVICTIONS);
  readonly #budgetsProblem: RetriedProblem;
  readonly #attachments: Attachments;

  constructor(context: DrainContext, settings: Settings) {
    this.#context = context;
    this.#settings = settings;
    this.#rateLimit = new TokenBucket(context.clock, EVICTION_RATE);
    this.#budgetsProblem = new RetriedProblem(context.clock);
    this.#attachments = new Attachments(context);
  }

  /**
   * Runs one pass of at most DRAIN_PASS_LIMIT_MS. `done` means that a list past the cache shows no
   * pod to evict on a node that is still cordoned. Throws KubeError, the reason of the signal, and
   * ApiError `NotFound`, `Forbidden`, `Unavailable`, also while this replica runs MAX_PASSES, or
   * `Conflict` while it runs another pass over the node.
   */
  async pass(call: DrainCall): Promise<DrainResult> {
    const { node } = call.identity;
    const { metrics } = this.#context;
    if (this.#running.has(node)) throw new ApiError('Conflict', `a drain pass for ${node} is still running; repeat`);
    if (this.#running.size >= MAX_PASSES)
      throw new ApiError('Unavailable', `${node}: this replica runs ${MAX_PASSES} drain passes, its limit; repeat`);
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
    await new DrainRecord(this.#contextOf(call)).cancel();
  }

  /** Resolves when no eviction is in flight. A request that is cut off may block a disruption budget for two minutes. */
  async settled(): Promise<void> {
    await this.#evictions.idle();
  }

  /** Each line of a drain has its node and attempt. */
  #contextOf(call: DrainCall): DrainContext & DrainCall {
    const log = this.#context.log.with({ node: call.identity.node, attempt: currentAttempt(call.shadow) });
    return { ...this.#context, ...call, log };
  }

  async #pass(call: DrainCall): Promise<DrainResult> {
    const { clock } = this.#context;
    const deadline = clock.monotonic() + DRAIN_PASS_LIMIT_MS - RESERVE_MS;
    const settings = this.#settings.ofGroup(call.shadow.group);
    const end = new AbortController();
    const signal = AbortSignal.any([call.signal, end.signal]);
    const callContext = this.#contextOf(call);
    const context = { ...callContext, settings, signal };
    const view = new DrainView(context, this.#attachments);
    const record = new DrainRecord(callContext);
    const evictor = new Evictor(context, this.#rateLimit, this.#evictions, this.#budgetsProblem);
    let outcome: PassOutcome;
    try {
      outcome = await new DrainPass(context, { view, record, evictor }, deadline).run();
    } finally {
      end.abort();
      await view.ended();
    }
    // Only now, so that no pass waits for a connection that the watch of another one holds.
    await record.finish(outcome);
    const { evicted, remaining, blockedBy, failure, result } = outcome;
    return {
      done: isSuccess(result),
      evicted,
      remaining,
      blockedBy: blockedBy.slice(0, MAX_BLOCKS),
      limitRemainingMs: limitRemainingMs(record.current, settings, view.pods(), clock.now()),
      ...(failure !== undefined && { failure }),
    };
  }
}
