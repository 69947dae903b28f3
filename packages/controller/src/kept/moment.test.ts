import { Kept, type Moment } from './moment.ts';

const NODE = {};

/** How often the answer was found at these times. */
function found(times: readonly number[], find: (moment: Moment) => unknown, of: () => object = () => NODE): number {
  const kept = new Kept<object, unknown>();
  let count = 0;
  for (const now of times) {
    kept.of(of(), now, (moment) => {
      count += 1;
      return find(moment);
    });
  }
  return count;
}

it.each<[string, number, readonly number[], (moment: Moment) => unknown]>([
  ['an answer that asks for no time is found once', 1, [0, 1, 1_000], () => 'x'],
  ['a time that has been reached is not asked for again', 1, [5, 6, 7], (moment) => moment.reached(5)],
  [
    'an answer is found again exactly when the time that it waits for is reached',
    2,
    [1, 4, 5, 6],
    (at) => at.reached(5),
  ],
  ['the first of several times counts', 2, [1, 3, 4], (at) => [at.reached(9), at.reached(3), at.reached(7)]],
  ['an answer with the time in it is found each time', 3, [1, 2, 3], ({ ms }) => ms],
  ['an answer about other nodes is found each time', 3, [1, 2, 3], (moment) => moment.holdsOnce()],
  ['an answer does not hold before it was found', 2, [5, 4], () => 'x'],
])('%s', (_, count, times, find) => {
  expect(found(times, find)).toBe(count);
});

it('another object is asked again', () => {
  expect(
    found(
      [1, 2],
      () => 'x',
      () => ({}),
    ),
  ).toBe(2);
});
