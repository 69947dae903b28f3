import {
  HOST_CALLS_HEADER,
  HOST_OUTCOMES,
  HOST_ROUTES,
  HostCalls,
  hostCallsHeader,
  readHostCalls,
} from './host-calls.ts';

const read = (calls: HostCalls): unknown => readHostCalls(hostCallsHeader(calls.take())[HOST_CALLS_HEADER] ?? '');

it('sends each count once', () => {
  const calls = new HostCalls();
  for (const outcome of ['ok', 'ok', 'locked'] as const) calls.record('GET /updates/status', outcome);
  expect(read(calls)).toEqual([
    { route: 'GET /updates/status', outcome: 'ok', count: 2 },
    { route: 'GET /updates/status', outcome: 'locked', count: 1 },
  ]);
  expect(hostCallsHeader(calls.take())).toEqual({});
});

it('adds what could not be sent to what was counted meanwhile', () => {
  const calls = new HostCalls();
  calls.record('GET /os', 'ok');
  const taken = calls.take();
  calls.record('GET /os', 'ok');
  calls.restore(taken);
  expect(read(calls)).toEqual([{ route: 'GET /os', outcome: 'ok', count: 2 }]);
});

it('carries every route and outcome, in headers of a bounded length', () => {
  const calls = new HostCalls();
  for (const route of HOST_ROUTES) for (const outcome of HOST_OUTCOMES) calls.record(route, outcome);
  let known = 0;
  for (let taken = calls.take(); taken.size > 0; taken = calls.take()) {
    const { [HOST_CALLS_HEADER]: header = '' } = hostCallsHeader(taken);
    expect(header.length).toBeLessThan(1200);
    known += readHostCalls(header).length;
  }
  expect(known).toBe(HOST_ROUTES.length * HOST_OUTCOMES.length);
});

it.each([
  ['an unknown route', 'GET /nodes=ok:1'],
  ['an unknown outcome', 'GET /os=fine:1'],
  ['a negative count', 'GET /os=ok:-1'],
  ['no number', 'GET /os=ok:NaN'],
  ['a fraction', 'GET /os=ok:1.5'],
  ['an exponent', 'GET /os=ok:1e9'],
  ['a count beyond the limit', 'GET /os=ok:10001'],
  ['nothing', ''],
  ['other text', '__proto__=ok:1, GET /os'],
])('leaves out %s, and reads the rest', (_name, text) => {
  expect(readHostCalls(text)).toEqual([]);
  expect(readHostCalls(`${text}, GET /os=ok:3`)).toEqual([{ route: 'GET /os', outcome: 'ok', count: 3 }]);
});

it('counts a repeated entry once, and reads no more than a header may have', () => {
  expect(readHostCalls('GET /os=ok:9000, GET /os=ok:9000')).toEqual([{ route: 'GET /os', outcome: 'ok', count: 9000 }]);
  expect(readHostCalls(`${'x=y:1, '.repeat(20)}GET /os=ok:1`)).toEqual([]);
});
