/** Reads Secrets that are mounted as files, one folder for each Secret. The kubelet replaces the files when a Secret changes. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { secretValue, type SecretKeyRef } from '../api/secret-settings.ts';

const MAX_BYTES = 64 * 1024;

/**
 * Returns the value of a setting as JSON. Throws an Error that names the Secret, and never repeats what
 * is in it.
 * @param folder - of the Secrets
 */
export function readSecretSetting(folder: string, setting: string, { name, key }: SecretKeyRef): string {
  const what = `key ${key} of the Secret ${name} for ${setting}`;
  const bytes = contentOf(join(folder, name, key));
  if (bytes === undefined) {
    const where = 'in the namespace of the operator, and both names in the value hostSettings.secrets of the chart';
    throw new Error(`expected the ${what} ${where}, found none`);
  }
  if (bytes.length > MAX_BYTES) throw new Error(`${what}: expected at most ${MAX_BYTES} bytes, found ${bytes.length}`);
  try {
    return secretValue(setting, bytes.toString('utf8'));
  } catch (error) {
    throw new Error(what, { cause: error });
  }
}

function contentOf(file: string): Buffer | undefined {
  try {
    return readFileSync(file);
  } catch {
    return undefined;
  }
}
