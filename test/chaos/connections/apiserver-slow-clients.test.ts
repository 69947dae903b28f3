/**
 * Thousands of connections that do nothing, too little or too much, at once, against an apiserver
 * in a process of its own.
 */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { jest } from '@jest/globals';
import type { Memory } from '../../../hack/bench/memory.ts';
import { CALL_LIMIT_MS } from '../../../packages/shared/src/api/deadlines.ts';
import { connectAgent } from '../../framework/apiserver/agent-client.ts';
import { type Agent, createAgent, type Installation, installNamespace } from '../../framework/apiserver/cluster.ts';
import { type ApiserverProcess, spawnApiserver, sumOf } from '../../framework/apiserver/process.ts';
import { openWire, type Wire } from '../../framework/apiserver/wire.ts';
import type { Connection } from '../../framework/control-plane/connection.ts';
import { connectSharedControlPlane } from '../../framework/control-plane/shared.ts';

jest.setTimeout(120_000);

/** Memory for 2,500 connections. The chart allows 1 GiB for 12,000. */
const MEMORY_LIMIT_MIB = 384;
/**
 * After the last byte of a client: its limit of 10 or 15 s, the interval of 5 s between two checks
 * of the connections, and a margin for a busy machine.
 */
const CLOSED_WITHIN_MS = 30_000;
const IDLE = 2_000;
const PER_ADDRESS = 25;
/** For up to 120 addresses. */
const CALLERS = 60;

describe('clients that are slow, idle or send too much', () => {
  let cluster: Connection;
  let installation: Installation;
  let apiserver: ApiserverProcess;
  let good: Agent;
  let slow: Agent;
  /**
   * Call once from each address that is used, since other addresses share a small budget. An agent
   * makes the latest two of its addresses known.
   */
  let callers: readonly Agent[];
  const known = new Set<string>();
  const sockets: Socket[] = [];

  beforeAll(async () => {
    cluster = connectSharedControlPlane();
    installation = await installNamespace(cluster);
    apiserver = await spawnApiserver(cluster, installation);
    [good, slow] = await Promise.all([
      createAgent(cluster, installation.namespace),
      createAgent(cluster, installation.namespace),
    ]);
    callers = await Promise.all(Array.from({ length: CALLERS }, () => createAgent(cluster, installation.namespace)));
  });

  afterAll(async () => {
    for (const socket of sockets) socket.destroy();
    await apiserver.stop();
    await cluster.close();
  });

  /** Makes an agent's call from this address. */
  const introduce = async (address: string): Promise<void> => {
    if (known.has(address)) return;
    const caller = callers[Math.floor(known.size / 2)];
    if (caller === undefined) throw new Error(`more than ${2 * CALLERS} addresses`);
    known.add(address);
    const wire = await openWire(apiserver, address);
    const { node, token } = caller;
    wire.socket.write(
      `POST /v1/nodes/${node}/restore HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${token}\r\ncontent-length: 0\r\n\r\n`,
    );
    const [answer] = await wire.until(1);
    wire.socket.destroy();
    if (answer?.status !== 200) throw new Error(`restore: ${answer?.status} ${answer?.body}`);
  };

  const addressOf = (net: number, number: number): string => `127.${net}.0.${Math.floor(number / PER_ADDRESS) + 1}`;

  const introduceMany = async (net: number, count: number): Promise<void> => {
    for (let number = 0; number < count; number += PER_ADDRESS) await introduce(addressOf(net, number));
  };

  const open = async (address: string): Promise<Wire> => {
    const wire = await openWire(apiserver, address);
    sockets.push(wire.socket);
    return wire;
  };

  const head = (agent: Agent | undefined, more: string): string => {
    const authorization = agent === undefined ? '' : `authorization: Bearer ${agent.token}\r\n`;
    return `PUT /v1/nodes/${slow.node}/shadow/status HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n${authorization}${more}`;
  };

  /**
   * Opens connections that send `start` and then a byte every second. Resolves when the server has
   * closed all.
   */
  const drip = async (net: number, count: number, start: string): Promise<Wire[]> => {
    const wires = await openMany(net, count);
    for (const { socket } of wires) socket.write(start);
    const timer = setInterval(() => wires.forEach(({ socket }) => socket.writable && socket.write('x')), 1_000);
    await allClosed(wires).finally(() => clearInterval(timer));
    return wires;
  };

  const openMany = async (net: number, count: number): Promise<Wire[]> => {
    const wires: Wire[] = [];
    await introduceMany(net, count);
    const numbers = Array.from({ length: count }, (_, number) => number);
    const worker = async (): Promise<void> => {
      for (let number = numbers.pop(); number !== undefined; number = numbers.pop())
        wires.push(await open(addressOf(net, number)));
    };
    await Promise.all(Array.from({ length: 20 }, worker));
    return wires;
  };

  /** Opens TCP connections that start no TLS handshake. */
  const mute = async (count: number): Promise<void> => {
    await introduceMany(4, count);
    const opened = Array.from({ length: count }, (_, number) => {
      const localAddress = addressOf(4, number);
      const socket = connect({ host: '127.0.0.1', port: apiserver.port, localAddress });
      sockets.push(socket.on('error', () => undefined).resume());
      return once(socket, 'close');
    });
    await inTime(Promise.all(opened));
  };

  /**
   * Sends pipelined requests and reads no response: the server stops reading when its buffers are
   * full.
   */
  const deaf = async (count: number): Promise<void> => {
    const request = `${head(undefined, 'content-length: 0\r\n')}\r\n`;
    for (const { socket } of await openMany(5, count)) socket.pause().write(request.repeat(10_000));
  };

  /**
   * Sends a body far over the limit, with a Content-Length and in chunks; returns the statuses of
   * the responses.
   */
  const greedy = async (agent: Agent | undefined): Promise<number[]> => {
    const statuses: number[] = [];
    for (const framing of ['content-length: 1000000000', 'transfer-encoding: chunked']) {
      const wire = await open('127.6.0.1');
      const chunk = Buffer.alloc(64 * 1024, 'x');
      const framed = framing.startsWith('t')
        ? Buffer.concat([Buffer.from('10000\r\n'), chunk, Buffer.from('\r\n')])
        : chunk;
      wire.socket.write(head(agent, `${framing}\r\n\r\n`));
      for (let sent = 0; sent < 400 && wire.socket.writable; sent += 1)
        if (!wire.socket.write(framed)) await Promise.race([drained(wire), wire.closed]);
      const [answer] = await wire.until(1);
      statuses.push(answer?.status ?? 0);
      wire.socket.destroy();
    }
    return statuses;
  };

  const largeHeaders = async (): Promise<number[]> => {
    const wires = await openMany(7, 50);
    for (const { socket } of wires) socket.write(head(slow, `filler: ${'x'.repeat(60_000)}\r\n\r\n`));
    await allClosed(wires);
    return wires.map(({ answers }) => answers[0]?.status ?? 0);
  };

  const misbehave = async (): Promise<void> => {
    const idle = openMany(3, IDLE).then(async (wires) => await allClosed(wires));
    const [headers, bodies, large, ofAgent, unknown] = await Promise.all([
      drip(8, 100, 'GET / HTTP/1.1\r\nhost: x\r\nfiller: '),
      drip(9, 20, head(slow, 'content-length: 1000\r\n\r\n')),
      largeHeaders(),
      greedy(slow),
      greedy(undefined),
      idle,
      mute(500),
      deaf(10),
    ]);
    expect([statusesOf(headers), statusesOf(bodies), [...new Set(large)]]).toEqual([[408], [408], [431]]);
    // A client that continues to send may lose the response with the connection.
    expect([
      ofAgent.filter((status) => ![400, 413, 0].includes(status)),
      unknown.filter((status) => ![401, 0].includes(status)),
    ]).toEqual([[], []]);
  };

  it('are cut off or answered, while memory stays bounded and an agent is served in time', async () => {
    const watching = new AbortController();
    const served = serve(watching.signal);
    const memory = watchMemory(watching.signal);
    served.catch(() => undefined);
    const startedAt = performance.now();
    try {
      await misbehave();
    } finally {
      watching.abort();
    }
    const seconds = (performance.now() - startedAt) / 1000;
    const { calls, slowestMs } = await served;
    const peak = await memory;
    process.stdout.write(
      `${IDLE} idle connections and more closed after ${seconds.toFixed(0)} s; ${calls} calls of an agent, the slowest ${slowestMs.toFixed(0)} ms; ` +
        `memory at most ${peak.resident.toFixed(0)} MiB resident, ${peak.anonymous.toFixed(0)} MiB of it its own\n`,
    );
    expect(calls).toBeGreaterThan(10);
    expect(slowestMs).toBeLessThan(CALL_LIMIT_MS);
    expect(peak.anonymous).toBeLessThan(MEMORY_LIMIT_MIB);
    expect(sumOf(await apiserver.metrics(), 'brupop_apiserver_requests_total', 'code="5')).toBe(0);
    expect(apiserver.log()).not.toContain('"level":"error"');
  });

  /** A correct agent: calls twice a second until it is stopped. Throws when a call fails. */
  async function serve(stop: AbortSignal): Promise<{ calls: number; slowestMs: number }> {
    const client = connectAgent(apiserver.port, apiserver.ca);
    let [calls, slowestMs] = [0, 0];
    for (; !stop.aborted; calls += 1) {
      const startedAt = performance.now();
      const { status, body } = await client.act(good, 'restore');
      if (status !== 200) throw new Error(`restore: ${status} ${JSON.stringify(body)}`);
      slowestMs = Math.max(slowestMs, performance.now() - startedAt);
      await sleep(500);
    }
    await client.close();
    return { calls, slowestMs };
  }

  async function watchMemory(stop: AbortSignal): Promise<Memory> {
    let peak = { resident: 0, anonymous: 0 };
    while (!stop.aborted) {
      const { resident, anonymous } = await apiserver.memory();
      peak = { resident: Math.max(peak.resident, resident), anonymous: Math.max(peak.anonymous, anonymous) };
      await sleep(200);
    }
    return peak;
  }
});

async function allClosed(wires: readonly Wire[]): Promise<void> {
  await inTime(Promise.all(wires.map(({ closed }) => closed)));
}

async function inTime(work: Promise<unknown>): Promise<void> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => late.reject(new Error(`open after ${CLOSED_WITHIN_MS} ms`)), CLOSED_WITHIN_MS);
  await Promise.race([work, late.promise]).finally(() => clearTimeout(timer));
}

async function drained({ socket }: Wire): Promise<void> {
  await once(socket, 'drain').catch(() => undefined);
}

function statusesOf(wires: readonly Wire[]): number[] {
  return [...new Set(wires.map(({ answers }) => answers[0]?.status ?? 0))];
}
