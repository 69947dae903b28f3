/** Clients that still send when the server has rejected what they sent before. */
import { once } from 'node:events';
import type { Server } from 'node:https';
import { connect, type TLSSocket } from 'node:tls';
import { createRegistry } from '@brupop/shared/runtime/metrics';
import { FakeClock } from '@brupop/shared/testing/fake-clock';
import { makeServingCertificate } from '../../../../test/framework/certificates.ts';
import { eventually } from '../../../../test/framework/eventually.ts';
import { recordingLogger } from '../../../../test/framework/recording-logger.ts';
import { createMetrics } from '../metrics.ts';
import { Connections } from './connections.ts';
import { createHttpsServer, listen } from './server.ts';

const { cert, key, caCert } = makeServingCertificate({
  commonName: 'x',
  dnsNames: [],
  ipAddresses: ['127.0.0.1'],
  days: 1,
});
const REQUEST = 'GET / HTTP/1.1\r\nhost: x\r\n\r\n';
const LARGE = `GET / HTTP/1.1\r\nfiller: ${'x'.repeat(20_000)}`;
const MORE = 'x'.repeat(16_000);

describe('a client that still sends after its last response', () => {
  let server: Server;
  let port = 0;
  const clock = new FakeClock();

  beforeAll(async () => {
    const { log } = recordingLogger();
    const metrics = createMetrics(createRegistry('test'));
    const limits = { maxConnections: 100, maxConnectionsPerAddress: 100 };
    const agents = { nodesAt: () => undefined };
    const connections = new Connections({ ...limits, agents, clock, log, metrics });
    const certificate = { cert, key };
    server = createHttpsServer({
      listener: (_, response) => void setImmediate(() => response.end('ok')),
      certificate,
      connections,
      clock,
      metrics,
      log,
    });
    port = await listen(server, '127.0.0.1', 0);
  });

  afterAll(async () => {
    server.close();
    server.closeAllConnections();
    await once(server, 'close');
  });

  /** Sends `text`, and returns the status of the response once the server has closed its half. */
  const rejected = async (text: string): Promise<{ socket: TLSSocket; status: string | undefined }> => {
    const halfOpen = { host: '127.0.0.1', port, ca: caCert, allowHalfOpen: true };
    const socket = connect(halfOpen);
    let received = '';
    socket.on('error', () => undefined);
    socket.setEncoding('utf8').on('data', (part: string) => (received += part));
    socket.write(text);
    await once(socket, 'end');
    return { socket, status: /^HTTP\/1\.1 (\d+)/u.exec(received)?.[1] };
  };
  /** Returns the error of the write. */
  const write = async (socket: TLSSocket): Promise<unknown> =>
    await new Promise((resolve) => {
      socket.write(MORE, resolve);
    });
  const open = async (): Promise<number> =>
    await new Promise((resolve) => {
      server.getConnections((_, count) => resolve(count));
    });

  it.each([
    ['headers that are too large', LARGE, '431'],
    ['what is not HTTP', 'x y z\r\n\r\n', '400'],
    ['two requests at once', `${REQUEST}${REQUEST}`, '200'],
  ])('is not reset after %s', async (_, text, expected) => {
    const { socket, status } = await rejected(text);
    const errors = [await write(socket), await write(socket), await write(socket)];
    expect({ status, errors: errors.filter(Boolean) }).toEqual({ status: expected, errors: [] });
    socket.end();
    await once(socket, 'close');
  });

  it('is closed when it sends a megabyte more', async () => {
    const { socket } = await rejected(LARGE);
    let writes = 0;
    while (!(await write(socket))) writes += 1;
    expect(writes).toBeLessThan(200);
  });

  it('is closed when it keeps its half open', async () => {
    const { socket } = await rejected(LARGE);
    await clock.advance(999);
    expect(await open()).toBe(1);
    await clock.advance(1);
    await eventually(async () => expect(await open()).toBe(0));
    socket.destroy();
  });
});
