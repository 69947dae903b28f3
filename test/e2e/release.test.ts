/**
 * docs/release.md, from a tag to an installation: the scripts of the release workflow and the commands of the page, with
 * a registry on the loopback interface. What needs an account (docker, cosign, gh) is a stand-in that keeps its
 * arguments; the one of docker pushes an image with the file system that the Dockerfile makes.
 */
import { execFile, execFileSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { jest } from '@jest/globals';
import type { V1Deployment } from '@kubernetes/client-node';
import { parse } from 'yaml';
import { CONTROLLER } from '../../packages/shared/src/api/names.ts';
import { bundleAll } from '../../scripts/bundle.ts';
import { assembleImageRoot } from '../../scripts/image-root.ts';
import { makeSbom } from '../../scripts/sbom.ts';
import { commandsOf, runCommands, splitCommands } from '../framework/commands.ts';
import { fleetNodes } from '../framework/fleet/fleet.ts';
import { NEW, withFleet } from '../framework/fleet/with-fleet.ts';
import { releaseNamespace } from '../framework/chart.ts';
import { startRegistry, type TestRegistry } from '../framework/registry.ts';
import { copyRepository } from '../framework/repository.ts';
import { readWorkflows, runScripts } from '../framework/workflows.ts';

jest.setTimeout(600_000);

const root = join(import.meta.dirname, '../..');
const VERSION = '9.8.7';
const TAG = `v${VERSION}`;
const PAGE = 'docs/release.md';
const folder = mkdtempSync(join(tmpdir(), 'brupop-released-'));
const clone = join(folder, 'clone');
const stubs = join(folder, 'stubs');
const calls = join(folder, 'calls');
const [workflow] = readWorkflows().filter(({ file }) => file === 'release.yaml');
let registry: TestRegistry;
let env: NodeJS.ProcessEnv;

/** Docker's stand-in reads a password, or pushes the image as an index of one platform, as BuildKit does. */
const DOCKER = `#!/bin/sh
echo "docker $*" >> "$CALLS"
case "$*" in
  login*) test "$(cat)" = secret ;;
  *" build "*) ;;
  *) exit 0 ;;
esac
case "$*" in *" build "*)
  reference=$(printf '%s' "$*" | sed 's/.*,name=\\([^,]*\\),.*/\\1/')
  "$CRANE" append --oci-empty-base --new_layer "$LAYER" --new_tag "$reference-amd64"
  "$CRANE" mutate "$reference-amd64" --set-platform linux/amd64 --user 65532:65532 --workdir /app \\
    --entrypoint /usr/bin/node --tag "$reference-amd64"
  "$CRANE" index append --manifest "$reference-amd64" --tag "$reference"
  printf '{"containerimage.digest":"%s"}' "$("$CRANE" digest "$reference")" > dist/image.json
esac
`;
const KEEPS_ARGUMENTS = `#!/bin/sh
echo "$(basename "$0") $*" >> "$CALLS"
`;
/** The registry has no TLS. */
const HELM = `#!/bin/sh
case "$*" in *oci://*) exec "$HELM" "$@" --plain-http ;; esac
exec "$HELM" "$@"
`;
const NPM = `#!/bin/sh
test "$*" = ci || exec "$NPM" "$@"
`;

/** Makes the file system of the image, as one layer. */
async function makeLayer(): Promise<string> {
  writeFileSync(join(root, 'dist/sbom.cdx.json'), makeSbom(await bundleAll()));
  const image = join(folder, 'image');
  assembleImageRoot({ architecture: process.arch === 'x64' ? 'amd64' : 'arm64', system: '/', output: image });
  const layer = join(folder, 'layer.tar');
  execFileSync('tar', ['-C', image, '--sort=name', '--owner=0', '--group=0', '--numeric-owner', '-cf', layer, '.']);
  return layer;
}

interface Digests {
  readonly image: string | undefined;
  readonly chart: string | undefined;
}

/** What stands for each expression of the workflow, besides the outputs of its steps. */
function values(): Record<string, string> {
  return {
    'vars.REGISTRY': registry.address,
    'vars.OWNER': 'owner',
    'vars.REGISTRY_USER || github.actor': 'user',
    'secrets.REGISTRY_PASSWORD || github.token': 'secret',
    'github.token': 'secret',
  };
}

async function runJob(name: string): Promise<Record<string, string>> {
  if (workflow === undefined) throw new Error('expected .github/workflows/release.yaml');
  return await runScripts(workflow, name, { cwd: clone, env: { ...env, GITHUB_REF_NAME: TAG }, values: values() });
}

/** The commands of a section of the page, with the names of this test. */
function commands(heading: string, mirror = ''): string[] {
  return splitCommands(commandsOf(PAGE, heading)).map((command) =>
    command
      .replaceAll('MIRROR', mirror)
      .replaceAll('REGISTRY', registry.address)
      .replaceAll('OWNER', 'owner')
      .replaceAll('VERSION', VERSION),
  );
}

async function inClone(command: string): Promise<void> {
  await promisify(execFile)('bash', ['-euo', 'pipefail', '-c', command], { cwd: clone, env, timeout: 120_000 });
}

beforeAll(async () => {
  registry = await startRegistry();
  mkdirSync(stubs);
  const scripts = {
    docker: DOCKER,
    helm: HELM,
    npm: NPM,
    cosign: KEEPS_ARGUMENTS,
    gh: KEEPS_ARGUMENTS,
    go: KEEPS_ARGUMENTS,
  };
  for (const [name, text] of Object.entries(scripts)) writeFileSync(join(stubs, name), text, { mode: 0o755 });
  symlinkSync(registry.program, join(stubs, 'crane'));
  copyRepository(clone);
  symlinkSync(join(root, 'node_modules'), join(clone, 'node_modules'));
  writeFileSync(join(clone, '.git/info/exclude'), 'node_modules\n');
  execFileSync('git', ['init', '--quiet', '--bare', join(folder, 'origin')]);
  execFileSync('git', ['remote', 'add', 'origin', join(folder, 'origin')], { cwd: clone });
  env = { ...process.env, DOCKER_CONFIG: folder, CRANE: registry.program, CALLS: calls, LAYER: await makeLayer() };
});

afterAll(async () => {
  await registry.stop();
  rmSync(folder, { recursive: true });
});

it('a tag becomes an image, a chart and a release, which can be installed, also from a mirror', async () => {
  const nodes = fleetNodes(1);
  await withFleet(
    {
      nodes,
      install: async ({ cluster }) => {
        const helm = cluster.assets.helm;
        const npm = execFileSync('which', ['npm'], { encoding: 'utf8' }).trim();
        env = { ...env, ...cluster.env, HELM: helm, NPM: npm, PATH: `${stubs}:${cluster.env['PATH']}` };
        for (const command of commands('Make a release')) await inClone(command);
        const digests = await expectPublished();
        await expectMirrored(digests);
        await expectAnnounced();
        for (const command of splitCommands(commandsOf('README.md', 'Install')).slice(0, 2))
          await runCommands(cluster, command);
        for (const command of commands('Install a release')) await runCommands({ ...cluster, env }, command);
        const path = `/apis/apps/v1/namespaces/${releaseNamespace}/deployments/${CONTROLLER}`;
        const { spec } = await cluster.api.get<V1Deployment>(path);
        const image = `${registry.address}/owner/bottlerocket-update-operator@${digests.image}`;
        expect(spec?.template.spec?.containers.map((container) => container.image)).toEqual([image]);
      },
    },
    async ({ fleet }) => await fleet.untilAllRun(NEW),
  );
});

async function expectPublished(): Promise<Digests> {
  const outputs = await runJob('publish');
  const digests = { image: outputs['steps.image.outputs.digest'], chart: outputs['steps.chart.outputs.digest'] };
  const image = `${registry.address}/owner/bottlerocket-update-operator`;
  const chart = `${registry.address}/owner/charts/bottlerocket-update-operator`;
  expect(await registry.crane('digest', `${image}:${VERSION}`)).toBe(digests.image);
  expect(await registry.crane('digest', `${chart}:${VERSION}`)).toBe(digests.chart);
  const commit = execFileSync('git', ['rev-parse', 'HEAD'], { cwd: clone, encoding: 'utf8' }).trim();
  const called = readFileSync(calls, 'utf8');
  expect(called).toContain(`--platform linux/amd64,linux/arm64 --provenance=mode=max --build-arg REVISION=${commit}`);
  expect(called.match(/^cosign .*$/gmu)).toEqual([
    `cosign sign --yes ${image}@${digests.image}`,
    `cosign attest --yes --type cyclonedx --predicate dist/sbom.cdx.json ${image}@${digests.image}`,
    `cosign sign --yes ${chart}@${digests.chart}`,
  ]);
  return digests;
}

/** The layout on the disk and the image in the other registry are the same image. */
async function expectMirrored(digests: Digests): Promise<void> {
  const mirror = `${registry.address}/mirror`;
  for (const command of commands('Copy a release to a registry of your own', mirror)) await inClone(command);
  expect(existsSync(join(clone, 'image/oci-layout'))).toBe(true);
  const { manifests } = JSON.parse(readFileSync(join(clone, 'image/index.json'), 'utf8')) as {
    manifests: { digest: string }[];
  };
  expect(manifests.map(({ digest }) => digest)).toEqual([digests.image]);
  expect(await registry.crane('digest', `${mirror}/bottlerocket-update-operator:${VERSION}`)).toBe(digests.image);
  await registry.crane('validate', '--remote', `${mirror}/bottlerocket-update-operator:${VERSION}`);
  expect(await registry.crane('digest', `${mirror}/charts/bottlerocket-update-operator:${VERSION}`)).toBe(
    digests.chart,
  );
}

async function expectAnnounced(): Promise<void> {
  rmSync(join(clone, 'dist'), { recursive: true });
  await runJob('announce');
  expect(readdirSync(join(clone, 'dist')).toSorted()).toEqual(
    [
      'notes.md',
      'manifest.yaml',
      'sbom.cdx.json',
      `bottlerocket-update-operator-${VERSION}.tgz`,
      'brupop.yaml',
      'kubectl-brupop',
      'kubectl-brupop.NOTICE',
      `kubectl-brupop-${VERSION}.tar.gz`,
      `kubectl-brupop-${VERSION}.tgz`,
      'npm',
    ].toSorted(),
  );
  expect(readFileSync(join(clone, 'dist/notes.md'), 'utf8')).toContain('- An entry.\n');
  expect(readFileSync(join(clone, 'dist/sbom.cdx.json'), 'utf8')).toContain(`"@brupop/agent@${VERSION}"`);
  const chart = execFileSync(
    'tar',
    ['-xzOf', `bottlerocket-update-operator-${VERSION}.tgz`, '--wildcards', '*/Chart.yaml'],
    {
      cwd: join(clone, 'dist'),
      encoding: 'utf8',
    },
  );
  expect(parse(chart)).toMatchObject({ version: VERSION, appVersion: VERSION });
  expect(readFileSync(calls, 'utf8')).toContain(`gh release create ${TAG} --verify-tag --title ${TAG}`);
}
