import { CONTROLLER, GROUP, SHADOW_KIND, SHADOW_PLURAL, SHADOW_VERSION } from '@brupop/shared/api/names';
import type { KubeClient } from '@brupop/shared/kube/client';
import type { Events } from '@brupop/shared/kube/events';
import { crPath } from '@brupop/shared/kube/paths';
import type { Condition } from '@brupop/shared/api/meta';
import type { Clock } from '@brupop/shared/runtime/clock';
import { type AssumeCache, saysTheSame } from '../cluster/assume-cache.ts';
import { PROGRESSING } from '../cluster/shadow.ts';
import type { Metrics } from '../metrics.ts';
import { transitionTime } from '../plan/condition.ts';
import type { NodeCondition } from '../plan/plan.ts';
import { eventSource } from './events.ts';
import { forFirstOf, type Writer } from './writer.ts';

export interface PublisherOptions {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly writes: Writer;
  readonly events: Events;
  readonly metrics: Metrics;
  readonly assumeCache: AssumeCache;
}

/** In one turn at most so many, so that specs never wait long for the explanations of a large fleet. */
const MAX_PER_TURN = 100;

/** Writes the Progressing conditions that say something new. */
export class Publisher {
  readonly #options: PublisherOptions;

  constructor(options: PublisherOptions) {
    this.#options = options;
  }

  /** Answers whether there is more to write. */
  async publish(conditions: readonly NodeCondition[], signal: AbortSignal): Promise<boolean> {
    const { writes } = this.#options;
    const due = conditions.filter(
      ({ shadow, progressing }) =>
        !saysTheSame(shadow.progressing, progressing) && writes.canWrite(keyOf(shadow.metadata.uid)),
    );
    return forFirstOf(due, MAX_PER_TURN, async (news) => {
      const key = keyOf(news.shadow.metadata.uid);
      await writes.attempt('condition', key, signal, () => this.#apply(news, signal));
    });
  }

  async #apply(news: NodeCondition, signal: AbortSignal): Promise<void> {
    const { client, clock, assumeCache } = this.#options;
    const { uid, name, namespace = '' } = news.shadow.metadata;
    const condition = conditionOf(news, clock.now());
    const path = crPath(SHADOW_PLURAL, { version: SHADOW_VERSION, namespace, name, subresource: 'status' });
    // With the UID, so that a shadow that was deleted meanwhile is not brought back.
    const body = {
      apiVersion: `${GROUP}/${SHADOW_VERSION}`,
      kind: SHADOW_KIND,
      metadata: { name, namespace, uid },
      status: { conditions: [condition], waitingFor: news.progressing.waitingFor },
    };
    await client.apply(path, body, { fieldManager: CONTROLLER, force: true, signal });
    assumeCache.condition(uid, condition, clock.now());
    this.#announce(news);
  }

  /** What goes on past its deadline. An update that is called off is announced with the write that does so. */
  #announce({ shadow, node, progressing: { reason, message }, calledOff }: NodeCondition): void {
    if (reason !== 'DeadlineExceeded' || shadow.progressing?.reason === reason || calledOff) return;
    this.#options.metrics.deadlineExceeded.inc({ state: shadow.spec.state });
    const key = `${shadow.metadata.uid}/${shadow.spec.state}/${shadow.spec.state_transition_timestamp ?? ''}`;
    this.#options.events.record(eventSource({ reason, shadow, node, message, key }));
  }
}

function keyOf(uid: string): string {
  return `condition/${uid}`;
}

/** The condition at `now`; lastTransitionTime stays while the status does (Kubernetes API conventions). */
export function conditionOf(
  { shadow, progressing }: Pick<NodeCondition, 'shadow' | 'progressing'>,
  now: number,
): Condition {
  const { waitingFor: _, ...said } = progressing;
  return {
    type: PROGRESSING,
    ...said,
    lastTransitionTime: transitionTime(shadow.progressing, progressing.status, now),
  };
}
