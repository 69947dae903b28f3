import type { DrainFailure, DrainResult } from '@brupop/shared/api/agent-protocol';
import { DRAIN_PASS_LIMIT_MS } from '@brupop/shared/api/deadlines';
import type { DrainSettings } from '@brupop/shared/api/config-spec';
import type { DrainStatus } from '@brupop/shared/api/shadow';
import { type DrainPod, podKey, podsToEvict, slimPod } from '@brupop/shared/drain/pods';
import type { KubeClient } from '@brupop/shared/kube/client';
import { hasStatus } from '@brupop/shared/kube/error';
import type { Events } from '@brupop/shared/kube/events';
import { corePath, groupPath } from '@brupop/shared/kube/paths';
import type { Reflector } from '@brupop/shared/kube/reflector';
import { type Clock, parseTime } from '@brupop/shared/runtime/clock';
import type { Logger } from '@brupop/shared/runtime/log';
import type { Identity } from '../auth/authenticator.ts';
import { ApiError } from '../errors.ts';
import { TokenBucket } from '../http/rate-limit.ts';
import type { Metrics } from '../metrics.ts';
import type { Nodes } from '../nodes/nodes.ts';
import type { SlimShadow } from '../shadows/policy.ts';
import type { Shadows } from '../shadows/shadows.ts';
import { Attachments } from './attachments.ts';
import { BudgetNames } from './budget-names.ts';
import { DrainView } from './cluster-view.ts';
import {
  afterPass,
  blockedOccurrence,
  cancelled,
  continued,
  DrainRecord,
  forcedOccurrence,
  hasSucceeded,
  isEmptyAgain,
  isSuccess,
  newBlocks,
  withHandover,
} from './drain-status.ts';
import { evictPod, type EvictionOutcome } from './eviction.ts';
import { limitRemainingMs, stageOf, timedOut, CORDON_REMOVED } from './limits.ts';
import { makeRoom } from './make-room.ts';
import { NodeDrain, type NodeDrainHands, type NodeDrainOutcome } from './node-drain.ts';
import type { Settings } from './settings.ts';

export interface DrainerOptions {
  readonly client: KubeClient;
  readonly nodes: Nodes;
  readonly shadows: Pick<Shadows, 'read' | 'writeDrain'>;
  /** The shadows as the watch knows them. */
  readonly cache: Pick<Reflector<SlimShadow>, 'get'>;
  /** Ends what runs between passes. */
  readonly signal: AbortSignal;
  readonly settings: Settings;
  readonly events: Events;
  /** Namespace of the operator. */
  readonly namespace: string;
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics: Pick<Metrics, 'evictions' | 'drainPasses' | 'drainBlocks' | 'drainDuration'>;
}

/** A drain that an agent asks for, its shadow read live. */
export interface DrainCall {
  readonly identity: Identity;
  readonly shadow: SlimShadow;
  readonly signal: AbortSignal;
}

/** Kept of a pass for the last look and the answer. */
const RESERVE_MS = 1_500;
/** Requests of one replica to evict or delete pods, of all drains together. */
const EVICTION_RATE = { perSecond: 100, burst: 100 };

/** Drains nodes in bounded passes. What one leaves to the next is in the shadow's status. */
export class Drainer {
  readonly #options: DrainerOptions;
  readonly #running = new Set<string>();
  readonly #pace: TokenBucket;
  readonly #attachments: Attachments;

  constructor(options: DrainerOptions) {
    this.#options = options;
    this.#pace = new TokenBucket(options.clock, EVICTION_RATE);
    this.#attachments = new Attachments(options);
  }

  /**
   * One pass of at most DRAIN_PASS_LIMIT_MS: cordons the node and evicts what it can. `done` means that a fresh list shows nothing left on
   * a node that is still cordoned. Throws KubeError, Failure `NotFound`, `Forbidden`, `Unavailable`, `Conflict` while another pass for the node
   * runs here, and the reason of the signal.
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

  /** Closes the record of a drain that is not gone on with. Throws as `pass` does. */
  async cancel({ identity, shadow: known, signal }: DrainCall): Promise<void> {
    if (!isOpen(known)) return;
    const { shadows, clock } = this.#options;
    const shadow = await shadows.read(identity.node, signal);
    const { drain, metadata } = shadow;
    if (drain === undefined || !isOpen(shadow)) return;
    await shadows.writeDrain({ node: identity.node, uid: metadata.uid }, cancelled(drain, clock.now()), signal);
  }

  /** For a replica on the node itself, when there may be none elsewhere. Throws as `pass` does. */
  async makeRoom(call: DrainCall): Promise<DrainResult> {
    const { client, nodes, namespace, clock } = this.#options;
    const { identity, signal } = call;
    const settings = this.#options.settings.current();
    const record = await this.#begin(call, []);
    const drain = record.current;
    const failed = async (result: 'TimedOut' | 'Vetoed', failure: DrainFailure): Promise<DrainResult> => {
      const outcome = { evicted: 0, remaining: drain.remaining, blockedBy: drain.blockedBy ?? [], handover: undefined };
      await record.set(afterPass(drain, { ...outcome, result }, clock.now()));
      return { done: false, ...outcome, failure };
    };
    if (stageOf(drain, settings, [], clock.now()) === 'Over') return failed('TimedOut', timedOut(settings));
    if ((await nodes.cordon(identity, signal)) === 'Vetoed') return failed('Vetoed', CORDON_REMOVED);
    const evict = (pod: DrainPod): Promise<EvictionOutcome> => this.#end(pod, settings.maxGracePeriodMs, false, signal);
    const result = await makeRoom({ client, namespace, node: identity.node, evict, signal });
    return { ...result, limitRemainingMs: limitRemainingMs(drain, settings, [], clock.now()) };
  }

  async #pass({ identity, shadow, signal }: DrainCall): Promise<DrainResult> {
    const { clock, client, log } = this.#options;
    const deadline = clock.monotonic() + DRAIN_PASS_LIMIT_MS - RESERVE_MS;
    const settings = this.#options.settings.current();
    const end = new AbortController();
    const stop = AbortSignal.any([signal, end.signal]);
    let pass: NodeDrain | undefined;
    const view = new DrainView({
      client,
      node: identity.node,
      attachments: this.#attachments,
      clock,
      log,
      signal: stop,
      changed: () => pass?.wake(),
    });
    try {
      await view.synced(stop);
      const record = await this.#begin({ identity, shadow, signal: stop }, view.pods());
      const drain = record.current;
      const isCurrent = (): boolean => this.#isCurrent(shadow);
      const hands = this.#hands(identity, settings, record, stop);
      const caller = identity.podUID;
      pass = new NodeDrain({ view, hands, settings, drain, caller, isCurrent, clock, deadline, signal: stop });
      const outcome = await pass.run();
      await this.#tell(shadow, identity.node, record, { before: drain, outcome });
      const { evicted, remaining, blockedBy, failure } = outcome;
      const done = isSuccess(outcome.result);
      const leftMs = limitRemainingMs(drain, settings, view.pods(), clock.now());
      return {
        done,
        evicted,
        remaining,
        blockedBy,
        limitRemainingMs: leftMs,
        ...(failure !== undefined && { failure }),
      };
    } finally {
      end.abort();
      await view.ended();
    }
  }

  /** The time limit of a new drain counts from here, whatever becomes of this replica. */
  async #begin({ identity, shadow, signal }: DrainCall, pods: readonly DrainPod[]): Promise<DrainRecord> {
    const { metadata, drain: before } = shadow;
    const { generation = 0 } = metadata;
    const remaining = podsToEvict(pods, { orphaned: new Set(), caller: identity.podUID }).length;
    const drain = continued(before, { generation, remaining, now: this.#options.clock.now() });
    const write = (next: DrainStatus): Promise<void> =>
      this.#options.shadows.writeDrain({ node: identity.node, uid: metadata.uid, generation }, next, signal);
    if (drain !== before && !hasSucceeded(before, drain.observedGeneration)) await write(drain);
    return new DrainRecord(drain, write);
  }

  /** False when the watch shows another spec than the one that the drain is for. */
  #isCurrent({ metadata: { name, uid, generation = 0 } }: SlimShadow): boolean {
    const known = this.#options.cache.get(name, this.#options.namespace)?.metadata;
    return known === undefined || (known.uid === uid && (known.generation ?? 0) <= generation);
  }

  #hands(identity: Identity, settings: DrainSettings, record: DrainRecord, signal: AbortSignal): NodeDrainHands {
    const { client, nodes, log } = this.#options;
    const names = new BudgetNames(client, log, signal);
    const { maxGracePeriodMs } = settings;
    return {
      cordon: () => nodes.cordon(identity, signal),
      end: async (pod, force) => names.add(pod, await this.#end(pod, maxGracePeriodMs, force, signal)),
      daemonSetExists: (key) => this.#exists(key, signal),
      saveHandover: (handover) => record.set(withHandover(record.current, handover)),
      lookAgain: async () => {
        const query = { fieldSelector: `spec.nodeName=${identity.node}` };
        const request = { method: 'GET', path: corePath('pods'), query, signal } as const;
        const [{ items }, node] = await Promise.all([
          client.request<{ items: unknown[] }>(request),
          nodes.read(identity, signal),
        ]);
        return { pods: items.map((raw) => slimPod(raw)), node };
      },
    };
  }

  async #end(
    pod: DrainPod,
    maxGraceMs: number | undefined,
    force: boolean,
    signal: AbortSignal,
  ): Promise<EvictionOutcome> {
    const { client, metrics, log } = this.#options;
    await this.#pace.wait(signal);
    const outcome = await evictPod(client, pod, { maxGraceMs, force });
    metrics.evictions.inc({ result: outcome.kind === 'blocked' ? outcome.block.reason : outcome.kind });
    const { reason, message } = outcome.kind === 'blocked' ? outcome.block : {};
    const asked = force ? 'asked to delete a pod' : 'asked to evict a pod';
    log.info(asked, { pod: podKey(pod), result: outcome.kind, reason, message });
    return outcome;
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

  /** Writes what the pass has come to, and tells of it once. */
  async #tell(
    shadow: SlimShadow,
    node: string,
    record: DrainRecord,
    { before, outcome }: { readonly before: DrainStatus; readonly outcome: NodeDrainOutcome },
  ): Promise<void> {
    const { clock, metrics, events } = this.#options;
    // A node that was found empty before and still is needs no other record.
    const unchanged = record.current === before && isEmptyAgain(outcome);
    if (unchanged && hasSucceeded(shadow.drain, before.observedGeneration)) return;
    const after = afterPass(before, outcome, clock.now());
    await record.set(after);
    for (const block of newBlocks(before, after)) {
      metrics.drainBlocks.inc({ reason: block.reason });
      events.record(blockedOccurrence(shadow, node, block));
    }
    if (outcome.forced) events.record(forcedOccurrence(shadow, node));
    if (after.result === undefined || after.result === before.result) return;
    const seconds = (clock.now() - (parseTime(after.startTime) ?? clock.now())) / 1000;
    metrics.drainDuration.observe({ result: after.result }, Math.max(0, seconds));
  }
}

function isOpen({ drain }: SlimShadow): boolean {
  return drain !== undefined && drain.result === undefined;
}
