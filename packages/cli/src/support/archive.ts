/** A .tar.gz that is complete or not there: it gets its name when it is finished. */
import { createWriteStream, renameSync, rmSync } from 'node:fs';
import { finished } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import { pack } from 'tar-stream';
import { dateOf } from '@brupop/shared/runtime/clock';
import { messageOf } from '@brupop/shared/runtime/errors';
import { UsageError } from '../cluster/errors.ts';

export interface Archive {
  /** Resolves when the file is written, so that one at a time is in memory. */
  add(name: string, text: string): Promise<void>;
  /** Throws UsageError when the file cannot be written. */
  finish(): Promise<void>;
  /** Removes what was written. */
  discard(): void;
}

/**
 * Readable by its owner only. Throws UsageError when it cannot be written.
 *
 * @param now - of the files in it, epoch milliseconds
 */
export async function createArchive(path: string, now: number): Promise<Archive> {
  const partial = `${path}.partial`;
  const file = createWriteStream(partial, { flags: 'wx', mode: 0o600 });
  await new Promise<void>((done, fail) => {
    file.once('open', () => done());
    file.once('error', (error) => fail(new UsageError(`${partial} cannot be written: ${messageOf(error)}`)));
  });
  const tar = pack();
  const zip = createGzip();
  zip.pipe(file);
  const written = finished(file);
  written.catch(() => undefined);
  tar.on('data', (chunk) => void zip.write(chunk as Uint8Array));
  tar.on('end', () => void zip.end());
  const folder = path.replace(/^.*\//u, '').replace(/\.tar\.gz$|\.tgz$/u, '');
  return {
    add: async (name, text) =>
      await new Promise<void>((done, fail) => {
        const header = { name: `${folder}/${name}`, mode: 0o600, mtime: dateOf(now) };
        tar.entry(header, text, (error) => (error == null ? done() : fail(error)));
      }),
    finish: async () => {
      tar.finalize();
      try {
        await written;
        renameSync(partial, path);
      } catch (error) {
        rmSync(partial, { force: true });
        throw new UsageError(`${path} cannot be written: ${messageOf(error)}`);
      }
    },
    discard: () => {
      zip.destroy();
      file.destroy();
      rmSync(partial, { force: true });
    },
  };
}
