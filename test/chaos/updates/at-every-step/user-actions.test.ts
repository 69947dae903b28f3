import { jest } from '@jest/globals';
import { type Cases, comeThroughChosen, onEach } from '../../../framework/faults/at-every-step.ts';
import type { Fault, ShadowEdit } from '../../../framework/faults/fault.ts';

jest.setTimeout(1_200_000);

const edited = (edit: ShadowEdit): Fault[] => onEach((node) => ({ kind: 'shadow edited', node, edit }));

const cases: Cases = {
  // The agent that activates ends with its shadow, so it is unknown whether it has requested a reboot: that node is left alone for 7 minutes.
  'every label is removed for a moment, but where a host activates': onEach(
    (node) => ({ kind: 'label removed', node, forMs: 300 }),
    ['Stage', 'Drain', 'Reboot'],
  ),
  'every shadow is deleted': onEach((node) => ({ kind: 'shadow deleted', node })),
  'every shadow is told to be idle': edited('spec to Idle'),
  'every shadow is told to reboot': edited('spec to reboot'),
  'every shadow is given another version': edited('another version'),
  'every shadow says that its node is drained': edited('status as if drained'),
  'every shadow loses its status': edited('status gone'),
};

test('nodes at every step of their update are updated even if users interfere', async () => {
  const { chosen, through } = await comeThroughChosen(cases, { mayFail: true });
  expect(through).toEqual(chosen);
});
