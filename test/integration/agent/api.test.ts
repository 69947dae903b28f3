/** The agent's client of the apiserver against a TLS server with scripted answers. */
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { HttpApiserverClient } from '../../../packages/agent/src/apiserver/client.ts';
import { ApiError } from '../../../packages/agent/src/apiserver/messages.ts';
import type { StreamMessage } from '../../../packages/shared/src/api/agent-protocol.ts';
import { RELEASE } from '../../../packages/shared/src/api/release.ts';
import { type Clock, systemClock } from '../../../packages/shared/src/runtime/clock.ts';
import { messageOf } from '../../../packages/shared/src/runtime/errors.ts';
import { type Authority, makeAuthority, makeServingCertificate } from '../../framework/certificates.ts';
import { eventually } from '../../framework/eventually.ts';
import { recordingLogger } from '../../framework/recording-logger.ts';

const NAME = 'brupop-apiserver.test.svc';
const shadow = { uid: 'uid-1', generation: 3, spec: { state: 'Idle' } };
const reference = { shadowUID: 'uid-1', generation: 3 };
const { signal } = new AbortController();
const hasty: Clock = { ...systemClock, after: (ms, callback) => systemClock.after(ms / 200, callback) };

let folder: string;
let server: Server;
let connections: number;
/** What the client sent: method, path, token. */
let requests: string[];
let answer: RequestListener;
let recorded: ReturnType<typeof recordingLogger>;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'brupop-agent-api-'));
  requests = [];
  recorded = recordingLogger();
  connections = 0;
  const tls = makeServingCertificate({ commonName: NAME, dnsNames: [NAME] });
  writeFileSync(join(folder, 'ca.crt'), tls.caCert);
  writeFileSync(join(folder, 'token'), 'first\n');
  server = createServer({ key: tls.key, cert: tls.cert }, (request, response) => {
    requests.push(`${request.method} ${request.url} ${request.headers.authorization}`);
    request.resume();
    answer(request, response);
  });
  server.on('secureConnection', () => (connections += 1));
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
});

afterEach(async () => {
  server.closeAllConnections();
  await new Promise((resolve) => {
    server.close(resolve);
  });
  await rm(folder, { recursive: true, force: true });
});

function client({ clock = systemClock, serverName = NAME } = {}): HttpApiserverClient {
  const { port } = server.address() as AddressInfo;
  const files = { tokenFile: join(folder, 'token'), caFile: join(folder, 'ca.crt') };
  return new HttpApiserverClient({
    node: 'node-1',
    apiserver: { host: '127.0.0.1', port, serverName, ...files },
    clock,
    log: recorded.log,
  });
}

function json(value: unknown, status = 200): RequestListener {
  return (_request, response) => {
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value));
  };
}

/** Answers one after the other; the last one repeatedly. */
function inTurn(...answers: readonly RequestListener[]): RequestListener {
  let next = 0;
  return (request, response) => {
    answers[Math.min(next, answers.length - 1)]?.(request, response);
    next += 1;
  };
}

async function codeOf(call: Promise<unknown>): Promise<string> {
  const error = await call.then(
    () => new Error('the call succeeded'),
    (reason: unknown) => reason,
  );
  if (!(error instanceof ApiError)) throw error;
  return error.code;
}

async function firstOf(messages: AsyncIterable<StreamMessage>): Promise<StreamMessage | undefined> {
  for await (const message of messages) return message;
  return undefined;
}

it('sends the current token and the node name with each call', async () => {
  answer = inTurn(json(shadow), json({ uncordoned: false, included: false }));
  const api = client();
  expect(await api.read(signal)).toEqual(shadow);
  writeFileSync(join(folder, 'token'), 'second\n');
  await api.restore(signal);
  expect(requests).toEqual(['PUT /v1/nodes/node-1/shadow Bearer first', 'POST /v1/nodes/node-1/restore Bearer second']);
  expect(connections).toBe(1);
});

it('sends its release with each call and with the stream', async () => {
  const sent: unknown[] = [];
  answer = (request, response) => {
    sent.push(request.headers['user-agent']);
    json(shadow)(request, response);
  };
  const api = client();
  await api.read(signal);
  await firstOf(api.stream(signal)).catch(() => undefined);
  expect(sent).toEqual([`brupop-agent/${RELEASE}`, `brupop-agent/${RELEASE}`]);
});

it('reads the answers of drain and exclusion', async () => {
  answer = json({ done: false, evicted: 1, remaining: 2, blockedBy: [] });
  expect(await client().drain(reference, signal)).toMatchObject({ done: false, remaining: 2 });
  answer = json({ remainingMs: 500 });
  expect(await client().exclude(reference, signal)).toEqual({ remainingMs: 500 });
});

it.each<readonly [string, unknown]>([
  ['no field done', {}],
  ['done as a text', { done: 'true', evicted: 0, remaining: 0, blockedBy: [] }],
  ['a negative number of pods', { done: true, evicted: 0, remaining: -1, blockedBy: [] }],
  ['no object', [true]],
])('does not read a drain as finished from %s', async (_name, value) => {
  answer = json(value);
  expect(await codeOf(client().drain(reference, signal))).toBe('Unintelligible');
});

it.each([
  [409, { error: { code: 'SpecChanged', message: 'x' } }, 'SpecChanged'],
  [401, { error: { code: 'Unauthenticated', message: 'x' } }, 'Unauthenticated'],
  [401, 'garbage', 'Unauthenticated'],
  [503, '<html>', 'Unavailable'],
  [500, { error: { code: 'NoSuchCode', message: 'x' } }, 'Unavailable'],
  [418, null, 'Unintelligible'],
] as const)('understands %i with %j', async (status, body, code) => {
  answer = json(body, status);
  expect(await codeOf(client().restore(signal))).toBe(code);
});

it('opens a new connection to another replica when this one is unavailable', async () => {
  answer = inTurn(
    json({ remainingMs: 0 }),
    json({ error: { code: 'Unavailable', message: 'x' } }, 503),
    json({ remainingMs: 0 }),
  );
  const api = client();
  await api.exclude(reference, signal);
  expect(await codeOf(api.exclude(reference, signal))).toBe('Unavailable');
  expect(connections).toBe(1);
  await api.exclude(reference, signal);
  expect(connections).toBe(2);
});

it('lets a call under way finish when another one opens a new connection to another replica', async () => {
  const draining = Promise.withResolvers<() => void>();
  const api = client();
  answer = (...drain) =>
    draining.resolve(() => json({ done: true, evicted: 0, remaining: 0, blockedBy: [] })(...drain));
  const drained = api.drain(reference, signal);
  const finish = await draining.promise;
  answer = json({ error: { code: 'Unavailable', message: 'x' } }, 503);
  expect(await codeOf(api.read(signal))).toBe('Unavailable');
  answer = json(shadow);
  expect(await api.read(signal)).toEqual(shadow);
  finish();
  expect(await drained).toMatchObject({ done: true });
  expect(connections).toBe(3);
});

it('repeats a call whose kept connection was closed by the server', async () => {
  const cut: RequestListener = (request) => request.socket.destroy();
  answer = inTurn(json(shadow), cut, json(shadow));
  const api = client();
  await api.read(signal);
  expect(await api.read(signal)).toEqual(shadow);
  expect(requests).toHaveLength(3);
});

it.each<readonly [string, RequestListener]>([
  ['never arrives', () => undefined],
  [
    'breaks off',
    (request: IncomingMessage, response: ServerResponse) => {
      response.writeHead(200, { 'content-length': 100 });
      response.write('{', () => request.socket.destroy());
    },
  ],
  ['never ends', (_request, response) => void response.write('{')],
])('ends a call whose answer %s', async (_name, bad) => {
  answer = bad;
  expect(await codeOf(client({ clock: hasty }).read(signal))).toBe('Unreachable');
});

it('limits the length of a response', async () => {
  answer = (_request, response) => void response.end('x'.repeat(300 * 1024));
  expect(await codeOf(client().read(signal))).toBe('Unreachable');
});

it('rejects a server with another name or from another CA', async () => {
  answer = json(shadow);
  expect(await codeOf(client({ serverName: 'other.test.svc' }).read(signal))).toBe('Unreachable');
  writeFileSync(join(folder, 'ca.crt'), makeServingCertificate({ commonName: NAME }).caCert);
  expect(await codeOf(client().read(signal))).toBe('Unreachable');
  expect(requests).toEqual([]);
});

it('reads a stream in chunks of any size', async () => {
  const lines = `${JSON.stringify({ type: 'shadow', shadow })}\n\n{"type":"heartbeat"}\n{"type":"deleted"}\n`;
  answer = (_request, response) => {
    const half = Math.floor(lines.length / 3);
    response.write(lines.slice(0, half));
    systemClock.after(20, () => response.end(lines.slice(half)));
  };
  const seen: StreamMessage[] = [];
  for await (const message of client().stream(signal)) seen.push(message);
  expect(seen).toEqual([{ type: 'shadow', shadow }, { type: 'heartbeat' }, { type: 'deleted' }]);
});

it.each<readonly [string, string]>([
  ['no JSON', 'garbage\n'],
  ['an unknown message', '{"type":"reboot"}\n'],
  ['a shadow with an unknown state', '{"type":"shadow","shadow":{"uid":"u","generation":1,"spec":{"state":"X"}}}\n'],
  ['a line without end', 'x'.repeat(1_100_000)],
])('ends a stream with %s', async (_name, text) => {
  answer = (_request, response) => void response.write(text);
  expect(await codeOf(firstOf(client().stream(signal)))).toBe('Unintelligible');
});

it('reads the status of an older operator', async () => {
  const status = { current_state: 'Idle', current_version: '1.26.0', target_version: '1.27.0', crash_count: 1 };
  answer = json({ ...shadow, status });
  const known = await client().read(signal);
  expect(known.status).toEqual({ ...status, observedGeneration: 0, bootID: '' });
});

it('ends a stream without messages', async () => {
  answer = (_request, response) => void response.write('{"type":"heartbeat"}\n');
  const messages = client({ clock: hasty }).stream(signal)[Symbol.asyncIterator]();
  await messages.next();
  expect(await codeOf(messages.next())).toBe('Unreachable');
});

it('reports the error with which a stream is rejected', async () => {
  answer = json({ error: { code: 'NotFound', message: 'no shadow' } }, 404);
  expect(await codeOf(firstOf(client().stream(signal)))).toBe('NotFound');
});

it('closes a stream that is no longer read', async () => {
  let open = 0;
  answer = (_request, response) => {
    open += 1;
    response.on('close', () => (open -= 1));
    response.write('{"type":"heartbeat"}\n');
  };
  await firstOf(client().stream(signal));
  await eventually(async () => expect(open).toBe(0));
});

it('aborts calls and streams at once when it stops', async () => {
  answer = () => undefined;
  const stop = new AbortController();
  const api = client();
  const calls = [codeOf(api.read(stop.signal)), codeOf(firstOf(api.stream(stop.signal)))];
  await eventually(async () => expect(requests).toHaveLength(2));
  stop.abort(new Error('stop'));
  expect(await Promise.all(calls)).toEqual(['Unreachable', 'Unreachable']);
});

it('measures how long the apiserver has been unreachable; a rejected token is no response', async () => {
  const api = client();
  answer = json({}, 401);
  await systemClock.sleep(30);
  await codeOf(api.restore(signal));
  expect(api.unreachableMs()).toBeGreaterThanOrEqual(30);
  answer = json({}, 500);
  await codeOf(api.restore(signal));
  expect(api.unreachableMs()).toBeLessThan(30);
});

describe('the certificate of the apiserver', () => {
  const certified = (names: { dnsNames?: readonly string[]; ipAddresses?: readonly string[] }): void => {
    const tls = makeServingCertificate({ commonName: NAME, ...names });
    writeFileSync(join(folder, 'ca.crt'), tls.caCert);
    server.setSecureContext({ key: tls.key, cert: tls.cert });
  };

  it.each([
    ['no alternative name', {}],
    ['an address only', { ipAddresses: ['127.0.0.1'] }],
    ['another name', { dnsNames: ['other.test.svc'] }],
  ])('is rejected with %s, although its common name is correct', async (_what, names) => {
    certified(names);
    answer = (_request, response) => void response.end(JSON.stringify(shadow));
    const error = await client()
      .read(signal)
      .catch((thrown: unknown) => thrown);
    expect(messageOf(error)).toMatch(/altnames|DNS name/iu);
    expect(requests).toEqual([]);
  });

  it('is rejected on a connection before TLS 1.3', async () => {
    const tls = makeServingCertificate({ commonName: NAME, dnsNames: [NAME] });
    writeFileSync(join(folder, 'ca.crt'), tls.caCert);
    server.setSecureContext({ key: tls.key, cert: tls.cert, maxVersion: 'TLSv1.2' });
    answer = (_request, response) => void response.end(JSON.stringify(shadow));
    const error = await client()
      .read(signal)
      .catch((thrown: unknown) => thrown);
    expect(messageOf(error)).toMatch(/version|protocol/iu);
    expect(requests).toEqual([]);
  });
});

describe('the authorities', () => {
  const bundle = (text: string): void => writeFileSync(join(folder, 'ca.crt'), text);
  const authority = (): Authority => makeAuthority('next');
  const serve = (next: Authority): void => {
    const { key, cert } = next.issue({ commonName: NAME, dnsNames: [NAME] });
    server.setSecureContext({ key, cert });
  };
  /** A clock that a test moves forward. */
  const moved = { ms: 0 };
  const clock: Clock = { ...systemClock, monotonic: () => systemClock.monotonic() + moved.ms };

  beforeEach(() => {
    answer = (_request, response) => {
      response.setHeader('connection', 'close');
      json(shadow)(_request, response);
    };
  });

  it('that replace others in the file are used for new connections within 5 s, and streams go on', async () => {
    const next = authority();
    const api = client({ clock });
    const open: ServerResponse[] = [];
    const calls = answer;
    answer = (_request, response) => {
      response.write('{"type":"heartbeat"}\n');
      open.push(response);
    };
    const messages = api.stream(signal)[Symbol.asyncIterator]();
    expect(await messages.next()).toMatchObject({ value: { type: 'heartbeat' } });
    answer = calls;
    bundle(next.caCert);
    serve(next);
    moved.ms += 5_000;
    expect(await api.read(signal)).toEqual(shadow);
    open[0]?.end('{"type":"deleted"}\n');
    expect(await messages.next()).toMatchObject({ value: { type: 'deleted' } });
    expect(recorded.lines.join('')).toContain('using new authorities');
  });

  it('may be several: certificates of each are accepted, also of one whose certificate comes second', async () => {
    const next = authority();
    const api = client({ clock });
    bundle(`${readFileSync(join(folder, 'ca.crt'), 'utf8')}${next.caCert}`);
    expect(await api.read(signal)).toEqual(shadow);
    serve(next);
    expect(await api.read(signal)).toEqual(shadow);
  });

  it('that are removed from the file are refused on new connections', async () => {
    const api = client({ clock });
    await api.read(signal);
    bundle(authority().caCert);
    moved.ms += 5_000;
    expect(await codeOf(api.read(signal))).toBe('Unreachable');
  });

  it.each<readonly [string, (text: string) => string, string]>([
    ['is empty', () => '', 'found none'],
    ['is half written', (text) => text.slice(0, -60), 'the end of 1'],
    ['has a certificate that cannot be read', (text) => text.replace(/M.{40}/u, 'A'.repeat(41)), 'certificate 1 of 2'],
  ])('stay in use when the new file %s, which the log says once', async (_what, spoil, problem) => {
    const api = client({ clock });
    await api.read(signal);
    const good = readFileSync(join(folder, 'ca.crt'), 'utf8');
    bundle(spoil(`${good}${authority().caCert}`));
    for (let call = 0; call < 3; call += 1) {
      moved.ms += 5_000;
      expect(await api.read(signal)).toEqual(shadow);
    }
    const warnings = recorded.lines.filter((line) => line.includes('the previous ones stay'));
    expect(warnings).toEqual([expect.stringContaining(problem)]);
  });

  it('are read at most every 5 s', async () => {
    const api = client({ clock });
    await api.read(signal);
    const next = authority();
    bundle(next.caCert);
    for (let call = 0; call < 10; call += 1) expect(await api.read(signal)).toEqual(shadow);
  });

  it('that are missing at the start are named in the error, and used as soon as they are there', async () => {
    const good = readFileSync(join(folder, 'ca.crt'), 'utf8');
    bundle('');
    const api = client({ clock });
    const error = await api.read(signal).catch((thrown: unknown) => thrown);
    expect(messageOf(error)).toMatch(/ca\.crt cannot be used: expected PEM certificates, found none/u);
    bundle(good);
    expect(await api.read(signal)).toEqual(shadow);
  });
});
