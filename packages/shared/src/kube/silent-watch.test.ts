import { WATCH_STALE_MS } from '../api/deadlines.ts';
import type { KubernetesObject } from '../api/meta.ts';
import { createLogger } from '../runtime/log.ts';
import { FakeClock } from '../testing/fake-clock.ts';
import type { KubeClient, KubeRequest } from './client.ts';
import { Reflector } from './reflector.ts';

const MINUTE = 60_000;

interface Behavior {
  /** Open watches send bookmarks once a minute after a consistent read. */
  readonly reportsProgress: boolean;
  /** A proxy closes watches that were silent for this time. */
  readonly cutAfterMs?: number;
}

/** A kube-apiserver with an empty collection. */
class QuietServer implements Pick<KubeClient, 'request' | 'stream'> {
  readonly clock = new FakeClock();
  readonly requests: string[] = [];
  /** New watches are accepted, but receive nothing. */
  hangs = false;
  /** Sent at once to each watch that is opened. */
  changes: object[] = [];
  #progressed = false;
  readonly #behavior: Behavior;

  constructor(behavior: Behavior) {
    this.#behavior = behavior;
  }

  async request<T>({ query }: KubeRequest): Promise<T> {
    const selector = query?.['fieldSelector'];
    this.requests.push(selector === undefined ? 'list' : `read ${selector}`);
    this.#progressed = selector !== undefined;
    return { items: [], metadata: { resourceVersion: '5' } } as T;
  }

  async stream({ query, signal }: KubeRequest): Promise<AsyncIterable<Uint8Array>> {
    const seconds = Number(query?.['timeoutSeconds']);
    this.requests.push(seconds < 60 ? 'catch-up' : 'watch');
    return this.#events(seconds * 1_000, signal ?? new AbortController().signal);
  }

  async *#events(ms: number, signal: AbortSignal): AsyncGenerator<Uint8Array> {
    if (this.hangs) await this.clock.sleep(Infinity, signal);
    for (const object of this.changes) yield line('ADDED', object);
    const end = this.clock.monotonic() + ms;
    for (let left = ms; left > 0; left = end - this.clock.monotonic()) {
      const { cutAfterMs = Infinity } = this.#behavior;
      await this.clock.sleep(Math.min(left, MINUTE, cutAfterMs), signal);
      if (cutAfterMs < Math.min(left, MINUTE)) throw new Error('terminated');
      if (this.#behavior.reportsProgress && this.#progressed)
        yield line('BOOKMARK', { metadata: { resourceVersion: '9' } });
    }
  }
}

function line(type: string, object: object): Uint8Array {
  return new TextEncoder().encode(`${JSON.stringify({ type, object })}\n`);
}

describe('a watch of a collection without changes', () => {
  const stop = new AbortController();
  let warnings: string[] = [];

  function reflect(behavior: Behavior): { server: QuietServer; reflector: Reflector<KubernetesObject> } {
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
    expect(new Set(server.requests.slice(3))).toEqual(new Set(['catch-up']));
    expect(server.requests.length - 3).toBeLessThanOrEqual(12);
    expect(warnings).toEqual([]);
  });

  it('stays current with few requests and without a warning behind a proxy that closes silent connections', async () => {
    const { server, reflector } = reflect({ reportsProgress: true, cutAfterMs: 50_000 });
    expect(await longestDoubt(server, reflector, 20 * MINUTE)).toBeLessThan(WATCH_STALE_MS);
    const count = (which: string): number => server.requests.filter((what) => what.startsWith(which)).length;
    expect(count('read')).toBe(1);
    expect(count('watch') + count('catch-up')).toBeLessThanOrEqual(20 * 2);
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

  it('is reopened when it has not delivered a change', async () => {
    const { server, reflector } = reflect({ reportsProgress: false });
    server.hangs = true;
    await server.clock.advance(MINUTE);
    server.hangs = false;
    server.changes = [{ metadata: { name: 'a', uid: 'u', resourceVersion: '7' } }];
    await server.clock.advance(MINUTE);
    expect(reflector.get('a')?.metadata.resourceVersion).toBe('7');
    expect(server.requests.filter((what) => what === 'watch')).toHaveLength(2);
    expect(warnings).toEqual(['the watch missed a change']);
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
