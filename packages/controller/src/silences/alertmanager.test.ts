/** Silences in an Alertmanager on loopback, which keeps them as the real one does. */
import { FakeClock } from '@brupop/shared/testing/fake-clock';
import { SilenceStore, startAlertmanager } from '../../../../test/framework/monitoring/silences.ts';
import { BEHAVIORS, type Webhook } from '../../../../test/framework/monitoring/webhook.ts';
import { eventually } from '../../../../test/framework/eventually.ts';
import type { DeliveryError } from '../notify/target.ts';
import { MINUTE, NOW } from '../testing/objects.ts';
import { silenceSettings } from '../testing/silences.ts';
import { checkAlertmanager, CREATED_BY, endSilence, setSilence } from './alertmanager.ts';
import { type Silence, silencesOf } from './wanted.ts';

const MATCHERS = [{ name: 'cluster', operator: 'Equals', value: 'prod' }] as const;
const [SILENCE, OTHER, NARROW] = ['a', 'b', 'a'].map(
  (node, index) => silencesOf(node, silenceSettings({ matchers: index === 2 ? MATCHERS : [] }))[0],
) as [Silence, Silence, Silence];

let server: Webhook;
let clock: FakeClock;
let store: SilenceStore;
let isLeading: boolean;

beforeEach(async () => {
  clock = new FakeClock(NOW);
  isLeading = true;
  ({ server, store } = await startAlertmanager(() => clock.now()));
});

afterEach(async () => {
  await server.stop();
});

type Work<T> = (...args: Parameters<typeof setSilence>) => Promise<T>;
async function run<T>(work: Work<T>, silence = SILENCE, signal = new AbortController().signal): Promise<T> {
  const options = { clock, proxies: { http: '', https: '', no: '' }, isLeading: () => isLeading };
  return await work({ address: server.address, headers: {} }, silence, options, signal);
}

const failureOf = async (work: Work<unknown> = setSilence): Promise<DeliveryError> =>
  await run(work).then(
    () => {
      throw new Error('expected a failure, found a success');
    },
    (error: unknown) => error as DeliveryError,
  );

const by = (createdBy: string, { matchers }: Silence = SILENCE) => ({ matchers, createdBy, comment: '' });
const minutes = (from: number): number[] =>
  store.active.map(({ endsAt }) => Math.round((Date.parse(endsAt) - from) / MINUTE));

test('a silence lasts 25 minutes, and its request is below the path of the address', async () => {
  expect(await run(setSilence)).toBe('Created');
  expect(store.active).toMatchObject([{ createdBy: CREATED_BY, matchers: SILENCE.matchers, comment: SILENCE.comment }]);
  expect(minutes(NOW)).toEqual([25]);
  expect(server.received.map(({ method, path }) => `${method} ${decodeURIComponent(path ?? '')}`)).toEqual([
    'GET /services/hidden/api/v2/silences?filter=node="a"',
    'POST /services/hidden/api/v2/silences',
  ]);
});

test('a process that has lost leadership after it has looked for a silence sets and ends none', async () => {
  const { behavior } = server;
  server.behavior = (request, response) => {
    isLeading = false;
    return behavior(request, response);
  };
  expect(await failureOf()).toMatchObject({ message: 'not sent: leadership was lost' });
  expect(store.active).toEqual([]);
  isLeading = true;
  store.add(by(CREATED_BY), 25 * MINUTE);
  expect(await failureOf(endSilence)).toMatchObject({ message: 'not sent: leadership was lost' });
  expect(store.active).toHaveLength(1);
});

test('a silence is active at once, also when the clock of Alertmanager is five minutes late', async () => {
  store = new SilenceStore(() => clock.now() - 5 * MINUTE);
  server.behavior = store.behavior;
  await run(setSilence);
  expect(Date.parse(store.active[0]?.startsAt ?? '')).toBe(NOW - 5 * MINUTE);
});

test('a silence that is set again is prolonged, and keeps its ID and its start', async () => {
  await run(setSilence);
  const [before] = store.active;
  await clock.advance(15 * MINUTE);
  expect(await run(setSilence)).toBe('Prolonged');
  expect(store.active).toMatchObject([{ id: before?.id, startsAt: before?.startsAt }]);
  expect(minutes(NOW)).toEqual([40]);
});

test('a silence of the operator is never shortened', async () => {
  store.add(by(CREATED_BY), 600 * MINUTE);
  expect(await run(setSilence)).toBe('Prolonged');
  expect(minutes(NOW)).toEqual([600]);
});

test('the matchers of a silence may be in another order', async () => {
  const reversed = { ...NARROW, matchers: NARROW.matchers.toReversed() as unknown as Silence['matchers'] };
  const id = store.add(by(CREATED_BY, reversed), MINUTE);
  expect(await run(setSilence, NARROW)).toBe('Prolonged');
  expect(store.active.map((one) => one.id)).toEqual([id]);
});

test('a silence that has expired is not continued', async () => {
  await run(setSilence);
  await clock.advance(26 * MINUTE);
  expect(await run(setSilence)).toBe('Created');
  expect(minutes(NOW + 26 * MINUTE)).toEqual([25]);
});

describe('what is not the own silence', () => {
  const others: Record<string, ReturnType<typeof by>> = {
    'of a user with the same matchers': by('a user'),
    'of the operator with further matchers': by(CREATED_BY, NARROW),
    'of the operator for another node': by(CREATED_BY, OTHER),
    'of the operator with a regular expression': {
      ...by(CREATED_BY),
      matchers: [{ ...SILENCE.matchers[0], isRegex: true }],
    },
  };
  it.each(Object.entries(others))('%s is neither prolonged nor ended', async (_, silence) => {
    const id = store.add(silence, MINUTE);
    expect(await run(endSilence)).toBe(0);
    expect(await run(setSilence)).toBe('Created');
    expect(minutes(NOW)).toEqual([1, 25]);
    expect(await run(endSilence)).toBe(1);
    expect(store.active.map((one) => one.id)).toEqual([id]);
  });

  it('and cannot be read is left out', async () => {
    const list = [null, 'x', { id: 1 }, { id: 'x', createdBy: CREATED_BY, matchers: [] }];
    server.behavior = (response, { method }) => response.end(method === 'GET' ? JSON.stringify(list) : '{}');
    expect([await run(endSilence), await run(setSilence)]).toEqual([0, 'Created']);
  });
});

test('all silences of the operator for a node are ended', async () => {
  store.add(by(CREATED_BY), MINUTE);
  store.add(by(CREATED_BY), MINUTE);
  expect(await run(endSilence)).toBe(2);
  expect(store.active).toEqual([]);
  expect(await run(endSilence)).toBe(0);
});

test('a check changes nothing', async () => {
  store.add(by(CREATED_BY), MINUTE);
  await run(async (target, _, options, signal) => await checkAlertmanager(target, 'node', options, signal));
  expect(server.received.map(({ method, path }) => `${method} ${decodeURIComponent(path ?? '')}`)).toEqual([
    'GET /services/hidden/api/v2/silences?filter=node="-"',
  ]);
});

const CUT = 'expected a list of silences of at most 1048576 bytes, found more, or a response that did not end';

describe('an Alertmanager that', () => {
  const cases: Record<string, [behavior: keyof typeof BEHAVIORS, expected: object]> = {
    'redirects is not followed': ['redirects', { reason: 'Redirected' }],
    'answers 500 fails': ['fails', { reason: 'ServerError', message: 'expected status 2xx, found 500' }],
    'is not there fails': ['refuses', { reason: 'Refused', message: 'expected status 2xx, found 404 (no_service)' }],
    'closes the connection fails': ['closes', { reason: 'Unreachable' }],
    'answers something else fails': [
      'accepts',
      { reason: 'Response', message: 'expected a list of silences, found another response' },
    ],
    'answers without an end is read to a limit': ['answersTooMuch', { reason: 'Response', message: CUT }],
  };
  it.each(Object.entries(cases))('%s', async (_, [behavior, expected]) => {
    server.behavior = BEHAVIORS[behavior];
    for (const work of [setSilence, endSilence]) {
      const error = await failureOf(work);
      expect(error).toMatchObject(expected);
      expect(error.message).not.toContain('hidden');
    }
    expect(server.received.map(({ method }) => method)).toEqual(['GET', 'GET']);
    await eventually(() => expect(server.open).toBe(0));
  });

  it('hangs is waited for 10 s', async () => {
    server.behavior = BEHAVIORS.hangs;
    const failure = failureOf();
    await eventually(() => expect(server.received).toHaveLength(1));
    await clock.advance(10_000);
    expect(await failure).toMatchObject({ reason: 'Timeout', message: 'no response within 10 s' });
  });

  it('does not end its response is not said to have too many silences only', async () => {
    server.behavior = (response) =>
      void response.writeHead(200, { 'content-length': '100' }).write('[', () => response.destroy());
    expect(await failureOf()).toMatchObject({ reason: 'Response', message: CUT });
  });

  it('does not take a silence fails', async () => {
    server.behavior = (response, { method }) =>
      method === 'GET' ? response.end('[]') : response.writeHead(400).end('bad matcher');
    expect(await failureOf()).toMatchObject({ reason: 'Refused', message: 'expected status 2xx, found 400' });
  });

  it('hangs does not keep a leader that stops', async () => {
    server.behavior = BEHAVIORS.hangs;
    const stop = new AbortController();
    const ended = run(setSilence, SILENCE, stop.signal).catch((error: unknown) => error);
    await eventually(() => expect(server.received).toHaveLength(1));
    const reason = new Error('lost leadership');
    stop.abort(reason);
    expect(await ended).toBe(reason);
  });
});
