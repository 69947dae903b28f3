import { FakeClock } from '@brupop/shared/testing/fake-clock';
import { recordingLogger } from '../../../../test/framework/recording-logger.ts';
import { aNotice, aReceiver } from '../testing/notices.ts';
import { GIVE_UP_MS, MAX_QUEUE, Outbox } from './outbox.ts';
import { DeliveryError } from './target.ts';

const MINUTE = 60_000;

/** A receiver whose attempts fail with `failure` while it is set. */
function open() {
  const clock = new FakeClock();
  const { log, lines } = recordingLogger();
  const stop = new AbortController();
  const seen = {
    failure: undefined as Error | undefined,
    checks: 0,
    attempts: [] as string[],
    /** IDs of what it accepts in spite of `failure`. */
    accepts: [] as string[],
    results: [] as string[],
    state: 'unknown',
  };
  const answer = async (): Promise<void> => {
    if (seen.failure !== undefined) throw seen.failure;
  };
  const outbox = new Outbox(aReceiver(), {
    clock,
    log,
    random: () => 1,
    check: async () => {
      seen.checks += 1;
      await answer();
    },
    send: async (_receiver, { notice }) => {
      seen.attempts.push(notice.id);
      if (!seen.accepts.includes(notice.id)) await answer();
    },
    onReady: () => (seen.state = 'ready'),
    onFailure: (reason, problem) => (seen.state = `${reason}: ${problem}`),
    onResult: (id, result) => seen.results.push(`${id} ${result}`),
  });
  const offer = (...ids: string[]): void => {
    for (const id of ids) outbox.offer({ notice: aNotice(id), at: clock.now() }, stop.signal);
  };
  return { clock, lines, stop, seen, outbox, offer };
}

const refused = new DeliveryError('ServerError', 'expected status 2xx, found 500');

test('a notification is sent once, and nothing is sent at rest', async () => {
  const { clock, seen, offer } = open();
  offer('a');
  await clock.advance(GIVE_UP_MS);
  expect([seen.attempts, seen.results, seen.state]).toEqual([['a'], ['a Sent'], 'ready']);
  expect([seen.checks, clock.pending]).toEqual([0, 0]);
});

test('notifications go in order, one a second', async () => {
  const { clock, seen, offer } = open();
  offer('a', 'b', 'c');
  await clock.advance(0);
  expect(seen.attempts).toEqual(['a']);
  await clock.advance(1_999);
  expect(seen.attempts).toEqual(['a', 'b']);
  await clock.advance(1);
  expect(seen.results).toEqual(['a Sent', 'b Sent', 'c Sent']);
});

test('a failure is retried with longer delays, up to five minutes', async () => {
  const { clock, seen, offer } = open();
  seen.failure = refused;
  offer('a');
  await clock.advance(5_000 + 10_000 + 20_000);
  expect(seen.attempts).toHaveLength(4);
  expect(seen.state).toBe('ServerError: expected status 2xx, found 500');
  await clock.advance(30 * MINUTE);
  expect(seen.attempts.length).toBeLessThanOrEqual(14);
  seen.failure = undefined;
  await clock.advance(5 * MINUTE);
  expect([seen.results, seen.state]).toEqual([['a Sent'], 'ready']);
});

test('a notification is given up after an hour, with a line in the log', async () => {
  const { clock, lines, seen, offer } = open();
  seen.failure = refused;
  offer('a');
  await clock.advance(GIVE_UP_MS + 5 * MINUTE);
  expect(seen.results).toEqual(['a GivenUp']);
  expect(lines.join('')).toContain('"msg":"notification not delivered"');
  const { length } = seen.attempts;
  await clock.advance(GIVE_UP_MS);
  expect(seen.attempts).toHaveLength(length);
});

test('what waited for one that is given up is tried first, if the server answers', async () => {
  const { clock, seen, offer } = open();
  seen.failure = refused;
  seen.accepts = ['b', 'd'];
  offer('a', 'b', 'c', 'd');
  await clock.advance(GIVE_UP_MS + 6 * MINUTE);
  expect(seen.results).toEqual(['a GivenUp', 'b Sent', 'c GivenUp', 'd Sent']);
  expect(seen.attempts.filter((id) => id !== 'a')).toEqual(['b', 'c', 'd']);
});

test.each([
  ['does not answer', new DeliveryError('Timeout', 'no response within 10 s')],
  [
    'takes nothing for a while',
    new DeliveryError('Refused', 'expected status 2xx, found 429', { retryAfterMs: 30_000 }),
  ],
])('of a server that %s, all that wait for an hour are given up', async (_what, failure) => {
  const { clock, seen, offer } = open();
  seen.failure = failure;
  offer('a', 'b');
  await clock.advance(GIVE_UP_MS + 5 * MINUTE);
  expect(seen.results).toEqual(['a GivenUp', 'b GivenUp']);
  expect(seen.attempts).not.toContain('b');
});

test('content that the server refuses does not delay the others', async () => {
  const { clock, seen, offer } = open();
  seen.failure = new DeliveryError('Refused', 'expected status 2xx, found 400', { isFinal: true });
  offer('a', 'b');
  await clock.advance(0);
  seen.failure = undefined;
  await clock.advance(1_000);
  expect(seen.results).toEqual(['a Refused', 'b Sent']);
});

test('the server says when to come back', async () => {
  const { clock, seen, offer } = open();
  seen.failure = new DeliveryError('Refused', 'expected status 2xx, found 429', { retryAfterMs: 30_000 });
  offer('a');
  await clock.advance(29_999);
  expect(seen.attempts).toHaveLength(1);
  await clock.advance(1);
  expect(seen.attempts).toHaveLength(2);
});

test('of too many, the latest is dropped, with a line in the log', async () => {
  const { clock, lines, seen, offer } = open();
  seen.failure = refused;
  offer('first');
  await clock.advance(0);
  offer(...Array.from({ length: MAX_QUEUE }, (_, index) => `n${index}`));
  expect(seen.results).toEqual([`n${MAX_QUEUE - 1} Dropped`]);
  expect(lines.join('')).toContain('too many wait for this receiver');
  seen.failure = undefined;
  await clock.advance(MAX_QUEUE * 6_000);
  expect(seen.results).toHaveLength(MAX_QUEUE + 1);
});

test('of too many, a less severe one is dropped first, but not the one that is being sent', async () => {
  const { clock, stop, seen, outbox, offer } = open();
  seen.failure = refused;
  outbox.offer({ notice: aNotice('first', { severity: 'warning' }), at: clock.now() }, stop.signal);
  outbox.offer({ notice: aNotice('second', { severity: 'warning' }), at: clock.now() }, stop.signal);
  offer(...Array.from({ length: MAX_QUEUE - 1 }, (_, index) => `n${index}`));
  expect(seen.results).toEqual(['second Dropped']);
});

test('a receiver that has changed is checked at once, and until it is as it should be', async () => {
  const { clock, seen, outbox, stop } = open();
  seen.failure = new DeliveryError('Secret', 'it does not exist');
  outbox.update(aReceiver({ secretName: 'slack' }), stop.signal);
  await clock.advance(4_999);
  expect([seen.checks, seen.state]).toEqual([1, 'Secret: it does not exist']);
  outbox.update(aReceiver({ secretName: 'other' }), stop.signal);
  await clock.advance(0);
  expect(seen.checks).toBe(2);
  seen.failure = undefined;
  await clock.advance(5_000);
  expect([seen.checks, seen.state, clock.pending]).toEqual([3, 'ready', 0]);
});

test('a change ends a delay: what waits is sent at once', async () => {
  const { clock, seen, outbox, offer, stop } = open();
  seen.failure = refused;
  offer('a');
  await clock.advance(4_000);
  seen.failure = undefined;
  outbox.update(aReceiver({ address: 'https://other.example.com' }), stop.signal);
  await clock.advance(0);
  expect(seen.results).toEqual(['a Sent']);
});

test('a leader that stops sends nothing more, and does not wait', async () => {
  const { clock, seen, outbox, offer, stop } = open();
  seen.failure = refused;
  offer('a', 'b');
  await clock.advance(0);
  stop.abort(new Error('lost leadership'));
  await outbox.settled();
  await clock.advance(GIVE_UP_MS);
  expect([seen.attempts, seen.results]).toEqual([['a'], []]);
});

test('a receiver that was removed is sent nothing more', async () => {
  const { clock, seen, outbox, offer } = open();
  seen.failure = refused;
  offer('a', 'b');
  await clock.advance(0);
  outbox.close();
  await clock.advance(GIVE_UP_MS);
  expect([seen.attempts, clock.pending]).toEqual([['a'], 0]);
});

test('an error that is not foreseen is retried, and its text is not shown', async () => {
  const { clock, seen, offer, lines } = open();
  seen.failure = new Error('https://hooks.example.com/hidden');
  offer('a');
  await clock.advance(5_000);
  expect(seen.state).toBe('Unknown: the attempt failed');
  expect(lines.join('')).not.toContain('hidden');
  expect(seen.attempts).toHaveLength(2);
});
