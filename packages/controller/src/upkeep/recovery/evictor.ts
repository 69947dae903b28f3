/** Requests the evictions that are on record. When to request one is up to `decide.ts`. */
import { type EvictionOutcome, requestEviction } from '@brupop/shared/drain/evictions';
import type { KubeClient } from '@brupop/shared/kube/client';
import type { Events } from '@brupop/shared/kube/events';
import { unlessAborted } from '@brupop/shared/runtime/abort';
import type { Clock } from '@brupop/shared/runtime/clock';
import type { Logger } from '@brupop/shared/runtime/log';
import type { Metrics } from '../../metrics.ts';
import { accept, type Eviction, forbid, forget, FRESH_MS, keyOf, type RecoveryState, refuse } from './decide.ts';
import type { CrashingPod } from './pods.ts';

/** `docs/runbook.md` explains each. */
export const RECOVERY_EVENTS = ['EvictedAfterRecovery'] as const;
const [EVICTED] = RECOVERY_EVENTS;

export interface EvictorOptions {
  /** Fenced. */
  readonly client: Pick<KubeClient, 'request'>;
  readonly clock: Clock;
  readonly log: Logger;
  readonly events: Pick<Events, 'record'>;
  readonly metrics: Pick<Metrics, 'recoveryEvictions'>;
}

export class RecoveryEvictor {
  readonly #options: EvictorOptions;
  /** The latest one. */
  #request: Promise<unknown> = Promise.resolve();

  constructor(options: EvictorOptions) {
    this.#options = options;
  }

  /** Resolves when no request is in flight. */
  async settled(): Promise<void> {
    await this.#request;
  }

  /**
   * Returns the state without the pods whose eviction was refused, or not requested. When `signal` aborts, returns at once
   * and leaves the request in flight: one that is cut off blocks a disruption budget for two minutes.
   * @param mayEvict - asked right before each request
   */
  async evict(
    before: RecoveryState,
    evictions: readonly Eviction[],
    mayEvict: (pod: CrashingPod) => boolean,
    signal: AbortSignal,
  ): Promise<RecoveryState> {
    const { clock } = this.#options;
    let state = before;
    for (const eviction of evictions) {
      if (signal.aborted) return state;
      const isDue = clock.monotonic() - eviction.listedAt <= FRESH_MS && mayEvict(eviction.pod);
      state = isDue ? await this.#evictOne(state, eviction, signal) : forget(state, eviction);
    }
    return state;
  }

  async #evictOne(state: RecoveryState, eviction: Eviction, signal: AbortSignal): Promise<RecoveryState> {
    const request = this.#send(eviction, state.refused.has(eviction.pod.uid) ? 'debug' : 'info');
    this.#request = request;
    const outcome = await unlessAborted(request, signal);
    if (outcome?.kind === 'accepted') return accept(state, eviction);
    if (outcome?.kind !== 'blocked' || outcome.isUnknown === true) return state;
    const next = refuse(state, eviction, outcome.retryAfterMs, this.#options.clock.now());
    return outcome.block.reason === 'Forbidden' ? forbid(next, eviction, outcome.block.message) : next;
  }

  async #send(eviction: Eviction, level: 'debug' | 'info'): Promise<EvictionOutcome> {
    const { client, log, metrics } = this.#options;
    const { uid, name, namespace, node } = eviction.pod;
    const outcome = await requestEviction(client, { metadata: { uid, name, namespace, resourceVersion: '' } });
    const { result, message } = described(outcome);
    metrics.recoveryEvictions.inc({ result });
    const [pod, after] = [`${namespace}/${name}`, keyOf(eviction.scope)];
    log[level]('requested the eviction of a pod in CrashLoopBackOff', { node, pod, after, result, message });
    if (outcome.kind === 'accepted') this.#recordEvent(eviction, after);
    return outcome;
  }

  #recordEvent({ pod: { uid, name, namespace } }: Eviction, after: string): void {
    const message = `It waited in CrashLoopBackOff, and ${after} has recovered: evicted, so that its controller creates a new one`;
    const about = { apiVersion: 'v1', kind: 'Pod', name, namespace, uid };
    this.#options.events.record({ reason: EVICTED, warning: false, about, message, key: uid, isMinor: true });
  }
}

function described(outcome: EvictionOutcome): { readonly result: string; readonly message?: string } {
  if (outcome.kind !== 'blocked') return { result: outcome.kind };
  const { reason, message } = outcome.block;
  return { result: outcome.isUnknown === true ? 'unknown' : reason, message };
}
