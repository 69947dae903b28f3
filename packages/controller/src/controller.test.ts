import { stalled } from './controller.ts';

const MINUTE = 60_000;
const cases: Record<string, [number, number, boolean]> = {
  'a loop that waits for changes does not hang, however long nothing was written': [0, Infinity, false],
  'a short reconcile does not hang': [MINUTE, Infinity, false],
  'a long reconcile in which writes end does not hang': [30 * MINUTE, MINUTE, false],
  'a long reconcile without writes hangs': [3 * MINUTE, Infinity, true],
  'a long reconcile whose writes have ceased hangs': [30 * MINUTE, 3 * MINUTE, true],
};
test.each(Object.entries(cases))('%s', (_, [runningForMs, sinceWriteMs, hangs]) => {
  expect(stalled(runningForMs, sinceWriteMs) !== undefined).toBe(hangs);
});
