/** The agent's client when an endpoint of the apiserver's Service is not the apiserver. */
import { once } from 'node:events';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { jest } from '@jest/globals';
import { HttpApiserverClient } from '../../../packages/agent/src/apiserver/client.ts';
import { type Clock, systemClock } from '../../../packages/shared/src/runtime/clock.ts';
import { messageOf } from '../../../packages/shared/src/runtime/errors.ts';
import { type Impostor, type Imposture, startImpostor } from '../../framework/apiserver/impostor.ts';
import { makeServingCertificate } from '../../framework/certificates.ts';
import type { Address } from '../../framework/kubelet/service-environment.ts';
import { eventually } from '../../framework/eventually.ts';
import { TcpForwarder } from '../../framework/kubelet/tcp-forwarder.ts';
import { recordingLogger } from '../../framework/recording-logger.ts';

jest.setTimeout(60_000);

const NAME = 'brupop-apiserver.test.svc';
const SHADOW = { uid: 'uid-1', generation: 3, spec: { state: 'Idle' } };
/** Of 4 endpoints the impostor is one, and each new connection goes to the next. */
const ENDPOINTS = 4;
/** Time limits pass ten times faster: 0.5 s instead of 5 s for a handshake. */
const FASTER = 10;
const clock: Clock = { ...systemClock, after: (ms, callback) => systemClock.after(ms / FASTER, callback) };
const HANDSHAKE_LIMIT_MS = 5_000 / FASTER;
const { signal } = new AbortController();

let folder: string;
let server: Server;
let service: TcpForwarder;
let impostor: Impostor;
let served: number;
/** Where new connections go, one after the other. */
let endpoints: readonly Address[];

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'brupop-impostor-'));
  const tls = makeServingCertificate({ commonName: NAME, dnsNames: [NAME] });
  writeFileSync(join(folder, 'ca.crt'), tls.caCert);
  writeFileSync(join(folder, 'token'), 'secret-token');
  served = 0;
  server = createServer({ key: tls.key, cert: tls.cert }, (request, response) => {
    served += 1;
    if (request.url?.endsWith('/stream') === true) response.write('{"type":"heartbeat"}\n');
    else response.end(JSON.stringify(SHADOW));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  let next = 0;
  service = await TcpForwarder.start(() => endpoints[next++ % endpoints.length]);
});

afterEach(async () => {
  await service.stop();
  await impostor.stop();
  server.closeAllConnections();
  server.close();
  await once(server, 'close');
  await rm(folder, { recursive: true, force: true });
});

async function oneOfFour(how: Imposture): Promise<void> {
  impostor = await startImpostor(how, [NAME]);
  const real = { host: '127.0.0.1', port: (server.address() as AddressInfo).port };
  endpoints = [impostor.address, ...Array.from({ length: ENDPOINTS - 1 }, () => real)];
}

function client(): HttpApiserverClient {
  const files = { tokenFile: join(folder, 'token'), caFile: join(folder, 'ca.crt') };
  const apiserver = { ...service.address, serverName: NAME, ...files };
  return new HttpApiserverClient({ node: 'node-1', apiserver, clock, log: recordingLogger().log });
}

/** How long each of 12 calls took on a connection of its own, in milliseconds, in ascending order. */
async function timeCalls(): Promise<number[]> {
  const times: number[] = [];
  for (let call = 0; call < 12; call += 1) {
    const startedAt = performance.now();
    expect(await client().read(signal)).toEqual(SHADOW);
    times.push(performance.now() - startedAt);
  }
  return times.toSorted((one, other) => one - other);
}

const median = (times: readonly number[]): number => times[Math.floor(times.length / 2)] ?? Infinity;

it.each(['forges', 'resets'] as const)(
  'an impostor that %s delays calls by one connection, and no call fails',
  async (how) => {
    await oneOfFour(how);
    const times = await timeCalls();
    expect(impostor.connections).toBeGreaterThanOrEqual(3);
    expect([served, impostor.received]).toEqual([12, '']);
    // The ninth decile has calls that met it; the last ones may be those of a busy machine.
    expect(times[Math.floor(times.length * 0.9)]).toBeLessThan(HANDSHAKE_LIMIT_MS);
  },
);

it('an impostor that hangs delays the calls that meet it by the limit of one handshake, and no call fails', async () => {
  await oneOfFour('hangs');
  const times = await timeCalls();
  expect(served).toBe(12);
  expect(median(times)).toBeLessThan(HANDSHAKE_LIMIT_MS);
  expect(times.at(-1)).toBeGreaterThanOrEqual(HANDSHAKE_LIMIT_MS - 1);
  expect(times.at(-3)).toBeLessThan(2 * HANDSHAKE_LIMIT_MS);
});

it.each(['forges', 'hangs', 'resets'] as const)('a stream opens past an impostor that %s', async (how) => {
  await oneOfFour(how);
  const messages = client().stream(signal)[Symbol.asyncIterator]();
  expect(await messages.next()).toEqual({ done: false, value: { type: 'heartbeat' } });
  await messages.return?.(undefined);
  expect([impostor.connections, impostor.received]).toEqual([1, '']);
});

it('a call gives up after three connections when every endpoint is an impostor, and sends none of them anything', async () => {
  await oneOfFour('forges');
  endpoints = [impostor.address];
  const errors = [
    await client().read(signal).catch(messageOf),
    await client().stream(signal)[Symbol.asyncIterator]().next().catch(messageOf),
  ];
  expect(errors).toEqual([
    expect.stringMatching(/^PUT shadow: .*certificate/u),
    expect.stringMatching(/^GET shadow\/stream: .*certificate/u),
  ]);
  expect([impostor.connections, impostor.received, served]).toEqual([6, '', 0]);
});

it('an impostor whose authority an agent trusts gets its token, so the tests above see what is sent', async () => {
  await oneOfFour('forges');
  endpoints = [impostor.address];
  writeFileSync(join(folder, 'ca.crt'), impostor.caCert);
  const stop = new AbortController();
  const call = client().read(stop.signal).catch(messageOf);
  await eventually(() => expect(impostor.received).toContain('Bearer secret-token'));
  stop.abort(new Error('stop'));
  await call;
});

it('a stop ends a call that waits for an impostor at once', async () => {
  await oneOfFour('hangs');
  const stop = new AbortController();
  const call = client().read(stop.signal).catch(messageOf);
  await eventually(() => expect(impostor.connections).toBe(1));
  const startedAt = performance.now();
  stop.abort(new Error('stop'));
  expect(await call).toMatch(/^PUT shadow: /u);
  expect(performance.now() - startedAt).toBeLessThan(HANDSHAKE_LIMIT_MS);
  expect([impostor.connections, served]).toEqual([1, 0]);
});
