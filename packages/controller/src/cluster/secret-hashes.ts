/** What stands for the values of settings that are in Secrets. The values themselves are not kept. */
import { isDeepStrictEqual } from 'node:util';
import { secretHash, type SecretKeyRef } from '@brupop/shared/api/secret-settings';
import { messageOf } from '@brupop/shared/runtime/errors';
import { readSecretSetting } from '@brupop/shared/kube/secret-files';

/** A hash, or why there is none. */
type Found = { readonly hash: string; readonly problem?: undefined } | { readonly problem: string };

interface Known {
  readonly setting: string;
  readonly ref: SecretKeyRef;
  readonly found: Found;
}

export class SecretHashes {
  readonly #folder: string;
  readonly #known = new Map<string, Known>();

  /** @param folder - of the mounted Secrets */
  constructor(folder: string) {
    this.#folder = folder;
  }

  /** Throws an Error that says what is wrong with the Secret. */
  of(setting: string, ref: SecretKeyRef): string {
    const id = `${setting} ${ref.name}/${ref.key}`;
    const { found } = this.#known.get(id) ?? this.#read(setting, ref);
    this.#known.set(id, { setting, ref, found });
    if (found.problem !== undefined) throw new Error(found.problem);
    return found.hash;
  }

  /** True if what is known differs from what the Secrets have now. */
  isOutdated(): boolean {
    return [...this.#known.values()].some(
      ({ setting, ref, found }) => !isDeepStrictEqual(found, this.#read(setting, ref).found),
    );
  }

  clear(): void {
    this.#known.clear();
  }

  #read(setting: string, ref: SecretKeyRef): Known {
    try {
      const value = readSecretSetting(this.#folder, setting, ref);
      return { setting, ref, found: { hash: secretHash(setting, value) } };
    } catch (error) {
      return { setting, ref, found: { problem: messageOf(error) } };
    }
  }
}
