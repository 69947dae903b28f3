import { jest } from '@jest/globals';
import { type Cases, runCases, onEach } from '../../../framework/faults/at-every-step.ts';

jest.setTimeout(1_200_000);

const cases: Cases = {
  'no host API answers': onEach((node) => ({
    kind: 'host API faulty',
    node,
    fault: { answer: 'hang' },
    forMs: 3_000,
  })),
  'every host API crashes': onEach((node) => ({ kind: 'host API crashed', node, forMs: 1_000 })),
  'every host is locked': onEach((node) => ({ kind: 'host locked', node, forMs: 5_000 })),
  'every socket is replaced': onEach((node) => ({ kind: 'socket replaced', node })),
  'the power of every host is cut': onEach((node) => ({ kind: 'power cut', node })),
  'every node is replaced by another of its name': onEach((node) => ({ kind: 'node replaced', node })),
};

test('nodes at every step of their update are updated although hosts fail', async () => {
  const { chosen, passed } = await runCases(cases, { mayFail: true });
  expect(passed).toEqual(chosen);
});
