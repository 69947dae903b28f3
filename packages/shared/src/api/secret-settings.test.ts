/** Which settings are secrets, and what their Secrets may have. */
import { readSecretSetting } from '../kube/secret-files.ts';
import { messageOf } from '../runtime/errors.ts';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  isSecret,
  isSecretHash,
  MAX_SECRET_VALUE,
  SECRET_SETTING_PATTERN,
  secretHash,
  secretValue,
} from './secret-settings.ts';

const LIST = 'settings.container-registry.credentials';
const TEXT = 'settings.aws.credentials';

it.each([
  ['settings.container-registry.credentials', true],
  ['settings.aws.config', true],
  ['settings.host-containers.admin.user-data', true],
  ['settings.host-containers."admin".user-data', true],
  ['settings.kubernetes.bootstrap-token', true],
  ['settings.host-containers.admin.enabled', false],
  ['settings.container-registry.mirrors', false],
  ['settings.motd', false],
])('%s: %s', (key, expected) => {
  expect(isSecret(key)).toBe(expected);
});

it.each(['aws.config', 'aws.credentials', 'host-containers.my-admin_1.user-data', 'bootstrap-containers.x.user-data'])(
  'a group may name %s, which is a secret',
  (setting) => {
    expect(setting).toMatch(new RegExp(SECRET_SETTING_PATTERN, 'u'));
    expect(isSecret(`settings.${setting}`)).toBe(true);
  },
);

it.each([
  'motd',
  'settings.aws.config',
  'aws.config.x',
  'aws',
  'host-containers.user-data',
  'kubernetes.server-key',
  '',
])('a group may not name "%s"', (setting) => {
  expect(setting).not.toMatch(new RegExp(SECRET_SETTING_PATTERN, 'u'));
});

it('a hash stands for a value, differs by key and value, and is told from a value', () => {
  const hashes = [secretHash(TEXT, '"a"'), secretHash(TEXT, '"b"'), secretHash(LIST, '"a"')];
  expect(new Set(hashes).size).toBe(3);
  expect(hashes.every(isSecretHash)).toBe(true);
  // Another way of making it would roll out all secrets of all groups again.
  expect(secretHash(TEXT, '"a"')).toBe('"sha256:920c75f4da5e35621edaf6bd9cf34077"');
  expect(isSecretHash('"a"')).toBe(false);
});

it('a text is trimmed, since files end with a line break', () => {
  expect(secretValue(TEXT, ' QUJD\n')).toBe('"QUJD"');
});

it('a list is read as JSON, with sorted keys', () => {
  expect(secretValue(LIST, '[ { "registry": "r", "auth": "a" } ]\n')).toBe('[{"auth":"a","registry":"r"}]');
});

it.each([
  [LIST, 'p4ssw0rd', /expected a list as JSON, .*found no JSON/u],
  [LIST, '{"registry": "p4ssw0rd"}', /found another value/u],
  [LIST, '"p4ssw0rd"', /found another value/u],
  [TEXT, ' \n', /expected a text, found none/u],
  [TEXT, 'p4ssw0rd'.repeat(MAX_SECRET_VALUE), /expected at most 16384 characters/u],
])('what cannot be a value of %s is named without being shown', (key, text, message) => {
  expect(() => secretValue(key, text)).toThrow(message);
  expect(() => secretValue(key, text)).not.toThrow(/p4ssw0rd/u);
});

function failureOf(work: () => unknown): string {
  try {
    return String(work());
  } catch (error) {
    return messageOf(error);
  }
}

describe('a mounted Secret', () => {
  let folder = '';
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'brupop-secrets-'));
    mkdirSync(join(folder, 'registry'));
    writeFileSync(join(folder, 'registry', 'list.json'), '[{"registry":"r"}]');
    writeFileSync(join(folder, 'registry', 'wrong.json'), 'p4ssw0rd');
    writeFileSync(join(folder, 'registry', 'long.json'), 'p'.repeat(70_000));
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  const read = (name: string, key: string): string => readSecretSetting(folder, LIST, { name, key });

  it('has the value of a setting', () => {
    expect(read('registry', 'list.json')).toBe('[{"registry":"r"}]');
  });

  it.each([
    [
      'registry',
      'other.json',
      /key other\.json of the Secret registry .*hostSettings\.secrets of the chart, found none/u,
    ],
    ['other', 'list.json', /key list\.json of the Secret other .*found none/u],
    [
      'registry',
      'wrong.json',
      /key wrong\.json of the Secret registry for settings\.container-registry\.credentials: expected a list as JSON/u,
    ],
    ['registry', 'long.json', /expected at most 65536 bytes, found 70000/u],
  ])('%s/%s: says what is wrong without showing what is in it', (name, key, message) => {
    const text = failureOf(() => read(name, key));
    expect(text).toMatch(message);
    expect(text).not.toMatch(/p4ssw0rd|pppp/u);
  });
});
