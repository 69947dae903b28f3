/** What the controller knows of mounted Secrets, and when it reads them again. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { secretHash } from '@brupop/shared/api/secret-settings';
import { SecretHashes } from './secret-hashes.ts';

const KEY = 'settings.aws.credentials';
const ref = { name: 'aws', key: 'credentials' };
let folder = '';
const write = (text: string): void => writeFileSync(join(folder, 'aws', 'credentials'), text);

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'brupop-secrets-'));
  mkdirSync(join(folder, 'aws'));
});
afterEach(() => rmSync(folder, { recursive: true }));

it('has the hash of a Secret until it is outdated and cleared', () => {
  write('a');
  const hashes = new SecretHashes(folder);
  expect(hashes.of(KEY, ref)).toBe(secretHash(KEY, '"a"'));
  expect(hashes.isOutdated()).toBe(false);
  write('b');
  expect(hashes.of(KEY, ref)).toBe(secretHash(KEY, '"a"'));
  expect(hashes.isOutdated()).toBe(true);
  hashes.clear();
  expect(hashes.of(KEY, ref)).toBe(secretHash(KEY, '"b"'));
  expect(hashes.isOutdated()).toBe(false);
});

it('notices a Secret that appears, and one that is removed', () => {
  const hashes = new SecretHashes(folder);
  expect(() => hashes.of(KEY, ref)).toThrow('key credentials of the Secret aws');
  expect(hashes.isOutdated()).toBe(false);
  write('a');
  expect(hashes.isOutdated()).toBe(true);
  hashes.clear();
  hashes.of(KEY, ref);
  rmSync(join(folder, 'aws', 'credentials'));
  expect(hashes.isOutdated()).toBe(true);
});
