import { createHash } from 'node:crypto';
import { messageOf } from '../runtime/errors.ts';
import { GROUP, SHADOW_KIND, SHADOW_VERSION } from '../api/names.ts';
import { type Clock, rfc3339 } from '../runtime/clock.ts';
import type { Logger } from '../runtime/log.ts';
import type { KubeClient } from './client.ts';
import { hasStatus } from './error.ts';
import { corePath } from './paths.ts';
import type { KubernetesObject } from '../api/meta.ts';

/** An object as an Event names it. */
export interface Reference {
  readonly apiVersion: string;
  readonly kind: string;
  readonly name: string;
  readonly uid: string;
  /** Absent for what is cluster-scoped. */
  readonly namespace?: string;
}

/** How an Event names a shadow. */
export function shadowReference({ metadata: { name, namespace = '', uid } }: KubernetesObject): Reference {
  return { apiVersion: `${GROUP}/${SHADOW_VERSION}`, kind: SHADOW_KIND, name, namespace, uid };
}

/** Something that happened to an object. */
export interface EventSource {
  readonly reason: string;
  readonly warning: boolean;
  readonly about: Reference;
  readonly related?: Reference | undefined;
  readonly message: string;
  /** Tells this occurrence from others of the same kind at the same object: the same text gives the same Event. */
  readonly key: string;
}

export interface EventsOptions {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly log: Logger;
  /** Name of the program. */
  readonly component: string;
  /** Name of this pod. */
  readonly instance: string;
  /** Told what became of each Event; conflict: the occurrence has one already. */
  readonly count: (result: 'ok' | 'conflict' | 'error' | 'dropped') => void;
}

/** Events about cluster-scoped objects are kept in this namespace (Kubernetes validation of Event). */
export const EVENTS_NAMESPACE = 'default';
const LIMIT_MS = 5_000;
const MAX_QUEUE = 1_000;
const MAX_MESSAGE = 1_000;

/** Writes Events: best effort, in the background, one after the other, each tried once. */
export class Events {
  readonly #options: EventsOptions;
  readonly #queue: EventSource[] = [];
  #sending = false;

  constructor(options: EventsOptions) {
    this.#options = options;
  }

  /** Writes an Event soon. Never throws; what does not fit the queue is counted as dropped. */
  record(occurrence: EventSource): void {
    const { count, log } = this.#options;
    if (this.#queue.length >= MAX_QUEUE) {
      count('dropped');
      return;
    }
    this.#queue.push(occurrence);
    if (this.#sending) return;
    this.#sending = true;
    this.#sendAll().catch((error: unknown) => log.error('events cannot be sent', { error: messageOf(error) }));
  }

  async #sendAll(): Promise<void> {
    for (let next = this.#queue.shift(); next !== undefined; next = this.#queue.shift()) await this.#send(next);
    this.#sending = false;
  }

  async #send(occurrence: EventSource): Promise<void> {
    const { client, log, count, clock } = this.#options;
    const body = eventOf(occurrence, this.#options, rfc3339(clock.now()));
    const path = corePath('events', { namespace: namespaceOf(occurrence) });
    try {
      await client.request({ method: 'POST', path, body, timeoutMs: LIMIT_MS });
      count('ok');
    } catch (error) {
      count(hasStatus(error, 409) ? 'conflict' : 'error');
      if (!hasStatus(error, 409)) log.warn('an Event was not written', { error: messageOf(error) });
    }
  }
}

function namespaceOf({ about }: EventSource): string {
  return about.namespace ?? EVENTS_NAMESPACE;
}

/** The core/v1 Event of an occurrence at `time` (RFC 3339). */
export function eventOf(
  occurrence: EventSource,
  { component, instance }: Pick<EventsOptions, 'component' | 'instance'>,
  time: string,
): object {
  const { reason, warning, about, related, message, key } = occurrence;
  const digest = createHash('sha256')
    .update(JSON.stringify([about.uid, reason, key]))
    .digest('hex')
    .slice(0, 24);
  return {
    apiVersion: 'v1',
    kind: 'Event',
    metadata: { name: `brupop-${digest}`, namespace: namespaceOf(occurrence) },
    involvedObject: about,
    ...(related !== undefined && { related }),
    type: warning ? 'Warning' : 'Normal',
    reason,
    message: message.slice(0, MAX_MESSAGE),
    source: { component },
    reportingComponent: component,
    reportingInstance: instance,
    firstTimestamp: time,
    lastTimestamp: time,
    count: 1,
  };
}
