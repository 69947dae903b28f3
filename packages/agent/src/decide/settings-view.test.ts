import type { AgentShadow } from '@brupop/shared/api/agent-protocol';
import type { HostSettings, HostSettingsStatus, ShadowState } from '@brupop/shared/api/shadow';
import type { UpdaterSettings } from '../host/host.ts';
import { concernsSettings } from '../state/observe.ts';
import { planSettings, type SettingsPlan } from './settings-view.ts';

const A = '1.25.0';
const B = '1.26.0';
const lock = (value: string, before: string): HostSettingsStatus => ({ versionLock: { value, before } });

function shadow(wanted: HostSettings | null, recorded?: HostSettingsStatus, state: ShadowState = 'Idle'): AgentShadow {
  const base = { current_state: 'Idle', current_version: B, target_version: B, crash_count: 0 } as const;
  const status = { ...base, observedGeneration: 1, bootID: 'b' };
  const hostSettings = recorded === undefined ? {} : { hostSettings: recorded };
  return { uid: 'u', generation: 1, spec: { state, hostSettings: wanted }, status: { ...status, ...hostSettings } };
}

function plan(wanted: HostSettings | null, recorded: HostSettingsStatus, live: Partial<UpdaterSettings>): SettingsPlan {
  return planSettings(shadow(wanted, recorded), { versionLock: 'latest', ignoreWaves: false, ...live });
}

type Row = readonly [HostSettings | null, HostSettingsStatus, string, HostSettingsStatus, string | undefined, boolean];

/** What is wanted, what is on record and what the host has; then what is to be on record, what is set, and whether a record stays at the end. */
const locks: Record<string, Row> = {
  'a pin is recorded with what it replaces': [{ versionLock: A }, {}, 'latest', lock(A, 'latest'), A, true],
  'a pin that the host has already is nothing to do': [{ versionLock: A }, {}, A, {}, undefined, false],
  'a leading v makes no difference': [{ versionLock: A }, {}, `v${A}`, {}, undefined, false],
  'a pin that is recorded is set': [{ versionLock: A }, lock(A, 'latest'), 'latest', lock(A, 'latest'), A, true],
  'a pin in force stays': [{ versionLock: A }, lock(A, 'latest'), A, lock(A, 'latest'), undefined, true],
  'a user is overruled, and their value is restored later': [
    { versionLock: A },
    lock(A, 'latest'),
    'v1.24.0',
    lock(A, 'v1.24.0'),
    A,
    true,
  ],
  "another pin first restores the host's own value": [
    { versionLock: B },
    lock(A, 'latest'),
    A,
    lock(A, 'latest'),
    'latest',
    false,
  ],
  'and is then recorded with that': [{ versionLock: B }, lock(A, 'latest'), 'latest', lock(B, 'latest'), B, true],
  "another pin that a user has set meanwhile is the user's value": [
    { versionLock: B },
    lock(A, 'latest'),
    B,
    lock(A, 'latest'),
    undefined,
    false,
  ],
  'a pin that is removed is undone': [null, lock(A, 'latest'), A, lock(A, 'latest'), 'latest', false],
  'an undone pin is removed from the record in the end': [
    null,
    lock(A, 'latest'),
    'latest',
    lock(A, 'latest'),
    undefined,
    false,
  ],
  'what a user has set meanwhile remains': [null, lock(A, 'latest'), '1.24.0', lock(A, 'latest'), undefined, false],
  'a record without a change sets nothing': [null, lock(A, A), A, lock(A, A), undefined, false],
  'latest may be requested, too': [{ versionLock: 'latest' }, {}, A, lock('latest', A), 'latest', true],
};

it.each(Object.entries(locks))('%s', (_name, [wanted, recorded, live, records, set, stays]) => {
  const made = plan(wanted, recorded, { versionLock: live });
  expect(made.records).toEqual(records);
  expect(made.changes).toEqual(set === undefined ? {} : { versionLock: set });
  expect(made.kept).toEqual(stays ? records : {});
});

it('plans both settings at once', () => {
  const made = plan({ versionLock: A, ignoreWaves: true }, {}, {});
  const ignoreWaves = { value: true, before: false };
  expect(made.records).toEqual({ ...lock(A, 'latest'), ignoreWaves });
  expect(made.changes).toEqual({ versionLock: A, ignoreWaves: true });
  const back = plan(null, { ...lock(A, 'latest'), ignoreWaves }, { versionLock: A, ignoreWaves: true });
  expect(back.changes).toEqual({ versionLock: 'latest', ignoreWaves: false });
  expect(back.kept).toEqual({});
});

it('lists the recorded settings with the value that each must have, also when the host has it', () => {
  expect(plan({ versionLock: A }, lock(A, 'latest'), { versionLock: A }).recorded).toEqual({ versionLock: A });
  expect(plan(null, lock(A, 'latest'), { versionLock: 'latest' }).recorded).toEqual({ versionLock: 'latest' });
});

it.each<readonly [string, AgentShadow, boolean]>([
  ['nothing is requested', shadow(null), false],
  ['all fields are null', shadow({ versionLock: null, ignoreWaves: null }), false],
  ['a setting is requested', shadow({ ignoreWaves: false }), true],
  ['something is on record', shadow(null, lock(A, B)), true],
  ['only a message is recorded', shadow(null, { message: 'why' }), false],
  ['a version is staged', shadow({ versionLock: A }, undefined, 'StagedAndPerformedUpdate'), true],
  ['a reboot is requested', shadow({ versionLock: A }, lock(A, B), 'RebootedIntoUpdate'), false],
  ['the node is watched after its reboot', shadow({ versionLock: A }, lock(A, B), 'MonitoringUpdate'), false],
])('decides whether to read the settings when %s', (_name, one, expected) => {
  expect(concernsSettings(one)).toBe(expected);
});
