import { stalled } from './controller.ts';

const MINUTE = 60_000;
const cases: Record<string, [number, number, boolean]> = {
  'a loop that waits for changes is fine, however long nothing was written': [0, Infinity, false],
  'a short turn is fine': [MINUTE, Infinity, false],
  'a long turn in which writes end is fine': [30 * MINUTE, MINUTE, false],
  'a long turn of which nothing comes hangs': [3 * MINUTE, Infinity, true],
  'a long turn whose writes have ceased hangs': [30 * MINUTE, 3 * MINUTE, true],
};
test.each(Object.entries(cases))('%s', (_, [runningForMs, sinceWriteMs, hangs]) => {
  expect(stalled(runningForMs, sinceWriteMs) !== undefined).toBe(hangs);
});
