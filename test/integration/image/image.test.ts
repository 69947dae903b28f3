import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { jest } from '@jest/globals';
import { parse } from 'yaml';
import { AGENT, APISERVER, CONTROLLER } from '@brupop/shared/api/names';
import { bundleAll } from '../../../scripts/bundle.ts';
import { type Architecture, assembleImageRoot } from '../../../scripts/image-root.ts';
import { makeSbom } from '../../../scripts/sbom.ts';
import { makeServingCertificate } from '../../framework/certificates.ts';
import { find, podOf, renderChart } from '../../framework/chart.ts';
import { freePorts } from '../../framework/control-plane/ports.ts';
import { connectSharedControlPlane } from '../../framework/control-plane/shared.ts';
import { eventually } from '../../framework/eventually.ts';
import { instructionsOf } from '../../framework/kubelet/image.ts';

jest.setTimeout(120_000);

const repository = join(import.meta.dirname, '../../..');
const architecture: Architecture = process.arch === 'x64' ? 'amd64' : 'arm64';
const [libraries, linker] =
  architecture === 'amd64'
    ? ['lib/x86_64-linux-gnu', 'lib64/ld-linux-x86-64.so.2']
    : ['lib/aarch64-linux-gnu', 'lib/ld-linux-aarch64.so.1'];
const folder = mkdtempSync(join(tmpdir(), 'brupop-image-'));
const image = join(folder, 'image');
/** The image with the folders that a container engine adds. */
const container = join(folder, 'container');
const cluster = connectSharedControlPlane();
const running = new Set<ChildProcess>();
/** Who the container runs as. Without root, a user namespace has only this user, who is not root outside. */
const isRoot = process.getuid?.() === 0;
const USER = '65532:65532';

/** The image's file system comes from Debian's packages, so it can only be assembled on such a machine. */
const onDebian = existsSync('/var/lib/dpkg/status') && existsSync(join('/', libraries)) ? describe : describe.skip;

onDebian('the image', () => {
  beforeAll(async () => {
    writeFileSync(join(repository, 'dist/sbom.cdx.json'), makeSbom(await bundleAll()));
    assembleImageRoot({ architecture, system: '/', output: image });
    cpSync(image, container, { recursive: true });
    mkdirSync(join(container, 'proc'));
  });

  afterEach(() => {
    for (const child of running) child.kill('SIGKILL');
    running.clear();
  });

  afterAll(async () => {
    await cluster.close();
    rmSync(folder, { recursive: true });
  });

  it('has Node.js, its libraries, the programs and their licenses: no shell, no package manager, nothing else', () => {
    const documents = ['LICENSE-APACHE', 'LICENSE-MIT', 'NOTICE', 'sbom.cdx.json'];
    const sonames = ['libc.so.6', 'libdl.so.2', 'libgcc_s.so.1', 'libm.so.6', 'libpthread.so.0', 'libstdc++.so.6'];
    const packages = ['libc6', 'libgcc-s1', 'libstdc++6'];
    expect(filesIn(image)).toEqual(
      [
        ...['agent', 'apiserver', 'controller'].map((program) => `app/${program}.mjs`),
        'etc/nsswitch.conf',
        'etc/os-release',
        'usr/bin/node',
        linker,
        ...sonames.map((name) => `${libraries}/${name}`),
        ...documents.map((name) => `usr/share/doc/bottlerocket-update-operator/${name}`),
        'usr/share/doc/nodejs/LICENSE',
        ...packages.flatMap((name) => [`usr/share/doc/${name}/copyright`, `var/lib/dpkg/status.d/${name}`]),
      ].toSorted(),
    );
  });

  it('is the same each time: contents, modes and times, and only the program and its libraries may be executed', () => {
    const again = join(folder, 'again');
    assembleImageRoot({ architecture, system: '/', output: again });
    expect(digestsOf(again)).toEqual(digestsOf(image));
    const executable = filesIn(image).filter((path) => (statSync(join(image, path)).mode & 0o111) !== 0);
    expect(executable.filter((path) => path !== 'usr/bin/node' && !path.startsWith('lib'))).toEqual([]);
    const writable = filesIn(image).filter((path) => (statSync(join(image, path)).mode & 0o022) !== 0);
    expect(writable).toEqual([]);
  });

  it('is what the Dockerfile makes, instruction by instruction', () => {
    const all = instructionsOf(readFileSync(join(repository, 'Dockerfile'), 'utf8'));
    const expected = DOCKERFILE.map(([instruction]) => instruction);
    expect(all.map(([instruction]) => instruction)).toEqual(expected);
    for (const [index, [, rest]] of all.entries()) DOCKERFILE[index]?.[1](rest);
  });

  it('has the program of Node.js that package-lock.json pins, and is at most 136 MB', () => {
    expect(readFileSync(join(image, 'usr/bin/node')).equals(readFileSync(process.execPath))).toBe(true);
    const bytes = filesIn(image).reduce((sum, path) => sum + statSync(join(image, path)).size, 0);
    expect(bytes).toBeLessThan(136_000_000);
  });

  it('runs as a user without rights on a read-only file system, and knows time zones', () => {
    const script = `
      const attempt = (action) => { try { return action(); } catch ({ code }) { return code; } };
      console.log(JSON.stringify({
        written: attempt(() => fs.writeFileSync('/app/x', '')),
        shell: attempt(() => child_process.execFileSync('/bin/sh')),
        root: process.getuid() === 0,
        time: new Date(0).toLocaleTimeString('de', { timeZone: 'Europe/Berlin' }),
      }));`;
    const { stdout, stderr } = run(['-e', script]);
    const expected = { written: 'EROFS', shell: 'ENOENT', root: !isRoot, time: '01:00:00' };
    expect({ stderr, ...(JSON.parse(stdout || '{}') as object) }).toEqual({ stderr: '', ...expected });
  });

  it.each(['agent', 'apiserver', 'controller'])('%s names the setting that is missing', (program) => {
    const { status, stdout, stderr } = run([`/app/${program}.mjs`]);
    expect({ status, output: `${stdout}${stderr}` }).toEqual({
      status: 1,
      output: expect.stringMatching(/"error":"[A-Z_]+: expected a value, found none/u) as string,
    });
  });

  it.each([
    ['DaemonSet', AGENT],
    ['Deployment', APISERVER],
    ['Deployment', CONTROLLER],
  ])('%s %s starts with the settings of the chart, is alive, and ends when asked to', async (kind, name) => {
    const rendered = podOf(find(await renderChart(cluster), kind, name));
    const [port = 0] = await freePorts(1);
    mountAll(rendered);
    const env = { ...environmentOf(rendered), HEALTH_PORT: String(port) };
    const [command, args, options] = inContainer(rendered.container.args ?? [], env);
    const child = spawn(command, args, options);
    running.add(child);
    const output: string[] = [];
    for (const stream of [child.stdout, child.stderr]) stream?.on('data', (text: Buffer) => output.push(String(text)));
    const exit = once(child, 'exit');
    try {
      await eventually(async () => {
        expect((await fetch(`http://127.0.0.1:${port}/livez`)).status).toBe(200);
      });
    } catch (error) {
      throw new Error(`${name} is not alive: ${output.join('')}`, { cause: error });
    }
    child.kill('SIGTERM');
    expect({ exit: await exit, output: output.join('') }).toMatchObject({ exit: [0, null] });
  });
});

/** Every instruction of the Dockerfile in its order, with what it does to the image. */
const DOCKERFILE: readonly (readonly [string, (rest: string) => void])[] = [
  ['ARG', (rest) => expect(rest).toMatch(/^BASE_IMAGE=/u)],
  // The image has libraries of this stage, and nothing else of it.
  ['FROM', (rest) => expect(rest).toBe('${BASE_IMAGE} AS system')],
  ['FROM', (rest) => expect(rest).toBe('--platform=$BUILDPLATFORM ${BASE_IMAGE} AS build')],
  ['ARG', (rest) => expect(rest).toBe('BASE_IMAGE')],
  ['RUN', (rest) => expect(rest).toMatch(/^case "\$\{BASE_IMAGE\}" in \*@sha256:\*\) ;; .* exit 1 ;; esac$/u)],
  ['WORKDIR', (rest) => expect(rest).toBe('/src')],
  ...Array.from({ length: 7 }, () => ['COPY', expectSent] as const),
  ['RUN', (rest) => expect(rest).toBe('npm ci')],
  ...Array.from({ length: 3 }, () => ['COPY', expectSent] as const),
  ['ARG', (rest) => expect(rest).toBe('REVISION=unknown')],
  ['RUN', (rest) => expect(rest).toBe('npm run build && npm run sbom')],
  ['ARG', (rest) => expect(rest).toBe('TARGETARCH')],
  ['RUN', expectSameImage],
  ['FROM', (rest) => expect(rest).toBe('scratch')],
  ['ARG', (rest) => expect(rest).toBe('REVISION=unknown')],
  ['LABEL', expectLabels],
  ['COPY', (rest) => expect(rest).toBe('--from=build /image/ /')],
  ['WORKDIR', (rest) => expect(existsSync(join(image, rest, 'agent.mjs'))).toBe(true)],
  ['USER', (rest) => expect(rest).toBe(USER)],
  // A variable that glibc does not know has no effect, and no error either.
  ['ENV', (rest) => expect(rest).toBe('MALLOC_ARENA_MAX=1 MALLOC_MMAP_THRESHOLD_=131072')],
  ['ENTRYPOINT', (rest) => expect(statSync(join(image, (JSON.parse(rest) as [string])[0])).mode & 0o001).toBe(1)],
];

/** The files are there, and .dockerignore sends them. */
function expectSent(rest: string): void {
  const sent = readFileSync(join(repository, '.dockerignore'), 'utf8')
    .split('\n')
    .flatMap((line) => (line.startsWith('!') ? [line.slice(1).replace(/\*$/u, '')] : []));
  const files = rest.split(' ').slice(0, -1);
  expect(files.filter((file) => !existsSync(join(repository, file)))).toEqual([]);
  expect(files.filter((file) => !sent.some((start) => file.startsWith(start)))).toEqual([]);
}

/** The command, with the system and the folder of this test, assembles the image. */
function expectSameImage(rest: string): void {
  const mount = '--mount=type=bind,from=system,source=/,target=/system ';
  expect(rest.startsWith(mount)).toBe(true);
  const output = join(folder, 'by-command');
  const command = rest.replace(mount, '').replace('--system /system', '--system /').replace('/image', output);
  const { status, stderr } = spawnSync('sh', ['-c', command], {
    cwd: repository,
    encoding: 'utf8',
    env: { ...process.env, TARGETARCH: architecture },
  });
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
  expect(digestsOf(output)).toEqual(digestsOf(image));
}

function expectLabels(rest: string): void {
  const chart = parse(readFileSync(join(repository, 'charts/bottlerocket-update-operator/Chart.yaml'), 'utf8')) as {
    name: string;
    home: string;
    version: string;
  };
  const { license } = JSON.parse(readFileSync(join(repository, 'package.json'), 'utf8')) as { license: string };
  const labels = rest.matchAll(/org\.opencontainers\.image\.(?<name>\w+)=(?:"(?<quoted>[^"]*)"|(?<plain>\S+))/gu);
  const found = [...labels].map(({ groups }) => [groups?.['name'], groups?.['quoted'] ?? groups?.['plain']]);
  expect(Object.fromEntries(found)).toEqual({
    title: chart.name,
    description: expect.any(String) as string,
    licenses: license,
    source: chart.home,
    version: chart.version,
    revision: '${REVISION}',
  });
}

type Pod = ReturnType<typeof podOf>;

function run(args: readonly string[]): { status: number | null; stdout: string; stderr: string } {
  const [command, words, options] = inContainer(args);
  return spawnSync(command, words, { ...options, encoding: 'utf8' });
}

/** How Node.js is run in a file system that is the container's root, read-only, with nothing but `env`. */
function inContainer(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): [string, string[], { env: NodeJS.ProcessEnv; stdio: ['ignore', 'pipe', 'pipe']; timeout: number }] {
  const script = [
    'mount --bind "$0" "$0"',
    'mount -o remount,ro,bind "$0"',
    'mount --rbind /proc "$0/proc"',
    `chroot=$(command -v chroot) && exec env -i ${Object.keys(env)
      .map((key) => `${key}="$BRUPOP_${key}"`)
      .join(' ')} "$chroot" ${isRoot ? `--userspec=${USER} --groups=` : ''} "$0" /usr/bin/node "$@"`,
  ].join(' && ');
  const inherited = Object.fromEntries(Object.entries(env).map(([key, value]) => [`BRUPOP_${key}`, value]));
  return [
    'unshare',
    [...(isRoot ? [] : ['--map-root-user']), '--mount', 'sh', '-c', script, container, ...args],
    {
      env: { PATH: `${process.env['PATH']}:/usr/sbin:/sbin`, ...inherited },
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: 60_000,
    },
  ];
}

const SERVICE_ACCOUNT = '/var/run/secrets/kubernetes.io/serviceaccount';

/** Puts a token and certificates where the pod mounts folders, and a boot ID where it mounts a file of the host. */
function mountAll({ pod, container: { volumeMounts = [] } }: Pod): void {
  const files = pod.volumes?.filter(({ hostPath }) => ['File', 'Socket'].includes(hostPath?.type ?? ''));
  const isFile = (volume: string): boolean => files?.some(({ name }) => name === volume) === true;
  for (const { name, mountPath } of volumeMounts) {
    const path = join(container, mountPath);
    mkdirSync(dirname(path), { recursive: true });
    if (isFile(name)) writeFileSync(path, '6ba1ff1e-b7d5-4c3c-9f0e-0d3c0c9a4b11\n');
    else fill(path);
  }
  fill(join(container, SERVICE_ACCOUNT));
  writeFileSync(join(container, SERVICE_ACCOUNT, 'ca.crt'), readFileSync(cluster.caFile));
}

function fill(path: string): void {
  const { caCert, cert, key } = makeServingCertificate({ commonName: 'x', dnsNames: ['x'], ipAddresses: [] });
  const token = cluster.tokens.unprivileged;
  const files = { 'tls.crt': cert, 'tls.key': key, 'ca.crt': caCert, token: token, 'brupop-apiserver': token };
  mkdirSync(path, { recursive: true });
  for (const [name, text] of Object.entries(files)) writeFileSync(join(path, name), text);
}

/** The container's environment; what refers to the pod or to a Service is on the loopback interface. */
function environmentOf({ container: { env = [] } }: Pod): Record<string, string> {
  const { hostname, port } = new URL(cluster.url);
  const values = env.map(({ name, value }): [string, string] => [
    name,
    (value ?? (name.endsWith('_IP') ? '127.0.0.1' : 'test'))
      .replaceAll(/\$\(\w+_HOST\)/gu, '127.0.0.1')
      .replaceAll(/\$\(\w+_PORT\)/gu, '9'),
  ]);
  return { ...Object.fromEntries(values), KUBERNETES_SERVICE_HOST: hostname, KUBERNETES_SERVICE_PORT: port };
}

function filesIn(root: string): string[] {
  return readdirSync(root, { withFileTypes: true, recursive: true })
    .filter((entry) => !entry.isDirectory())
    .map((entry) => join(entry.parentPath, entry.name).slice(root.length + 1))
    .toSorted();
}

function digestsOf(root: string): string[] {
  return filesIn(root).map((path) => {
    const { mode, mtimeMs } = statSync(join(root, path));
    return `${path} ${mode} ${mtimeMs} ${createHash('sha256')
      .update(readFileSync(join(root, path)))
      .digest('hex')}`;
  });
}
