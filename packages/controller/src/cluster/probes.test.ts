import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { KubeClient } from '@brupop/shared/kube/client';
import { systemClock } from '@brupop/shared/runtime/clock';
import { FakeClock } from '@brupop/shared/testing/fake-clock';
import { transcript } from '../../../../test/framework/monitoring/transcripts.ts';
import { NO_CHECKS } from '../testing/checks.ts';
import { type Answer, ask, evaluateAlerts, evaluateQuery, type Probe } from './probes.ts';

const vector = (...values: string[]): object => ({
  status: 'success',
  data: {
    resultType: 'vector',
    result: values.map((value, i) => ({ metric: { pod: `web-${i}` }, value: [1, value] })),
  },
});
const scalar = (value: string): object => ({ status: 'success', data: { resultType: 'scalar', result: [1, value] } });

test.each<[string, object, boolean, string]>([
  ['a scalar of one', scalar('1'), true, 'the query is 1'],
  ['a scalar of zero', scalar('0'), false, 'the query is 0'],
  ['a scalar that is no number', scalar('NaN'), false, 'the query is NaN'],
  ['an infinite scalar', scalar('+Inf'), true, 'the query is +Inf'],
  ['a text that ends like infinity', scalar('evilInf'), false, 'the query is evilInf'],
  ['a number that Prometheus does not write', scalar('0x1'), false, 'the query is 0x1'],
  ['a large number', scalar('1.5e+06'), true, 'the query is 1.5e+06'],
  ['one series', vector('1'), true, '1 series are not zero'],
  ['a series of zero among others', vector('1', '0', '2'), false, 'the query is 0 for {pod="web-1"}'],
  ['no series', vector(), false, 'the query returned no series'],
  [
    'warnings about the expression',
    {
      ...scalar('1'),
      warnings: [
        'PromQL warning: quantile value should be between 0 and 1, got 2 (1:1)',
        '2 more warning annotations omitted',
      ],
    },
    true,
    'the query is 1',
  ],
  ['whole data', { ...scalar('1'), isPartial: false, warnings: null }, true, 'the query is 1'],
])('%s: passes %s', (_, body, passed, found) => expect(evaluateQuery(body)).toEqual({ passed, found }));

test.each([
  ['Thanos', { warnings: ['PromQL info: a', 'No StoreAPIs matched for this query'] }, 'No StoreAPIs matched'],
  ['VictoriaMetrics', { isPartial: true }, 'isPartial'],
])('an answer of %s from a part of the data does not pass', (_, found, why) =>
  expect(() => evaluateQuery({ ...scalar('1'), ...found })).toThrow(
    `expected one from all of the data, found the warning ${why}`,
  ),
);

test.each([
  ['an error', { status: 'error', error: 'parse error' }],
  ['a range', { data: { resultType: 'matrix', result: [] } }],
  ['a text', { data: { resultType: 'string', result: [1, 'x'] } }],
  ['histograms', { data: { resultType: 'vector', result: [{ metric: {}, histogram: [1, {}] }] } }],
  ['nothing', null],
  ['a list', []],
])('%s is no answer of a query', (_, body) =>
  expect(() => evaluateQuery(body)).toThrow(/the answer of the query: .*expected/u),
);

test.each<[string, unknown, Answer]>([
  ['no alert', [], { passed: true, found: 'no such alert is active' }],
  [
    'alerts',
    ['A', 'B', 'C', 'D'].map((alertname) => ({ labels: { alertname } })),
    { passed: false, found: 'these alerts are active: A, B, C and 1 more' },
  ],
  [
    'an alert without a name',
    [{ labels: {} }],
    { passed: false, found: 'these alerts are active: one without a name' },
  ],
])('%s', (_, body, expected) => expect(evaluateAlerts(body)).toEqual(expected));

test('an error is no list of alerts', () => {
  expect(() => evaluateAlerts({ code: 400, message: 'bad matcher' })).toThrow(
    'alerts: expected a list, found an object',
  );
});

describe('what a real Prometheus and a real Alertmanager answered', () => {
  it.each<[string, boolean]>([
    ['up', true],
    ['up == bool 1', true],
    ['up < bool 1', false],
    ['up < 1', false],
    ['vector(1) or label_replace(vector(0), "a", "b", "", "")', false],
    ['scalar(sum(up))', true],
    ['1 > bool 2', false],
    ['vector(0) / 0', false],
    ['vector(1) / 0', true],
    ['no_such_series', false],
  ])('the query %s: passes %s', (name, passed) => {
    expect(evaluateQuery(JSON.parse(transcript('queries', name).body)).passed).toBe(passed);
  });

  it.each(['up[1m]', '"text"', 'sum('])('the query %s is none of a check', (name) => {
    expect(() => evaluateQuery(JSON.parse(transcript('queries', name).body))).toThrow(/expected/u);
  });

  it.each<[string, boolean]>([
    ['severity="critical"', false],
    ['severity=~"crit.*"', false],
    ['severity="critical" team="a"', true],
    ['severity="info"', true],
    ['severity="critical", silenced', true],
  ])('alerts that match %s: passes %s', (name, passed) => {
    expect(evaluateAlerts(JSON.parse(transcript('alerts', name).body)).passed).toBe(passed);
  });

  it('a filter that is none is refused', () => {
    const { status, body } = transcript('alerts', 'no matcher');
    expect([status, body]).toEqual([400, '"bad matcher format: no matcher"\n']);
  });
});

describe('a server', () => {
  let server: Server;
  let url = '';
  let answer: (request: IncomingMessage, response: ServerResponse) => void;
  const folder = mkdtempSync(join(tmpdir(), 'brupop-probes-'));
  beforeAll(async () => {
    server = createServer((request, response) => answer(request, response));
    await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  });
  afterAll(async () => {
    rmSync(folder, { recursive: true });
    server.closeAllConnections();
    await new Promise((done) => server.close(done));
  });

  const noClient = {} as KubeClient;
  const query: Probe = { check: 'errors', kind: 'prometheus', query: 'up == bool 1' };
  const alerts: Probe = { check: 'pages', kind: 'alerts', filter: ['severity="critical"', 'team="a&b"'] };
  const asked = async (probe: Probe, credentials = '', clock = systemClock): Promise<Answer> => {
    const source = { url: `${url}/prefix/`, credentials };
    const config = { ...NO_CHECKS, prometheus: source, alertmanager: source };
    return await ask(probe, { client: noClient, clock, config, signal: new AbortController().signal });
  };
  const send = (status: number, body: string) => (_: IncomingMessage, response: ServerResponse) =>
    void response.writeHead(status).end(body);

  it('is asked with the token of its folder, below the path of its URL', async () => {
    writeFileSync(join(folder, 'token'), 'secret\n');
    const seen: string[] = [];
    answer = ({ url: path, headers }, response) => {
      seen.push(`${path} ${headers.authorization}`);
      response.end(JSON.stringify(scalar('1')));
    };
    expect(await asked(query, folder)).toEqual({ passed: true, found: 'the query is 1' });
    rmSync(join(folder, 'token'));
    answer = ({ url: path, headers }, response) => {
      seen.push(`${path} ${headers.authorization}`);
      response.end('[]');
    };
    expect(await asked(alerts)).toMatchObject({ passed: true });
    expect(seen).toEqual([
      '/prefix/api/v1/query?query=up%20%3D%3D%20bool%201&timeout=10s Bearer secret',
      '/prefix/api/v2/alerts?silenced=false&inhibited=false&filter=severity%3D%22critical%22&filter=team%3D%22a%26b%22 undefined',
    ]);
  });

  it('is asked as the user of its folder, with further headers', async () => {
    const files = {
      username: 'scraper\n',
      password: 'secret: with a colon\n',
      headers: 'X-Scope-OrgID: team-a\n\nX-Other: b c\n',
    };
    for (const [name, content] of Object.entries(files)) writeFileSync(join(folder, name), content);
    const seen: unknown[] = [];
    answer = ({ headers }, response) => {
      seen.push(headers.authorization, headers['x-scope-orgid'], headers['x-other']);
      response.end(JSON.stringify(scalar('1')));
    };
    expect(await asked(query, folder)).toMatchObject({ passed: true });
    const basic = Buffer.from('scraper:secret: with a colon').toString('base64');
    expect(seen).toEqual([`Basic ${basic}`, 'team-a', 'b c']);
    for (const name of Object.keys(files)) rmSync(join(folder, name));
  });

  it.each([
    ['a user without a password', { username: 'a' }, 'expected both username and password'],
    ['a user and a token', { username: 'a', password: 'hidden', token: 'hidden' }, 'found both'],
    ['none of its keys', {}, 'expected one of token, username, password, headers, ca.crt, found none'],
    ['a line that is no header', { headers: 'X-A: b\nhidden' }, 'line 2: expected Name: value'],
  ])('is not asked with %s, and no value is quoted', async (_, files, found) => {
    for (const [name, content] of Object.entries(files)) writeFileSync(join(folder, name), content);
    const answered = await asked(query, folder);
    for (const name of Object.keys(files)) rmSync(join(folder, name));
    expect(answered).toMatchObject({ passed: false, found: expect.stringContaining(found) as string });
    expect(answered.found).not.toContain('hidden');
  });

  it.each([
    [
      'refuses the query',
      400,
      '{"status":"error","error":"parse error"}',
      /expected status 200, found 400: .*parse error/u,
    ],
    ['redirects', 302, '', /expected status 200, found 302/u],
    ['answers no JSON', 200, '<html>', /JSON/u],
    ['answers too much', 200, ' '.repeat(1024 * 1024 + 1), /expected at most 1048576 bytes, found more/u],
  ])('that %s does not let the check pass, and is named', async (_, status, body, found) => {
    answer = send(status, body);
    const { passed, found: text } = await asked(query);
    expect(passed).toBe(false);
    expect(text).toMatch(found);
    expect(text).toContain(`GET ${url}/prefix/api/v1/query`);
  });

  it.each([
    ['http://scraper:hidden@127.0.0.1:1/a', 'http://127.0.0.1:1/a/api/v1/query'],
    ['http://127.0.0.1:1/a?token=hidden', 'http://127.0.0.1:1/a'],
    ['http://127.0.0.1:1/a#hidden', 'http://127.0.0.1:1/a'],
    ['scraper:hidden@127.0.0.1:1', 'an address that is not one of HTTP'],
  ])('at %s is named without what may be a secret', async (address, named) => {
    const config = { ...NO_CHECKS, prometheus: { url: address, credentials: '' } };
    const asking = { client: noClient, clock: systemClock, config, signal: new AbortController().signal };
    const { passed, found } = await ask(query, asking);
    expect([passed, found]).toEqual([false, expect.stringContaining(`GET ${named}`)]);
    expect(found).not.toContain('hidden');
  });

  it('that does not answer is given up after ten seconds', async () => {
    const clock = new FakeClock();
    const { promise: isAsked, resolve } = Promise.withResolvers<void>();
    answer = () => resolve();
    const found = asked(query, '', clock);
    await isAsked;
    await clock.advance(10_000);
    expect((await found).found).toContain('no response within 10 s');
  });

  it('that the chart does not name is not asked', async () => {
    const options = { client: noClient, clock: systemClock, config: NO_CHECKS, signal: new AbortController().signal };
    const found = await Promise.all([query, alerts].map(async (probe) => await ask(probe, options)));
    expect(found).toEqual([
      { passed: false, isMissing: true, found: "expected the chart's value checks.prometheus.url, found none" },
      { passed: false, isMissing: true, found: "expected the chart's value checks.alertmanager.url, found none" },
    ]);
  });
});
