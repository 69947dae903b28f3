import { WATCH_STALE_MS } from '../api/deadlines.ts';
import { KubeError } from './error.ts';
import { retryDelayMs } from './reflector.ts';

const asks = (retryAfterMs: number): KubeError => new KubeError(429, 'TooManyRequests', 'later', { retryAfterMs });

const cases: Record<string, [unknown, number]> = {
  'an error that asks for nothing is tried again after the own backoff': [new Error('reset'), 800],
  'a server that asks for more is obeyed': [asks(10_000), 10_000],
  'a server that asks for less gets the own backoff': [asks(1), 800],
  'a server that asks for a day is not obeyed for more than 5 minutes': [asks(86_400_000), 300_000],
};
test.each(Object.entries(cases))('%s', (_, [error, expected]) =>
  expect(retryDelayMs(error, 800, 'list')).toBe(expected),
);

test('a watch is reopened before it is stale, whatever Retry-After the server sends', () => {
  expect(retryDelayMs(asks(86_400_000), 800, 'watch')).toBeLessThan(WATCH_STALE_MS / 4);
});
