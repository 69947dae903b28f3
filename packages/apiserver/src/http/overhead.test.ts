import { once } from 'node:events';
import type { Server } from 'node:https';
import { type AddressInfo, connect as connectTcp, createServer, type Socket } from 'node:net';
import { connect } from 'node:tls';
import { createRegistry } from '@brupop/shared/runtime/metrics';
import { FakeClock } from '@brupop/shared/testing/fake-clock';
import { makeServingCertificate } from '../../../../test/framework/certificates.ts';
import { eventually } from '../../../../test/framework/eventually.ts';
import { sendKeyUpdates } from '../../../../test/framework/apiserver/key-updates.ts';
import { recordingLogger } from '../../../../test/framework/recording-logger.ts';
import { createMetrics } from '../metrics.ts';
import { Connections } from './connections.ts';
import { createHttpsServer, listen } from './server.ts';

const names = { commonName: 'x', dnsNames: [], ipAddresses: ['127.0.0.1'] };
const { cert, key, caCert: ca } = makeServingCertificate({ ...names, days: 1 });
const STREAM = 'GET /stream HTTP/1.1\r\nhost: x\r\n\r\n';
/** With its header, 16 KiB of content, its type and its tag. */
const RECORD = 5 + 16_384 + 1 + 16;
const SHORT = 'GET / HTTP/1.1\r\nhost: x\r\n\r\n';

describe('a connection with a stream', () => {
  const clock = new FakeClock();
  const { log, lines } = recordingLogger();
  let server: Server;
  let port = 0;

  beforeAll(async () => {
    const metrics = createMetrics(createRegistry('test'));
    const limits = { maxConnections: 100, maxConnectionsPerAddress: 100 };
    const connections = new Connections({ ...limits, agents: { nodesAt: () => undefined }, clock, log, metrics });
    server = createHttpsServer({
      listener: (request, response) => {
        connections.admit(request.socket, 'a');
        response.write('ok');
        if (request.url === '/') response.end();
      },
      certificate: { cert, key },
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

  /** A connection to the server of which the bytes from a number on are withheld. */
  const withholding = async (): Promise<{ transport: Socket; withheld: { from: number; bytes: number } }> => {
    const withheld = { from: Infinity, bytes: 0 };
    let passed = 0;
    const relay = createServer((client) => {
      relay.close();
      const onward = connectTcp(port, '127.0.0.1');
      onward.on('error', () => undefined).pipe(client.on('error', () => undefined));
      client
        .on('close', () => onward.destroy())
        .on('data', (piece: Buffer) => {
          const part = piece.subarray(0, Math.max(0, withheld.from - passed));
          passed += part.length;
          withheld.bytes += piece.length - part.length;
          onward.write(part);
        });
    }).listen(0, '127.0.0.1');
    await once(relay, 'listening');
    return { transport: connectTcp((relay.address() as AddressInfo).port, '127.0.0.1'), withheld };
  };

  it('is closed after two thousand KeyUpdates, and the log says why', async () => {
    const flooding = await sendKeyUpdates({ port, ca }, STREAM, 2_000);
    await eventually(async () => {
      await clock.advance(250);
      expect(flooding.closed).toBe(true);
    });
    expect(lines.join('')).toContain('such as many KeyUpdates');
  });

  it('may send a hundred', async () => {
    const client = await sendKeyUpdates({ port, ca }, STREAM, 100);
    await clock.advance(250);
    await new Promise((done) => setTimeout(done, 100));
    expect(client.closed).toBe(false);
    client.destroy();
  });

  it('may wait for the last byte of a large record', async () => {
    const { transport, withheld } = await withholding();
    const socket = connect({ socket: transport, host: '127.0.0.1', ca });
    socket.on('error', () => undefined);
    socket.write('PUT /stream HTTP/1.1\r\nhost: x\r\ncontent-length: 16384\r\n\r\n');
    await once(socket, 'data');
    withheld.from = transport.bytesWritten + RECORD - 1;
    socket.write('x'.repeat(16_384));
    await eventually(() => expect(withheld.bytes).toBe(1));
    await clock.advance(250);
    await new Promise((done) => setTimeout(done, 100));
    expect(socket.closed).toBe(false);
    transport.destroy();
  });

  it('may have had any number of short requests before', async () => {
    const socket = connect({ host: '127.0.0.1', port, ca });
    for (let number = 0; number < 1_000; number += 1) {
      socket.write(SHORT);
      await once(socket, 'data');
    }
    await clock.advance(250);
    socket.write(STREAM);
    await once(socket, 'data');
    expect(socket.closed).toBe(false);
    socket.destroy();
  });
});
