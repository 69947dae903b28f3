/** Every program listens on the first address of its pod, and connects to addresses of Services. */
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { get, type IncomingMessage } from 'node:http';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { HttpApiserverClient } from '../../../packages/agent/src/apiserver/client.ts';
import { listen } from '../../../packages/apiserver/src/http/server.ts';
import { createKubeClient } from '../../../packages/shared/src/kube/client.ts';
import { systemClock } from '../../../packages/shared/src/runtime/clock.ts';
import { serveHealth } from '../../../packages/shared/src/runtime/health.ts';
import { makeServingCertificate } from '../../framework/certificates.ts';
import { freePorts } from '../../framework/control-plane/ports.ts';
import { recordingLogger } from '../../framework/recording-logger.ts';

const NAME = 'brupop-apiserver.test.svc';
const { caCert, cert, key } = makeServingCertificate({ commonName: NAME, dnsNames: [NAME] });
const clock = systemClock;
const { log } = recordingLogger();

const folder = mkdtempSync(join(tmpdir(), 'brupop-families-'));
const caFile = join(folder, 'ca.crt');
const tokenFile = join(folder, 'token');
/** What was requested of the server. */
let requested: string[] = [];
const server = createServer({ cert, key }, (request, response) => {
  requested.push(`${request.method} ${request.url}`);
  request.resume();
  response.writeHead(200, { 'content-type': 'application/json' }).end('{"uncordoned":true,"included":false}');
});

beforeAll(() => {
  writeFileSync(caFile, caCert);
  writeFileSync(tokenFile, 'token');
});

beforeEach(() => {
  requested = [];
});

afterEach(async () => {
  if (!server.listening) return;
  server.closeAllConnections();
  await new Promise((resolve) => {
    server.close(resolve);
  });
});

afterAll(() => rmSync(folder, { recursive: true }));

describe.each(['127.0.0.1', '::1'])('on the address %s', (host) => {
  it('a program answers its probes', async () => {
    const stop = new AbortController();
    const [port = 0] = await freePorts(1);
    const fine = (): undefined => undefined;
    await serveHealth({ host, port, signal: stop.signal, live: fine, ready: fine });
    const [answer] = (await once(get({ host, port, path: '/readyz' }), 'response')) as [IncomingMessage];
    expect(answer.resume().statusCode).toBe(200);
    stop.abort();
  });

  it('an agent reaches the API server', async () => {
    await listen(server, host, 0);
    const { port } = server.address() as AddressInfo;
    const apiserver = { host, port, serverName: NAME, caFile, tokenFile };
    const client = new HttpApiserverClient({ node: 'node-1', apiserver, clock, log });
    await client.restore(new AbortController().signal);
    expect(requested).toEqual(['POST /v1/nodes/node-1/restore']);
  });

  it('a controller reaches the Kubernetes API', async () => {
    await listen(server, host, 0);
    const { port } = server.address() as AddressInfo;
    const access = { host, port, serviceAccountDir: folder };
    const client = await createKubeClient({ userAgent: 'test', clock, log, access });
    // The certificate names no address, so the connection ends after its handshake.
    const problem = await client.request({ method: 'GET', path: '/' }).catch(String);
    expect(problem).toContain(`IP: ${host} is not in the cert's list`);
    await client.close();
  });
});
