import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect } from 'node:tls';
import { Registry } from 'prom-client';
import { Connections } from '../../../packages/apiserver/src/http/connections.ts';
import { createHttpsServer, listen, secureContext } from '../../../packages/apiserver/src/http/server.ts';
import { type ServingCertificate, TlsFiles } from '../../../packages/apiserver/src/http/tls.ts';
import { createMetrics } from '../../../packages/apiserver/src/metrics.ts';
import { APISERVER } from '../../../packages/shared/src/api/names.ts';
import { FakeClock } from '../../../packages/shared/src/testing/fake-clock.ts';
import { writeCertificate } from '../../framework/apiserver/server.ts';
import { makeServingCertificate } from '../../framework/certificates.ts';
import { eventually } from '../../framework/eventually.ts';
import { showFiles } from '../../framework/kubelet/atomic-files.ts';
import { recordingLogger } from '../../framework/recording-logger.ts';

const RELOAD_MS = 10_000;
const DAY_MS = 86_400_000;
const MINUTE_MS = 60_000;

describe('the certificate of an apiserver', () => {
  let clock: FakeClock;
  let metrics: ReturnType<typeof createMetrics>;
  let dir: string;
  let files: ReturnType<typeof writeCertificate>;
  let stop: AbortController;
  let recorded: ReturnType<typeof recordingLogger>;
  let tls: TlsFiles;
  let used: string[];

  beforeEach(() => {
    clock = new FakeClock(Date.now());
    metrics = createMetrics(new Registry());
    dir = mkdtempSync(join(tmpdir(), 'brupop-tls-'));
    files = writeCertificate(dir);
    stop = new AbortController();
    recorded = recordingLogger();
    const { certFile, keyFile } = files;
    tls = new TlsFiles({ certFile, keyFile, serverName: APISERVER, clock, log: recorded.log, metrics });
    used = [];
  });

  afterEach(() => {
    stop.abort();
    rmSync(dir, { recursive: true });
  });

  const watched = async (): Promise<ServingCertificate> => {
    const first = await tls.untilUsable(stop.signal);
    if (first === undefined) throw new Error('there is no certificate');
    void tls.watch(({ cert }) => used.push(cert), stop.signal);
    return first;
  };

  /** Advances the clock until the files have been read again. */
  const look = async (): Promise<void> => {
    await eventually(() => expect(clock.pending).toBe(1));
    await clock.advance(RELOAD_MS);
    await eventually(() => expect(clock.pending).toBe(1));
  };

  const errors = async (): Promise<Record<string, number>> => {
    const { values } = await metrics.certificateErrors.get();
    return Object.fromEntries(values.map(({ labels, value }) => [String(labels.reason), value] as const));
  };

  const expiry = async (): Promise<number> => {
    const { values } = await metrics.certificateExpiry.get();
    expect(values.map(({ labels }) => labels.issuer)).toEqual([expect.stringMatching(/^CN=\S+ test CA$/u)]);
    return values[0]?.value ?? 0;
  };

  it('stays while the files do not change', async () => {
    await watched();
    await look();
    expect([used, await errors()]).toEqual([[], {}]);
  });

  it.each<readonly [string, string, (text: string) => void]>([
    ['hold no certificate', 'Invalid', () => writeFileSync(files.certFile, 'none')],
    ['are half written', 'Invalid', (cert) => writeFileSync(files.certFile, cert.slice(0, 300))],
    ['are empty', 'Invalid', () => writeFileSync(files.keyFile, '')],
    ['are gone', 'Unreadable', () => rmSync(files.keyFile)],
    ['hold one that has expired', 'Expired', () => writeCertificate(dir, { days: -1 })],
    ['hold one for another name', 'WrongName', () => writeCertificate(dir, { dnsNames: ['other.test.svc'] })],
    [
      'do not belong together',
      'KeyMismatch',
      () => writeFileSync(files.keyFile, makeServingCertificate({ commonName: 'other' }).key),
    ],
    [
      'have a chain that cannot be read',
      'Invalid',
      (cert) => writeFileSync(files.certFile, `${cert}${cert.slice(0, 300)}`),
    ],
  ])('stays in use when the new files %s, logged once and counted as %s', async (_how, reason, write) => {
    const { expiresAt } = await watched();
    write(readFileSync(files.certFile, 'utf8'));
    await look();
    await look();
    expect([used, await errors(), await expiry()]).toEqual([[], { [reason]: 2 }, expiresAt / 1000]);
    const logged = recorded.lines.filter((line) => line.includes('the previous certificate stays'));
    expect(logged).toEqual([expect.stringContaining(`"reason":"${reason}"`)]);
    expect(tls.problem()).toBeUndefined();
  });

  it('stays in use when the new one is not valid yet by the clock of the node, until it is', async () => {
    clock = new FakeClock(Date.now() - DAY_MS);
    const { certFile, keyFile } = files;
    tls = new TlsFiles({ certFile, keyFile, serverName: APISERVER, clock, log: recorded.log, metrics });
    const first = tls.untilUsable(stop.signal);
    await eventually(() => expect(tls.problem()).toContain('not valid before'));
    await clock.advance(DAY_MS);
    expect(await first).toBeDefined();
    expect((await errors())['NotYetValid']).toBeGreaterThan(0);
  });

  it('is replaced when the new files can be used, and the metric shows when the new one expires', async () => {
    const { expiresAt } = await watched();
    writeCertificate(dir, { days: 3 });
    await look();
    expect(used).toEqual([readFileSync(files.certFile, 'utf8')]);
    expect(Math.round((await expiry()) - expiresAt / 1000)).toBe((2 * DAY_MS) / 1000);
  });

  it('is never mixed with the key of another, however often a kubelet replaces both', async () => {
    const mounted = join(dir, 'mounted');
    const write = async (): Promise<void> => {
      const { cert, key } = makeServingCertificate({ commonName: APISERVER, dnsNames: [APISERVER] });
      const file = (text: string): { data: Buffer; mode: number } => ({ data: Buffer.from(text), mode: 0o644 });
      await showFiles(mounted, new Map(Object.entries({ 'tls.crt': file(cert), 'tls.key': file(key) })));
    };
    await write();
    const [certFile, keyFile] = [join(mounted, 'tls.crt'), join(mounted, 'tls.key')];
    tls = new TlsFiles({ certFile, keyFile, serverName: APISERVER, clock, log: recorded.log, metrics });
    await watched();
    for (let round = 0; round < 30; round += 1) await Promise.all([write(), look()]);
    await look();
    expect((await errors())['KeyMismatch']).toBeUndefined();
    expect(used.at(-1)).toBe(readFileSync(certFile, 'utf8'));
  });

  it('is awaited at the start when it cannot be used, which readiness says', async () => {
    writeCertificate(dir, { days: -1 });
    const first = tls.untilUsable(stop.signal);
    await eventually(() =>
      expect(tls.problem()).toMatch(/tls\.crt and .*tls\.key cannot be used: the certificate expired at/u),
    );
    const { certFile } = writeCertificate(dir);
    await eventually(() => expect(clock.pending).toBe(1));
    await clock.advance(RELOAD_MS);
    expect((await first)?.cert).toBe(readFileSync(certFile, 'utf8'));
    expect(tls.problem()).toBeUndefined();
  });

  it('that has expired before the start is in the metric, so that the alert about it fires', async () => {
    writeCertificate(dir, { days: -1 });
    void tls.untilUsable(stop.signal);
    await eventually(() => expect(tls.problem()).toContain('the certificate expired at'));
    expect(await expiry()).toBeLessThan(clock.now() / 1000);
  });

  it('makes the replica not ready when it expires, until another is there', async () => {
    await watched();
    // The certificate was made later than the clock.
    await clock.advance(DAY_MS + MINUTE_MS);
    expect(tls.problem()).toContain('the certificate expired at');
    writeCertificate(dir, { days: 3 });
    await look();
    expect(tls.problem()).toBeUndefined();
  });

  it('is the one that new connections see; open ones go on', async () => {
    const listener = (): void => undefined;
    const limits = { maxConnections: 10, maxConnectionsPerAddress: 10 };
    const { log } = recordingLogger();
    const connections = new Connections({ ...limits, agents: { nodesAt: () => undefined }, clock, log, metrics });
    const certificate = await watched();
    const server = createHttpsServer({ listener, certificate, connections, clock, metrics, log });
    const port = await listen(server, '127.0.0.1', 0);
    const names = { host: '127.0.0.1', port, servername: APISERVER };
    const former = connect({ ...names, ca: files.ca });
    await once(former, 'secureConnect');
    const { ca, certFile, keyFile } = writeCertificate(dir, { days: 3 });
    const next = { cert: readFileSync(certFile, 'utf8'), key: readFileSync(keyFile, 'utf8') };
    server.setSecureContext(secureContext(next));
    const socket = connect({ ...names, ca });
    await once(socket, 'secureConnect');
    expect([socket.authorized, former.authorized, former.destroyed]).toEqual([true, true, false]);
    socket.destroy();
    former.destroy();
    server.close();
    await once(server, 'close');
  });
});
