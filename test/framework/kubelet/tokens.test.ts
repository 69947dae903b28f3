import { renewalDelayMs } from './tokens.ts';

const minute = 60_000;

describe('when a token is renewed', () => {
  test.each([
    ['after 80 % of its life', 60 * minute, 48 * minute],
    ['after a day at the latest', 7 * 24 * 60 * minute, 24 * 60 * minute],
    ['at once when it has expired', -minute, 0],
  ])('%s', (_name, life, expected) => {
    expect(renewalDelayMs(life, 0.8)).toBe(expected);
  });
});
