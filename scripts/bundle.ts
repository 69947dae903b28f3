/**
 * Bundles a program (a package with `src/main.ts`) into one file for Node 24. The result depends on
 * the sources, package-lock.json and the revision only, not on the folder or the time.
 */
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { build, type Plugin } from 'esbuild';

export interface Bundle {
  readonly program: string;
  readonly contents: Uint8Array;
  /** The files whose code is in the bundle, relative to the root of the repository. */
  readonly modules: readonly string[];
}

const root = join(import.meta.dirname, '..');

// Some dependencies are CommonJS and call require, which ES modules lack.
const banner =
  "import { createRequire as __createRequire } from 'node:module';const require = __createRequire(import.meta.url);";

/** The plugin runs with the Node.js of users, and would fail in the middle of a library. */
const nodeCheck =
  "if(Number.parseInt(process.versions.node)<24){console.error('kubectl-brupop: expected Node.js 24 or later, found '+" +
  'process.versions.node);process.exit(1);}';

/**
 * Takes Node's own modules without the loader of ES modules: that reads every export of theirs, and
 * a getter among the exports of `node:http` loads the whole of undici, which costs an agent 9 MiB.
 */
const builtins: Plugin = {
  name: 'builtins',
  setup(bundler) {
    bundler.onResolve({ filter: /^node:/ }, ({ path, kind }) =>
      kind === 'import-statement' ? { path, namespace: 'builtin' } : { path, external: true },
    );
    bundler.onLoad({ filter: /.*/, namespace: 'builtin' }, ({ path }) => ({
      contents: `module.exports = process.getBuiltinModule(${JSON.stringify(path)});`,
    }));
  },
};

/**
 * What express requires and this operator never runs: it reads bodies and writes answers itself, and
 * has no views, cookies, query strings or files. What depends on one of these only is left out with
 * it. A stub that is called throws, so that every test that runs a bundle fails.
 */
const unused: Readonly<Record<string, readonly string[]>> = {
  express: [
    'accepts',
    'body-parser',
    'content-disposition',
    'content-type',
    'cookie',
    'cookie-signature',
    'etag',
    'fresh',
    'http-errors',
    'mime-types',
    'qs',
    'range-parser',
    'send',
    'serve-static',
    'type-is',
    'vary',
    './view',
  ],
  'proxy-addr': ['forwarded', 'ipaddr.js'],
};

const stubs: Plugin = {
  name: 'stubs',
  setup(bundler) {
    bundler.onResolve({ filter: /./ }, ({ path, importer }) => {
      const from = /.*\/node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(importer)?.[1] ?? '';
      return unused[from]?.includes(path) === true ? { path: `${from} ${path}`, namespace: 'stub' } : undefined;
    });
    bundler.onLoad({ filter: /./, namespace: 'stub' }, ({ path }) => ({
      contents: `const stub = () => { throw new Error(${JSON.stringify(`${path} is not in this bundle; see scripts/build.ts`)}); };
        module.exports = new Proxy(stub, { get: () => stub });`,
    }));
  },
};

/** The package of `kubectl brupop`, which is not in the image. */
export const CLI = 'cli';

/** The packages that are programs of the image. Throws when there is none. */
export function findPrograms(): string[] {
  const programs = readdirSync(join(root, 'packages')).filter((name) => name !== CLI && existsSync(entryOf(name)));
  if (programs.length === 0) throw new Error('expected packages with src/main.ts, found none');
  return programs;
}

/** All programs of the image. `revision` is what they report of themselves. Throws for a warning as for an error. */
export async function bundleAll(revision = 'unknown'): Promise<Bundle[]> {
  return await Promise.all(findPrograms().map(async (program) => await bundle(program, revision)));
}

/** One program. */
export async function bundle(program: string, revision: string): Promise<Bundle> {
  const { warnings, outputFiles, metafile } = await build({
    absWorkingDir: root,
    entryPoints: [entryOf(program)],
    outfile: `${program}.mjs`,
    write: false,
    metafile: true,
    bundle: true,
    platform: 'node',
    target: 'node24',
    format: 'esm',
    // Less source text takes less memory on every node. Names are kept for errors and logs.
    minify: true,
    keepNames: true,
    // The file would add "use strict" to modules that are strict anyway.
    tsconfigRaw: '{}',
    // NOTICE has the licenses instead.
    legalComments: 'none',
    define: { BRUPOP_REVISION: JSON.stringify(revision) },
    plugins: [builtins, stubs],
    banner: { js: program === CLI ? `${banner}${nodeCheck}` : banner },
    logLevel: 'silent',
  });
  if (warnings.length > 0) throw new Error(`${program}: ${warnings.map(({ text }) => text).join('; ')}`);
  const [file] = outputFiles;
  if (file === undefined) throw new Error(`${program}: expected one file from esbuild, found none`);
  const inputs = Object.values(metafile.outputs).flatMap((output) => Object.entries(output.inputs));
  const modules = inputs.filter(([, { bytesInOutput }]) => bytesInOutput > 0).map(([path]) => path);
  return { program, contents: file.contents, modules };
}

function entryOf(program: string): string {
  return join(root, 'packages', program, 'src/main.ts');
}
