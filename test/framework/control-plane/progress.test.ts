import { duration, estimate } from './progress.ts';

test.each([
  [0, '0s'],
  [59_400, '59s'],
  [59_600, '1m00s'],
  [72_000, '1m12s'],
])('%d ms is %s', (ms, expected) => {
  expect(duration(ms)).toBe(expected);
});

test.each([
  ['nothing is finished: as long as expected', [400, 0, 0, 50], 400],
  ['nothing is finished and it takes longer than expected: what has gone by', [400, 0, 0, 500], 500],
  ['half is finished at twice the time: twice as long', [400, 200, 400, 450], 800],
  ['half is finished in no time: soon', [400, 200, 10, 15], 20],
] as const)('when %s', (_, [all, done, finishedAt, elapsed], expected) => {
  expect(estimate(all, done, finishedAt, elapsed)).toBe(expected);
});
