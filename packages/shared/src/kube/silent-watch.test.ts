import { WATCH_STALE_MS } from '../api/deadlines.ts';
import type { KubernetesObject } from '../api/meta.ts';
import { createLogger } from '../runtime/log.ts';
import { FakeClock } from '../testing/fake-clock.ts';
import type { KubeClient, KubeRequest } from './client.ts';
import { Reflector } from './reflector.ts';

const MINUTE = 60_000;
const A = { metadata: { name: 'a', uid: 'u', resourceVersion: '7' } };

interface Behavior {
  /** Open watches send bookmarks once a minute after a consistent read. */
  readonly reportsProgress: boolean;
  /** A proxy closes watches that were silent for this time. */
  readonly cutAfterMs?: number;
  /** How long the response to a read takes. */
  readonly readMs?: number;
  /** As of a collection that no read has asked for: etcd reports its revision this often. */
  readonly progressEveryMs?: number;
}

/** A kube-apiserver with an empty collection. The revision of etcd is 5, and grows by one each second. */
class QuietServer implements Pick<KubeClient, 'request' | 'stream'> {
  readonly clock = new FakeClock();
  readonly requests: string[] = [];
  /** New watches are accepted, but receive nothing. */
  hangs = false;
  /** The time at which it was cut off from etcd, monotonic milliseconds: it knows no later revision, and reads hang. */
  cutOffAt = Infinity;
  /** Sent at once to each watch that is opened, if they are newer. */
  changes: KubernetesObject[] = [];
  items: KubernetesObject[] = [];
  revisionOf = (revision: number): string => String(revision);
  /** Added to the revision by a list that another kube-apiserver serves from an old cache. */
  listedAhead = 0;
  #restoredBy = 0;
  #cut = new AbortController();
  #progressed = false;
  readonly #behavior: Behavior;

  constructor(behavior: Behavior) {
    this.#behavior = behavior;
  }

  async request<T>({ query = {}, signal }: KubeRequest): Promise<T> {
    const { fieldSelector: selector, resourceVersion } = query;
    this.requests.push(selector === undefined ? 'list' : `read ${selector}`);
    this.#progressed = selector !== undefined;
    // Without a resourceVersion the read is consistent; a cache may be behind.
    const current = resourceVersion === undefined ? this.#revision : 0;
    if (selector === undefined) return this.#list(this.items, current + this.listedAhead) as T;
    await this.clock.sleep(this.cutOffAt < Infinity ? Infinity : (this.#behavior.readMs ?? 0), signal);
    return this.#list([], current) as T;
  }

  async stream({ query, signal }: KubeRequest): Promise<AsyncIterable<Uint8Array>> {
    const seconds = Number(query?.['timeoutSeconds']);
    this.requests.push(seconds < 60 ? 'catch-up' : 'watch');
    const ended = AbortSignal.any([signal ?? new AbortController().signal, this.#cut.signal]);
    return this.#events(Number(query?.['resourceVersion']), seconds * 1_000, ended);
  }

  /** Restores etcd from a backup that was made before `revisions` writes. */
  restore(revisions: number): void {
    this.#restoredBy += revisions;
  }

  /** Ends all open watches. */
  cut(): void {
    this.#cut.abort(new Error('terminated'));
    this.#cut = new AbortController();
  }

  get #revision(): number {
    return 5 + Math.floor(Math.min(this.clock.monotonic(), this.cutOffAt) / 1_000) - this.#restoredBy;
  }

  /** What bookmarks say. */
  get #reported(): number {
    const { progressEveryMs } = this.#behavior;
    if (progressEveryMs === undefined) return this.#revision;
    return 5 + (Math.floor(this.clock.monotonic() / progressEveryMs) * progressEveryMs + MINUTE) / 1_000;
  }

  #list(items: readonly KubernetesObject[], revision: number): object {
    return { items, metadata: { resourceVersion: this.revisionOf(revision) } };
  }

  async *#events(from: number, ms: number, signal: AbortSignal): AsyncGenerator<Uint8Array> {
    if (this.hangs) await this.clock.sleep(Infinity, signal);
    const newer = this.changes.filter(({ metadata }) => Number(metadata.resourceVersion) > from);
    for (const object of newer) yield line('ADDED', object);
    const end = this.clock.monotonic() + ms;
    for (let left = ms; left > 0; left = end - this.clock.monotonic()) {
      const { cutAfterMs = Infinity } = this.#behavior;
      await this.clock.sleep(Math.min(left, MINUTE, cutAfterMs), signal);
      if (cutAfterMs < Math.min(left, MINUTE)) throw new Error('terminated');
      if (this.#behavior.reportsProgress && this.#progressed && this.#reported > from)
        yield line('BOOKMARK', { metadata: { resourceVersion: String(this.#reported) } });
    }
  }
}

function line(type: string, object: object): Uint8Array {
  return new TextEncoder().encode(`${JSON.stringify({ type, object })}\n`);
}

describe('a watch of a collection without changes', () => {
  const stop = new AbortController();
  let warnings: string[] = [];

  function reflect(
    behavior: Behavior,
    progressLimitMs?: number,
  ): { server: QuietServer; reflector: Reflector<KubernetesObject> } {
    const server = new QuietServer(behavior);
    const write = (text: string): void => void warnings.push((JSON.parse(text) as { error: string }).error);
    const log = createLogger({ level: 'warn', write });
    const slim = (raw: unknown): KubernetesObject => raw as KubernetesObject;
    const reflector = new Reflector({
      client: server,
      clock: server.clock,
      log,
      name: 'things',
      path: '/things',
      slim,
      ...(progressLimitMs !== undefined && { progressLimitMs }),
    });
    void reflector.run(stop.signal);
    return { server, reflector };
  }

  /** The longest time without a confirmation during `ms`. */
  async function longestDoubt(
    server: QuietServer,
    reflector: Reflector<KubernetesObject>,
    ms: number,
  ): Promise<number> {
    let longest = 0;
    for (const end = server.clock.monotonic() + ms; server.clock.monotonic() < end;) {
      await server.clock.advance(500);
      longest = Math.max(longest, reflector.idleForMs());
    }
    return longest;
  }

  const count = (server: QuietServer, which: string): number =>
    server.requests.filter((what) => what.startsWith(which)).length;

  beforeEach(() => {
    warnings = [];
  });

  afterAll(() => stop.abort());

  it('stays current for twenty minutes after one read if bookmarks follow the read', async () => {
    const { server, reflector } = reflect({ reportsProgress: true });
    expect(await longestDoubt(server, reflector, 20 * MINUTE)).toBeLessThan(WATCH_STALE_MS);
    expect(server.requests).toEqual(['list', 'watch', 'read metadata.name=none']);
    expect(warnings).toEqual([]);
  });

  it('stays current for twenty minutes without bookmarks and without being reopened', async () => {
    const { server, reflector } = reflect({ reportsProgress: false });
    expect(await longestDoubt(server, reflector, 20 * MINUTE)).toBeLessThan(WATCH_STALE_MS);
    expect(server.requests.slice(0, 3)).toEqual(['list', 'watch', 'read metadata.name=none']);
    const checks = server.requests.slice(3);
    expect(checks).toEqual(checks.map((_, i) => (i % 2 === 0 ? 'catch-up' : 'read metadata.name=none')));
    expect(checks.length).toBeLessThanOrEqual(2 * 12);
    expect(warnings).toEqual([]);
  });

  it('stays current with few requests and without a warning behind a proxy that closes silent connections', async () => {
    const { server, reflector } = reflect({ reportsProgress: true, cutAfterMs: 50_000 });
    expect(await longestDoubt(server, reflector, 20 * MINUTE)).toBeLessThan(WATCH_STALE_MS);
    expect(count(server, 'read')).toBeLessThanOrEqual(count(server, 'watch'));
    expect(count(server, 'watch') + count(server, 'catch-up')).toBeLessThanOrEqual(20 * 2);
    expect(warnings).toEqual([]);
  });

  it('becomes stale in time while the server accepts watches but hangs, and current when it responds', async () => {
    const { server, reflector } = reflect({ reportsProgress: false });
    await server.clock.advance(MINUTE);
    server.hangs = true;
    await longestDoubt(server, reflector, 30 * MINUTE);
    expect(reflector.idleForMs()).toBeGreaterThan(29 * MINUTE - WATCH_STALE_MS);
    expect(server.requests.filter((what) => what !== 'catch-up').length).toBeLessThan(70);
    server.hangs = false;
    await server.clock.advance(MINUTE);
    expect(reflector.idleForMs()).toBeLessThan(MINUTE);
  });

  it('stays current for half an hour after one read if bookmarks repeat what etcd reports every 10 minutes', async () => {
    const { server, reflector } = reflect({ reportsProgress: true, progressEveryMs: 10 * MINUTE });
    expect(await longestDoubt(server, reflector, 29 * MINUTE)).toBeLessThan(WATCH_STALE_MS);
    expect(server.requests).toEqual(['list', 'watch', 'read metadata.name=none']);
    expect(warnings).toEqual([]);
  });

  it.each([
    ['when etcd should have reported a newer revision', undefined, 15 * MINUTE],
    ['in time if it changes all the time', 0, WATCH_STALE_MS],
  ])(
    'becomes stale %s while kube-apiserver is cut off from etcd and repeats bookmarks',
    async (_, progressLimitMs, withinMs) => {
      const { server, reflector } = reflect({ reportsProgress: true }, progressLimitMs);
      await server.clock.advance(5 * MINUTE);
      server.cutOffAt = server.clock.monotonic();
      await longestDoubt(server, reflector, withinMs + WATCH_STALE_MS);
      expect(reflector.idleForMs()).toBeGreaterThan(WATCH_STALE_MS);
      server.cutOffAt = Infinity;
      await server.clock.advance(2 * MINUTE);
      expect(reflector.idleForMs()).toBeLessThan(WATCH_STALE_MS);
    },
  );

  it('is reopened when it has not delivered a change', async () => {
    const { server, reflector } = reflect({ reportsProgress: false });
    server.hangs = true;
    await server.clock.advance(MINUTE);
    server.hangs = false;
    server.changes = [A];
    await server.clock.advance(MINUTE);
    expect(reflector.get('a')?.metadata.resourceVersion).toBe('7');
    expect(server.requests.filter((what) => what === 'watch')).toHaveLength(2);
    expect(warnings).toEqual(['the watch missed a change']);
  });

  it('goes on when its read is answered after a bookmark that is newer', async () => {
    const { server, reflector } = reflect({ reportsProgress: true, readMs: MINUTE });
    expect(await longestDoubt(server, reflector, 20 * MINUTE)).toBeLessThan(WATCH_STALE_MS);
    expect(server.requests).toEqual(['list', 'watch', 'read metadata.name=none']);
  });

  describe('after etcd was restored from a backup of ten minutes ago', () => {
    it('is listed again 10 seconds after its watch was cut and reopened, and once', async () => {
      const { server, reflector } = reflect({ reportsProgress: true });
      await server.clock.advance(30 * MINUTE);
      server.restore(600);
      server.items = [A];
      server.cut();
      await server.clock.advance(11_000);
      expect(reflector.list()).toEqual([A]);
      expect(await longestDoubt(server, reflector, 20 * MINUTE)).toBeLessThan(WATCH_STALE_MS);
      expect(count(server, 'list')).toBe(2);
      expect(warnings).toEqual([]);
    });

    it.each([true, false])(
      'is listed again before it is stale when its watch was not cut (bookmarks before: %s)',
      async (reportsProgress) => {
        const { server, reflector } = reflect({ reportsProgress });
        await server.clock.advance(9.5 * MINUTE);
        server.changes = [{ metadata: { ...A.metadata, name: 'b', resourceVersion: '575' } }];
        server.cut();
        await server.clock.advance(0.5 * MINUTE);
        expect(reflector.list()).toEqual(server.changes);
        server.restore(600);
        server.items = [A];
        server.changes = [];
        await server.clock.advance(WATCH_STALE_MS);
        expect(reflector.list()).toEqual([A]);
        expect(await longestDoubt(server, reflector, 20 * MINUTE)).toBeLessThan(WATCH_STALE_MS);
        expect(count(server, 'list')).toBe(2);
      },
    );

    it('is listed at most every 25 seconds while a kube-apiserver that runs on lists its old cache', async () => {
      const { server } = reflect({ reportsProgress: true });
      await server.clock.advance(10 * MINUTE);
      server.restore(600);
      server.listedAhead = 100_000;
      server.cut();
      await server.clock.advance(20 * MINUTE);
      const before = count(server, 'list');
      await server.clock.advance(20 * MINUTE);
      expect(count(server, 'list') - before).toBeLessThanOrEqual((20 * MINUTE) / 25_000);
      server.listedAhead = 0;
      await server.clock.advance(2 * MINUTE);
      expect(count(server, 'list')).toBeLessThanOrEqual(before + (22 * MINUTE) / 25_000);
    });
  });

  it('is never listed again because of resourceVersions that are no numbers', async () => {
    const { server, reflector } = reflect({ reportsProgress: false });
    server.revisionOf = (revision) => `v${1_000 - revision}`;
    expect(await longestDoubt(server, reflector, 20 * MINUTE)).toBeLessThan(WATCH_STALE_MS);
    expect(count(server, 'list')).toBe(1);
  });
});

it('a list is no confirmation before its last page is in the store', async () => {
  const clock = new FakeClock();
  const stop = new AbortController();
  const client: Pick<KubeClient, 'request' | 'stream'> = {
    request: async <T>({ query, signal }: KubeRequest) => {
      await clock.sleep(10_000, signal);
      const more = query?.['continue'] === undefined ? { continue: 'second' } : {};
      return { items: [], metadata: { resourceVersion: '5', ...more } } as T;
    },
    stream: async () => (await clock.sleep(Infinity, stop.signal)) as never,
  };
  const log = createLogger({ level: 'error', write: () => undefined });
  const slim = (raw: unknown): KubernetesObject => raw as KubernetesObject;
  const reflector = new Reflector({ client, clock, log, name: 'things', path: '/things', slim });
  const running = reflector.run(stop.signal);
  await clock.advance(15_000);
  expect(reflector.idleForMs()).toBe(15_000);
  await clock.advance(5_000);
  expect([reflector.synced, reflector.idleForMs()]).toEqual([true, 0]);
  stop.abort();
  await running;
});
