/** The agent's real clients against servers that write any bytes, or nothing, over a real Unix socket and over TLS. */
import { mkdtempSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createServer as createTlsServer } from 'node:tls';
import { jest } from '@jest/globals';
import fc from 'fast-check';
import { HttpApiserverClient } from '../../../packages/agent/src/apiserver/client.ts';
import { ApiError } from '../../../packages/agent/src/apiserver/messages.ts';
import { HostSocket } from '../../../packages/agent/src/host/host-socket.ts';
import { HostError } from '../../../packages/agent/src/host/host.ts';
import { type Clock, systemClock } from '../../../packages/shared/src/runtime/clock.ts';
import { makeServingCertificate } from '../../framework/certificates.ts';
import { recordingLogger } from '../../framework/recording-logger.ts';

jest.setTimeout(60_000);

const { BRUPOP_FUZZ_SEED = '20261121', BRUPOP_FUZZ_RUNS = '150' } = process.env;
const seed = Number(BRUPOP_FUZZ_SEED);
const numRuns = Number(BRUPOP_FUZZ_RUNS);
const NAME = 'brupop-apiserver.test.svc';
/** Time limits run out two hundred times as fast: a call within 50 ms, a stream within 175 ms. */
const hasty: Clock = { ...systemClock, after: (ms, callback) => systemClock.after(ms / 200, callback) };
const { signal } = new AbortController();

/** What a server writes to a connection, and what it does then. */
interface Script {
  readonly parts: readonly (string | Buffer)[];
  readonly end: 'close' | 'cut' | 'keep open';
}

const head = (status: number | string, ...headers: string[]): string =>
  `HTTP/1.1 ${status} X\r\n${headers.map((one) => `${one}\r\n`).join('')}\r\n`;
const os = '{"version_id":"1.26.0"}';
const scripts: Record<string, Script> = {
  'nothing at all': { parts: [], end: 'close' },
  'no answer': { parts: [], end: 'keep open' },
  'a cut': { parts: [], end: 'cut' },
  'a head that never ends': { parts: ['HTTP/1.1 200 OK\r\nx: '], end: 'keep open' },
  'a body that never ends': { parts: [head(200, 'content-length: 100'), '{"version_id":'], end: 'keep open' },
  'a body that is cut off': { parts: [head(200, 'content-length: 100'), os], end: 'close' },
  'a body that drips': { parts: [head(200), ...os.split('')], end: 'keep open' },
  'an informational answer only': { parts: [head(100), head(102), head(103)], end: 'keep open' },
  'an upgrade': { parts: [head(101, 'upgrade: x', 'connection: upgrade')], end: 'keep open' },
  'an upgrade that is closed': { parts: [head(101, 'upgrade: x', 'connection: upgrade')], end: 'close' },
  'a 204 with a body': { parts: [head(204), 'null'], end: 'close' },
  'a redirect': { parts: [head(302, 'location: http://169.254.169.254/', 'content-length: 0')], end: 'close' },
  'an answer of HTTP/2': { parts: [Buffer.from('000012040000000000', 'hex')], end: 'close' },
  'chunks of nonsense': { parts: [head(200, 'transfer-encoding: chunked'), 'zz\r\nabc\r\n'], end: 'close' },
  'a chunk that lies': { parts: [head(200, 'transfer-encoding: chunked'), 'ffffffffffff\r\nabc'], end: 'close' },
  'two lengths': { parts: [head(200, 'content-length: 1', 'content-length: 2'), 'ab'], end: 'close' },
  'a negative length': { parts: [head(200, 'content-length: -1'), 'ab'], end: 'close' },
  'a status of no use': { parts: ['HTTP/1.1 999999 X\r\n\r\n'], end: 'close' },
  'a head of a megabyte': { parts: [head(200, `x: ${'a'.repeat(1_000_000)}`)], end: 'close' },
  'bytes that are no UTF-8': { parts: [head(200), Buffer.from([0x7b, 0xff, 0xfe, 0xc0, 0x22])], end: 'close' },
  'something else after the answer': {
    parts: [head(200, 'content-length: 2'), '{}HTTP/1.1 500 X\r\n\r\n'],
    end: 'close',
  },
};

let folder: string;
let script: Script;
let written = 0;
let hostServer: Server;
let apiServer: Server;
const sockets = new Set<Socket>();

function play(socket: Socket): void {
  sockets.add(socket);
  socket.on('error', () => undefined);
  socket.on('close', () => sockets.delete(socket));
  socket.once('data', () => {
    if (script.end === 'cut') socket.destroy();
    for (const part of script.parts) socket.write(part);
    if (script.end === 'close') socket.end();
  });
}

async function listen(server: Server, at: string | 0): Promise<void> {
  await new Promise<void>((resolve) => {
    if (at === 0) server.listen(0, '127.0.0.1', resolve);
    else server.listen(at, resolve);
  });
}

const close = (server: Server): Promise<void> => new Promise((resolve) => void server.close(() => resolve()));

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'brupop-agent-garbage-'));
  const tls = makeServingCertificate({ commonName: NAME, dnsNames: [NAME] });
  writeFileSync(join(folder, 'ca.crt'), tls.caCert);
  writeFileSync(join(folder, 'token'), 'token\n');
  writeFileSync(join(folder, 'boot_id'), 'boot-1\n');
  hostServer = createServer(play);
  apiServer = createTlsServer({ key: tls.key, cert: tls.cert }, play);
  await listen(hostServer, join(folder, 'api.sock'));
  await listen(apiServer, 0);
});

afterAll(async () => {
  for (const socket of sockets) socket.destroy();
  await Promise.all([close(hostServer), close(apiServer)]);
  await rm(folder, { recursive: true, force: true });
});

function host(): HostSocket {
  return new HostSocket({ socketPath: join(folder, 'api.sock'), bootIDFile: join(folder, 'boot_id'), clock: hasty });
}

function api(): HttpApiserverClient {
  const { port } = apiServer.address() as AddressInfo;
  const files = { tokenFile: join(folder, 'token'), caFile: join(folder, 'ca.crt') };
  const apiserver = { host: '127.0.0.1', port, serverName: NAME, ...files };
  const { log } = recordingLogger();
  return new HttpApiserverClient({ node: 'node-1', apiserver, clock: hasty, log });
}

async function drainStream(): Promise<string> {
  let last = 'nothing';
  for await (const { type } of api().stream(signal)) last = type;
  return last;
}

const reference = { shadowUID: 'uid-1', generation: 1 };
const calls: Record<string, () => Promise<unknown>> = {
  'GET /os': () => host().version(signal),
  'GET /updates/status': () => host().updateStatus(signal),
  'PUT shadow': () => api().read(signal),
  'GET shadow/stream': drainStream,
  'POST drain': () => api().drain(reference, signal),
  'POST restore': () => api().restore(signal),
};

/** How a call ends, within its time limit: `refused` with the agent's own error, or with its answer. */
async function endOf(call: () => Promise<unknown>): Promise<unknown> {
  const late = new Promise((resolve) => void setTimeout(() => resolve('it hangs'), 8_000).unref());
  const ended = call().catch((error: unknown) => {
    if (error instanceof HostError || error instanceof ApiError) return 'refused';
    throw error;
  });
  return Promise.race([ended, late]);
}

describe.each(Object.entries(calls))('%s', (name, call) => {
  it.each(Object.entries(scripts))('survives %s', async (_what, played) => {
    script = played;
    const quiet = name === 'GET shadow/stream' ? ['refused', 'nothing'] : ['refused'];
    expect(quiet).toContain(await endOf(call));
  });
});

it('reads an endless body only up to the limit, and closes the connection', async () => {
  const endless = createServer((socket) => {
    socket.on('error', () => undefined);
    sockets.add(socket);
    const more = Buffer.alloc(64 * 1024, 'a');
    const pump = (): void => {
      while (!socket.destroyed && socket.write(more)) written += more.length;
    };
    socket.on('drain', pump);
    socket.once('data', () => {
      socket.write(head(200));
      pump();
    });
  });
  await listen(endless, join(folder, 'endless.sock'));
  const socketPath = join(folder, 'endless.sock');
  const client = new HostSocket({ socketPath, bootIDFile: join(folder, 'boot_id'), clock: systemClock });
  expect(await endOf(() => client.version(signal))).toBe('refused');
  expect(written).toBeLessThan(4 * 1024 * 1024);
  await close(endless);
});

it('ends a stream whose line never ends, and an error response whose body never ends', async () => {
  script = { parts: [head(200), '{"type":"heart'], end: 'keep open' };
  expect(await endOf(drainStream)).toBe('refused');
  script = { parts: [head(503), 'no'], end: 'keep open' };
  expect(await endOf(drainStream)).toBe('refused');
});

it('discards a response that arrives after the limit, as after SIGSTOP and SIGCONT', async () => {
  let now = 0;
  const stopped: Clock = { ...systemClock, monotonic: () => (now += 60_000), after: () => () => undefined };
  script = { parts: [head(200, `content-length: ${os.length}`), os], end: 'close' };
  const client = new HostSocket({
    socketPath: join(folder, 'api.sock'),
    bootIDFile: join(folder, 'boot_id'),
    clock: stopped,
  });
  expect(await endOf(() => client.version(signal))).toBe('refused');
  expect(await endOf(() => host().version(signal))).toBe('1.26.0');
});

it.each(Object.entries(calls))(`%s survives any bytes (seed ${seed})`, async (_name, call) => {
  const part = fc.oneof(
    fc.uint8Array({ maxLength: 300 }).map((bytes) => Buffer.from(bytes)),
    fc.constantFrom(head(200), head(404), head(500), '\r\n', '\n', '{', '}', '{"type":"shadow","shadow":', os),
  );
  const any = fc.record({
    parts: fc.array(part, { maxLength: 6 }),
    end: fc.constantFrom<Script['end']>('close', 'close', 'cut', 'keep open'),
  });
  const property = fc.asyncProperty(any, async (played) => {
    script = played;
    expect(await endOf(call)).not.toBe('it hangs');
  });
  await fc.assert(property, { seed, numRuns: Math.ceil(numRuns / 6) });
});
