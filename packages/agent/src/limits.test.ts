import { commandLimit, lockLimit, stepLimit } from './limits.ts';

const MINUTE = 60_000;
const stage = { state: 'StagedAndPerformedUpdate' } as const;
const reboot = { state: 'RebootedIntoUpdate' } as const;

it.each([
  ['the staging that a spec requests has the limit of the spec', 'Stage', { ...stage, timeoutSeconds: 7200 }, 120],
  ['also when that is short', 'Stage', { ...stage, timeoutSeconds: 60 }, 1],
  ['and the default limit without one', 'Stage', { ...stage, timeoutSeconds: null }, 45],
  ['the reboot has the limit of the spec', 'Reboot', { ...reboot, timeoutSeconds: 3600 }, 60],
  ['but at least the time to request it', 'Reboot', { ...reboot, timeoutSeconds: 60 }, 8],
  ['and the default limit without one', 'Reboot', reboot, 15],
  ['an activation has a limit of its own', 'Activate', { ...reboot, timeoutSeconds: 7200 }, 10],
  ['a drain has one, too', 'Drain', { ...reboot, timeoutSeconds: 60 }, 28 * 60],
  ['what is undone is not what the limit is about', 'Restore', { state: 'Idle', timeoutSeconds: 60 }, 15],
] as const)('%s', (_name, operation, spec, minutes) => {
  expect(stepLimit(operation, spec)).toBe(minutes * MINUTE);
});

it('gives a prepare a third of a longer limit, so that it can be repeated, and never less than the default', () => {
  expect(commandLimit('prepare', { ...stage, timeoutSeconds: 7200 })).toBe(40 * MINUTE);
  expect(commandLimit('prepare', { ...stage, timeoutSeconds: 60 })).toBe(15 * MINUTE);
  expect(commandLimit('prepare', { ...reboot, timeoutSeconds: 7200 })).toBe(15 * MINUTE);
  expect(commandLimit('prepare', undefined)).toBe(15 * MINUTE);
  expect(commandLimit('refresh', { ...stage, timeoutSeconds: 7200 })).toBe(3 * MINUTE);
  expect(commandLimit('activate', { ...reboot, timeoutSeconds: 7200 })).toBe(3 * MINUTE);
});

it('waits for a lock longer than for any command of the agent', () => {
  expect(lockLimit(stage)).toBe(20 * MINUTE);
  expect(lockLimit({ ...stage, timeoutSeconds: 7200 })).toBe(45 * MINUTE);
});
