import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { jest } from '@jest/globals';
import type { V1Pod } from '@kubernetes/client-node';
import { createNamespace } from '../../framework/control-plane/namespaces.ts';
import { connectSharedControlPlane } from '../../framework/control-plane/shared.ts';
import { eventually } from '../../framework/eventually.ts';
import { canSwitchUser, letThrough } from '../../framework/kubelet/users.ts';
import {
  arrange,
  type Arrangement,
  isReady,
  isRunning,
  podOf,
  probe,
  Program,
  untilEnded,
} from './kubelet/arrangement.ts';

jest.setTimeout(60_000);

const cluster = connectSharedControlPlane();
let namespace = '';
let dir = '';

beforeAll(async () => {
  namespace = await createNamespace(cluster, 'kubelet');
  dir = await mkdtemp(join(tmpdir(), 'brupop-test-'));
  letThrough(dir);
});

afterAll(async () => {
  await cluster.api.delete(`/api/v1/namespaces/${namespace}`);
  await cluster.close();
  await rm(dir, { recursive: true, force: true });
});

const path = (resource: string, name = ''): string =>
  `/api/v1/namespaces/${namespace}/${resource}${name && `/${name}`}`;
const getPod = async (name: string): Promise<V1Pod> => await cluster.api.get<V1Pod>(path('pods', name));
const create = async (pod: object): Promise<V1Pod> => await cluster.api.create<V1Pod>(path('pods'), pod);
const remove = async (name: string): Promise<void> => await cluster.api.delete(path('pods', name));
const stateOf = (pod: V1Pod) => pod.status?.containerStatuses?.[0];

async function untilReady(name: string): Promise<V1Pod> {
  return await untilPod(name, isReady);
}

async function untilPod(name: string, holds: (pod: V1Pod) => boolean): Promise<V1Pod> {
  return await eventually(async () => {
    const pod = await getPod(name);
    if (!holds(pod)) throw new Error(`pod ${name}: ${JSON.stringify(pod.status)}`);
    return pod;
  });
}

async function untilGone(name: string): Promise<void> {
  await eventually(async () => {
    const found = await cluster.api.get<{ items: V1Pod[] }>(`${path('pods')}?fieldSelector=metadata.name%3D${name}`);
    if (found.items.length > 0) throw new Error(`pod ${name} is still there`);
  });
}

describe('the stand-in kubelet', () => {
  let here: Arrangement;
  beforeAll(async () => {
    here = await arrange(cluster, namespace, { node: `${namespace}-a`, dir, backOffScale: 0.02 });
  });
  afterAll(async () => {
    await here.stop();
  });

  test('kubectl logs reads what a container writes, also of its previous run, and follows it', async () => {
    const kubectl = async (...args: string[]): Promise<string> => {
      const { stdout } = await promisify(execFile)(cluster.assets.kubectl, ['-n', namespace, ...args], {
        env: cluster.env,
      });
      return stdout;
    };
    await create(podOf('talks', here.node, { args: ['--exit-after=1500'] }));
    await untilPod('talks', (pod) => (stateOf(pod)?.restartCount ?? 0) > 0);
    await eventually(async () => expect(await kubectl('logs', 'talks')).toBe('about to fail\n'));
    expect(await kubectl('logs', 'talks', '--previous', '--tail=5')).toBe('about to fail\n');
    expect(await kubectl('logs', 'talks', '--previous', '--tail=0')).toBe('');
    await remove('talks');

    await create(podOf('followed', here.node, { args: ['--exit-after=60000'] }));
    await untilReady('followed');
    const follow = spawn(cluster.assets.kubectl, ['-n', namespace, 'logs', '-f', 'followed'], { env: cluster.env });
    const ended = once(follow, 'exit');
    let output = '';
    follow.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
    await eventually(() => expect(output).toBe('about to fail\n'), { limitMs: 20_000 });
    await remove('followed');
    expect([await ended, output]).toEqual([[0, null], 'about to fail\ngot SIGTERM\n']);

    await cluster.api.create(path('pods'), {
      metadata: { name: 'simulated' },
      spec: { nodeName: here.node, containers: [{ name: 'main', image: 'none' }] },
    });
    await untilReady('simulated');
    await expect(kubectl('logs', 'simulated')).rejects.toThrow('simulated and has no logs');
    await remove('simulated');
  });

  test('a pod runs with the environment, arguments, files and token of its spec', async () => {
    await cluster.api.create(path('secrets'), {
      metadata: { name: 'tls' },
      stringData: { 'ca.crt': 'CA', 'tls.key': 'KEY' },
    });
    await cluster.api.create(path('configmaps'), { metadata: { name: 'settings' }, data: { level: 'debug' } });
    await cluster.api.create(path('services'), {
      metadata: { name: 'other-service' },
      spec: { ports: [{ port: 443 }] },
    });
    await writeFile(join(here.hostDir, 'run', 'note'), 'from the host');
    const env = [
      { name: 'NODE_NAME', valueFrom: { fieldRef: { fieldPath: 'spec.nodeName' } } },
      { name: 'LEVEL', valueFrom: { configMapKeyRef: { name: 'settings', key: 'level' } } },
      { name: 'MEMORY', valueFrom: { resourceFieldRef: { resource: 'limits.memory', divisor: '1Mi' } } },
      { name: 'KUBERNETES', value: 'https://$(KUBERNETES_SERVICE_HOST):$(KUBERNETES_SERVICE_PORT)' },
      { name: 'OTHER_PORT', value: '$(OTHER_SERVICE_SERVICE_PORT)' },
      { name: 'TOKEN_FILE', value: '/var/run/secrets/tokens/brupop-apiserver' },
      { name: 'CA_FILE', value: '/etc/brupop-tls/ca.crt' },
      { name: 'LABELS_FILE', value: '/etc/podinfo/labels' },
      { name: 'NOTE_FILE', value: '/run/note' },
      { name: 'BOOT_ID_FILE', value: '/run/brupop/boot_id' },
      { name: 'KERNEL_BOOT_ID_FILE', value: '/proc/sys/kernel/random/boot_id' },
    ];
    const token = { audience: 'brupop-apiserver', expirationSeconds: 600, path: 'brupop-apiserver' };
    const volumes = [
      { name: 'tls', secret: { secretName: 'tls', items: [{ key: 'ca.crt', path: 'ca.crt' }] } },
      { name: 'token', projected: { sources: [{ serviceAccountToken: token }] } },
      { name: 'info', downwardAPI: { items: [{ path: 'labels', fieldRef: { fieldPath: 'metadata.labels' } }] } },
      { name: 'run', hostPath: { path: '/run', type: 'Directory' } },
      { name: 'boot-id', hostPath: { path: '/proc/sys/kernel/random/boot_id', type: 'File' } },
    ];
    const volumeMounts = [
      { name: 'tls', mountPath: '/etc/brupop-tls', readOnly: true },
      { name: 'token', mountPath: '/var/run/secrets/tokens', readOnly: true },
      { name: 'info', mountPath: '/etc/podinfo' },
      { name: 'run', mountPath: '/run' },
      { name: 'boot-id', mountPath: '/run/brupop/boot_id', readOnly: true },
    ];
    const resources = { limits: { memory: '50Mi' } };
    await create(
      podOf('whole', here.node, { env, args: ['--node=$(NODE_NAME)'], volumeMounts, resources }, { volumes }),
    );
    const pod = await untilReady('whole');
    const program = new Program(pod);
    const about = await program.about();

    expect(about.argv).toEqual([`--node=${here.node}`]);
    expect(about.env).toMatchObject({
      HOSTNAME: 'whole',
      NODE_NAME: here.node,
      LEVEL: 'debug',
      MEMORY: '50',
      KUBERNETES: cluster.url,
      OTHER_PORT: expect.stringMatching(/^\d+$/) as unknown,
      POD_IP: pod.status?.podIP?.replace('10.', '127.'),
    });
    expect(about.env).not.toHaveProperty('NODE_OPTIONS');
    expect(here.kubelet.pids('brupop-agent', here.node)).toContain(about.pid);
    const read = async (name: string): Promise<string> => await program.file(about.env[name] ?? '');
    expect(await read('CA_FILE')).toBe('CA');
    expect(await read('LABELS_FILE')).toContain('brupop.bottlerocket.aws/component="brupop-agent"');
    expect(await read('NOTE_FILE')).toBe('from the host');
    expect(await read('BOOT_ID_FILE')).toBe('boot-1\n');
    expect(await read('KERNEL_BOOT_ID_FILE')).toBe('boot-1\n');
    const review = await cluster.api.create('/apis/authentication.k8s.io/v1/tokenreviews', {
      spec: { token: await read('TOKEN_FILE'), audiences: ['brupop-apiserver'] },
    });
    expect(review).toMatchObject({
      status: {
        authenticated: true,
        user: {
          extra: {
            'authentication.kubernetes.io/pod-uid': [pod.metadata?.uid],
            'authentication.kubernetes.io/node-name': [here.node],
          },
        },
      },
    });
    expect(pod.status).toMatchObject({ phase: 'Running', hostIP: expect.stringMatching(/^10\./) as unknown });
    expect(stateOf(pod)).toMatchObject({ restartCount: 0, ready: true, started: true, state: { running: {} } });
  });

  test('a pod waits for a Secret that is missing, and sees its changes', async () => {
    const volumes = [{ name: 'late', secret: { secretName: 'late' } }];
    const volumeMounts = [{ name: 'late', mountPath: '/late' }];
    const env = [{ name: 'LATE_FILE', value: '/late/word' }];
    await create(podOf('waiting', here.node, { env, volumeMounts }, { volumes }));
    const waiting = await untilPod('waiting', (pod) => stateOf(pod)?.state?.waiting?.message !== undefined);
    expect(stateOf(waiting)?.state?.waiting?.message).toContain('secrets "late" not found');
    await cluster.api.create(path('secrets'), { metadata: { name: 'late' }, stringData: { word: 'first' } });
    const program = new Program(await untilReady('waiting'));
    const { LATE_FILE = '' } = (await program.about()).env;
    expect(await program.file(LATE_FILE)).toBe('first');
    await cluster.api.patch(path('secrets', 'late'), { stringData: { word: 'second' } });
    await eventually(async () => expect(await program.file(LATE_FILE)).toBe('second'));
  });

  test('a ready pod gets an endpoint, which the proxy reaches, but not from a cut node', async () => {
    await cluster.api.create(path('services'), {
      metadata: { name: 'brupop-apiserver' },
      spec: { selector: { app: 'served' }, ports: [{ name: 'https', port: 443, targetPort: 8080 }] },
    });
    const { host, port } = await here.proxy.links.address(here.node, 'https');
    const call = async (): Promise<string> => await (await fetch(`http://${host}:${port}/readyz`)).text();
    await expect(call()).rejects.toThrow('fetch failed');
    const readinessProbe = probe('/readyz', { failureThreshold: 1 });
    await create(podOf('served', here.node, { readinessProbe, env: [{ name: 'READY', value: 'no' }] }));
    const pod = await untilPod('served', (one) => stateOf(one)?.state?.running !== undefined);
    const program = new Program(pod);
    await eventually(async () => await program.about());
    expect(isReady(await getPod('served'))).toBe(false);
    expect(here.proxy.targets('https')).toEqual([]);

    await program.tell('/readyz', 'ok');
    await untilReady('served');
    await eventually(async () => expect(await call()).toBe('ok'));
    await here.proxy.links.cut(here.node);
    await expect(call()).rejects.toThrow('fetch failed');
    await here.proxy.links.heal(here.node);
    expect(await call()).toBe('ok');

    await program.tell('/readyz', 'no');
    await untilPod('served', (one) => !isReady(one));
    await eventually(() => expect(here.proxy.targets('https')).toEqual([]));
  });

  test('a container whose liveness probe fails is restarted', async () => {
    const livenessProbe = probe('/livez', { failureThreshold: 1 });
    await create(podOf('sick', here.node, { startupProbe: probe('/livez', { failureThreshold: 30 }), livenessProbe }));
    const pod = await untilReady('sick');
    await new Program(pod).tell('/livez', 'no');
    const after = await untilPod('sick', (one) => stateOf(one)?.restartCount === 1 && isReady(one));
    expect(stateOf(after)?.lastState?.terminated).toMatchObject({ exitCode: 0, reason: 'Completed' });
    expect(after.status?.podIP).toBe(pod.status?.podIP);
    expect(await here.kubelet.logs('sick')).toContain('got SIGTERM');
  });

  test('a container that fails is restarted, later with back-off, and its status has the reason', async () => {
    const terminationMessagePolicy = 'FallbackToLogsOnError';
    await create(podOf('failing', here.node, { args: ['--exit-after=1'], terminationMessagePolicy }));
    const pod = await untilPod('failing', (one) => stateOf(one)?.state?.waiting?.reason === 'CrashLoopBackOff');
    expect(stateOf(pod)?.lastState?.terminated).toMatchObject({
      exitCode: 3,
      reason: 'Error',
      message: 'about to fail\n',
    });
    await untilPod('failing', (one) => (stateOf(one)?.restartCount ?? 0) >= 2);
    await remove('failing');
    await untilGone('failing');
  });

  test('a killed container is restarted', async () => {
    await create(podOf('killed', here.node));
    const { pid } = await new Program(await untilReady('killed')).about();
    here.kubelet.kill(`${namespace}/killed`, 'SIGKILL');
    const after = await untilPod('killed', (one) => stateOf(one)?.restartCount === 1 && isReady(one));
    expect(stateOf(after)?.lastState?.terminated).toMatchObject({ exitCode: 137, signal: 9, reason: 'Error' });
    expect(isRunning(pid)).toBe(false);
  });

  test('deletion sends SIGTERM and, after the grace period, SIGKILL', async () => {
    await create(podOf('polite', here.node));
    await create(podOf('stubborn', here.node, { args: ['--ignore-sigterm'] }, { terminationGracePeriodSeconds: 2 }));
    const pids = await Promise.all(
      ['polite', 'stubborn'].map(async (name) => (await new Program(await untilReady(name)).about()).pid),
    );
    const start = performance.now();
    await Promise.all(['polite', 'stubborn'].map(async (name) => await remove(name)));
    await untilGone('polite');
    expect(performance.now() - start).toBeLessThan(1_900);
    await untilGone('stubborn');
    expect(performance.now() - start).toBeGreaterThan(1_900);
    await untilEnded(pids);
    expect(await here.kubelet.logs('stubborn')).toContain('got SIGTERM');
  });

  test('a preStop hook comes before SIGTERM', async () => {
    await create(podOf('hooked', here.node, { lifecycle: { preStop: { sleep: { seconds: 1 } } } }));
    const program = new Program(await untilReady('hooked'));
    const start = performance.now();
    await remove('hooked');
    expect((await program.about()).argv).toEqual([]);
    await untilGone('hooked');
    expect(performance.now() - start).toBeGreaterThan(950);
  });

  test('a pod with an unsupported field is rejected and recorded', async () => {
    await create(podOf('refused', here.node, { tty: true }));
    const pod = await untilPod(
      'refused',
      (one) => stateOf(one)?.state?.waiting?.reason === 'StandInKubeletUnsupported',
    );
    expect(stateOf(pod)?.state?.waiting?.message).toContain('spec.containers[0].tty: true');
    expect(here.kubelet.errors).toEqual([expect.stringContaining('spec.containers[0].tty: true')]);
    here.kubelet.errors.length = 0;
    await remove('refused');
    await untilGone('refused');
  });

  test('a node reboots: its processes end at once, and its pods come back', async () => {
    await create(podOf('resident', here.node));
    const before = await untilReady('resident');
    const pids = here.kubelet.pids(undefined, here.node);
    await here.kubelet.nodeDown(here.node, { markNotReady: true });
    expect(pids.filter((pid) => isRunning(pid))).toEqual([]);
    expect(isReady(await getPod('resident'))).toBe(false);

    await here.kubelet.nodeUp(here.node);
    const after = await untilPod('resident', (one) => isReady(one) && stateOf(one)?.restartCount === 1);
    expect(after.metadata?.uid).toBe(before.metadata?.uid);
    expect(stateOf(after)?.lastState?.terminated).toMatchObject({ exitCode: 255, reason: 'Unknown' });
    expect(after.status?.podIP).not.toBe(before.status?.podIP);
    expect(after.status?.podIPs).toEqual([{ ip: after.status?.podIP }]);
    expect(pids).not.toContain((await new Program(after).about()).pid);
  });

  test('a pod that was marked as not ready, as after missed heartbeats, is ready again at once', async () => {
    await create(podOf('marked', here.node));
    const before = await untilReady('marked');
    const conditions = [{ type: 'Ready', status: 'False', lastTransitionTime: '2026-01-01T00:00:00Z' }];
    const marked = await cluster.api.request<V1Pod>(
      'PATCH',
      `${path('pods', 'marked')}/status`,
      { status: { conditions } },
      'application/strategic-merge-patch+json',
    );
    expect(isReady(marked)).toBe(false);
    const after = await untilReady('marked');
    expect(after.status?.conditions).toEqual(before.status?.conditions);
  });

  test('pods that are deleted or bound while the node is down are finished or started once it is up', async () => {
    await create(podOf('leaving', here.node));
    await untilReady('leaving');
    await here.kubelet.nodeDown(here.node);
    await remove('leaving');
    await create(podOf('newcomer', here.node));
    expect((await getPod('leaving')).metadata?.deletionTimestamp).toBeDefined();
    await here.kubelet.nodeUp(here.node);
    await untilGone('leaving');
    expect(stateOf(await untilReady('newcomer'))?.restartCount).toBe(0);
  });

  test('a container runs as the user and group of its security context, and only they may read its token', async () => {
    const [uid, gid] = canSwitchUser ? [65532, 274] : [process.getuid?.(), process.getgid?.()];
    const token = { serviceAccountToken: { path: 'token', expirationSeconds: 600 } };
    const container = {
      securityContext: { runAsUser: 65532, runAsGroup: 274 },
      volumeMounts: [{ name: 'token', mountPath: '/token' }],
      env: [{ name: 'TOKEN_FILE', value: '/token/token' }],
    };
    await create(
      podOf('unprivileged', here.node, container, { volumes: [{ name: 'token', projected: { sources: [token] } }] }),
    );
    const program = new Program(await untilReady('unprivileged'));
    const { pid, env: seen } = await program.about();
    const status = await readFile(`/proc/${pid}/status`, 'utf8');
    expect(status).toMatch(new RegExp(`^Uid:\\t${uid}\\t${uid}\\t.*\nGid:\\t${gid}\\t${gid}\\t`, 'mu'));
    const { TOKEN_FILE = '' } = seen;
    expect(await program.file(TOKEN_FILE)).toMatch(/^ey/u);
    const file = await stat(TOKEN_FILE);
    expect([file.uid, file.mode & 0o777]).toEqual([uid, canSwitchUser ? 0o600 : 0o644]);
    await remove('unprivileged');
  });

  test('a reboot keeps what an emptyDir holds on disk, loses what it holds in memory, and brings new tokens', async () => {
    const volumes = [
      { name: 'kept', emptyDir: {} },
      { name: 'lost', emptyDir: { medium: 'Memory' } },
      { name: 'token', projected: { sources: [{ serviceAccountToken: { path: 'token', expirationSeconds: 600 } }] } },
    ];
    const volumeMounts = volumes.map(({ name }) => ({ name, mountPath: `/${name}` }));
    const env = ['kept', 'lost', 'token'].map((name) => ({ name: name.toUpperCase(), value: `/${name}` }));
    await create(podOf('storing', here.node, { volumeMounts, env }, { volumes }));
    const program = new Program(await untilReady('storing'));
    const { KEPT = '', LOST = '', TOKEN = '' } = (await program.about()).env;
    await writeFile(join(KEPT, 'x'), 'kept');
    await writeFile(join(LOST, 'x'), 'lost');
    const token = await program.file(join(TOKEN, 'token'));

    await here.kubelet.nodeDown(here.node);
    await here.kubelet.nodeUp(here.node);
    const again = new Program(await untilPod('storing', (one) => isReady(one) && stateOf(one)?.restartCount === 1));
    expect(await again.file(join(KEPT, 'x'))).toBe('kept');
    expect(await readdir(LOST)).toEqual([]);
    expect(await again.file(join(TOKEN, 'token'))).not.toBe(token);
  });

  test('a file of the node that is replaced stays the old one for a container until it restarts, as with a bind mount', async () => {
    await writeFile(join(here.hostDir, 'run', 'state'), 'old');
    const volumes = [{ name: 'state', hostPath: { path: '/run/state', type: 'File' } }];
    const env = [{ name: 'STATE_FILE', value: '/state' }];
    const volumeMounts = [{ name: 'state', mountPath: '/state' }];
    await create(podOf('bound', here.node, { env, volumeMounts }, { volumes }));
    const program = new Program(await untilReady('bound'));
    const { STATE_FILE = '' } = (await program.about()).env;
    await writeFile(join(here.hostDir, 'run', 'next'), 'new');
    await rename(join(here.hostDir, 'run', 'next'), join(here.hostDir, 'run', 'state'));
    expect(await program.file(STATE_FILE)).toBe('old');
    here.kubelet.kill('bound', 'SIGTERM');
    await untilPod('bound', (one) => isReady(one) && stateOf(one)?.restartCount === 1);
    expect(await program.file(STATE_FILE)).toBe('new');
  });

  test('nothing was refused by the way, and stopping leaves no process and no folder', async () => {
    expect(here.kubelet.errors).toEqual([]);
    const pids = here.kubelet.pids();
    expect(pids.length).toBeGreaterThan(0);
    await here.stop();
    expect(pids.filter((pid) => isRunning(pid))).toEqual([]);
    expect((await readdir(dir)).filter((name) => name.startsWith('brupop-kubelet-'))).toEqual([]);
  });
});

describe('a second stand-in kubelet on the same control plane', () => {
  test('renews tokens in time, and leaves the pods of other nodes alone', async () => {
    // 0.0005 of 600 s: a third of a second.
    const there = await arrange(cluster, namespace, { node: `${namespace}-b`, dir, tokenRenewalFraction: 0.0005 });
    try {
      const sources = [{ serviceAccountToken: { path: 'token', expirationSeconds: 600 } }];
      const volumes = [{ name: 'token', projected: { sources } }];
      const env = [{ name: 'TOKEN_FILE', value: '/token/token' }];
      const volumeMounts = [{ name: 'token', mountPath: '/token' }];
      await create(podOf('renewing', there.node, { env, volumeMounts }, { volumes }));
      const program = new Program(await untilReady('renewing'));
      const { pid, env: seen } = await program.about();
      const token = async (): Promise<string> => await program.file(seen['TOKEN_FILE'] ?? '');
      const first = await token();
      await eventually(async () => expect(await token()).not.toBe(first));
      const second = await token();
      await eventually(async () => expect(await token()).not.toBe(second));
      expect(there.kubelet.pids()).toEqual([pid]);
      expect(there.kubelet.errors).toEqual([]);
    } finally {
      await there.stop();
    }
  });

  test('when its process is killed, no process of its pods and no folder is left', async () => {
    const node = `${namespace}-c`;
    const own = await mkdtemp(join(dir, 'harness-'));
    const args = [join(import.meta.dirname, 'kubelet/harness.ts'), namespace, node, own];
    const { NODE_OPTIONS: _, ...env } = process.env;
    const harness = spawn(process.execPath, args, { env, stdio: ['ignore', 'pipe', 'inherit'] });
    await once(harness.stdout, 'data');
    await create(podOf('orphan', node, { args: ['--ignore-sigterm'] }));
    const { pid } = await new Program(await untilReady('orphan')).about();
    expect(isRunning(pid)).toBe(true);
    harness.kill('SIGKILL');
    await untilEnded([pid]);
    await eventually(async () => {
      const left = (await readdir(own)).filter((name) => name.startsWith('brupop-kubelet-'));
      expect(left).toEqual([]);
    });
  });
});
