import type { ServerResponse } from 'node:http';
import { PassThrough, type Writable } from 'node:stream';
import type { AgentShadow } from '@brupop/shared/api/agent-protocol';
import { STREAM_HEARTBEAT_MS, STREAM_INACTIVITY_MS } from '@brupop/shared/api/deadlines';
import { FakeClock } from '@brupop/shared/testing/fake-clock';
import { ShadowStream, StreamHub, type StreamHubOptions } from './streams.ts';

const shadow = (generation: number): { type: 'shadow'; shadow: AgentShadow } => ({
  type: 'shadow',
  shadow: { uid: 'u', generation, spec: { state: 'Idle' } },
});

/** A stream to a client that takes a line only when a test calls `take`. */
function setUp(lifeMs = 600_000) {
  const clock = new FakeClock();
  const lines: string[] = [];
  const takes: (() => void)[] = [];
  const closed: (() => void)[] = [];
  let destroyed = false;
  const sink = {
    closed: false,
    write: (line: string, done: () => void): void => {
      lines.push(line);
      takes.push(done);
    },
    end: (line: string): void => void lines.push(line),
    destroy: (): void => {
      destroyed = true;
    },
    once: (_event: 'close', listener: () => void): void => void closed.push(listener),
  } as unknown as Writable;
  const identity = { node: 'node', podName: 'agent', podUID: 'p', expiresAt: clock.now() + lifeMs };
  const stream = new ShadowStream({ sink, clock, identity });
  const said = (): unknown[] =>
    lines.map((line) => {
      const message = JSON.parse(line) as { type: string; shadow?: AgentShadow };
      return message.shadow?.generation ?? message.type;
    });
  const beats = async (count: number): Promise<void> => {
    for (let beat = 0; beat < count; beat += 1) {
      await clock.advance(STREAM_HEARTBEAT_MS);
      stream.beat();
    }
  };
  const close = (): void => closed.forEach((listener) => listener());
  return { clock, stream, said, take: () => takes.shift()?.(), beats, close, destroyed: () => destroyed };
}

describe('a stream', () => {
  it('keeps only the latest message for a client that is slow', () => {
    const { stream, said, take } = setUp();
    for (const generation of [1, 2, 3, 4]) stream.send(shadow(generation));
    expect(said()).toEqual([1]);
    take();
    expect(said()).toEqual([1, 4]);
    take();
    expect(said()).toEqual([1, 4]);
  });

  it('does not repeat the message that the client has', () => {
    const { stream, said, take } = setUp();
    stream.send(shadow(1));
    take();
    stream.send(shadow(1));
    expect(said()).toEqual([1]);
  });

  it('does not skip a message that equals the one before the one that is being written', () => {
    const { stream, said, take } = setUp();
    stream.send(shadow(1));
    take();
    stream.send(shadow(2));
    stream.send(shadow(1));
    take();
    expect(said()).toEqual([1, 2, 1]);
  });

  it('sends heartbeats, but not to a client that has not taken the last line', async () => {
    const { said, take, beats } = setUp();
    await beats(2);
    expect(said()).toEqual(['heartbeat']);
    take();
    await beats(1);
    expect(said()).toEqual(['heartbeat', 'heartbeat']);
  });

  it('cuts off a client that takes nothing for longer than an agent waits', async () => {
    const { stream, beats, destroyed } = setUp();
    stream.send(shadow(1));
    await beats(Math.floor(STREAM_INACTIVITY_MS / STREAM_HEARTBEAT_MS));
    expect(destroyed()).toBe(false);
    await beats(1);
    expect(destroyed()).toBe(true);
  });

  it('ends before its token expires', async () => {
    const { said, take, beats } = setUp(25_000);
    await beats(1);
    take();
    expect(said()).toEqual(['heartbeat']);
    await beats(1);
    expect(said()).toEqual(['heartbeat', 'end']);
  });

  it('sends nothing after its end', async () => {
    const { stream, said, take, beats } = setUp();
    stream.send(shadow(1));
    stream.send(shadow(2));
    stream.end('over');
    stream.end('over again');
    stream.send(shadow(3));
    take();
    await beats(1);
    expect(said()).toEqual([1, 'end']);
  });

  it('is cut two seconds after its end, unless it is closed by then', async () => {
    const [stuck, good] = [setUp(), setUp()];
    for (const { stream } of [stuck, good]) stream.end('over');
    good.close();
    for (const { clock } of [stuck, good]) await clock.advance(2_000);
    expect([stuck.destroyed(), good.destroyed()]).toEqual([true, false]);
  });
});

it('is served again to a pod that had only left the watch with its label', async () => {
  type Listener = (event: { type: 'Added' | 'Deleted'; object: { metadata: { uid: string } } }) => void;
  const listeners: Listener[] = [];
  const pods = { subscribe: (listener: Listener) => (listeners.push(listener), () => undefined) };
  const shadows = { get: () => undefined, subscribe: () => () => undefined };
  const clock = new FakeClock();
  const options = { shadows, pods, namespace: 'brupop', clock, count: () => undefined, stale: () => undefined };
  const hub = new StreamHub(options as unknown as StreamHubOptions);
  const stop = new AbortController();
  hub.run(stop.signal);
  const object = { metadata: { uid: 'p' } };
  const opened = (): string => {
    const response = Object.assign(new PassThrough(), { writeHead: () => undefined, flushHeaders: () => undefined });
    const identity = { node: 'node', podName: 'agent', podUID: 'p', expiresAt: clock.now() + 600_000 };
    hub.open(identity, response as unknown as ServerResponse, undefined);
    const first = String(response.read());
    response.destroy();
    return first;
  };
  expect(opened()).toContain('"type":"deleted"');
  for (const listener of listeners) listener({ type: 'Deleted', object });
  expect(opened()).toContain('"reason":"the pod is deleted"');
  for (const listener of listeners) listener({ type: 'Added', object });
  expect(opened()).toContain('"type":"deleted"');
  stop.abort();
});
