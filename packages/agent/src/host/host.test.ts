import { UPDATER_SETTINGS } from '@brupop/shared/api/settings';
import { updaterSettings } from '@brupop/shared/testing/settings';
import { sameVersion } from '@brupop/shared/api/version';
import { shorten } from '@brupop/shared/runtime/errors';
import { STATUS } from '../testing/bad-answers.ts';
import { HostError, isActivated, isStaged, parseSettings, parseUpdateStatus, parseVersion } from './host.ts';

function parse(changes: object): ReturnType<typeof parseUpdateStatus> {
  return parseUpdateStatus(JSON.stringify({ ...STATUS, ...changes }));
}

function kindThrown(read: () => unknown): string {
  try {
    read();
  } catch (error) {
    if (error instanceof HostError) return error.kind;
  }
  return 'another error';
}

it('reads a status', () => {
  expect(parse({})).toEqual({
    state: 'Staged',
    chosenVersion: '1.27.0',
    staged: { version: '1.27.0', nextToBoot: false },
    latestCommand: {
      type: 'prepare',
      succeeded: true,
      timestamp: '2026-11-21T11:37:57.109560926Z',
      exitStatus: 0,
      stderr: 'Starting update to 1.27.0\n',
    },
  });
});

it('reads a status with every optional part null', () => {
  const empty = { update_state: 'Idle', chosen_update: null, staging_partition: null, most_recent_command: null };
  expect(parse(empty)).toEqual({
    state: 'Idle',
    chosenVersion: undefined,
    staged: undefined,
    latestCommand: undefined,
  });
});

it.each<readonly [string, object, RegExp]>([
  ['a state that is not known', { update_state: 'Rebooting' }, /update_state: expected one of Idle.*"Rebooting"/],
  ['a chosen update without a version', { chosen_update: {} }, /chosen_update.version: expected a semantic version/],
  ['a staging partition without an image', { staging_partition: {} }, /staging_partition.image: expected an object/],
  ['a command that is not known', { most_recent_command: { cmd_type: 'x' } }, /cmd_type: expected one of refresh/],
  [
    'a partition of which it is not known whether it boots next',
    { staging_partition: { image: { version: '1.27.0' }, next_to_boot: 'yes' } },
    /next_to_boot: expected true or false, found "yes"/,
  ],
  [
    'a version that no report can carry',
    { chosen_update: { version: 'latest' } },
    /expected a semantic version such as 1.21.0, .*found "latest"/,
  ],
  [
    'a command of which it is not known how it ended',
    { most_recent_command: { ...STATUS.most_recent_command, cmd_status: 'Maybe' } },
    /cmd_status: expected one of Success, Failed, Unknown/,
  ],
])('refuses %s and names the field', (_name, changes, message) => {
  expect(() => parse(changes)).toThrow(message);
});

it.each(['', 'null', '[]', '{"update_state":', '<html>'])('refuses %j instead of a status', (text) => {
  expect(kindThrown(() => parseUpdateStatus(text))).toBe('unreadable');
});

it.each(['', '{}', '{"version_id":7}', 'garbage'])('refuses %j instead of an OS release', (text) => {
  expect(kindThrown(() => parseVersion(text))).toBe('answer');
});

it('ignores a leading v when it compares versions, and an unknown version equals no version', () => {
  expect(sameVersion('v1.27.0', '1.27.0')).toBe(true);
  expect(sameVersion('1.27.0', '1.27.1')).toBe(false);
  expect(sameVersion(undefined, undefined)).toBe(false);
});

it('takes next_to_boot for an activation only in Ready: after a boot that was not yet marked it is wrong', () => {
  const next = { image: { version: '1.27.0' }, next_to_boot: true };
  expect(isActivated(parse({ update_state: 'Ready', staging_partition: next }), '1.27.0')).toBe(true);
  expect(isActivated(parse({ staging_partition: next }), '1.27.0')).toBe(false);
  expect(isActivated(parse({ update_state: 'Ready', staging_partition: next }), '1.28.0')).toBe(false);
});

it('does not trust a staging partition without the record of its prepare', () => {
  const command = STATUS.most_recent_command;
  expect(isStaged(parse({}), '1.27.0')).toBe(true);
  expect(isStaged(parse({ most_recent_command: { ...command, cmd_type: 'refresh', stderr: '' } }), '1.27.0')).toBe(
    false,
  );
  expect(isStaged(parse({ most_recent_command: { ...command, cmd_status: 'Failed' } }), '1.27.0')).toBe(false);
  expect(isStaged(parse({ most_recent_command: { ...command, stderr: 'No update required\n' } }), '1.27.0')).toBe(
    false,
  );
});

it('shortens megabytes of blanks quickly', () => {
  expect(shorten(`a${' '.repeat(4_000_000)}b`, 100)).toHaveLength(103);
});

it('names a value that is nested too deeply to print', () => {
  const deep = `${'['.repeat(100_000)}${']'.repeat(100_000)}`;
  expect(() => parseUpdateStatus(`{"update_state":${deep}}`)).toThrow(/update_state: .* found a list/);
});

it.each([
  [
    'several lines of the host become one',
    'Starting update to 1.27.0\n  no space left\n',
    100,
    'Starting update to 1.27.0; no space left',
  ],
  ['a long text is cut in the middle, since its end has the cause', '0123456789\nabc', 6, '01 …  abc'],
])('%s', (_, text, length, expected) => {
  expect(shorten(text, length)).toBe(expected);
});

it.each([
  ['both', { 'version-lock': 'v1.27.0', 'ignore-waves': true }, { versionLock: 'v1.27.0', ignoreWaves: true }],
  ['a lock alone', { 'version-lock': '1.27.0' }, { versionLock: '1.27.0', ignoreWaves: false }],
  ['none of them', {}, { versionLock: 'latest', ignoreWaves: false }],
])('reads %s, and uses the values of a new host for the rest', (_name, stored, expected) => {
  const text = JSON.stringify({ updates: stored });
  expect(updaterSettings(parseSettings(text, UPDATER_SETTINGS))).toEqual(expected);
});

it.each([
  ['no JSON', '<html>', /expected JSON/],
  ['a list', '[]', /body: expected an object, found a list/],
  ['invalid updates', '{"updates":7}', /updates: expected an object, found 7/],
  ['an invalid lock', '{"updates":{"version-lock":"newest"}}', /version-lock: expected .* found "newest"/],
  ['a lock that is too long', `{"updates":{"version-lock":"1.2.3-${'a'.repeat(123)}"}}`, /version-lock/],
  ['a lock that is null', '{"updates":{"version-lock":null}}', /version-lock: expected/],
  ['an invalid flag', '{"updates":{"ignore-waves":"yes"}}', /ignore-waves: expected true or false, found "yes"/],
])('refuses %s and names the field', (_name, text, message) => {
  const read = (): unknown => parseSettings(text, UPDATER_SETTINGS);
  expect(read).toThrow(HostError);
  expect(read).toThrow(message);
});
