/** Silences as Alertmanager 0.28 keeps them, for a {@link Webhook} that answers as it does. */
import { randomUUID } from 'node:crypto';
import { rfc3339Milli } from '../../../packages/shared/src/runtime/clock.ts';
import { type Behavior, type ReceivedRequest, Webhook } from './webhook.ts';

export interface StoredSilence {
  readonly id: string;
  readonly matchers: readonly object[];
  readonly startsAt: string;
  readonly endsAt: string;
  readonly createdBy: string;
  readonly comment: string;
}

/** Characters of a time without its fraction. */
const SECONDS = '2027-01-15T08:00:00'.length;

type Answer = readonly [status: number, body?: unknown];

export class SilenceStore {
  #silences: StoredSilence[] = [];
  readonly #now: () => number;

  /** @param now - of Alertmanager, epoch milliseconds */
  constructor(now: () => number) {
    this.#now = now;
  }

  /** Those that have not expired. */
  get active(): readonly StoredSilence[] {
    return this.#silences.filter((one) => !this.#isExpired(one));
  }

  /** Of the prefix of a path it takes any. */
  get behavior(): Behavior {
    return (response, request) => {
      const [status, body] = this.#answer(request);
      response.writeHead(status, { 'content-type': 'application/json' }).end(body && JSON.stringify(body));
    };
  }

  /** As a user does it. Returns the ID. */
  add(silence: Omit<StoredSilence, 'id' | 'startsAt' | 'endsAt'>, lastsMs: number): string {
    const now = this.#now();
    const id = randomUUID();
    const times = { startsAt: rfc3339Milli(now), endsAt: rfc3339Milli(now + lastsMs) };
    this.#silences.push({ ...silence, ...times, id });
    return id;
  }

  #answer({ method, path = '', body }: ReceivedRequest): Answer {
    const url = new URL(path, 'http://alertmanager');
    const id = /\/api\/v2\/silence\/(?<id>[^/]+)$/u.exec(url.pathname)?.groups?.['id'];
    if (method === 'DELETE' && id !== undefined) return this.#expire(id);
    if (!url.pathname.endsWith('/api/v2/silences')) return [404, 'no such path'];
    if (method === 'GET') return [200, this.#list(url.searchParams.getAll('filter'))];
    return this.#post(JSON.parse(body) as StoredSilence);
  }

  /** The text of a filter is compared with that of the matcher with its name. */
  #list(filters: readonly string[]): object[] {
    return this.#silences
      .filter((one) => filters.every((filter) => isMatched(one, filter)))
      .map((one) => ({ ...one, status: { state: this.#isExpired(one) ? 'expired' : 'active' } }));
  }

  #post({ id, ...given }: StoredSilence): Answer {
    const now = this.#now();
    if (Date.parse(given.endsAt) <= now || given.startsAt >= given.endsAt) return [400, 'invalid times'];
    const known = this.#silences.find((one) => one.id === id);
    if (id !== undefined && known === undefined) return [404, 'silence not found'];
    const isSame =
      known !== undefined &&
      !this.#isExpired(known) &&
      JSON.stringify(known.matchers) === JSON.stringify(given.matchers) &&
      known.startsAt.slice(0, SECONDS) === given.startsAt.slice(0, SECONDS);
    if (isSame) {
      this.#silences = this.#silences.map((one) => (one === known ? { ...given, id } : one));
      return [200, { silenceID: id }];
    }
    if (known !== undefined) this.#expire(known.id);
    const startsAt = rfc3339Milli(Math.max(now, Date.parse(given.startsAt)));
    const created = { ...given, startsAt, id: randomUUID() };
    this.#silences.push(created);
    return [200, { silenceID: created.id }];
  }

  #expire(id: string): Answer {
    const found = this.#silences.some((one) => one.id === id);
    const endsAt = rfc3339Milli(this.#now());
    this.#silences = this.#silences.map((one) => (one.id === id && !this.#isExpired(one) ? { ...one, endsAt } : one));
    return found ? [200] : [404, 'silence not found'];
  }

  #isExpired({ endsAt }: StoredSilence): boolean {
    return Date.parse(endsAt) <= this.#now();
  }
}

/**
 * Starts a server that keeps silences; `stop` of the server ends it.
 * @param now - of Alertmanager, epoch milliseconds
 * @param certificate - it serves HTTPS with it
 */
export async function startAlertmanager(
  now: () => number,
  certificate?: Parameters<typeof Webhook.start>[0],
): Promise<{ server: Webhook; store: SilenceStore }> {
  const server = await Webhook.start(certificate);
  const store = new SilenceStore(now);
  server.behavior = store.behavior;
  return { server, store };
}

function isMatched({ matchers }: StoredSilence, filter: string): boolean {
  const { name, value = '' } = /^(?<name>\w+)="(?<value>.*)"$/u.exec(filter)?.groups ?? {};
  const all = matchers as readonly { readonly name: string; readonly value: string }[];
  return (all.findLast((matcher) => matcher.name === name)?.value ?? '') === value;
}
