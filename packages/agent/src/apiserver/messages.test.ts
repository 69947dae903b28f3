import { pinned, pinRecords } from '@brupop/shared/testing/settings';
import { SHADOW } from '../testing/bad-answers.ts';
import { type AgentShadow, agentShadow } from '@brupop/shared/api/agent-protocol';
import { readMessage } from './messages.ts';

const readShadow = (value: unknown): AgentShadow => readMessage(agentShadow, JSON.stringify(value), 'shadow');
const { status } = SHADOW;
const last = status.lastOperation;
const withStatus = (changes: object): object => ({ ...SHADOW, status: { ...status, ...changes } });

it('reads a whole shadow as it is', () => {
  expect(readShadow(SHADOW)).toEqual(SHADOW);
});

it('reads the status of an older operator, which lacks the newer fields', () => {
  const old = { current_state: 'Idle', current_version: '1.20.0', target_version: '1.21.0', crash_count: 0 };
  expect(readShadow({ ...SHADOW, status: old }).status).toEqual({ ...old, observedGeneration: 0, bootID: '' });
});

it('reads a status that only the controller has written as absent', () => {
  expect(readShadow({ ...SHADOW, status: { conditions: [] } }).status).toBeUndefined();
});

it('limits a count that a user wrote to what the apiserver accepts in a report', () => {
  expect(readShadow(withStatus({ crash_count: 10 ** 12 })).status?.crash_count).toBe(2_147_483_647);
});

it.each([
  ['in lower case', '2026-11-21t11:37:57z', '2026-11-21T11:37:57Z'],
  ['that is unreadable, as one far in the future', '2026-11-21T11:37:57,5Z', '9999-12-31T23:59:59Z'],
  ['with an offset and a fraction, as it is', '2026-11-21T11:37:57.5+01:00', '2026-11-21T11:37:57.5+01:00'],
])('reads a time %s', (_name, written, expected) => {
  const shadow = readShadow(withStatus({ lastOperation: { ...last, startTime: written } }));
  expect(shadow.status?.lastOperation?.startTime).toBe(expected);
});

it.each<readonly [string, object, RegExp]>([
  [
    'an invalid version in the spec',
    { ...SHADOW, spec: { state: 'Idle', version: 'latest' } },
    /spec.version.*"latest"/,
  ],
  [
    'a state that this release does not know',
    { ...SHADOW, spec: { state: 'Sleeping' } },
    /spec.state: expected one of/,
  ],
  [
    'a step that this release does not know',
    withStatus({ lastOperation: { ...last, operation: 'Dance' } }),
    /operation/,
  ],
  ['a generation that is no whole number', { ...SHADOW, generation: 1.5 }, /shadow.generation/],
])('refuses %s and names the field', (_name, shadow, message) => {
  expect(() => readShadow(shadow)).toThrow(message);
});

const asking = (more: object): unknown => ({ ...SHADOW, spec: { ...SHADOW.spec, ...more } });
it('reads the host settings and the step limits of a spec', () => {
  const more = { timeoutSeconds: 900, settings: pinned({ versionLock: '1.27.0', ignoreWaves: true }) };
  expect(readShadow(asking(more)).spec).toEqual({ ...SHADOW.spec, ...more });
});

it.each<readonly [string, object]>([
  ['null', { timeoutSeconds: null, settings: null }],
  ['an invalid limit and invalid settings', { timeoutSeconds: '900', settings: 7 }],
  ['a limit that is too short, and settings without leaves', { timeoutSeconds: 1, settings: { allow: 'Live' } }],
  ['a limit of years', { timeoutSeconds: 1e9 }],
])('reads %s in a spec as absent', (_name, more) => {
  expect(readShadow(asking(more)).spec).toEqual(SHADOW.spec);
});

it('reads the settings that it can read, and allows nothing by a word of another release', () => {
  const [leaf] = pinned({ versionLock: '1.27.0' })?.leaves ?? [];
  const settings = { leaves: [{ key: 'motd', value: '1' }, leaf], allow: 'Anything' };
  expect(readShadow(asking({ settings })).spec.settings).toEqual({ leaves: [leaf], allow: 'None' });
});

it('reads the record of replaced host settings, and when the host booted', () => {
  const settings = { records: pinRecords({ versionLock: '1.27.0', ignoreWaves: true }), message: 'why' };
  const bootTime = '2026-11-21T11:37:57Z';
  expect(readShadow(withStatus({ settings, bootTime })).status).toEqual({ ...status, settings, bootTime });
});

it('leaves out what the apiserver would reject in a report: an invalid time, an incomplete record, a message that is too long', () => {
  const records = [...pinRecords({ versionLock: '1.27.0' }), { key: 'settings.motd' }];
  const settings = { records, lastApplied: { hash: 'x' }, message: 'x'.repeat(9000) };
  const read = readShadow(withStatus({ settings, bootTime: '2026-13-21T11:37:57Z' })).status;
  expect(read).not.toHaveProperty('bootTime');
  expect(read?.settings).toMatchObject({ records: records.slice(0, 1) });
  expect(read?.settings).not.toHaveProperty('lastApplied');
  expect(read?.settings?.message?.length).toBeLessThanOrEqual(4096);
});
