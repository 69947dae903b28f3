/** How the plugin connects: kubeconfigs, programs that print credentials, proxies, and `--watch` while requests fail. */
import { execFileSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import {
  type AddressInfo,
  connect,
  createServer as createSocksServer,
  type Server as SocksServer,
  type Socket,
} from 'node:net';
import { join } from 'node:path';
import { jest } from '@jest/globals';
import { Plugin } from '../../framework/cli/plugin.ts';
import { type ControlPlane, startControlPlane } from '../../framework/control-plane/start.ts';
import { installCrds } from '../../framework/crds.ts';
import { eventually } from '../../framework/eventually.ts';
import { FaultyApi } from '../../framework/faulty-api/faulty-api.ts';

jest.setTimeout(180_000);

const CONFIG = '/apis/brupop.bottlerocket.aws/v1alpha1/brupopconfigs';
const EXEC_VERSION = 'client.authentication.k8s.io/v1';

let cluster: ControlPlane;
let plugin: Plugin;

beforeAll(async () => {
  cluster = await startControlPlane();
  plugin = await Plugin.build(cluster);
  await installCrds(cluster);
  await cluster.api.create(CONFIG, {
    apiVersion: 'brupop.bottlerocket.aws/v1alpha1',
    kind: 'BrupopConfig',
    metadata: { name: 'cluster' },
    spec: { paused: true, pauseReason: 'the first reason' },
  });
});

beforeEach(() => {
  for (const name of Object.keys(plugin.users)) delete plugin.users[name];
  plugin.users['admin'] = { token: cluster.adminToken };
});

afterAll(async () => {
  await cluster.stop();
  plugin.remove();
});

const seesFleet = { code: 0, stderr: '', stdout: expect.stringContaining('Paused: ') as string };

/** Writes a program into the folder `bin` of the plugin's folder, and returns its path. */
function program(name: string, script: string): string {
  mkdirSync(join(plugin.folder, 'bin'), { recursive: true });
  const path = join(plugin.folder, 'bin', name);
  writeFileSync(path, `#!/bin/sh\n${script}\n`);
  chmodSync(path, 0o755);
  return path;
}

function credential(status: object): string {
  return JSON.stringify({ apiVersion: EXEC_VERSION, kind: 'ExecCredential', status });
}

function exec(command: string, more: object = {}): object {
  return { exec: { apiVersion: EXEC_VERSION, interactiveMode: 'IfAvailable', command, ...more } };
}

describe('kubeconfigs', () => {
  it('of several files, the first that says something counts, and a missing one is left out', async () => {
    const second = join(plugin.folder, 'second');
    writeFileSync(second, readFileSync(plugin.kubeconfig(), 'utf8').replaceAll('"admin"', '"other"'));
    plugin.users['admin'] = { token: 'expired' };
    const first = plugin.kubeconfig();
    const missing = join(plugin.folder, 'missing');
    const KUBECONFIG = [missing, first, second].join(':');
    expect((await plugin.runWith({ KUBECONFIG }, 'status')).stderr).toContain('context admin: the credentials');
    expect(await plugin.runWith({ KUBECONFIG }, '--context', 'other', 'status')).toMatchObject(seesFleet);
    expect(await plugin.runWith({ KUBECONFIG }, '--kubeconfig', second, 'status')).toMatchObject(seesFleet);
  });

  it('has paths that are relative to its folder', async () => {
    mkdirSync(join(plugin.folder, 'relative'));
    writeFileSync(join(plugin.folder, 'relative', 'ca.crt'), readFileSync(cluster.caFile));
    writeFileSync(join(plugin.folder, 'relative', 'token'), `${cluster.adminToken}\n`);
    plugin.users['admin'] = { tokenFile: 'token' };
    const KUBECONFIG = plugin.kubeconfig({ 'certificate-authority': 'ca.crt' }, 'relative/config');
    expect(await plugin.runWith({ KUBECONFIG }, 'status')).toMatchObject(seesFleet);
  });

  it.each([
    ['apiVersion: v1\nusers: [a\n - secret-token', 'in line 3'],
    ['', 'the kubeconfig has no current context'],
    ['current-context: gone', 'the current context "gone" is not in the kubeconfig'],
    ['{current-context: a, contexts: [{name: a, context: {cluster: b}}]}', 'expected the cluster "b"'],
  ])('with the text %j it is refused, and not quoted', async (text, problem) => {
    const KUBECONFIG = join(plugin.folder, 'wrong');
    writeFileSync(KUBECONFIG, text);
    const { code, stderr } = await plugin.runWith({ KUBECONFIG }, 'status');
    expect(stderr).toContain(problem);
    expect(stderr).not.toContain('secret-token');
    expect(code).toBe(1);
  });

  it('is read as by kubectl with empty fields, a field twice, a merge and a second document', async () => {
    const KUBECONFIG = join(plugin.folder, 'generated');
    const lines = [
      'preferences: {}',
      'preferences: {}',
      'current-context: a',
      'contexts: [{ name: a, context: { cluster: a, user: a } }]',
      `common: &common { certificate-authority: ${cluster.caFile}, certificate-authority-data: "", proxy-url: "" }`,
      `clusters: [{ name: a, cluster: { <<: *common, server: "${cluster.url}" } }]`,
      `users: [{ name: a, user: { token: ${cluster.adminToken}, tokenFile: "", as: "", as-user-extra: null } }]`,
      '---',
      'current-context: b',
    ];
    writeFileSync(KUBECONFIG, lines.join('\n'));
    expect(await plugin.runWith({ KUBECONFIG }, 'status')).toMatchObject(seesFleet);
  });

  it('without an authority has those of this machine', async () => {
    const KUBECONFIG = plugin.kubeconfig({ 'certificate-authority': undefined });
    expect((await plugin.runWith({ KUBECONFIG }, 'status')).stderr).toContain('certificate');
    expect(await plugin.runWith({ KUBECONFIG, SSL_CERT_FILE: cluster.caFile }, 'status')).toMatchObject(seesFleet);
  });

  it('that does not exist is named', async () => {
    const env = { KUBECONFIG: '', HOME: join(plugin.folder, 'bin') };
    expect((await plugin.runWith(env, 'status')).stderr).toContain('there is no kubeconfig: expected ');
    expect((await plugin.run('--kubeconfig', '/none', 'status')).stderr).toContain('/none');
  });

  it('checks the certificate for tls-server-name', async () => {
    const right = plugin.kubeconfig({ 'tls-server-name': 'kubernetes.default.svc' }, 'right');
    expect(await plugin.runWith({ KUBECONFIG: right }, 'status')).toMatchObject(seesFleet);
    const wrong = plugin.kubeconfig({ 'tls-server-name': 'another.host' }, 'wrong');
    expect((await plugin.runWith({ KUBECONFIG: wrong }, 'status')).stderr).toContain('another.host');
  });

  it('impersonates the user and the groups that it names', async () => {
    plugin.users['admin'] = { token: cluster.adminToken, as: 'jane' };
    expect((await plugin.run('status')).stderr).toContain('missing permission');
    plugin.users['admin'] = { token: cluster.adminToken, as: 'jane', 'as-groups': ['system:masters'] };
    expect(await plugin.run('status')).toMatchObject(seesFleet);
  });
});

describe('a proxy', () => {
  let proxy: Server;
  let socks: SocksServer;
  const tunnels: string[] = [];
  const hostOf = (server: Server | SocksServer): string => `127.0.0.1:${(server.address() as AddressInfo).port}`;

  /** Connects to the API server, whatever the name that a client asks for: only the proxy knows it. */
  function tunnel(to: string, client: Socket, granted: string | Uint8Array): void {
    tunnels.push(to);
    const server = connect(Number(new URL(cluster.url).port), '127.0.0.1', () => {
      client.write(granted);
      server.pipe(client).pipe(server);
    });
    for (const socket of [client, server]) socket.on('error', () => undefined);
  }

  beforeAll(async () => {
    proxy = createServer().on('connect', ({ url = '' }: IncomingMessage, client: Socket) => {
      tunnel(url, client, 'HTTP/1.1 200 OK\r\n\r\n');
    });
    // RFC 1928: a greeting, and then a request for a name (3) or an address.
    socks = createSocksServer((client) => {
      client.once('data', () => {
        client.write(Uint8Array.of(5, 0));
        client.once('data', (request: Buffer) => {
          const name = request[3] === 3 ? request.subarray(5, -2).toString() : 'an address';
          tunnel(name, client, Uint8Array.of(5, 0, 0, 1, 0, 0, 0, 0, 0, 0));
        });
      });
    });
    await new Promise<void>((done) => void proxy.listen(0, '127.0.0.1', done));
    await new Promise<void>((done) => void socks.listen(0, '127.0.0.1', done));
  });

  beforeEach(() => void tunnels.splice(0));

  afterAll(() => {
    proxy.close();
    socks.close();
  });

  function named(more: object = {}): string {
    return plugin.kubeconfig({ server: 'https://k8s.invalid:6443', 'tls-server-name': 'kubernetes', ...more });
  }

  it('of the kubeconfig is used', async () => {
    const KUBECONFIG = plugin.kubeconfig({ 'proxy-url': `http://${hostOf(proxy)}` });
    expect(await plugin.runWith({ KUBECONFIG }, 'status')).toMatchObject(seesFleet);
    expect(new Set(tunnels)).toEqual(new Set([new URL(cluster.url).host]));
  });

  it('is used by a Node.js before 24.5 as well, whose agents know no proxies', async () => {
    const older = join(plugin.folder, 'older.cjs');
    const agent = 'class extends https.Agent { constructor({ proxyEnv, ...rest } = {}) { super(rest); } }';
    const lacks = `require('node:tls').setDefaultCACertificates = undefined;`;
    writeFileSync(older, `const https = require('node:https'); ${lacks} https.Agent = ${agent};`);
    const env = { KUBECONFIG: named({ 'proxy-url': `http://${hostOf(proxy)}` }), NODE_OPTIONS: `--require=${older}` };
    expect(await plugin.runWith(env, 'status')).toMatchObject(seesFleet);
    expect(new Set(tunnels)).toEqual(new Set(['k8s.invalid:6443']));
  });

  it('is asked for an IPv6 address in brackets', async () => {
    const server = { server: 'https://[fd00::6]:6443', 'tls-server-name': 'kubernetes' };
    const KUBECONFIG = plugin.kubeconfig({ ...server, 'proxy-url': `http://${hostOf(proxy)}` });
    expect(await plugin.runWith({ KUBECONFIG }, 'status')).toMatchObject(seesFleet);
    expect(new Set(tunnels)).toEqual(new Set(['[fd00::6]:6443']));
  });

  it('of SOCKS gets the name of the server, which only it may know', async () => {
    const KUBECONFIG = named({ 'proxy-url': `socks5://${hostOf(socks)}` });
    expect(await plugin.runWith({ KUBECONFIG }, 'status')).toMatchObject(seesFleet);
    expect(new Set(tunnels)).toEqual(new Set(['k8s.invalid']));
  });

  it('of HTTPS_PROXY is used, except for what NO_PROXY names', async () => {
    const KUBECONFIG = named();
    for (const HTTPS_PROXY of [`http://${hostOf(proxy)}`, hostOf(proxy), `socks5://${hostOf(socks)}`])
      expect(await plugin.runWith({ KUBECONFIG, HTTPS_PROXY }, 'status')).toMatchObject(seesFleet);
    expect(new Set(tunnels)).toEqual(new Set(['k8s.invalid:6443', 'k8s.invalid']));
    tunnels.splice(0);
    const env = { KUBECONFIG, HTTPS_PROXY: hostOf(proxy), NO_PROXY: '10.0.0.0/8,invalid' };
    expect((await plugin.runWith(env, 'status')).stderr).toContain('getaddrinfo');
    expect(tunnels).toEqual([]);
  });

  it('that does not answer is named', async () => {
    const KUBECONFIG = plugin.kubeconfig({ 'proxy-url': 'http://127.0.0.1:1' });
    expect((await plugin.runWith({ KUBECONFIG }, 'status')).stderr).toContain('ECONNREFUSED 127.0.0.1:1');
  });
});

describe('a program that prints credentials', () => {
  it('is found beside the kubeconfig, and gets what the protocol says', async () => {
    const info = join(plugin.folder, 'info.json');
    const answer = credential({ token: cluster.adminToken });
    program('relative-exec', `printf '%s' "$KUBERNETES_EXEC_INFO" > ${info}; echo "$OWN" >&2; echo '${answer}'`);
    const env = [{ name: 'OWN', value: 'said by the program' }];
    plugin.users['admin'] = exec('./bin/relative-exec', { provideClusterInfo: true, env });
    const extensions = [{ name: 'client.authentication.k8s.io/exec', extension: { audience: 'a' } }];
    const { code, stderr } = await plugin.runWith({ KUBECONFIG: plugin.kubeconfig({ extensions }) }, 'status');
    expect({ code, stderr }).toEqual({ code: 0, stderr: 'said by the program\n' });
    const { spec, apiVersion } = JSON.parse(readFileSync(info, 'utf8')) as {
      apiVersion: string;
      spec: { interactive: boolean; cluster: Record<string, string> & { config: object } };
    };
    expect(spec.cluster.config).toEqual({ audience: 'a' });
    expect({ apiVersion, interactive: spec.interactive, server: spec.cluster['server'] }).toEqual({
      apiVersion: EXEC_VERSION,
      interactive: false,
      server: cluster.url,
    });
    const ca = Buffer.from(spec.cluster['certificate-authority-data'] ?? '', 'base64').toString();
    expect(ca).toBe(readFileSync(cluster.caFile, 'utf8'));
  });

  it('may ask something on the terminal', async () => {
    const answer = credential({ token: 'TOKEN' });
    const path = program('asks', `printf 'Password: ' >&2; read -r token; echo '${answer}' | sed "s/TOKEN/$token/"`);
    plugin.users['admin'] = exec(path, { interactiveMode: 'Always' });
    const KUBECONFIG = plugin.kubeconfig();
    const command = `${process.execPath} ${plugin.program} status`;
    const text = execFileSync('script', ['-qec', command, '/dev/null'], {
      input: `${cluster.adminToken}\n`,
      env: { ...process.env, KUBECONFIG, TERM: 'xterm' },
      encoding: 'utf8',
    });
    expect(text).toContain('Password: ');
    expect(text).toContain('Paused: ');
    expect((await plugin.run('status')).stderr).toContain('standard input is no terminal');
  });

  it.each([
    ['exit 3', 'ended with 3'],
    ['echo secret-token', 'expected an ExecCredential with a status'],
    [`echo '${credential({})}'`, 'expected a token, or a certificate and its key'],
  ])('that does %j is named, and its output is not quoted', async (script, problem) => {
    plugin.users['admin'] = exec(program('fails', script));
    const { code, stderr } = await plugin.run('status');
    expect(stderr).toContain(problem);
    expect(stderr).not.toContain('secret-token');
    expect(code).toBe(1);
  });

  it('that is not installed is named, with its hint', async () => {
    plugin.users['admin'] = exec('no-such-program', { installHint: 'Install it with care.' });
    expect((await plugin.run('status')).stderr).toMatch(/no-such-program cannot be run: .*; Install it with care\./u);
  });

  it('runs again when a credential has expired, and when it is refused', async () => {
    const [count, token] = [join(plugin.folder, 'count'), join(plugin.folder, 'current-token')];
    const expired = '2020-01-01T00:00:00Z';
    writeFileSync(token, cluster.adminToken);
    const answer = credential({ token: 'TOKEN', expirationTimestamp: expired });
    plugin.users['admin'] = exec(
      program('expires', `echo run >> ${count}; echo '${answer}' | sed "s/TOKEN/$(cat ${token})/"`),
    );
    expect(await plugin.run('status')).toMatchObject(seesFleet);
    expect(readFileSync(count, 'utf8')).toBe('run\nrun\n');
    const once = join(plugin.folder, 'once');
    const refused = credential({ token: 'refused' });
    const granted = credential({ token: cluster.adminToken });
    const script = `[ -e ${once} ] && echo '${granted}' || { touch ${once}; echo '${refused}'; }`;
    plugin.users['admin'] = exec(program('refused', script));
    expect(await plugin.run('status')).toMatchObject(seesFleet);
    expect(existsSync(once)).toBe(true);
  });
});

describe('--watch', () => {
  let faulty: FaultyApi;

  beforeAll(async () => {
    faulty = await FaultyApi.start(cluster);
  });

  beforeEach(() => faulty.clear());

  afterAll(async () => await faulty.stop());

  async function pause(reason: string): Promise<void> {
    await cluster.api.patch(`${CONFIG}/cluster`, { spec: { paused: true, pauseReason: reason } });
  }

  function watch(...args: string[]) {
    const server = { server: faulty.url, 'certificate-authority-data': Buffer.from(faulty.ca).toString('base64') };
    const KUBECONFIG = plugin.kubeconfig({ ...server, 'certificate-authority': undefined });
    return plugin.start({ KUBECONFIG }, 'status', '--watch', ...args);
  }

  it('shows changes, and ends with Ctrl-C', async () => {
    await pause('before the watch');
    const watching = watch();
    await eventually(() => expect(watching.stdout()).toContain('Paused: before the watch'));
    await pause('during the watch');
    await eventually(() => expect(watching.stdout()).toContain('Paused: during the watch'));
    expect(await watching.end('SIGINT')).toBe(130);
    expect(watching.stderr()).toBe('');
  });

  it('goes on after a watch that has expired', async () => {
    faulty.set({ match: { verbs: ['watch'] }, answer: { kind: 'error-event', status: 410 }, times: 2 });
    await pause('before it expires');
    const watching = watch();
    await eventually(() => expect(faulty.count('list')).toBeGreaterThanOrEqual(4));
    await pause('after it has expired');
    await eventually(() => expect(watching.stdout()).toContain('Paused: after it has expired'));
    expect(watching.stderr()).toBe('');
    await watching.end('SIGINT');
  });

  it('says since when it is stale while requests fail, and goes on afterwards', async () => {
    await pause('before the outage');
    const watching = watch('-o', 'json');
    await eventually(() => expect(watching.stdout()).toContain('"nodes"'));
    faulty.set({ answer: { kind: 'status', status: 503 } });
    faulty.interrupt({ kind: 'reset' });
    await eventually(() => expect(watching.stderr()).toMatch(/^stale since 20\S+Z: .*503 the test answers 503/mu));
    faulty.clear();
    await cluster.api.patch(`${CONFIG}/cluster/status`, { status: { nodes: counts(7) } });
    await eventually(() => expect(watching.stdout()).toContain('"managed": 7'));
    expect(await watching.end('SIGTERM')).toBe(143);
  });

  it('ends without an error when its reader has gone', async () => {
    await pause('for a reader');
    const watching = watch();
    await eventually(() => expect(watching.stdout()).toContain('Paused: for a reader'));
    watching.child.stdout?.destroy();
    await pause('for no reader');
    await eventually(() => expect(watching.child.exitCode).toBe(0));
    expect(watching.stderr()).toBe('');
  });
});

function counts(managed: number): object {
  return { managed, upToDate: 0, updating: 0, waiting: managed, failed: 0 };
}
