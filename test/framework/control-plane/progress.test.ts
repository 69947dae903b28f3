import { duration } from './progress.ts';

test.each([
  [0, '0s'],
  [59_400, '59s'],
  [59_600, '1m00s'],
  [72_000, '1m12s'],
])('%d ms is %s', (ms, expected) => {
  expect(duration(ms)).toBe(expected);
});
