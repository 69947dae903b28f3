/** Requests the evictions that are on record. When to request one is up to `decide.ts`. */
import { type EvictionOutcome, requestEviction } from '@brupop/shared/drain/evictions';
import type { KubeClient } from '@brupop/shared/kube/client';
import type { Events } from '@brupop/shared/kube/events';
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

  constructor(options: EvictorOptions) {
    this.#options = options;
  }

  /**
   * Returns the state without the pods whose eviction was refused, or not requested.
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
      state = isDue ? await this.#evictOne(state, eviction) : forget(state, eviction);
    }
    return state;
  }

  async #evictOne(state: RecoveryState, eviction: Eviction): Promise<RecoveryState> {
    const { client, clock, log, metrics } = this.#options;
    const { uid, name, namespace, node } = eviction.pod;
    const outcome = await requestEviction(client, { metadata: { uid, name, namespace, resourceVersion: '' } });
    const { result, message } = described(outcome);
    metrics.recoveryEvictions.inc({ result });
    const level = state.refused.has(uid) ? 'debug' : 'info';
    const [pod, after] = [`${namespace}/${name}`, keyOf(eviction.scope)];
    log[level]('requested the eviction of a pod in CrashLoopBackOff', { node, pod, after, result, message });
    if (outcome.kind === 'accepted') {
      this.#recordEvent(eviction, after);
      return accept(state, eviction);
    }
    if (outcome.kind !== 'blocked' || outcome.isUnknown === true) return state;
    const next = refuse(state, eviction, outcome.retryAfterMs, clock.now());
    return outcome.block.reason === 'Forbidden' ? forbid(next, eviction, outcome.block.message) : next;
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
