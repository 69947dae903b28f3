import { once } from 'node:events';
import { createServer } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { createRegistry } from '@brupop/shared/runtime/metrics';
import { FakeClock } from '@brupop/shared/testing/fake-clock';
import { recordingLogger } from '../../../test/framework/recording-logger.ts';
import { createApp } from './app.ts';
import { ApiError } from './errors.ts';
import { createMetrics } from './metrics.ts';
import type { Routes } from './routes.ts';

/** Sends the request line twice on one connection. Returns what is received until the connection is closed. */
async function answersTo(requestLine: string): Promise<string> {
  const { log } = recordingLogger();
  const listener = createApp({
    authenticator: { authenticate: () => Promise.reject(new ApiError('Unauthenticated', 'no token')) },
    connections: { admit: () => undefined },
    routes: {} as Routes,
    ready: () => undefined,
    metrics: createMetrics(createRegistry('test')),
    clock: new FakeClock(),
    log,
    logOf: () => log,
    stop: new AbortController().signal,
  });
  const server = createServer(listener).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1');
  try {
    socket.write(`${requestLine} HTTP/1.1\r\nhost: x\r\n\r\n`.repeat(2));
    return await text(socket);
  } finally {
    server.close();
  }
}

describe('a request that is not part of the protocol', () => {
  it.each([
    'GET /',
    'GET /v1/nodes/a/other',
    'DELETE /v1/nodes/a/shadow',
    'OPTIONS /v1/nodes/a/shadow',
    'OPTIONS *',
    'GET https://x/v1/nodes',
    'GET a://b',
    'OPTIONS a://b',
    'GET http://[',
  ])(
    '%s ends its connection with one response in the form of the protocol',
    async (requestLine) => {
      const [head = '', body = '', ...more] = (await answersTo(requestLine)).split('\r\n\r\n');
      expect(head).toMatch(/^HTTP\/1\.1 404 /u);
      expect(head.toLowerCase()).toContain('\r\nconnection: close');
      expect(JSON.parse(body)).toMatchObject({ error: { code: 'NotFound' } });
      expect(more).toEqual([]);
    },
    10_000,
  );
});
