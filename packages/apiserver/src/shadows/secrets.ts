import { secretHash } from '@brupop/shared/api/secret-settings';
import { messageOf } from '@brupop/shared/runtime/errors';
import { readSecretSetting } from '@brupop/shared/kube/secret-files';
import { ApiError } from '../errors.ts';
import type { SlimShadow } from './policy.ts';

/**
 * Returns the values of the secrets that the spec requests, by their settings. Throws ApiError
 * `Unavailable` if one is not there or has another hash: the kubelet of another replica may have
 * mounted a later one.
 * @param folder - of the mounted Secrets
 */
export function secretValues(
  { metadata, spec }: Pick<SlimShadow, 'metadata' | 'spec'>,
  folder: string,
): Record<string, string> {
  return Object.fromEntries(
    (spec.settings?.leaves ?? []).flatMap(({ key, value: hash, secretKeyRef }) => {
      if (secretKeyRef === undefined) return [];
      const value = valueOf(folder, key, secretKeyRef);
      if (secretHash(key, value) === hash) return [[key, value]];
      const what = `key ${secretKeyRef.key} of the Secret ${secretKeyRef.name} for ${key}`;
      throw new ApiError(
        'Unavailable',
        `${metadata.name}: expected ${hash} in the ${what}, found another value; repeat`,
      );
    }),
  );
}

function valueOf(...of: Parameters<typeof readSecretSetting>): string {
  try {
    return readSecretSetting(...of);
  } catch (error) {
    throw new ApiError('Unavailable', `${messageOf(error)}; repeat`);
  }
}
