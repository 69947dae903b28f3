/** How a notification is sent, to a real server on loopback. */
import { createServer, type Server } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { KubeError } from '@brupop/shared/kube/error';
import { systemClock } from '@brupop/shared/runtime/clock';
import { FakeClock } from '@brupop/shared/testing/fake-clock';
import { makeAuthority, makeServingCertificate } from '../../../../test/framework/certificates.ts';
import { eventually } from '../../../../test/framework/eventually.ts';
import { BEHAVIORS, Webhook } from '../../../../test/framework/monitoring/webhook.ts';
import { aReceiver } from '../testing/notices.ts';
import { findTarget, post } from './deliver.ts';
import type { DeliveryError } from './target.ts';

const NO_PROXY = { http: '', https: '', no: '' };
const BODY = '{"id":"a"}';
const certificate = makeServingCertificate({ commonName: 'webhook', ipAddresses: ['127.0.0.1'] });

let webhook: Webhook;
let secure: Webhook;

beforeEach(async () => {
  [webhook, secure] = await Promise.all([Webhook.start(), Webhook.start(certificate)]);
});

afterEach(async () => {
  await Promise.all([webhook.stop(), secure.stop()]);
});

interface Sending {
  readonly address?: string;
  readonly ca?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly proxies?: typeof NO_PROXY;
  readonly clock?: FakeClock;
  readonly signal?: AbortSignal;
}

async function send({ address = webhook.address, ca, headers = {}, ...rest }: Sending = {}): Promise<void> {
  const { proxies = NO_PROXY, clock = systemClock, signal = new AbortController().signal } = rest;
  await post(
    { address, headers, ...(ca !== undefined && { ca }) },
    BODY,
    { clock, proxies, isLeading: () => true },
    signal,
  );
}

async function failureOf(sending: Sending = {}): Promise<DeliveryError> {
  return await send(sending).then(
    () => {
      throw new Error('expected a failure, found a success');
    },
    (error: unknown) => error as DeliveryError,
  );
}

test('a body is posted with its headers', async () => {
  await send({ headers: { authorization: 'Bearer x' } });
  const [request] = webhook.received;
  expect(request).toMatchObject({ method: 'POST', path: '/services/hidden', body: BODY });
  expect(request?.headers).toMatchObject({ 'content-type': 'application/json', authorization: 'Bearer x' });
});

describe('a receiver that', () => {
  const cases: Record<string, [behavior: keyof typeof BEHAVIORS, expected: object]> = {
    'redirects is not followed': ['redirects', { reason: 'Redirected', isFinal: false }],
    'answers 500 is tried again': [
      'fails',
      { reason: 'ServerError', isFinal: false, message: 'expected status 2xx, found 500' },
    ],
    'is busy says when to come back': ['isBusy', { reason: 'Refused', isFinal: false, retryAfterMs: 30_000 }],
    'is not there is quoted with its code': [
      'refuses',
      { reason: 'Refused', message: 'expected status 2xx, found 404 (no_service)' },
    ],
    'refuses the content is not tried again': ['refusesContent', { reason: 'Refused', isFinal: true }],
    'closes the connection is tried again': ['closes', { reason: 'Unreachable', isFinal: false }],
    'answers an error without an end is read to a limit': ['failsWithTooMuch', { reason: 'ServerError' }],
  };
  it.each(Object.entries(cases))('%s', async (_, [behavior, expected]) => {
    webhook.behavior = BEHAVIORS[behavior];
    const error = await failureOf();
    expect(error).toMatchObject(expected);
    expect(error.message).not.toContain('hidden');
    expect(webhook.received).toHaveLength(1);
    await eventually(() => expect(webhook.open).toBe(0));
  });

  it('accepts, and answers without an end, is read to a limit', async () => {
    webhook.behavior = BEHAVIORS.answersTooMuch;
    await send();
    await eventually(() => expect(webhook.open).toBe(0));
  });

  it.each<[keyof typeof BEHAVIORS, string]>([
    ['hangs', 'no response within 10 s'],
    ['hangsInBody', 'accepted'],
  ])('%s is waited for 10 s: %s', async (behavior, outcome) => {
    webhook.behavior = BEHAVIORS[behavior];
    const clock = new FakeClock();
    const ended = send({ clock }).then(
      () => 'accepted',
      (error: unknown) => (error as Error).message,
    );
    await eventually(() => expect(webhook.received).toHaveLength(1));
    await clock.advance(9_999);
    expect(webhook.open).toBe(1);
    // By the end of an exchange that began later, the headers of the answer have arrived.
    await send({ address: secure.address, ca: certificate.caCert });
    await clock.advance(1);
    expect(await ended).toBe(outcome);
    await eventually(() => expect(webhook.open).toBe(0));
  });

  it('does not listen is named by the code alone', async () => {
    const { address } = webhook;
    await webhook.stop();
    expect(await failureOf({ address })).toMatchObject({
      reason: 'Unreachable',
      message: 'nothing listens on its port (ECONNREFUSED)',
    });
    webhook = await Webhook.start();
  });

  it('hangs does not keep a leader that stops', async () => {
    webhook.behavior = BEHAVIORS.hangs;
    const stop = new AbortController();
    const failure = failureOf({ signal: stop.signal });
    await eventually(() => expect(webhook.received).toHaveLength(1));
    const reason = new Error('lost leadership');
    stop.abort(reason);
    expect(await failure).toBe(reason);
  });
});

describe('the certificate of a receiver', () => {
  it('is checked by the authority of the Secret', async () => {
    await send({ address: secure.address, ca: certificate.caCert });
    expect(secure.received).toHaveLength(1);
  });

  const wrong: Record<string, string | undefined> = {
    'of an authority that is not known': undefined,
    'of another authority': makeAuthority('other').caCert,
    'by an authority that is no certificate': 'hidden',
  };
  it.each(Object.entries(wrong))('%s is refused', async (_, ca) => {
    const error = await failureOf({ address: secure.address, ...(ca !== undefined && { ca }) });
    expect(error.reason).toBe('TLS');
    expect(error.message).not.toContain('hidden');
    expect(secure.received).toEqual([]);
  });

  it('for another host is refused', async () => {
    const address = secure.address.replace('127.0.0.1', 'localhost');
    const error = await failureOf({ address, ca: certificate.caCert });
    expect(error).toMatchObject({
      reason: 'TLS',
      message: 'its certificate is not for its host (ERR_TLS_CERT_ALTNAME_INVALID)',
    });
  });
});

function tunnel(authority: string, socket: Socket): void {
  const { port } = new URL(`http://${authority}`);
  const server = connect(Number(port), '127.0.0.1', () => {
    socket.write('HTTP/1.1 200 OK\r\n\r\n');
    server.pipe(socket).pipe(server);
  });
  for (const end of [server, socket]) end.on('error', () => undefined);
}

describe('a proxy', () => {
  const asked: string[] = [];
  let proxy: Server;
  let proxies: typeof NO_PROXY;
  let status = 200;

  beforeEach(async () => {
    asked.length = 0;
    status = 200;
    proxy = createServer();
    proxy.on('connect', ({ url = '' }, socket: Socket) => {
      asked.push(url);
      if (status === 200) tunnel(url, socket);
      else socket.end(`HTTP/1.1 ${status} Refused\r\n\r\n`);
    });
    await new Promise<void>((resolve) => {
      proxy.listen(0, '127.0.0.1', resolve);
    });
    proxies = { ...NO_PROXY, https: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}` };
  });

  afterEach(() => {
    proxy.closeAllConnections();
    proxy.close();
  });

  it('is asked for a receiver with https, whose certificate is checked', async () => {
    await send({ address: secure.address, ca: certificate.caCert, proxies });
    expect(asked).toEqual([`127.0.0.1:${secure.port}`]);
    expect(secure.received).toHaveLength(1);
    expect(await failureOf({ address: secure.address, proxies })).toMatchObject({ reason: 'TLS' });
  });

  it('is not asked for what NO_PROXY names', async () => {
    await send({ address: secure.address, ca: certificate.caCert, proxies: { ...proxies, no: '127.0.0.1' } });
    expect([asked, secure.received.length]).toEqual([[], 1]);
  });

  it('in HTTP_PROXY alone is not asked for a receiver with https', async () => {
    await send({ address: secure.address, ca: certificate.caCert, proxies: { ...NO_PROXY, http: proxies.https } });
    expect([asked, secure.received.length]).toEqual([[], 1]);
  });

  it('that refuses is explained', async () => {
    status = 407;
    expect(await failureOf({ address: secure.address, ca: certificate.caCert, proxies })).toMatchObject({
      reason: 'Proxy',
    });
  });

  it('with an address that is none is explained, without it', async () => {
    const error = await failureOf({ address: secure.address, proxies: { ...NO_PROXY, https: 'hidden' } });
    expect(error).toMatchObject({ reason: 'Proxy' });
    expect(error.message).toContain('HTTPS_PROXY');
    expect(error.message).not.toContain('hidden');
  });
});

describe('the Secret of a receiver', () => {
  const receiver = aReceiver({ address: undefined, secretName: 'slack' });
  const find = async (answer: () => Promise<unknown>): Promise<unknown> => {
    const paths: string[] = [];
    const client = {
      find: async (path: string) => {
        paths.push(path);
        return (await answer()) as never;
      },
    };
    const isLeading = (): boolean => true;
    const names = { namespace: 'brupop', secrets: ['slack'] };
    const options = { client, clock: systemClock, ...names, proxies: NO_PROXY, isLeading };
    const found = await findTarget(receiver, options, new AbortController().signal).catch((error: unknown) => error);
    expect(paths).toEqual(['/api/v1/namespaces/brupop/secrets/slack']);
    return found;
  };

  it('is read in the namespace of the operator', async () => {
    const data = { address: Buffer.from('https://hooks.example.com/x').toString('base64') };
    expect(await find(async () => ({ data }))).toMatchObject({ address: 'https://hooks.example.com/x' });
  });

  it.each([
    [403, 'the controller has no right to read it; run helm upgrade with notifications.secrets'],
    [500, 'the Kubernetes API did not return it'],
  ])('that is answered with %i is explained, without what the error says', async (status, why) => {
    const answer = async (): Promise<never> => {
      throw new KubeError(status, 'Failure', 'hidden');
    };
    const message = `Secret "slack" in the namespace brupop: ${why}`;
    expect(await find(answer)).toMatchObject({ reason: 'Secret', message });
  });

  it('that does not exist is named', async () => {
    expect(String(await find(async () => undefined))).toContain('it does not exist');
  });
});
