import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import type { Server } from 'node:https';
import { connect } from 'node:tls';
import { Worker } from 'node:worker_threads';
import { createRegistry } from '@brupop/shared/runtime/metrics';
import { FakeClock } from '@brupop/shared/testing/fake-clock';
import { ANSWERS, type EagerClient, SENT } from '../../../../test/framework/apiserver/eager-client.ts';
import { eventually } from '../../../../test/framework/eventually.ts';
import { makeServingCertificate } from '../../../../test/framework/certificates.ts';
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
const WITH_BODY = 'PUT / HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\nabcde';
const BLANKS = '\n'.repeat(1_000);
const eagerClient = new URL('../../../../test/framework/apiserver/eager-client.ts', import.meta.url);
const ok = (response: ServerResponse): void => void response.end('ok');

describe('a connection', () => {
  let server: Server;
  let port = 0;
  /** Called with each whole request. */
  let respond = ok;

  beforeAll(async () => {
    const metrics = createMetrics(createRegistry('test'));
    const { log } = recordingLogger();
    const limits = { maxConnections: 100, maxConnectionsPerAddress: 100 };
    const agents = { nodesAt: () => undefined };
    const connections = new Connections({ ...limits, agents, clock: new FakeClock(), log, metrics });
    server = createHttpsServer({
      listener: (request, response) => {
        request.resume().once('end', () => respond(response));
      },
      certificate: { cert, key },
      connections,
      clock: new FakeClock(),
      metrics,
      log,
    });
    port = await listen(server, '127.0.0.1', 0);
  });

  afterEach(() => (respond = ok));

  afterAll(async () => {
    server.close();
    server.closeAllConnections();
    await once(server, 'close');
  });

  /** Writes each text when the one before was answered, or has had time for that; returns the status of all answers. */
  const converse = async (...texts: readonly string[]): Promise<{ answers: string[]; closed: boolean }> => {
    const socket = connect({ host: '127.0.0.1', port, ca: caCert });
    socket.setMaxListeners(100).on('error', () => undefined);
    await once(socket, 'secureConnect');
    let received = '';
    socket.setEncoding('utf8').on('data', (text: string) => (received += text));
    for (const text of texts) {
      socket.write(text);
      const limit = new Promise((done) => setTimeout(done, text.includes('HTTP/1.1') ? 1_000 : 20));
      await Promise.race([once(socket, 'data'), once(socket, 'close'), limit]);
    }
    const answers = (): string[] => [...received.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status = '']) => status);
    await eventually(() => expect(socket.closed || answers().length === texts.length).toBe(true));
    for (let waited = 0; !socket.closed && waited < 1_000; waited += 20)
      await new Promise((done) => setTimeout(done, 20));
    const { closed } = socket;
    socket.destroy();
    return { answers: answers(), closed };
  };

  it('may send some blank lines before each request', async () => {
    expect(await converse(`\r\n${REQUEST}`, `\r\n\r\n${REQUEST}`)).toEqual({ answers: ['200', '200'], closed: false });
  });

  it('may send any number of requests with bodies', async () => {
    const large = `PUT / HTTP/1.1\r\nhost: x\r\ncontent-length: 60000\r\n\r\n${'x'.repeat(60_000)}`;
    const texts = Array.from({ length: 12 }, (_, index) => (index % 2 === 0 ? REQUEST : large));
    expect(await converse(...texts)).toEqual({ answers: texts.map(() => '200'), closed: false });
  });

  it.each([
    ['a request', REQUEST],
    ['a request with a body', WITH_BODY],
    ['several requests', `${WITH_BODY}${REQUEST}${WITH_BODY}`],
  ])('is closed after the first response when %s came before it', async (_, more) => {
    expect(await converse(`${REQUEST}${more}`)).toEqual({ answers: ['200'], closed: true });
    expect(await converse(REQUEST, `${WITH_BODY}${more}`)).toEqual({ answers: ['200', '200'], closed: true });
  });

  it('may send a request once it has a response, before a busy server has recorded that it was sent', async () => {
    const counts = new Int32Array(new SharedArrayBuffer(8));
    // Node records it after it has read what came; only what a timer sends can be answered before that.
    respond = (response) =>
      void setTimeout(() => {
        const before = Atomics.load(counts, SENT);
        ok(response);
        Atomics.wait(counts, SENT, before, 2_000);
      }, 1);
    const workerData: EagerClient = { port, ca: caCert, request: WITH_BODY, requests: 5, counts };
    await once(new Worker(eagerClient, { workerData }), 'exit');
    expect(counts[ANSWERS]).toBe(5);
  });

  it('is closed after 8 KiB of blank lines without a request', async () => {
    expect(await converse(...Array.from({ length: 9 }, () => BLANKS))).toEqual({ answers: [], closed: true });
  });

  it('is closed after 8 KiB of blank lines that follow a request', async () => {
    const blanks = Array.from({ length: 9 }, () => BLANKS);
    expect(await converse(REQUEST, ...blanks, REQUEST)).toEqual({ answers: ['200'], closed: true });
  });

  it('is closed after 8 KiB of blank lines during a request', async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    respond = (response) => void promise.then(() => ok(response));
    expect(await converse(REQUEST, ...Array.from({ length: 9 }, () => BLANKS))).toEqual({ answers: [], closed: true });
    resolve();
  });

  it('gets a response when the headers of its request are too large', async () => {
    const large = `GET / HTTP/1.1\r\nhost: x\r\nfiller: ${'x'.repeat(20_000)}\r\n\r\n`;
    expect(await converse(large)).toEqual({ answers: ['431'], closed: true });
  });
});
