import { type ChildProcess, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { eventually } from '../eventually.ts';
import { isAlive } from './lock.ts';
import { buildLine, type ObtainOptions, obtainPrograms } from './obtain.ts';
import { programs } from './versions.ts';

/**
 * Stands in for Go: notes what it builds and its own id, and writes each output in two steps with a
 * pause between.
 */
const fakeGo = `#!/bin/sh
while [ "$1" != -o ]; do shift; done
folder=$2
shift 2
echo $$ > "$GO_LOG.pid"
for package in "$@"; do
  echo "$package" >> "$GO_LOG"
  name=$(basename "\${package%/v[0-9]}")
  case $package in go.etcd.io/*) name=server;; esac
  printf partial > "$folder/$name"
  sleep "$GO_PAUSE"
  printf whole > "$folder/$name"
  echo "$package" >&2
done
`;

const nowhere = { kubernetes: '', etcd: '', kwok: '', helm: '' };

describe('obtainPrograms', () => {
  let folder = '';
  let cacheFolder = '';
  let goLog = '';
  const said: string[] = [];
  const children: ChildProcess[] = [];

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'brupop-obtain-'));
    cacheFolder = join(folder, 'cache');
    goLog = join(folder, 'go.log');
    mkdirSync(join(folder, 'bin'));
    writeFileSync(join(folder, 'bin', 'go'), fakeGo);
    chmodSync(join(folder, 'bin', 'go'), 0o755);
    said.length = 0;
    process.env['GO_LOG'] = goLog;
    process.env['GO_PAUSE'] = '0';
  });

  afterEach(() => {
    for (const child of children.splice(0)) child.kill('SIGKILL');
    rmSync(folder, { recursive: true, force: true });
  });

  const options = (more: ObtainOptions = {}): ObtainOptions => ({
    assetsFolder: '',
    cacheFolder,
    bases: nowhere,
    go: join(folder, 'bin', 'go'),
    say: (line) => void said.push(line),
    ...more,
  });
  const built = (): string[] => (existsSync(goLog) ? readFileSync(goLog, 'utf8').trim().split('\n') : []);

  test('builds what it finds nowhere, once', async () => {
    const paths = await obtainPrograms(options());
    expect(Object.keys(paths).toSorted()).toEqual([...programs].toSorted());
    for (const path of Object.values(paths)) expect(readFileSync(path, 'utf8')).toBe('whole');
    expect(said).toContainEqual(
      expect.stringMatching(/^building kube-apiserver, .*helm: 0 packages of at most \d+, 0s so far$/),
    );
    await obtainPrograms(options());
    expect(built()).toHaveLength(programs.length);
    expect(readdirSync(cacheFolder)).toEqual(['bin']);
  });

  test('says how far a build is, and of how many packages only if that is known', () => {
    expect(buildLine(['etcd'], 12, 564, 72_000)).toBe('building etcd: 12 packages of at most 564, 1m12s so far');
    expect(buildLine(['prometheus'], 12, 0, 72_000)).toBe('building prometheus: 12 packages, 1m12s so far');
  });

  test('prefers the programs of the assets folder, and obtains those that it lacks', async () => {
    const assetsFolder = join(folder, 'assets');
    mkdirSync(assetsFolder);
    writeFileSync(join(assetsFolder, 'etcd'), 'given');
    const paths = await obtainPrograms(options({ assetsFolder, wanted: ['etcd', 'kwok'] }));
    expect(paths.etcd).toBe(join(assetsFolder, 'etcd'));
    expect(built()).toEqual(['sigs.k8s.io/kwok/cmd/kwok']);
  });

  test('downloads what is published, and builds only the rest', async () => {
    const sum = createHash('sha256').update('published').digest('hex');
    const server = createServer(({ url = '' }, response) => {
      if (!url.includes('kubectl')) response.writeHead(404);
      response.end(url.endsWith('.sha256') ? sum : 'published');
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const kubernetes = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const wanted = ['kubectl', 'kube-scheduler'] as const;
    const paths = await obtainPrograms(options({ bases: { ...nowhere, kubernetes }, wanted }));
    server.close();
    expect(readFileSync(paths.kubectl, 'utf8')).toBe('published');
    expect(built()).toEqual(['k8s.io/kubernetes/cmd/kube-scheduler']);
    expect(said).toContainEqual(expect.stringMatching(/status 404; kube-scheduler will be built/));
  });

  test('asks a server that is out of reach only once', async () => {
    const kubernetes = 'http://127.0.0.1:1';
    await obtainPrograms(options({ bases: { ...nowhere, kubernetes }, wanted: ['kubectl', 'kube-scheduler'] }));
    expect(said.filter((line) => line.includes('out of reach'))).toHaveLength(1);
    expect(built()).toHaveLength(2);
  });

  test('says what to do when there is no Go, and keeps nothing', async () => {
    await expect(obtainPrograms(options({ go: join(folder, 'no-go') }))).rejects.toThrow(
      /cannot run .*no-go, which etcd would be built with/,
    );
    expect(readdirSync(cacheFolder)).toEqual([]);
  });

  test('a failed build leaves nothing behind and shows what Go printed', async () => {
    writeFileSync(join(folder, 'bin', 'go'), '#!/bin/sh\necho "no module" >&2\nexit 1\n');
    await expect(obtainPrograms(options())).rejects.toThrow(/building etcd failed \(exit 1\):\nno module/);
    expect(readdirSync(cacheFolder)).toEqual([]);
  });

  describe('in processes of their own', () => {
    function start(pause: string): { child: ChildProcess; printed: () => string } {
      const env = {
        ...process.env,
        KUBEBUILDER_ASSETS: '',
        XDG_CACHE_HOME: folder,
        GO_PAUSE: pause,
        PATH: `${join(folder, 'bin')}:${process.env['PATH']}`,
        ...Object.fromEntries(Object.keys(nowhere).map((project) => [`BRUPOP_DOWNLOAD_${project.toUpperCase()}`, ''])),
      };
      const child = spawn(process.execPath, [join(import.meta.dirname, 'cli.ts'), 'obtain'], { env });
      children.push(child);
      let printed = '';
      child.stderr.on('data', (text: Buffer) => (printed += text.toString()));
      return { child, printed: () => printed };
    }

    const filesBelow = (name: string): string[] =>
      readdirSync(join(folder, name), { recursive: true, withFileTypes: true })
        .filter((entry) => entry.isFile())
        .map((entry) => entry.name);

    test.each(['SIGINT', 'SIGKILL'] as const)(
      'a build ended by %s leaves no program and no process, and the next one succeeds',
      async (signal) => {
        const first = start('60');
        await eventually(() => expect(existsSync(`${goLog}.pid`)).toBe(true));
        const goPid = Number(
          await eventually(() => readFileSync(`${goLog}.pid`, 'utf8').match(/^\d+\n/)?.[0] ?? fail()),
        );
        first.child.kill(signal);
        await once(first.child, 'exit');
        await eventually(() => expect(isAlive(goPid)).toBe(false));
        await eventually(() => expect(filesBelow('bottlerocket-update-operator')).toEqual(['lock']));
        const second = start('0');
        expect(await once(second.child, 'exit')).toEqual([0, null]);
        expect(filesBelow('bottlerocket-update-operator').toSorted()).toEqual([...programs].toSorted());
      },
      30_000,
    );

    test('two at once share one build; the second takes over when the first dies', async () => {
      const first = start('60');
      await eventually(() => expect(built()).toHaveLength(1));
      const second = start('0.01');
      const third = start('0.01');
      for (const { printed } of [second, third]) {
        await eventually(() => expect(printed()).toContain(`waiting for process ${first.child.pid}`));
      }
      first.child.kill('SIGKILL');
      const exits = await Promise.all([once(second.child, 'exit'), once(third.child, 'exit')]);
      expect(exits).toEqual([
        [0, null],
        [0, null],
      ]);
      expect(built()).toHaveLength(1 + programs.length);
    }, 30_000);
  });
});

function fail(): never {
  throw new Error('not yet');
}
