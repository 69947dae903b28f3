import type { SettingsStatus } from '@brupop/shared/api/shadow';
import { hashOf } from '@brupop/shared/api/settings';
import { rfc3339 } from '@brupop/shared/runtime/clock';
import { pinRecords, updaterLeaves, type UpdaterSettings } from '@brupop/shared/testing/settings';
import {
  AVAILABLE,
  type Case,
  type Cases,
  decided,
  LOCKED,
  MINUTE,
  NEW,
  NOW,
  OLD,
  record,
  refused,
  STAGED,
  staging,
  step,
  UNINITIALIZED,
  update,
  summary,
  WALL,
} from '../testing/objects.ts';

const A = '1.25.0';
const host = (versionLock: string, ignoreWaves = false): UpdaterSettings => ({ versionLock, ignoreWaves });
const recorded: SettingsStatus = { records: pinRecords({ versionLock: A }) };
/** A change of the pin is in flight. */
const hash = hashOf(updaterLeaves({ versionLock: A }));
const time = rfc3339(WALL);
const inFlight: SettingsStatus = { ...recorded, inFlight: { hash, time } };
const inForce: SettingsStatus = { ...recorded, lastApplied: { hash, time } };
const restored = { attempt: { restored: true } } as const;
const OFFERED = update('Available', record('refresh'), { chosenVersion: A });
/** A pin that was just requested: the status confirms the previous spec. */
const asked: Case = {
  ...restored,
  wanted: { versionLock: A },
  settings: host('latest'),
  status: { observedGeneration: 6 },
};
const onRecord: Case = { ...asked, status: { observedGeneration: 6, settings: inFlight } };
const set: Case = { ...onRecord, settings: host(A), update: OFFERED };
const leaving: SettingsStatus = { ...recorded, inFlight: { hash: hashOf([]), time } };
const gone: Case = { ...onRecord, wanted: {}, update: OFFERED, status: { observedGeneration: 6, settings: leaving } };

const cases: Cases = {
  'idle: what a pin replaces is recorded before anything is set': [asked, 'report Idle'],
  'idle: a pin on record is set': [onRecord, `configure ${A}`],
  'idle: nothing is set before an activation is undone': [
    { ...onRecord, update: update('Ready', record('activate')) },
    'deactivate',
  ],
  'idle: nothing is set while the host may go down': [
    { ...onRecord, tracker: { reboots: { asked: undefined, pending: { name: 'x', sinceMs: NOW } } } },
    'wait',
  ],
  'idle: nothing is set while calls of the host fail': [
    { ...onRecord, tracker: { host: { notBefore: NOW + 1 } } },
    'wait',
  ],
  'idle: no refresh starts before the settings are in effect': [
    { ...set, settingsMemory: { refreshed: false, effectiveFrom: NOW + 1 } },
    'wait',
  ],
  'idle: then the host refreshes': [{ ...set, settingsMemory: { refreshed: false, effectiveFrom: NOW } }, 'refresh'],
  'idle: waits for a busy host': [{ ...set, update: LOCKED, settingsMemory: { refreshed: false } }, 'wait'],
  'idle: a failed try is followed by a pause': [{ ...onRecord, settingsMemory: { notBefore: NOW + 1 } }, 'wait'],
  'idle: waits for settings that could not be read': [
    { ...onRecord, settings: 'failed', settingsMemory: { tries: 1, notBefore: NOW + 1 } },
    'wait',
  ],
  'idle: what was stored and perhaps not applied is stored again': [
    { ...set, settingsMemory: { applied: false } },
    `configure ${A}`,
  ],
  'idle: an offer that does not match the lock needs another refresh': [{ ...set, update: AVAILABLE }, 'refresh'],
  'idle: the spec is confirmed when the offer is known': [set, 'report Idle'],
  'idle: an unknown offer needs a refresh': [{ ...set, update: UNINITIALIZED }, 'refresh'],
  'idle: what is about to be undone is in flight, too': [
    { ...gone, settings: host(A), status: { observedGeneration: 6, settings: inForce } },
    'report Idle',
  ],
  'idle: a pin that is removed is undone': [{ ...gone, settings: host(A) }, 'configure latest'],
  'idle: after that the host refreshes': [{ ...gone, settingsMemory: { refreshed: false } }, 'refresh'],
  'idle: a pin in force is checked at the usual interval': [
    { ...set, status: { settings: inForce, target_version: A }, tracker: { checkDueMs: NOW } },
    'refresh',
  ],
  'idle: a new process waits for the interval, too': [
    { ...set, status: { settings: inForce, target_version: A }, settingsMemory: { refreshed: false } },
    'wait',
  ],
  'idle: a pin that a user has changed is recorded and set again': [
    { ...set, settings: host('1.24.0'), status: { settings: inForce } },
    'report Idle',
  ],
  'stage: what a user has changed is recorded': [
    { ...staging, wanted: { versionLock: NEW }, settings: host('latest') },
    'report Idle, Stage Processing',
  ],
  'stage: and set before the refresh': [
    { ...staging, wanted: { versionLock: A }, settings: host('latest'), status: { settings: inFlight } },
    `configure ${A}`,
  ],
  'stage: also when the version is offered already': [
    {
      ...staging,
      attempt: { refreshed: true },
      wanted: { versionLock: A },
      settings: host('latest'),
      status: { settings: inFlight },
    },
    `configure ${A}`,
  ],
  'stage: the host refreshes when the settings are in effect': [
    {
      ...staging,
      wanted: { versionLock: NEW },
      settings: host(NEW),
      status: { settings: { records: pinRecords({ versionLock: NEW }) } },
      settingsMemory: { effectiveFrom: NOW + 1 },
    },
    'wait',
  ],
  'stage: settings that cannot be set do not delay it': [
    {
      ...staging,
      wanted: { versionLock: A },
      settings: host('latest'),
      status: { settings: inFlight },
      settingsMemory: { notBefore: NOW + 1 },
    },
    'refresh',
  ],
  'stage: nor do those that cannot be read': [
    { ...staging, wanted: { versionLock: A }, settings: 'failed' },
    'refresh',
  ],
  'stage: its limit applies nevertheless': [
    { ...staging, wanted: { versionLock: A }, settings: host('latest'), last: step('Stage', { agoMs: 46 * MINUTE }) },
    'report ErrorReset, Stage Failed StepTimedOut',
  ],
  'stage: a version that is staged needs no settings any more': [
    { ...staging, update: STAGED, wanted: { versionLock: A }, settings: host('latest') },
    'report StagedAndPerformedUpdate, Stage Succeeded',
  ],
  'reboot: nothing is set any more': [
    { spec: 'RebootedIntoUpdate', last: step('Drain'), update: STAGED, wanted: { versionLock: A } },
    'exclude',
  ],
  'an unreachable host is waited for': [{ ...onRecord, host: refused }, 'wait'],
};

it.each(Object.entries(cases))('%s', (_name, [given, expected]) => {
  expect(summary(decided(given))).toBe(expected);
});

function reported(given: Case): unknown {
  const action = decided(given);
  return action.do === 'report' ? action.status : action;
}

it('records a pin without confirming the spec, and leaves the reported target version as it was', () => {
  expect(reported(asked)).toMatchObject({ observedGeneration: 6, target_version: NEW, settings: inFlight });
});

it('confirms the spec with the version that the host offers because of the pin', () => {
  expect(reported(set)).toMatchObject({ observedGeneration: 7, target_version: A, settings: inForce });
});

it('confirms a spec without a pin only when the offer no longer belongs to the pin, and removes the record with that', () => {
  const stale = { ...gone, settingsMemory: { refreshed: false }, attempt: { restored: false } };
  expect(summary(decided(stale))).toBe('restore');
  const status = reported({ ...gone, update: AVAILABLE });
  expect(status).toMatchObject({ observedGeneration: 7, target_version: NEW });
  expect(status).not.toHaveProperty('settings');
});

it('reports no available update when the host is locked to a version that it does not have', () => {
  const nothing = update('Idle', record('refresh'), { chosenVersion: undefined });
  expect(reported({ ...set, update: nothing })).toMatchObject({ observedGeneration: 7, target_version: OLD });
});

it.each<readonly [string, Case]>([
  ['after a number of failures', { settingsMemory: { tries: 5, error: '400 no such version', notBefore: NOW + 1 } }],
  ['after a time', { settingsMemory: { since: NOW - 11 * MINUTE, error: '400 no such version', notBefore: NOW + 1 } }],
])('confirms the spec without an available update and reports why, %s', (_name, more) => {
  const message = `version-lock ${A}: not in force: 400 no such version`;
  const settings = { ...inFlight, message };
  expect(reported({ ...onRecord, ...more })).toMatchObject({
    observedGeneration: 7,
    target_version: OLD,
    settings,
  });
});

it('is reported once, retried, and cleared when it succeeds', () => {
  const settings = { ...inFlight, message: `version-lock ${A}: not in force: why` };
  const before: Case = { ...set, status: { target_version: OLD, settings } };
  const failing = { tries: 6, error: 'why', refreshed: false };
  expect(
    summary(decided({ ...before, settings: host('latest'), settingsMemory: { ...failing, notBefore: NOW + 1 } })),
  ).toBe('wait');
  expect(summary(decided({ ...before, settings: host('latest'), settingsMemory: failing }))).toBe(`configure ${A}`);
  expect(summary(decided({ ...before, settingsMemory: failing }))).toBe('refresh');
  expect(reported(before)).toMatchObject({ target_version: A, settings: inForce });
});

it('removes the message from the record when nothing is requested any more', () => {
  const status = reported({ ...restored, wanted: {}, status: { settings: { message: 'why' } } });
  expect(status).toMatchObject({ observedGeneration: 7 });
  expect(status).not.toHaveProperty('settings');
});

it('does not take a generation that a user has written as confirmed', () => {
  const { status, ...given } = asked;
  expect(reported({ ...given, status: { ...status, observedGeneration: 99 } })).toMatchObject({
    observedGeneration: 6,
  });
});

it('keeps the reported target version while the settings of a pinned host may have changed', () => {
  const status = { settings: inForce, target_version: A, bootID: 'boot-1' };
  const pausing = { settingsMemory: { notBefore: NOW + 1 } };
  const drifted: Case = { ...set, settings: host('latest'), update: AVAILABLE, status, ...pausing };
  expect(reported(drifted)).toMatchObject({ target_version: A, observedGeneration: 7 });
});

it('requires a locked host to offer nothing else', () => {
  expect(decided({ ...set, settingsMemory: { refreshed: false } })).toMatchObject({ command: 'refresh', lock: A });
  expect(decided({ ...gone, settingsMemory: { refreshed: false } })).not.toHaveProperty('lock');
});
