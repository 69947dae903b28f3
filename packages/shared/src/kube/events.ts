import { createHash } from 'node:crypto';
import { messageOf, printable } from '../runtime/errors.ts';
import { GROUP, SHADOW_KIND, SHADOW_VERSION } from '../api/names.ts';
import { type Clock, rfc3339, rfc3339Micro } from '../runtime/clock.ts';
import type { Logger } from '../runtime/log.ts';
import { TokenBucket } from '../runtime/token-bucket.ts';
import type { KubeClient } from './client.ts';
import { hasStatus } from './error.ts';
import { corePath } from './paths.ts';
import type { KubernetesObject } from '../api/meta.ts';

/** core/v1 ObjectReference. */
export interface ObjectReference {
  readonly apiVersion: string;
  readonly kind: string;
  readonly name: string;
  readonly uid: string;
  /** Absent for cluster-scoped objects. */
  readonly namespace?: string;
}

export function shadowReference({ metadata: { name, namespace = '', uid } }: KubernetesObject): ObjectReference {
  return { apiVersion: `${GROUP}/${SHADOW_VERSION}`, kind: SHADOW_KIND, name, namespace, uid };
}

export interface EventSource {
  readonly reason: string;
  readonly warning: boolean;
  readonly about: ObjectReference;
  readonly related?: ObjectReference | undefined;
  readonly message: string;
  /** Distinguishes occurrences of one reason for one object: the same key gives the same Event. */
  readonly key: string;
  /** Left out when there are many of these: they must not delay other Events, nor fill etcd. */
  readonly isMinor?: boolean;
}

interface EventsOptions {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly log: Logger;
  readonly component: string;
  /** Name of this pod. */
  readonly instance: string;
  /** Called with the result of each Event; conflict: it was written before. */
  readonly count: (result: 'ok' | 'conflict' | 'error' | 'dropped') => void;
}

/** Namespace of Events about cluster-scoped objects, as the API server validates it. */
const EVENTS_NAMESPACE = 'default';
const LIMIT_MS = 5_000;
const MAX_QUEUE = 1_000;
const MAX_MICROS = 999;
/** Bytes. kube-apiserver rejects an Event with an `eventTime` whose message is longer. */
const MAX_MESSAGE = 1_024;
const MINOR_RATE = { burst: 100, perSecond: 1 };

/** Writes Events in the background, one after the other, each tried once. */
export class Events {
  readonly #options: EventsOptions;
  readonly #minor: TokenBucket;
  /** By the UID of an object: the second of its latest Event, epoch seconds. */
  readonly #seconds = new Map<string, number>();
  /** When the latest Event was recorded: epoch milliseconds, and its microseconds. */
  #latest = { now: 0, micros: 0 };
  #queued = 0;
  #sent = Promise.resolve();

  constructor(options: EventsOptions) {
    this.#options = options;
    this.#minor = new TokenBucket(options.clock, MINOR_RATE);
  }

  /** How many are waiting to be sent. */
  get queued(): number {
    return this.#queued;
  }

  /** Queues an Event. Never throws; drops and counts it when there are too many. */
  record(occurrence: EventSource): void {
    const isTooMany = this.#queued >= MAX_QUEUE || (occurrence.isMinor === true && !this.#minor.take());
    if (isTooMany) {
      this.#options.count('dropped');
      return;
    }
    this.#queued += 1;
    const now = this.#options.clock.now();
    const micros = this.#latest.now === now ? Math.min(this.#latest.micros + 1, MAX_MICROS) : 0;
    this.#latest = { now, micros };
    const second = this.#secondOf(occurrence.about.uid, now);
    const body = eventOf(occurrence, this.#options, { now, micros, second });
    this.#sent = this.#sent.then(() => this.#send(occurrence, body));
  }

  /** `kubectl describe` and `kubectl events` sort by whole seconds: a later Event about an object gets a later one. */
  #secondOf(uid: string, now: number): number {
    const current = Math.floor(now / 1000);
    for (const [one, second] of this.#seconds) if (second < current) this.#seconds.delete(one);
    const second = Math.max(current, (this.#seconds.get(uid) ?? 0) + 1);
    // Without this, a clock that was ahead would keep all for as long.
    const [oldest] = this.#seconds.size < MAX_QUEUE ? [] : this.#seconds.keys();
    if (oldest !== undefined) this.#seconds.delete(oldest);
    this.#seconds.set(uid, second);
    return second;
  }

  async #send(occurrence: EventSource, body: object): Promise<void> {
    const { client, log, count } = this.#options;
    try {
      const path = corePath('events', { namespace: namespaceOf(occurrence) });
      await client.request({ method: 'POST', path, body, timeoutMs: LIMIT_MS });
      count('ok');
    } catch (error) {
      count(hasStatus(error, 409) ? 'conflict' : 'error');
      const level = hasStatus(error, 403) ? 'warn' : 'info';
      const { reason, about } = occurrence;
      const object = `${about.kind} ${about.name}`;
      if (!hasStatus(error, 409)) log[level]('cannot write an Event', { object, reason, error: messageOf(error) });
    }
    this.#queued -= 1;
  }
}

function namespaceOf({ about }: EventSource): string {
  return about.namespace ?? EVENTS_NAMESPACE;
}

interface EventTime {
  /** Epoch milliseconds. */
  readonly now: number;
  /** They tell Events of one millisecond apart: `--sort-by=.eventTime` has them in their order. */
  readonly micros: number;
  /** The one by which `kubectl describe` and `kubectl events` sort. */
  readonly second: number;
}

/** The core/v1 Event for `occurrence`. */
export function eventOf(
  occurrence: EventSource,
  { component, instance }: Pick<EventsOptions, 'component' | 'instance'>,
  { now, micros, second }: EventTime,
): object {
  const { reason, warning, about, related, message, key } = occurrence;
  const digest = createHash('sha256')
    .update(JSON.stringify([about.uid, reason, key]))
    .digest('hex')
    .slice(0, 24);
  const time = rfc3339(second * 1000);
  return {
    apiVersion: 'v1',
    kind: 'Event',
    metadata: { name: `brupop-${digest}`, namespace: namespaceOf(occurrence) },
    involvedObject: about,
    ...(related !== undefined && { related }),
    type: warning ? 'Warning' : 'Normal',
    reason,
    action: reason,
    eventTime: rfc3339Micro(now, micros),
    message: bounded(printable(message.slice(0, MAX_MESSAGE))),
    source: { component },
    reportingComponent: component,
    reportingInstance: instance,
    firstTimestamp: time,
    lastTimestamp: time,
    count: 1,
  };
}

/** Whole characters only. */
function bounded(message: string): string {
  const bytes = Buffer.alloc(MAX_MESSAGE);
  return bytes.toString('utf8', 0, bytes.write(message));
}
