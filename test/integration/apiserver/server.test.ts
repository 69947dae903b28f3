import { once } from 'node:events';
import { connect, type TLSSocket } from 'node:tls';
import { jest } from '@jest/globals';
import { connectAgent } from '../../framework/apiserver/agent-client.ts';
import { type Agent, agentToken, createAgent } from '../../framework/apiserver/cluster.ts';
import { useApiserver } from '../../framework/apiserver/suite.ts';
import { eventually } from '../../framework/eventually.ts';

jest.setTimeout(60_000);

describe('the listener of an apiserver', () => {
  const suite = useApiserver();
  let agent: Agent;

  beforeAll(async () => {
    agent = await createAgent(suite.cluster, suite.namespace);
  });

  const open = async (options = {}): Promise<TLSSocket> => {
    const socket = connect({ host: '127.0.0.1', port: suite.apiserver.port, ca: suite.apiserver.ca, ...options });
    socket.on('error', () => undefined);
    await once(socket, 'secureConnect');
    return socket;
  };

  /** All that the server sends until it closes the connection. */
  const converse = async (text: string): Promise<string> => {
    const socket = await open();
    socket.setEncoding('utf8');
    let answer = '';
    socket.on('data', (chunk: string) => {
      answer += chunk;
    });
    socket.write(text);
    await once(socket, 'close');
    return answer;
  };

  it.each([
    ['an unknown path', 'GET', '/v1/nodes/x/shadow/other', 404, 'NotFound'],
    ['another method', 'DELETE', '/v1/nodes/x/shadow', 404, 'NotFound'],
    ['the root', 'GET', '/', 404, 'NotFound'],
    ['a broken escape', 'POST', '/v1/nodes/%zz/restore', 400, 'BadRequest'],
    ['a name that no Node can have', 'POST', '/v1/nodes/..%2f..%2fx/restore', 400, 'BadRequest'],
    ['a name in capitals', 'POST', '/v1/nodes/NODE/restore', 400, 'BadRequest'],
  ])('answers %s in the form of the protocol', async (_what, method, path, status, code) => {
    const answer = await suite.apiserver.client.call(method, path, { token: agent.token });
    expect([answer.status, answer.code]).toEqual([status, code]);
    expect(answer.headers['x-powered-by']).toBeUndefined();
  });

  it.each([
    ['that is no JSON', '{"shadowUID":', 400, 'BadRequest', 'body: expected JSON'],
    ['that is empty', '', 400, 'BadRequest', 'body: expected an object, found nothing'],
    ['of more than 64 KiB', filler(70_000), 413, 'TooLarge', 'body: expected at most 65536 bytes, found 70013'],
  ])('rejects a body %s and names what it expects', async (_what, raw, status, code, words) => {
    const answer = await suite.apiserver.client.call('POST', `/v1/nodes/${agent.node}/drain`, {
      token: agent.token,
      raw,
    });
    expect([answer.status, answer.code]).toEqual([status, code]);
    expect(JSON.stringify(answer.body)).toContain(words);
    expect(JSON.stringify(answer.body)).not.toContain('node_modules');
  });

  it('rejects headers of more than 8 KiB', async () => {
    const answer = await converse(`GET / HTTP/1.1\r\nhost: x\r\nfiller: ${'x'.repeat(9_000)}\r\n\r\n`);
    expect(answer).toMatch(/^HTTP\/1\.1 431 /);
  });

  it('does not wait for a client that never ends its headers', async () => {
    const started = performance.now();
    const answer = await converse('GET / HTTP/1.1\r\nhost: x\r\n');
    expect(answer).toMatch(/^HTTP\/1\.1 408 /);
    expect(performance.now() - started).toBeLessThan(20_000);
  });

  it('rejects TLS before 1.3', async () => {
    for (const maxVersion of ['TLSv1.1', 'TLSv1.2'] as const) {
      const { port, ca } = suite.apiserver;
      const socket = connect({
        host: '127.0.0.1',
        port,
        ca,
        maxVersion,
        minVersion: 'TLSv1',
        ciphers: 'ALL@SECLEVEL=0',
      });
      await expect(once(socket, 'secureConnect')).rejects.toThrow(/version|protocol|disconnected/i);
    }
    const modern = await open();
    expect(modern.getProtocol()).toBe('TLSv1.3');
    modern.destroy();
  });

  it.each(['X25519MLKEM768', 'X25519', 'P-256', 'P-384'])('agrees on a key with %s', async (ecdhCurve) => {
    const socket = await open({ ecdhCurve });
    expect(socket.authorized).toBe(true);
    socket.destroy();
  });

  it.each(['P-521', 'X448', 'ffdhe2048', 'ffdhe3072'])(
    'rejects %s, where a key exchange is costly',
    async (ecdhCurve) => {
      await expect(open({ ecdhCurve })).rejects.toThrow(/handshake failure|disconnected|illegal parameter/i);
    },
  );

  it('limits a node that calls too often, and no other', async () => {
    const [one, other] = await Promise.all([1, 2].map(() => createAgent(suite.cluster, suite.namespace)));
    if (one === undefined || other === undefined) throw new Error('no agents');
    const answers = await Promise.all(Array.from({ length: 60 }, () => suite.apiserver.client.act(one, 'restore')));
    const { headers } = answers.find(({ status }) => status === 429) ?? { headers: {} };
    expect(headers).toMatchObject({ 'retry-after': '5' });
    expect((await suite.apiserver.client.act(other, 'restore')).status).toBe(200);
  });

  it('answers 503 while the Kubernetes API is out of reach, also for tokens that are not in its cache', async () => {
    const { apiserver: cut, proxy } = await suite.startBehindProxy();
    const one = await createAgent(suite.cluster, suite.namespace);
    expect((await cut.client.act(one, 'restore')).status).toBe(200);
    const unknown = {
      ...one,
      token: await agentToken(suite.cluster, suite.namespace, one, { expirationSeconds: 900 }),
    };
    proxy.cut();
    expect((await cut.client.act(one, 'restore')).code).toBe('Unavailable');
    expect((await cut.client.act(unknown, 'restore')).code).toBe('Unavailable');
    proxy.heal();
    await eventually(async () => expect((await cut.client.act(unknown, 'restore')).status).toBe(200));
  });

  it('limits the connections of an address, and accepts new ones when it closes some', async () => {
    const limited = await suite.start({ maxConnectionsPerAddress: 4 });
    const to = { port: limited.port, ca: limited.ca };
    const sockets = [];
    for (let number = 0; number < 4; number += 1) sockets.push(await open(to));
    for (let number = 0; number < 20; number += 1) await expect(open(to)).rejects.toThrow(/disconnected|ECONNRESET/);
    expect(await limited.metrics()).toMatch(/^brupop_apiserver_rejected_connections_total\{limit="address"\} 20$/m);
    const other = await open({ ...to, localAddress: '127.0.0.2' });
    sockets.pop()?.destroy();
    sockets.push(other, await eventually(async () => await open(to)));
    for (const socket of sockets) socket.destroy();
  });

  it('is not ready and accepts no connection once it shuts down', async () => {
    const short = await suite.start();
    const other = connectAgent(short.port, short.ca);
    await short.stop();
    await expect(other.act(agent, 'restore')).rejects.toMatchObject({ code: 'ECONNREFUSED' });
    await other.close();
    await expect(fetch(`http://127.0.0.1:${short.healthPort}/readyz`)).rejects.toThrow('fetch failed');
  });
});

/** A JSON object with a text of this length. */
function filler(length: number): string {
  return JSON.stringify({ filler: 'x'.repeat(length) });
}
