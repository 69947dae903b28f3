/**
 * One process attacks an apiserver, which runs in another process, while agents call from other
 * addresses: one on an open connection, one on a new connection each time, and others that have never
 * called before.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { jest } from '@jest/globals';
import {
  type Agent,
  createAgent,
  type Installation,
  installNamespace,
  reportAddress,
} from '../../framework/apiserver/cluster.ts';
import type { Flood } from '../../framework/apiserver/flood.ts';
import { type ApiserverProcess, spawnApiserver, sumOf } from '../../framework/apiserver/process.ts';
import { clusterKey, partsOf, signed } from '../../framework/apiserver/tokens.ts';
import { openWire, type Wire } from '../../framework/apiserver/wire.ts';
import type { Connection } from '../../framework/control-plane/connection.ts';
import { connectSharedControlPlane } from '../../framework/control-plane/shared.ts';
import { MachineLag } from '../../framework/machine-lag.ts';

jest.setTimeout(120_000);

const LIMIT_MS = 1_000;
const MEMORY_LIMIT_MIB = 256;
const SECONDS = 8;
const NEWCOMERS = 8;
/** Below the rate of a node. */
const CALL_EVERY_MS = 400;
const floodProgram = join(import.meta.dirname, '../../framework/apiserver/flood.ts');

type Attack = Pick<Flood, 'texts'> & Partial<Flood>;

describe('agents are served within a second', () => {
  let cluster: Connection;
  let installation: Installation;
  let apiserver: ApiserverProcess;
  let attacker: Agent;
  let idleMs = 0;

  beforeAll(async () => {
    cluster = connectSharedControlPlane();
    installation = await installNamespace(cluster);
  });

  beforeEach(async () => {
    apiserver = await spawnApiserver(cluster, installation);
    attacker = await createAgent(cluster, installation.namespace);
  });

  afterEach(async () => await apiserver.stop());
  afterAll(async () => await cluster.close());

  const callOn = async (wire: Wire, { node, token }: Agent): Promise<number> => {
    const started = performance.now();
    const before = wire.answers.length;
    wire.socket.write(requestOf(node, token, 'content-length: 0\r\n'));
    const answer = (await wire.until(before + 1, 15_000))[before];
    if (answer?.status !== 200) throw new Error(`restore: ${answer?.status} ${answer?.body}`);
    return performance.now() - started;
  };

  /** Agents whose pods have an address, and which have not called yet. */
  const createNewcomers = async (): Promise<readonly (readonly [Agent, string])[]> =>
    await Promise.all(
      Array.from({ length: NEWCOMERS }, async (_, index) => {
        const agent = await createAgent(cluster, installation.namespace);
        const address = `127.8.1.${index + 1}`;
        await reportAddress(cluster, installation.namespace, agent, address);
        return [agent, address] as const;
      }),
    );

  /** Calls until it is stopped; returns how long the slowest took, in milliseconds. */
  const call = async (stop: AbortSignal, agent: Agent, wireOf: () => Promise<Wire>, kept?: Wire): Promise<number> => {
    let slowest = 0;
    while (!stop.aborted) {
      const started = performance.now();
      const wire = await wireOf();
      await callOn(wire, agent);
      slowest = Math.max(slowest, performance.now() - started);
      if (wire !== kept) wire.socket.destroy();
      await sleep(CALL_EVERY_MS);
    }
    return slowest;
  };

  /** Each of the agents makes its first call; returns how long the slowest took, in milliseconds. */
  const callFirst = async (stop: AbortSignal, newcomers: readonly (readonly [Agent, string])[]): Promise<number> => {
    let slowest = 0;
    for (const [agent, address] of newcomers) {
      await sleep(CALL_EVERY_MS);
      if (stop.aborted) throw new Error('the attack was over before all agents had called');
      const started = performance.now();
      const wire = await openWire(apiserver, address);
      await callOn(wire, agent);
      slowest = Math.max(slowest, performance.now() - started);
      wire.socket.destroy();
    }
    return slowest;
  };

  /** Returns the slowest call of the agents and the peak of the memory while `attack` runs. */
  const watch = async (attack: () => Promise<unknown>): Promise<{ slowestMs: number; memoryMiB: number }> => {
    const agents = await Promise.all([1, 2].map(() => createAgent(cluster, installation.namespace)));
    const [one, other] = agents;
    if (one === undefined || other === undefined) throw new Error('no agents');
    const kept = await openWire(apiserver, '127.8.0.1');
    await callOn(kept, one);
    const stop = new AbortController();
    const fresh = async (): Promise<Wire> => await openWire(apiserver, '127.8.0.2');
    const first = await fresh();
    await callOn(first, other);
    first.socket.destroy();
    const newcomers = await createNewcomers();
    const calls = [
      callFirst(stop.signal, newcomers),
      call(stop.signal, one, async () => await Promise.resolve(kept), kept),
      call(stop.signal, other, fresh),
    ];
    const peak = watchMemory(stop.signal);
    const failed = Promise.all(calls).then(async () => await new Promise<never>(() => undefined));
    try {
      await Promise.race([attack(), failed]);
    } finally {
      stop.abort();
    }
    const slowestMs = Math.max(...(await Promise.all(calls)));
    kept.socket.destroy();
    return { slowestMs, memoryMiB: await peak };
  };

  const watchMemory = async (stop: AbortSignal): Promise<number> => {
    let peak = 0;
    for (; !stop.aborted; await sleep(100)) peak = Math.max(peak, (await apiserver.memory()).anonymous);
    return peak;
  };

  /** Returns how many connections were opened. */
  const attackWith = async (attack: Attack): Promise<number> => {
    const flood: Flood = { ...apiserver, addresses: ['127.9.0.1'], slots: 30, holdMs: 2_000, ...attack };
    const { port, ca } = apiserver;
    const child = spawn(process.execPath, [floodProgram], { stdio: ['pipe', 'pipe', 'inherit'] });
    let output = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => (output += text));
    child.stdin.write(`${JSON.stringify({ ...flood, port, ca })}\n`);
    await sleep(SECONDS * 1_000);
    child.stdin.end();
    await once(child, 'close');
    return Number(output);
  };

  /** Returns the problems that occur while `attack` runs. */
  const problemsOf = async (what: string, attack: () => Promise<number>): Promise<string[]> => {
    let opened = 0;
    const lag = new MachineLag(cluster.api);
    const watched = watch(async () => (opened = await attack()));
    const { slowestMs, memoryMiB } = await watched.catch(async (error: unknown) => {
      await lag.stop();
      throw error;
    });
    await lag.stop();
    const lagMs = lag.worstSince(0);
    const times = `slowest call ${slowestMs.toFixed(0)} ms, idle ${idleMs.toFixed(0)} ms, machine ${lagMs.toFixed(0)} ms`;
    const figures = `${times}, ${memoryMiB.toFixed(0)} MiB`;
    process.stdout.write(`${what}: ${opened} connections, ${figures}\n`);
    const errors = sumOf(await apiserver.metrics(), 'brupop_apiserver_requests_total', 'code="5');
    return [
      ...(opened > 30 ? [] : ['few connections']),
      ...(slowestMs < LIMIT_MS + lagMs ? [] : [`a call of ${slowestMs.toFixed(0)} ms`]),
      ...(memoryMiB < MEMORY_LIMIT_MIB ? [] : [`${memoryMiB.toFixed(0)} MiB`]),
      ...(errors === 0 ? [] : [`${errors} answers of 500 or more`]),
    ];
  };

  it('without another caller', async () => {
    const lag = new MachineLag(cluster.api);
    ({ slowestMs: idleMs } = await watch(async () => await sleep(SECONDS * 1_000)));
    await lag.stop();
    expect(idleMs).toBeLessThan(LIMIT_MS + lag.worstSince(0));
  });

  const json = 'content-type: application/json\r\n';
  const forged = (index: number): string => `${'A'.repeat(900)}.${index}.${'A'.repeat(300)}`;
  const attacks: readonly (readonly [string, () => Attack])[] = [
    [
      'whose content types are long',
      () => ({
        texts: [' ', '\t ', ' ;', '; a=" "', 'a/'].map((text) =>
          requestOf(
            attacker.node,
            attacker.token,
            `content-type: application/json${text.repeat(5_500 / text.length)}x\r\ncontent-length: 2\r\n\r\n{}`,
          ),
        ),
      }),
    ],
    [
      'that sends requests without a token and does not wait',
      () => ({ texts: [garbage('GET / HTTP/1.1\r\nhost:\r\n\r\n')] }),
    ],
    ['that sends an unknown expectation', () => ({ texts: [garbage('GET / HTTP/1.1\r\nhost:\r\nexpect: x\r\n\r\n')] })],
    ['without a Host header', () => ({ texts: [garbage('GET / HTTP/1.1\r\n\r\n')] })],
    [
      'with forged tokens',
      () => ({ texts: Array.from({ length: 200 }, (_, index) => requestOf(attacker.node, forged(index))) }),
    ],
    [
      'with many addresses',
      () => ({
        addresses: Array.from({ length: 250 }, (_, index) => `127.9.1.${index + 1}`),
        slots: 250,
        texts: [garbage('GET / HTTP/1.1\r\nhost:\r\n\r\n')],
      }),
    ],
    [
      'with many networks',
      () => ({
        addresses: Array.from({ length: 4_000 }, (_, index) => `127.${100 + (index >> 8)}.${index & 255}.1`),
        slots: 250,
        texts: [garbage('GET / HTTP/1.1\r\nhost:\r\n\r\n')],
      }),
    ],
    [
      'that sends blank lines from many addresses',
      () => ({
        addresses: Array.from({ length: 8 }, (_, index) => `127.9.2.${index + 1}`),
        slots: 200,
        texts: ['\n'.repeat(400_000)],
      }),
    ],
    ['that reconnects at once when it is rejected', () => ({ slots: 250, texts: [''], holdMs: 50 })],
    [
      'that is an agent and calls continuously',
      () => ({ texts: [requestOf(attacker.node, attacker.token, 'content-length: 0\r\n').repeat(400)] }),
    ],
    [
      'that is an agent and sends bodies byte by byte',
      () => ({
        texts: [
          `${requestOf(attacker.node, attacker.token, `${json}transfer-encoding: chunked\r\n`)}${'1\r\nx\r\n'.repeat(60_000)}`,
        ],
      }),
    ],
  ];

  it.each(attacks)('beside a caller %s', async (what, attack) => {
    expect(await problemsOf(what, async () => await attackWith(attack()))).toEqual([]);
  });

  it('beside a caller with many valid tokens, with few TokenReviews', async () => {
    const { header, claims } = partsOf(attacker.token);
    const { privateKey } = clusterKey(cluster);
    const tokens = Array.from({ length: 60 }, (_, jti) => signed(header, { ...claims, jti: `x${jti}` }, privateKey));
    const reviews = async (): Promise<number> =>
      sumOf(await apiserver.metrics(), 'brupop_apiserver_token_reviews_total');
    const problems = await problemsOf('that has any number of good tokens', async () => {
      const texts = tokens.map((token) => requestOf(attacker.node, token, 'content-length: 0\r\n'));
      return await attackWith({ texts, holdMs: 200 });
    });
    expect(problems).toEqual([]);
    // Those agents, and ten at once and one each five seconds of the attacker.
    expect(await reviews()).toBeLessThan(2 + NEWCOMERS + 10 + SECONDS / 5 + 2);
  });

  it('after the connections of an address without an accepted call were limited', async () => {
    const opened = await attackWith({ texts: [requestOf(attacker.node, forged(1))] });
    const metrics = await apiserver.metrics();
    const rejected = sumOf(metrics, 'brupop_apiserver_rejected_connections_total', 'limit="failures"');
    expect(opened).toBeGreaterThan(50);
    expect(opened - rejected).toBeLessThanOrEqual(32 + SECONDS / 2 + 30);
    const other = await openWire(apiserver, '127.9.0.2');
    expect(await callOn(other, attacker)).toBeLessThan(LIMIT_MS);
    other.socket.destroy();
  });
});

function requestOf(node: string, token: string, headers = ''): string {
  const end = headers.includes('\r\n\r\n') ? '' : '\r\n';
  return `POST /v1/nodes/${node}/restore HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${token}\r\n${headers}${end}`;
}

/** Some hundred KiB of this request. */
function garbage(request: string): string {
  return request.repeat(Math.ceil(400_000 / request.length));
}
