import { jest } from '@jest/globals';
import { type Cases, runCases, onEach } from '../../../framework/faults/at-every-step.ts';

jest.setTimeout(1_200_000);

const cases: Cases = {
  'every agent is killed': onEach((node) => ({ kind: 'killed', who: { program: 'agent', node }, forMs: 0 })),
  'every agent is frozen': onEach((node) => ({ kind: 'frozen', who: { program: 'agent', node }, forMs: 5_000 })),
  'the leading controller is killed': [{ kind: 'killed', who: { program: 'controller', which: 'leader' }, forMs: 0 }],
  'both controllers are killed at once and start with an empty cache': [
    { kind: 'killed', who: { program: 'controller', which: 'all' }, forMs: 0 },
  ],
  'the leading controller is frozen past its lease, and thawed': [
    { kind: 'frozen', who: { program: 'controller', which: 'leader' }, forMs: 20_000 },
  ],
  'each API server is killed, one after the other': [{ kind: 'each API server killed' }],
  'all API servers are killed at once': [{ kind: 'killed', who: { program: 'apiserver', which: 'all' }, forMs: 0 }],
  'all API servers are frozen': [{ kind: 'frozen', who: { program: 'apiserver', which: 'all' }, forMs: 5_000 }],
  'no API server is available for 25 s': [{ kind: 'no API server', forMs: 25_000 }],
};

test('nodes at every step of their update are updated although programs of the operator fail', async () => {
  const { chosen, passed } = await runCases(cases, { mayFail: false });
  expect(passed).toEqual(chosen);
});
