import { HostError, parseSettings, settingsBody } from './host.ts';

it.each([
  ['both', '{"updates":{"version-lock":"v1.27.0","ignore-waves":true}}', { versionLock: 'v1.27.0', ignoreWaves: true }],
  ['a lock alone', '{"updates":{"version-lock":"1.27.0"}}', { versionLock: '1.27.0', ignoreWaves: false }],
  ['none of them', '{}', { versionLock: 'latest', ignoreWaves: false }],
])('reads %s, and uses the values of a new host for the rest', (_name, text, expected) => {
  expect(parseSettings(text)).toEqual(expected);
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
  const read = (): unknown => parseSettings(text);
  expect(read).toThrow(HostError);
  expect(read).toThrow(message);
});

it('writes only the changes', () => {
  expect(settingsBody({ versionLock: '1.27.0' })).toBe('{"updates":{"version-lock":"1.27.0"}}');
  expect(settingsBody({ ignoreWaves: false })).toBe('{"updates":{"ignore-waves":false}}');
});
