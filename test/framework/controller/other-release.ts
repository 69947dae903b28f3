import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { build } from 'esbuild';
import type { serve } from '../../../packages/controller/src/main.ts';

const packages = join(import.meta.dirname, '../../../packages');

/** What replaces each text of a file. */
type Changes = Readonly<Record<string, string>>;

/** Builds the controller of another release into `folder`: in each file, each text is replaced. */
export async function otherRelease(
  folder: string,
  changes: Partial<Readonly<Record<'build' | 'config-spec' | 'config-status' | 'rendered', Changes>>>,
): Promise<{ readonly serve: typeof serve }> {
  const outfile = join(folder, 'controller-of-another-release.mjs');
  await build({
    entryPoints: [join(packages, 'controller/src/main.ts')],
    outfile,
    bundle: true,
    platform: 'node',
    target: 'node24',
    format: 'esm',
    external: ['@kubernetes/client-node'],
    banner: { js: "import { createRequire } from 'node:module';const require = createRequire(import.meta.url);" },
    logLevel: 'silent',
    plugins: [
      {
        name: 'other release',
        setup: (bundler) => {
          for (const [file, texts] of Object.entries(changes)) {
            bundler.onLoad({ filter: new RegExp(String.raw`/${file}\.ts$`) }, async ({ path }) => ({
              contents: replaced(await readFile(path, 'utf8'), texts),
              loader: 'ts',
            }));
          }
        },
      },
    ],
  });
  return (await import(outfile)) as { readonly serve: typeof serve };
}

function replaced(source: string, changes: Changes): string {
  return Object.entries(changes).reduce((text, [before, after]) => {
    if (!text.includes(before)) throw new Error(`expected the source to have ${before}`);
    return text.replace(before, after);
  }, source);
}
