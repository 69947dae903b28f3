import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect } from 'node:tls';
import { Registry } from 'prom-client';
import { Connections } from '../../../packages/apiserver/src/http/connections.ts';
import { createHttpsServer, listen, secureContext } from '../../../packages/apiserver/src/http/server.ts';
import { TlsFiles } from '../../../packages/apiserver/src/http/tls.ts';
import { createMetrics } from '../../../packages/apiserver/src/metrics.ts';
import { FakeClock } from '../../../packages/shared/src/testing/fake-clock.ts';
import { writeCertificate } from '../../framework/apiserver/server.ts';
import { makeServingCertificate } from '../../framework/certificates.ts';
import { eventually } from '../../framework/eventually.ts';
import { recordingLogger } from '../../framework/recording-logger.ts';

describe('the certificate of an apiserver', () => {
  const clock = new FakeClock(Date.now());
  const registry = new Registry();
  const metrics = createMetrics(registry);
  const dir = mkdtempSync(join(tmpdir(), 'brupop-tls-'));
  const files = writeCertificate(dir);
  const stop = new AbortController();
  const tls = new TlsFiles({ ...files, clock, log: recordingLogger().log, metrics });
  const used: string[] = [];

  beforeAll(async () => {
    await tls.load();
    void tls.watch(({ cert }) => used.push(cert), stop.signal);
  });

  afterAll(() => {
    stop.abort();
    rmSync(dir, { recursive: true });
  });

  /** Advances the clock until the files have been read again. */
  const look = async (): Promise<void> => {
    await eventually(() => expect(clock.pending).toBe(1));
    await clock.advance(30_000);
    await eventually(() => expect(clock.pending).toBe(1));
  };

  const errors = async (): Promise<number> => (await metrics.certificateErrors.get()).values[0]?.value ?? 0;

  it('stays while the files do not change', async () => {
    await look();
    expect([used, await errors()]).toEqual([[], 0]);
  });

  it.each([
    ['hold no certificate', () => writeFileSync(files.certFile, 'none')],
    ['hold one that has expired', () => writeCertificate(dir, -1)],
    ['do not belong together', () => writeFileSync(files.keyFile, makeServingCertificate({ commonName: 'other' }).key)],
  ])('stays in use, with an error counted, when the new files %s', async (_how, write) => {
    const before = await errors();
    write();
    await look();
    expect([used, await errors()]).toEqual([[], before + 1]);
  });

  it('is replaced when the new files can be used', async () => {
    writeCertificate(dir);
    await look();
    expect(used).toEqual([readFileSync(files.certFile, 'utf8')]);
  });

  it('is the one that new connections see', async () => {
    const listener = (): void => undefined;
    const limits = { maxConnections: 10, maxConnectionsPerAddress: 10 };
    const connections = new Connections({ ...limits, clock, metrics });
    const certificate = await tls.load();
    const server = createHttpsServer({ listener, certificate, connections, metrics, log: recordingLogger().log });
    const port = await listen(server, '127.0.0.1', 0);
    const { ca } = writeCertificate(dir);
    server.setSecureContext(secureContext(await tls.load()));
    const socket = connect({ host: '127.0.0.1', port, ca });
    await once(socket, 'secureConnect');
    expect(socket.authorized).toBe(true);
    socket.destroy();
    server.close();
    await once(server, 'close');
  });

  it('fails the start when it cannot be used', async () => {
    writeCertificate(dir, -1);
    const fresh = new TlsFiles({ ...files, clock, log: recordingLogger().log, metrics });
    await expect(fresh.load()).rejects.toThrow('expired');
  });
});
