/**
 * Bundles each program (a package with `src/main.ts`) into one file, `dist/<package>.mjs`, for Node
 * 24.
 */
import { existsSync, mkdirSync, readdirSync, rmSync, statSync } from 'node:fs';
import { join, relative } from 'node:path';
import { build, type Plugin } from 'esbuild';

const root = join(import.meta.dirname, '..');
const dist = join(root, 'dist');

// Some dependencies are CommonJS and call require, which ES modules lack.
const banner =
  "import { createRequire as __createRequire } from 'node:module';const require = __createRequire(import.meta.url);";

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

async function bundle(program: string): Promise<void> {
  const outfile = join(dist, `${program}.mjs`);
  // A failed build must not leave bundles of an earlier build.
  rmSync(outfile, { force: true });
  const { warnings } = await build({
    entryPoints: [entryOf(program)],
    outfile,
    bundle: true,
    platform: 'node',
    target: 'node24',
    format: 'esm',
    // Less source text takes less memory on every node. Names are kept for errors and logs.
    minify: true,
    keepNames: true,
    legalComments: 'none',
    // Loaded only to read a kubeconfig file, which no pod does.
    plugins: [builtins, stubs],
    banner: { js: banner },
    logLevel: 'silent',
  });
  if (warnings.length > 0) throw new Error(`${program}: ${warnings.map(({ text }) => text).join('; ')}`);
  process.stdout.write(`${relative(root, outfile)} ${(statSync(outfile).size / 1024).toFixed(0)} KiB\n`);
}

function entryOf(program: string): string {
  return join(root, 'packages', program, 'src/main.ts');
}

try {
  const programs = readdirSync(join(root, 'packages')).filter((name) => existsSync(entryOf(name)));
  if (programs.length === 0) throw new Error('expected packages with src/main.ts, found none');
  mkdirSync(dist, { recursive: true });
  for (const program of programs) await bundle(program);
} catch (error) {
  process.stderr.write(`build: ${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
}
