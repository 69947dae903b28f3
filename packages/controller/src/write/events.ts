import { createHash } from 'node:crypto';
import type { Clock } from '@brupop/shared/clock';
import { rfc3339 } from '@brupop/shared/clock';
import { CONTROLLER, GROUP, SHADOW_KIND, SHADOW_VERSION } from '@brupop/shared/constants';
import { messageOf } from '@brupop/shared/errors';
import type { KubeClient } from '@brupop/shared/kube';
import { hasStatus } from '@brupop/shared/kube-error';
import { corePath } from '@brupop/shared/kube-paths';
import type { Logger } from '@brupop/shared/log';
import type { Metrics } from '../metrics.ts';
import type { NodeView } from '../cluster/node-view.ts';
import type { ShadowView } from '../cluster/shadow-view.ts';

/** `docs/runbook.md` explains each. */
export const EVENT_REASONS = [
  'UpdateStarted',
  'UpdateSucceeded',
  'UpdateFailed',
  'DeadlineExceeded',
  'Restored',
] as const;
export type EventReason = (typeof EVENT_REASONS)[number];

/** Something that happened to a node. */
export interface Occurrence {
  readonly reason: EventReason;
  readonly node: NodeView;
  readonly shadow: ShadowView | undefined;
  readonly message: string;
  /** Tells this occurrence from others of the same kind at the same node: the same text gives the same Event. */
  readonly key: string;
}

export interface EventsOptions {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics: Metrics;
  /** Name of this pod. */
  readonly instance: string;
}

/** Events about cluster-scoped objects are kept in this namespace (Kubernetes validation of Event). */
export const EVENTS_NAMESPACE = 'default';
const LIMIT_MS = 5_000;
const MAX_QUEUE = 1_000;
const MAX_MESSAGE = 1_000;
const WARNINGS: ReadonlySet<EventReason> = new Set(['UpdateFailed', 'DeadlineExceeded']);

/** Events on Nodes: best effort, in the background, one after the other, each tried once. */
export class Events {
  readonly #options: EventsOptions;
  readonly #queue: object[] = [];
  #sending = false;

  constructor(options: EventsOptions) {
    this.#options = options;
  }

  /** Writes an Event soon. Never throws; what does not fit the queue is counted as dropped. */
  record(occurrence: Occurrence): void {
    const { metrics, log, instance, clock } = this.#options;
    if (this.#queue.length >= MAX_QUEUE) {
      metrics.wrote('event', 'dropped');
      return;
    }
    this.#queue.push(eventOf(occurrence, instance, rfc3339(clock.now())));
    if (this.#sending) return;
    this.#sending = true;
    this.#sendAll().catch((error: unknown) => log.error('events cannot be sent', { error: messageOf(error) }));
  }

  async #sendAll(): Promise<void> {
    for (let event = this.#queue.shift(); event !== undefined; event = this.#queue.shift()) await this.#send(event);
    this.#sending = false;
  }

  async #send(body: object): Promise<void> {
    const { client, metrics, log } = this.#options;
    const path = corePath('events', { namespace: EVENTS_NAMESPACE });
    try {
      await client.request({ method: 'POST', path, body, timeoutMs: LIMIT_MS });
      metrics.wrote('event', 'ok');
    } catch (error) {
      // 409: this occurrence has its Event already.
      metrics.wrote('event', hasStatus(error, 409) ? 'conflict' : 'error');
      if (!hasStatus(error, 409)) log.warn('an Event was not written', { error: messageOf(error) });
    }
  }
}

/** The core/v1 Event of an occurrence at `time` (RFC 3339). */
export function eventOf({ reason, node, shadow, message, key }: Occurrence, instance: string, time: string): object {
  const { name, uid } = node.metadata;
  const digest = createHash('sha256')
    .update(JSON.stringify([uid, reason, key]))
    .digest('hex')
    .slice(0, 24);
  return {
    apiVersion: 'v1',
    kind: 'Event',
    metadata: { name: `brupop-${digest}`, namespace: EVENTS_NAMESPACE },
    involvedObject: { apiVersion: 'v1', kind: 'Node', name, uid },
    ...(shadow !== undefined && { related: referenceTo(shadow) }),
    type: WARNINGS.has(reason) ? 'Warning' : 'Normal',
    reason,
    message: message.slice(0, MAX_MESSAGE),
    source: { component: CONTROLLER },
    reportingComponent: CONTROLLER,
    reportingInstance: instance,
    firstTimestamp: time,
    lastTimestamp: time,
    count: 1,
  };
}

function referenceTo({ metadata: { name, namespace, uid } }: ShadowView): object {
  return { apiVersion: `${GROUP}/${SHADOW_VERSION}`, kind: SHADOW_KIND, name, namespace, uid };
}
