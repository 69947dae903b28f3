import { pinRecords } from '@brupop/shared/testing/settings';
import { rfc3339 } from '@brupop/shared/runtime/clock';
import { NEW, OLD } from '../testing/objects.ts';
import { sameStatus } from '../apiserver/messages.ts';
import { bootTime } from './context.ts';

const WALL = Date.parse('2026-11-21T12:00:00Z');
const HOUR = 3_600_000;
const at = (bootID: string, uptimeMs: number, wallMs = WALL) => ({ bootID, uptimeMs, wallMs });

it('derives the boot time from the uptime', () => {
  expect(bootTime(at('b', HOUR), undefined)).toBe('2026-11-21T11:00:00Z');
  expect(bootTime(at('b', HOUR), { bootID: 'a', bootTime: '2026-11-20T00:00:00Z' })).toBe('2026-11-21T11:00:00Z');
});

it('keeps the reported time of this boot when the clock changes', () => {
  expect(bootTime(at('b', HOUR), { bootID: 'b', bootTime: '2026-11-21T10:59:58Z' })).toBe('2026-11-21T10:59:58Z');
});

it('uses the time of the first observation for a new boot ID on a machine that has not rebooted', () => {
  const machineUp = rfc3339(WALL - HOUR);
  expect(bootTime(at('b', HOUR), { bootID: 'a', bootTime: machineUp })).toBe('2026-11-21T12:00:00Z');
  expect(bootTime(at('c', 2 * HOUR, WALL + HOUR), { bootID: 'b', bootTime: '2026-11-21T12:00:00Z' })).toBe(
    '2026-11-21T13:00:00Z',
  );
});

it('compares every field that an agent reports', () => {
  const facts = { current_version: OLD, target_version: NEW, crash_count: 0, observedGeneration: 1, bootID: 'b' };
  const status = { current_state: 'Idle', ...facts } as const;
  const settings = { records: pinRecords({ versionLock: NEW }) };
  expect(sameStatus(status, { ...status })).toBe(true);
  expect(sameStatus({ ...status, waitingFor: 'Paused' }, status)).toBe(true);
  expect(sameStatus(status, { ...status, bootTime: rfc3339(WALL) })).toBe(false);
  expect(sameStatus(status, { ...status, settings })).toBe(false);
  expect(sameStatus({ ...status, settings }, { ...status, settings: { ...settings, message: 'x' } })).toBe(false);
});
