/**
 * The authority and the certificate are replaced while agents call: two apiservers behind one
 * address, and the agents' own client and shadow source, each with files as a kubelet shows them.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { jest } from '@jest/globals';
import { HttpApiserverClient } from '../../../packages/agent/src/apiserver/client.ts';
import { ShadowSource } from '../../../packages/agent/src/apiserver/shadow-source.ts';
import { APISERVER } from '../../../packages/shared/src/api/names.ts';
import { systemClock } from '../../../packages/shared/src/runtime/clock.ts';
import { messageOf } from '../../../packages/shared/src/runtime/errors.ts';
import { createAgent, type Installation, installNamespace } from '../../framework/apiserver/cluster.ts';
import { sumOf } from '../../framework/apiserver/process.ts';
import { type RunningApiserver, startApiserver } from '../../framework/apiserver/server.ts';
import { ensureShadow } from '../../framework/apiserver/shadow.ts';
import { makeAuthority, type ServingCertificate } from '../../framework/certificates.ts';
import { connectSharedControlPlane } from '../../framework/control-plane/shared.ts';
import { eventually } from '../../framework/eventually.ts';
import { type Files, showFiles } from '../../framework/kubelet/atomic-files.ts';
import { TcpForwarder } from '../../framework/kubelet/tcp-forwarder.ts';
import { recordingLogger } from '../../framework/recording-logger.ts';

jest.setTimeout(180_000);

const REPLICAS = 2;
const AGENTS = 6;
/** Clients of each agent. A connection is closed after 4 s without a call, so each call opens one. */
const CLIENTS = 4;
const PAUSE_MS = 4_500;
/** Agents read the bundle again when they connect, after 5 s at the earliest. */
const SETTLED_MS = 6_000;
const EXPIRY = 'brupop_apiserver_certificate_expiry_timestamp_seconds';

function files(texts: Readonly<Record<string, string>>): Files {
  return new Map(Object.entries(texts).map(([name, text]) => [name, { data: Buffer.from(text), mode: 0o644 }]));
}

describe('the authority and the certificate', () => {
  const cluster = connectSharedControlPlane();
  const dir = mkdtempSync(join(tmpdir(), 'brupop-rotation-'));
  const names = { commonName: APISERVER, dnsNames: [APISERVER] };
  const [former, next] = [makeAuthority('former'), makeAuthority('next')];
  const [tls, ca] = [join(dir, 'tls'), join(dir, 'ca')];
  const serve = async ({ cert, key }: ServingCertificate): Promise<void> =>
    await showFiles(tls, files({ 'tls.crt': cert, 'tls.key': key }));
  const trust = async (...authorities: readonly { caCert: string }[]): Promise<void> =>
    await showFiles(ca, files({ 'ca.crt': authorities.map(({ caCert }) => caCert).join('') }));

  const apiservers: RunningApiserver[] = [];
  const stop = new AbortController();
  const working: Promise<void>[] = [];
  const recorded = recordingLogger();
  const failures: string[] = [];
  let installation: Installation;
  let service: TcpForwarder;
  let calls = 0;
  let streams = 0;
  let connections = 0;

  beforeAll(async () => {
    await serve(former.issue(names));
    await trust(former);
    installation = await installNamespace(cluster);
    const settings = { tlsCertFile: join(tls, 'tls.crt'), tlsKeyFile: join(tls, 'tls.key') };
    for (let replica = 0; replica < REPLICAS; replica += 1)
      apiservers.push(await startApiserver(cluster, installation, settings));
    service = await TcpForwarder.start(() => {
      const { port = 0 } = apiservers[connections++ % REPLICAS] ?? {};
      return { host: '127.0.0.1', port };
    });
    for (let index = 0; index < AGENTS; index += 1) await startAgent();
  });

  afterAll(async () => {
    stop.abort();
    await Promise.all(working);
    await service.stop();
    await Promise.all(apiservers.map(async (apiserver) => await apiserver.stop()));
    await cluster.close();
    rmSync(dir, { recursive: true });
  });

  async function startAgent(): Promise<void> {
    const agent = await createAgent(cluster, installation.namespace);
    await ensureShadow(cluster, installation.namespace, agent.node);
    const token = join(dir, agent.node);
    await showFiles(token, files({ token: agent.token }));
    const { host, port } = service.address;
    const paths = { tokenFile: join(token, 'token'), caFile: join(ca, 'ca.crt') };
    const apiserver = { host, port, serverName: APISERVER, ...paths };
    const client = (): HttpApiserverClient =>
      new HttpApiserverClient({ node: agent.node, apiserver, clock: systemClock, log: recorded.log });
    const api = client();
    const counted = {
      read: async (signal: AbortSignal) => await api.read(signal),
      unreachableMs: () => api.unreachableMs(),
      stream: (signal: AbortSignal) => {
        streams += 1;
        return api.stream(signal);
      },
    };
    const common = { clock: systemClock, log: recorded.log, random: Math.random };
    working.push(new ShadowSource({ api: counted, ...common, changed: () => undefined }).run(stop.signal));
    for (let index = 0; index < CLIENTS; index += 1) working.push(call(client(), (index * PAUSE_MS) / CLIENTS));
  }

  async function call(client: HttpApiserverClient, delayMs: number): Promise<void> {
    await pause(delayMs);
    while (!stop.signal.aborted) {
      try {
        await client.read(stop.signal);
        calls += 1;
      } catch (error) {
        if (!stop.signal.aborted) failures.push(messageOf(error));
      }
      await pause(PAUSE_MS);
    }
  }

  async function pause(ms: number): Promise<void> {
    await systemClock.sleep(ms, stop.signal).catch(() => undefined);
  }

  const expiries = async (): Promise<number[]> =>
    await Promise.all(apiservers.map(async (apiserver) => sumOf(await apiserver.metrics(), EXPIRY)));

  it('are replaced under load without a failed call, a restart, or a stream that ends', async () => {
    await eventually(() => expect([streams, failures]).toEqual([AGENTS, []]));
    await pause(SETTLED_MS);
    await trust(former, next);
    await pause(SETTLED_MS);
    await serve(next.issue({ ...names, days: 2 }));
    const tomorrow = Date.now() / 1000 + 86_400 * 1.5;
    await eventually(async () => expect((await expiries()).filter((at) => at > tomorrow)).toHaveLength(REPLICAS), {
      limitMs: 30_000,
      pauseMs: 250,
    });
    await pause(SETTLED_MS);
    await trust(next);
    const callsBefore = calls;
    await pause(2 * SETTLED_MS);
    expect(failures).toEqual([]);
    expect(streams).toBe(AGENTS);
    expect(calls - callsBefore).toBeGreaterThan(AGENTS * CLIENTS);
    expect(connections).toBeGreaterThan(calls / 2);
    expect(recorded.lines.filter((line) => /"error":/u.test(line))).toEqual([]);
    process.stdout.write(`rotation: ${calls} calls, ${connections} connections, ${failures.length} failures\n`);
  });

  it('are seen as untrusted by agents that know the former authority only', async () => {
    await trust(former);
    await pause(SETTLED_MS + PAUSE_MS);
    await eventually(() => expect(failures.at(-1)).toMatch(/certificate/u));
    expect(streams).toBe(AGENTS);
  });
});
