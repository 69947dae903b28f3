import { jest } from '@jest/globals';
import { type Cases, runCases, onEach } from '../../../framework/faults/at-every-step.ts';
import type { Fault, ShadowEdit } from '../../../framework/faults/fault.ts';

jest.setTimeout(1_200_000);

const edited = (edit: ShadowEdit): Fault[] => onEach((node) => ({ kind: 'shadow edited', node, edit }));

const cases: Cases = {
  // The agent that activates exits when its shadow is deleted, so it is unknown whether it has
  // requested a reboot: that node is not restored for 7 minutes.
  'every label is removed for a moment, except during an activation': onEach(
    (node) => ({ kind: 'label removed', node, forMs: 300 }),
    ['Stage', 'Drain', 'Reboot'],
  ),
  'every shadow is deleted': onEach((node) => ({ kind: 'shadow deleted', node })),
  'every spec is set to Idle': edited('spec to Idle'),
  'every spec is set to RebootedIntoUpdate': edited('spec to reboot'),
  'every spec gets another version': edited('another version'),
  'every status reports a finished drain': edited('status as if drained'),
  'every shadow loses its status': edited('status gone'),
};

test('nodes at every step of their update are updated although users interfere', async () => {
  const { chosen, passed } = await runCases(cases, { mayFail: true });
  expect(passed).toEqual(chosen);
});
