import { WATCH_STALE_MS } from '../api/deadlines.ts';
import type { KubernetesObject } from '../api/meta.ts';
import { createLogger } from '../runtime/log.ts';
import { FakeClock } from '../testing/fake-clock.ts';
import type { KubeClient, KubeRequest } from './client.ts';
import { Reflector } from './reflector.ts';

const MINUTE = 60_000;

interface Behavior {
  /** Watches that have begun send bookmarks once a minute after a consistent read. */
  readonly reportsProgress: boolean;
}

/** A kube-apiserver with an empty collection, which tells nothing of its own accord. */
class QuietServer implements Pick<KubeClient, 'request' | 'stream'> {
  readonly clock = new FakeClock();
  readonly requests: string[] = [];
  /** Watches that are opened now are accepted and never hear anything again. */
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
      await this.clock.sleep(Math.min(left, MINUTE), signal);
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

  it('stays current for twenty minutes by one read, where bookmarks follow a read', async () => {
    const { server, reflector } = reflect({ reportsProgress: true });
    expect(await longestDoubt(server, reflector, 20 * MINUTE)).toBeLessThan(WATCH_STALE_MS);
    expect(server.requests).toEqual(['list', 'watch', 'read metadata.name=none']);
    expect(warnings).toEqual([]);
  });

  it('stays current for twenty minutes where no bookmark is ever sent, and is not opened again', async () => {
    const { server, reflector } = reflect({ reportsProgress: false });
    expect(await longestDoubt(server, reflector, 20 * MINUTE)).toBeLessThan(WATCH_STALE_MS);
    expect(server.requests.slice(0, 3)).toEqual(['list', 'watch', 'read metadata.name=none']);
    expect(new Set(server.requests.slice(3))).toEqual(new Set(['catch-up']));
    expect(server.requests.length - 3).toBeLessThanOrEqual(12);
    expect(warnings).toEqual([]);
  });

  it('is stale in time when the server hangs, however many watches it accepts, and current when it answers', async () => {
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

  it('is opened again when it has not delivered a change', async () => {
    const { server, reflector } = reflect({ reportsProgress: false });
    server.hangs = true;
    await server.clock.advance(MINUTE);
    server.hangs = false;
    server.changes = [{ metadata: { name: 'a', uid: 'u', resourceVersion: '7' } }];
    await server.clock.advance(MINUTE);
    expect(reflector.get('a')?.metadata.resourceVersion).toBe('7');
    expect(server.requests.filter((what) => what === 'watch')).toHaveLength(2);
    expect(warnings).toEqual(['the watch was silent although there was a change']);
  });
});
