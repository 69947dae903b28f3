/** Leader election with the durations of the controller while the Kubernetes API is slow, unavailable or restored. */
import { rfc3339Micro } from '../runtime/clock.ts';
import { createLogger } from '../runtime/log.ts';
import { FakeClock } from '../testing/fake-clock.ts';
import type { KubeClient, KubeRequest } from './client.ts';
import { KubeError } from './error.ts';
import { type Lease, LeaderElection } from './leader-election.ts';

const SECOND = 1_000;
const MINUTE = 60 * SECOND;

/** One Lease. What a client sends is written even if it does not wait for the response. */
class LeaseServer implements Pick<KubeClient, 'request' | 'stream'> {
  readonly clock = new FakeClock();
  /** How long a write takes. */
  writeMs = 0;
  isRefusing = false;
  conflicts = 0;
  #lease: Lease | undefined;
  #version = 1;
  #written = new AbortController();
  #cut = new AbortController();

  async request<T>(request: KubeRequest): Promise<T> {
    if (this.isRefusing) throw new KubeError(0, 'Unreachable', 'connection refused');
    if (request.method === 'GET') return this.#read(request) as T;
    const written = this.clock.sleep(this.writeMs).then(() => this.#write(request.body as Lease));
    const { promise: late, reject } = Promise.withResolvers<never>();
    const cancel = this.clock.after(request.timeoutMs ?? Infinity, () =>
      reject(new KubeError(0, 'Unreachable', 'no response')),
    );
    return (await Promise.race([written, late]).finally(cancel)) as T;
  }

  async stream({ query, signal }: KubeRequest): Promise<AsyncIterable<Uint8Array>> {
    const ended = AbortSignal.any([signal ?? new AbortController().signal, this.#cut.signal]);
    return this.#events(Number(query?.['resourceVersion']), ended);
  }

  /** A backup of etcd; the returned function restores it and ends all watches. */
  backUp(): () => void {
    const [lease, version] = [this.#lease, this.#version];
    return () => {
      this.#lease = lease;
      this.#version = version;
      this.#cut.abort(new Error('terminated'));
      this.#cut = new AbortController();
    };
  }

  #read({ path }: KubeRequest): unknown {
    if (path.endsWith('/leases')) {
      const items = this.#lease === undefined ? [] : [this.#lease];
      return { items, metadata: { resourceVersion: String(this.#version) } };
    }
    if (this.#lease === undefined) throw new KubeError(404, 'NotFound', 'none');
    return this.#lease;
  }

  #write({ metadata, spec }: Lease): Lease {
    if (metadata.resourceVersion !== this.#lease?.metadata.resourceVersion) {
      this.conflicts += 1;
      throw new KubeError(409, 'Conflict', 'changed');
    }
    this.#version += 1;
    const resourceVersion = String(this.#version);
    this.#lease = { metadata: { ...metadata, uid: 'u', resourceVersion }, ...(spec && { spec }) };
    this.#written.abort();
    this.#written = new AbortController();
    return this.#lease;
  }

  /** Sends what is newer than the resourceVersion `from`. */
  async *#events(from: number, signal: AbortSignal): AsyncGenerator<Uint8Array> {
    for (let sent = from; ;) {
      const version = Number(this.#lease?.metadata.resourceVersion ?? 0);
      if (version > sent) yield Buffer.from(`${JSON.stringify({ type: 'MODIFIED', object: this.#lease })}\n`);
      sent = Math.max(sent, version);
      await this.clock.sleep(Infinity, AbortSignal.any([signal, this.#written.signal])).catch(() => undefined);
      signal.throwIfAborted();
    }
  }
}

describe('leader election', () => {
  const stop = new AbortController();
  const log = createLogger({ level: 'error', write: () => undefined });
  afterAll(() => stop.abort());

  /** @param clock - of its machine */
  function elect(
    server: LeaseServer,
    identity: string,
    clock = server.clock,
  ): { election: LeaderElection; terms: () => number } {
    let terms = 0;
    const name = 'controller';
    const election = new LeaderElection({ client: server, clock, log, namespace: 'n', name, identity });
    void election.run(stop.signal, async (leading) => {
      terms += 1;
      await server.clock.sleep(Infinity, leading).catch(() => undefined);
    });
    return { election, terms: () => terms };
  }

  it.each([1, 3.1, 4, 5])('keeps the only candidate as leader while each write takes %d s', async (seconds) => {
    const server = new LeaseServer();
    server.writeMs = seconds * SECOND;
    const { election, terms } = elect(server, 'a');
    await server.clock.advance(20 * SECOND);
    expect(election.isLeading()).toBe(true);
    await server.clock.advance(10 * MINUTE);
    expect(election.isLeading()).toBe(true);
    expect(terms()).toBe(1);
  });

  it('keeps its leader when writes become slow, and never has two', async () => {
    const server = new LeaseServer();
    const a = elect(server, 'a');
    await server.clock.advance(SECOND);
    const b = elect(server, 'b');
    server.writeMs = 5 * SECOND;
    for (let step = 0; step < 600; step += 1) {
      await server.clock.advance(500);
      expect([a.election.isLeading(), b.election.isLeading()]).toEqual([true, false]);
    }
    expect(a.terms()).toBe(1);
  });

  it('gives the Lease at once to the candidate whose write succeeded but whose response was lost', async () => {
    const server = new LeaseServer();
    server.writeMs = 12.5 * SECOND;
    const { election, terms } = elect(server, 'a');
    await server.clock.advance(12.4 * SECOND);
    expect(terms()).toBe(0);
    server.writeMs = 0;
    await server.clock.advance(4 * SECOND);
    expect(election.isLeading()).toBe(true);
  });

  it('keeps its leader while connections are refused for five seconds at any time', async () => {
    for (let offsetMs = 0; offsetMs < 6 * SECOND; offsetMs += 500) {
      const server = new LeaseServer();
      const { election, terms } = elect(server, 'a');
      await server.clock.advance(MINUTE + offsetMs);
      server.isRefusing = true;
      await server.clock.advance(5 * SECOND);
      server.isRefusing = false;
      await server.clock.advance(MINUTE);
      expect(election.isLeading()).toBe(true);
      expect(terms()).toBe(1);
    }
  });

  it('has a leader again as soon as the Kubernetes API is back after a long outage', async () => {
    const server = new LeaseServer();
    const { election, terms } = elect(server, 'a');
    await server.clock.advance(MINUTE);
    server.isRefusing = true;
    await server.clock.advance(14 * SECOND);
    expect(election.isLeading()).toBe(false);
    server.isRefusing = false;
    await server.clock.advance(2 * SECOND);
    expect(election.isLeading()).toBe(true);
    expect(terms()).toBe(2);
  });

  it('says when the Lease was renewed before, also by the process that leads again', async () => {
    const server = new LeaseServer();
    const a = elect(server, 'a');
    await server.clock.advance(MINUTE);
    expect(a.election.renewedBefore).toBeUndefined();
    const refusedAt = server.clock.now();
    server.isRefusing = true;
    await server.clock.advance(20 * MINUTE);
    server.isRefusing = false;
    await server.clock.advance(MINUTE);
    expect([a.election.isLeading(), a.terms()]).toEqual([true, 2]);
    expect(a.election.renewedBefore).toBeGreaterThan(refusedAt - 10 * SECOND);
    expect(a.election.renewedBefore).toBeLessThanOrEqual(refusedAt);
  });

  it('says when another process renewed the Lease, although the response to its own first write was lost', async () => {
    const server = new LeaseServer();
    const ledUntil = server.clock.now();
    const spec = { holderIdentity: '', leaseDurationSeconds: 1, renewTime: rfc3339Micro(ledUntil) };
    const body = { metadata: { name: 'controller' }, spec };
    void server.request({ method: 'POST', path: '/leases', body });
    await server.clock.advance(60 * MINUTE);
    server.writeMs = 12.5 * SECOND;
    const a = elect(server, 'a');
    await server.clock.advance(12.4 * SECOND);
    expect(a.terms()).toBe(0);
    server.writeMs = 0;
    await server.clock.advance(4 * SECOND);
    expect([a.election.isLeading(), a.terms()]).toEqual([true, 1]);
    expect(a.election.renewedBefore).toBe(ledUntil);
  });

  it.each([-3_600, 5])('keeps its leader when its clock is set by %d s at any time', async (seconds) => {
    for (let offsetMs = 0; offsetMs < 6 * SECOND; offsetMs += 500) {
      const server = new LeaseServer();
      const { election, terms } = elect(server, 'a');
      await server.clock.advance(MINUTE + offsetMs);
      server.clock.step(seconds * SECOND);
      for (let step = 0; step < 40; step += 1) {
        expect(election.isLeading()).toBe(true);
        await server.clock.advance(500);
      }
      expect(terms()).toBe(1);
    }
  });

  it('lets a leader whose clock was set forward past the deadline write again after its next renewal', async () => {
    const server = new LeaseServer();
    const { election, terms } = elect(server, 'a');
    await server.clock.advance(MINUTE);
    server.clock.step(MINUTE);
    expect(election.isLeading()).toBe(false);
    await server.clock.advance(6 * SECOND);
    expect([election.isLeading(), terms()]).toEqual([true, 1]);
  });

  it('has no second leader when the machine of the first was suspended and resumes with the right time', async () => {
    const server = new LeaseServer();
    const machine = new FakeClock();
    const advance = async (): Promise<void> =>
      void (await Promise.all([server.clock.advance(500), machine.advance(500)]));
    const a = elect(server, 'a', machine);
    for (let step = 0; step < 20; step += 1) await advance();
    const b = elect(server, 'b');
    for (let step = 0; step < 20; step += 1) await advance();
    expect([a.election.isLeading(), b.election.isLeading()]).toEqual([true, false]);
    await server.clock.advance(MINUTE);
    machine.step(MINUTE);
    for (let step = 0; step < 200; step += 1) {
      expect([a.election.isLeading(), b.election.isLeading()]).toEqual([false, true]);
      await advance();
    }
    expect([a.terms(), b.terms()]).toEqual([1, 1]);
  });

  it('goes on after etcd was restored from a backup: the candidate follows the Lease, and writes nothing', async () => {
    const server = new LeaseServer();
    const a = elect(server, 'a');
    await server.clock.advance(SECOND);
    const b = elect(server, 'b');
    await server.clock.advance(MINUTE);
    const restore = server.backUp();
    await server.clock.advance(10 * MINUTE);
    restore();
    for (let step = 0; step < 600; step += 1) {
      await server.clock.advance(500);
      expect([a.election.isLeading(), b.election.isLeading()]).toEqual([true, false]);
    }
    // Of the leader, whose first renewal had the resourceVersion from before.
    expect([a.terms(), server.conflicts]).toEqual([1, 1]);
  });
});
