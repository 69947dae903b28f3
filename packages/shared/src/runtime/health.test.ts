import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { once } from 'node:events';
import { request } from 'node:http';
import { connect, type Socket } from 'node:net';
import { jest } from '@jest/globals';
import { eventually } from '../../../../test/framework/eventually.ts';
import { serveHealth } from './health.ts';

const HOST = '127.0.0.1';

jest.setTimeout(60_000);

describe('the health listener', () => {
  // Below the ports that the kernel gives to others.
  let nextPort = 20_000 + (process.pid % 12_000);
  let port = 0;
  let stop = new AbortController();
  let metricsMade = 0;
  const sockets: Socket[] = [];

  beforeEach(async () => {
    [stop, metricsMade, port] = [new AbortController(), 0, nextPort];
    nextPort += 1;
    const metrics = async (): Promise<{ contentType: string; body: string }> => {
      metricsMade += 1;
      return { contentType: 'text/plain', body: 'x 1\n' };
    };
    const ready = (): string => 'the cache is not filled yet';
    await serveHealth({ host: HOST, port, live: () => undefined, ready, metrics, signal: stop.signal });
  });

  afterEach(() => {
    stop.abort();
    for (const socket of sockets.splice(0)) socket.destroy();
  });

  const get = async (path: string, localAddress = HOST): Promise<string> => {
    const sent = request({ host: HOST, port, path, localAddress, agent: false, timeout: 1_000 });
    const [response] = (await once(sent.end(), 'response')) as [AsyncIterable<Buffer> & { statusCode: number }];
    let body = '';
    for await (const chunk of response) body += String(chunk);
    return `${response.statusCode} ${body.trim()}`;
  };

  /** Opens connections that send this and nothing more. */
  const openIdle = async (count: number, sends = '', addressOf = (_number: number) => HOST): Promise<Socket[]> => {
    const opened = Array.from({ length: count }, (_, number) => {
      const socket = connect({ host: HOST, port, localAddress: addressOf(number) });
      socket.on('error', () => undefined).resume();
      socket.write(sends);
      return socket;
    });
    sockets.push(...opened);
    await Promise.all(opened.map((socket) => once(socket, 'connect').catch(() => undefined)));
    return opened;
  };

  const probe = async (times: number, localAddress?: string): Promise<string[]> => {
    const answers: string[] = [];
    for (let time = 0; time < times; time += 1) answers.push(await get('/livez', localAddress));
    return answers;
  };

  it('serves liveness, readiness with its reason, and metrics', async () => {
    const answers = await Promise.all(['/livez', '/readyz', '/metrics'].map((path) => get(path)));
    expect(answers).toEqual(['200 ok', '503 the cache is not filled yet', '200 x 1']);
    expect(await get('/other')).toMatch(/^404 /u);
    stop.abort();
    await expect(get('/livez')).rejects.toThrow('ECONNREFUSED');
  });

  it.each([
    ['200 idle connections', 200, '', () => HOST],
    ['2,000 idle connections', 2_000, '', () => HOST],
    ['2,000 idle connections of 100 addresses', 2_000, '', (number: number) => `127.3.0.${(number % 100) + 1}`],
    ['2,000 unfinished requests', 2_000, 'GET /livez HTTP/1.1\r\nhost:', () => HOST],
  ])('answers every probe during %s', async (_what, count, sends, addressOf) => {
    await openIdle(count, sends, addressOf);
    expect(await probe(15)).toEqual(Array.from({ length: 15 }, () => '200 ok'));
    await openIdle(100, sends, addressOf);
    expect(await probe(15)).toEqual(Array.from({ length: 15 }, () => '200 ok'));
  });

  it('answers every probe from one address while another address replaces each closed connection', async () => {
    let opened = 0;
    const { signal } = stop;
    const reopen = (): void => {
      if (signal.aborted) return;
      opened += 1;
      const socket = connect({ host: HOST, port, localAddress: '127.3.1.1' });
      sockets.push(
        socket
          .on('error', () => undefined)
          .on('close', reopen)
          .resume(),
      );
    };
    for (let number = 0; number < 200; number += 1) reopen();
    expect(await probe(15, '127.3.1.2')).toEqual(Array.from({ length: 15 }, () => '200 ok'));
    expect(opened).toBeGreaterThan(200);
  });

  it('keeps at most 64 connections, closes those without a complete request first, and closes each after its response', async () => {
    const idle = await openIdle(80);
    await get('/livez');
    const open = (): number => idle.filter(({ closed }) => !closed).length;
    while (open() > 63) await Promise.race(idle.map((socket) => once(socket, 'close')));
    expect(open()).toBe(63);
  });

  it.each([
    ['', 'host: x\r\n'],
    [' without a host', ''],
    [' with an unknown expectation', 'host: x\r\nexpect: x\r\n'],
  ])('reads one request%s of a connection, however many are sent at once', async (_what, headers) => {
    let read = 0;
    const count = (): void => void (read += 1);
    subscribe('http.server.request.start', count);
    try {
      const [socket] = await openIdle(1, `GET /livez HTTP/1.1\r\n${headers}\r\n`.repeat(2_000));
      await eventually(() => expect(socket?.closed).toBe(true));
      expect(read).toBe(1);
    } finally {
      unsubscribe('http.server.request.start', count);
    }
  });

  it('reads no further into a body in chunks while a request waits for metrics', async () => {
    await get('/metrics');
    let served: Socket | undefined;
    const see = (message: unknown): void => void ({ socket: served } = message as { readonly socket: Socket });
    subscribe('http.server.request.start', see);
    try {
      const chunks = '1\r\nx\r\n'.repeat(500_000);
      await openIdle(1, `GET /metrics HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n${chunks}`);
      await eventually(() => expect(served?.closed).toBe(true));
      // Two reads of a socket.
      expect(served?.bytesRead).toBeLessThanOrEqual(128 * 1024);
    } finally {
      unsubscribe('http.server.request.start', see);
    }
  });

  it('computes metrics four times a second at most, and answers each request with those of a later time', async () => {
    const started = performance.now();
    for (let number = 0; number < 8; number += 1) {
      const before = metricsMade;
      const answers = await Promise.all(Array.from({ length: 10 }, () => get('/metrics')));
      expect(answers).toEqual(Array.from({ length: 10 }, () => '200 x 1'));
      expect(metricsMade).toBeGreaterThan(before);
    }
    expect(metricsMade).toBeLessThanOrEqual(1 + (performance.now() - started) / 250);
  });

  it('serves one request per connection', async () => {
    const [socket] = await openIdle(1, 'GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n'.repeat(500));
    if (socket?.closed === false) await once(socket, 'close');
    expect(metricsMade).toBe(1);
  });
});
