import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { jest } from '@jest/globals';
import type { V1Deployment, V1Lease, V1Node, V1Pod, V1PodList, V1TokenReview } from '@kubernetes/client-node';
import { ApiError } from '../../framework/control-plane/api.ts';
import { isAlive } from '../../framework/control-plane/lock.ts';
import { createNamespace } from '../../framework/control-plane/namespaces.ts';
import { renewNodeLeases } from '../../framework/control-plane/node-leases.ts';
import { createNode, osImageOf, setNodeBooted, setNodeRebooting } from '../../framework/control-plane/nodes.ts';
import { connectSharedControlPlane } from '../../framework/control-plane/shared.ts';
import { terminationDelayAnnotation } from '../../framework/control-plane/stages.ts';
import { type ControlPlane, startControlPlane } from '../../framework/control-plane/start.ts';
import { eventually } from '../../framework/eventually.ts';

jest.setTimeout(120_000);

const readyOf = (object: V1Node | V1Pod): string | undefined =>
  object.status?.conditions?.find(({ type }) => type === 'Ready')?.status;

function podOn(name: string, node: string): object {
  return {
    metadata: { name },
    spec: { nodeName: node, containers: [{ name: 'main', image: 'test' }], terminationGracePeriodSeconds: 5 },
  };
}

describe('the shared control plane', () => {
  const cluster = connectSharedControlPlane();
  let namespace = '';

  beforeAll(async () => {
    namespace = await createNamespace(cluster, 'control-plane');
  });

  afterAll(async () => {
    await cluster.api.delete(`/api/v1/namespaces/${namespace}`);
    await cluster.close();
  });

  const pods = (): string => `/api/v1/namespaces/${namespace}/pods`;
  const refusal = async (path: string, token?: string): Promise<number | undefined> => {
    const error: unknown = await cluster.api
      .as(token)
      .get(path)
      .then(
        () => undefined,
        (reason: unknown) => reason,
      );
    return error instanceof ApiError ? error.status : undefined;
  };

  test('refuses a caller without permission', async () => {
    expect(await refusal('/api/v1/nodes')).toBe(403);
    expect(await refusal('/api/v1/nodes', cluster.tokens.unprivileged)).toBe(403);
    expect(await refusal('/api/v1/nodes', 'no-such-token')).toBe(401);
    expect(await refusal('/api/v1/nodes', cluster.adminToken)).toBeUndefined();
  });

  test('a token bound to a pod names the pod and its node', async () => {
    const node = await createNode(cluster, { name: `${namespace}-token` });
    const pod = await cluster.api.create<V1Pod>(pods(), podOn('bound', `${namespace}-token`));
    const { name, uid } = pod.metadata ?? {};
    const audiences = ['brupop-apiserver'];
    const request = {
      spec: { audiences, boundObjectRef: { apiVersion: 'v1', kind: 'Pod', name, uid }, expirationSeconds: 600 },
    };
    const path = `/api/v1/namespaces/${namespace}/serviceaccounts/default/token`;
    const { status } = await cluster.api.create<{ status: { token: string } }>(path, request);
    const reviews = '/apis/authentication.k8s.io/v1/tokenreviews';
    const review = await cluster.api.create<V1TokenReview>(reviews, { spec: { token: status.token, audiences } });
    expect(review.status).toMatchObject({
      authenticated: true,
      audiences,
      user: {
        username: `system:serviceaccount:${namespace}:default`,
        extra: {
          'authentication.kubernetes.io/node-name': [`${namespace}-token`],
          'authentication.kubernetes.io/node-uid': [node.metadata?.uid],
          'authentication.kubernetes.io/pod-name': ['bound'],
          'authentication.kubernetes.io/pod-uid': [uid],
        },
      },
    });
    const other = await cluster.api.create<V1TokenReview>(reviews, {
      spec: { token: status.token, audiences: ['else'] },
    });
    expect(other.status?.authenticated ?? false).toBe(false);
  });

  test('the pods of a Deployment get ready and get replaced', async () => {
    await createNode(cluster, { name: `${namespace}-web`, zone: 'a' });
    const labels = { app: 'web' };
    const path = `/apis/apps/v1/namespaces/${namespace}/deployments`;
    const template = { metadata: { labels }, spec: { containers: [{ name: 'web', image: 'test' }] } };
    await cluster.api.create(path, {
      metadata: { name: 'web' },
      spec: { replicas: 2, selector: { matchLabels: labels }, template },
    });
    const available = async (): Promise<number | undefined> =>
      (await cluster.api.get<V1Deployment>(`${path}/web`)).status?.availableReplicas;
    await eventually(async () => expect(await available()).toBe(2));
    const list = async (): Promise<string[]> =>
      (await cluster.api.get<V1PodList>(`${pods()}?labelSelector=app%3Dweb`)).items.map(
        ({ metadata }) => metadata?.name ?? '',
      );
    const [first = ''] = await list();
    await cluster.api.create(`${pods()}/${first}/eviction`, {
      apiVersion: 'policy/v1',
      kind: 'Eviction',
      metadata: { name: first, namespace },
    });
    const replaced = async (): Promise<boolean> => {
      const names = await list();
      return names.length === 2 && !names.includes(first);
    };
    await eventually(async () => expect(await replaced()).toBe(true));
  });

  const podReady = async (name: string): Promise<string | undefined> =>
    readyOf(await cluster.api.get<V1Pod>(`${pods()}/${name}`));
  const podStatus = async (name: string): Promise<number | undefined> =>
    await refusal(`${pods()}/${name}`, cluster.adminToken);

  test("leaves the pods of the operator's workloads to the stand-in kubelet", async () => {
    await createNode(cluster, { name: `${namespace}-ours` });
    const ours = podOn('ours', `${namespace}-ours`);
    const labels = { 'brupop.bottlerocket.aws/component': 'brupop-agent' };
    await cluster.api.create(pods(), { ...ours, metadata: { name: 'ours', labels } });
    await cluster.api.create(pods(), podOn('theirs', `${namespace}-ours`));
    await eventually(async () => expect(await podReady('theirs')).toBe('True'));
    expect(await podReady('ours')).toBeUndefined();
  });

  test('a pod terminates after the time in its annotation, and stays while it has a finalizer', async () => {
    await createNode(cluster, { name: `${namespace}-slow` });
    const annotations = { [terminationDelayAnnotation]: '1500ms' };
    const metadata = { name: 'slow', annotations, finalizers: ['test.brupop/hold'] };
    await cluster.api.create(pods(), { ...podOn('slow', `${namespace}-slow`), metadata });
    await cluster.api.create(pods(), podOn('quick', `${namespace}-slow`));
    for (const name of ['slow', 'quick']) await eventually(async () => expect(await podReady(name)).toBe('True'));
    const grace = async (): Promise<number | undefined> =>
      (await cluster.api.get<V1Pod>(`${pods()}/slow`)).metadata?.deletionGracePeriodSeconds;

    const start = Date.now();
    for (const name of ['slow', 'quick']) await cluster.api.delete(`${pods()}/${name}`);
    await eventually(async () => expect(await podStatus('quick')).toBe(404));
    expect(await grace()).toBe(5);
    await eventually(async () => expect(await grace()).toBe(0));
    expect(Date.now() - start).toBeGreaterThan(1_400);
    expect(await podStatus('slow')).toBeUndefined();
    await cluster.api.patch(`${pods()}/slow`, { metadata: { finalizers: null } });
    await eventually(async () => expect(await podStatus('slow')).toBe(404));
  });

  test('a node reboots: not Ready until it is back, then with a new boot ID and its pods restarted', async () => {
    const name = `${namespace}-reboot`;
    await createNode(cluster, { name, bootID: 'boot-1', version: '1.20.0' });
    await cluster.api.create(pods(), podOn('resident', name));
    await eventually(async () => expect(await podReady('resident')).toBe('True'));
    const node = async (): Promise<V1Node> => await cluster.api.get<V1Node>(`/api/v1/nodes/${name}`);

    await setNodeRebooting(cluster, name);
    expect(readyOf(await node())).toBe('False');
    expect(await podReady('resident')).toBe('False');
    await cluster.api.patch(`/api/v1/nodes/${name}`, { metadata: { labels: { touched: 'yes' } } });
    await createNode(cluster, { name: `${name}-later` });
    const taints = async (): Promise<number> => (await node()).spec?.taints?.length ?? 0;
    await eventually(async () => expect(await taints()).toBe(2));
    expect(readyOf(await node())).toBe('False');

    await setNodeBooted(cluster, name, 'boot-2', osImageOf('1.21.0'));
    const booted = await node();
    expect(readyOf(booted)).toBe('True');
    expect(booted.status?.nodeInfo).toMatchObject({ bootID: 'boot-2', osImage: osImageOf('1.21.0') });
    const resident = await cluster.api.get<V1Pod>(`${pods()}/resident`);
    expect(resident.status?.containerStatuses?.[0]?.restartCount).toBe(1);
    await eventually(async () => expect(await taints()).toBe(0));
    await eventually(async () => expect(await podReady('resident')).toBe('True'));
  });

  test('a node has a lease, and one that takes its place at once has it from then on', async () => {
    const name = `${namespace}-leased`;
    const owners = async (): Promise<unknown> => {
      await renewNodeLeases(cluster.api);
      const path = `/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/${name}`;
      const { metadata, spec } = await cluster.api.get<V1Lease>(path);
      expect(Date.now() - Date.parse(String(spec?.renewTime))).toBeLessThan(10_000);
      return metadata?.ownerReferences?.map(({ uid }) => uid);
    };
    const first = await createNode(cluster, { name });
    await eventually(async () => expect(await owners()).toEqual([first.metadata?.uid]));
    await cluster.api.delete(`/api/v1/nodes/${name}`);
    const second = await createNode(cluster, { name });
    await eventually(async () => expect(await owners()).toEqual([second.metadata?.uid]));
  });

  test('the audit log names the user of each request', () => {
    const entries = readFileSync(cluster.auditLogPath, 'utf8')
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Audit);
    const of = (username: string): Audit[] => entries.filter(({ user }) => user.username === username);
    expect(of('admin')).toContainEqual(
      expect.objectContaining({ verb: 'create', objectRef: expect.objectContaining({ name: namespace }) as unknown }),
    );
    expect(of('kwok').some(({ verb, objectRef }) => verb === 'patch' && objectRef?.resource === 'pods')).toBe(true);
    expect(of('system:serviceaccount:kube-system:replicaset-controller').length).toBeGreaterThan(0);
  });
});

interface Audit {
  verb: string;
  user: { username: string };
  objectRef?: { resource?: string; name?: string };
}

describe('a control plane of its own', () => {
  let own: ControlPlane;

  beforeAll(async () => {
    own = await startControlPlane({ auditLevel: 'None' });
  });

  afterAll(async () => {
    await own.stop();
  });

  test('a killed API server comes back on the same port with everything it knew', async () => {
    await createNode(own, { name: 'lasting' });
    const { apiserver } = own.components;
    const { pid } = apiserver;
    await apiserver.kill('SIGKILL');
    expect(apiserver.pid).toBeUndefined();
    await expect(own.api.get('/readyz')).rejects.toThrow(/ECONNREFUSED|socket|closed/i);
    await apiserver.restart();
    expect(apiserver.pid).not.toBe(pid);
    const node = await own.api.get<V1Node>('/api/v1/nodes/lasting');
    expect(node.metadata?.name).toBe('lasting');
  });

  test('every program restarts', async () => {
    const before = Object.values(own.components).map(({ pid }) => pid);
    for (const component of Object.values(own.components)) await component.restart();
    await eventually(async () => expect(await own.api.get('/readyz')).toBe('ok'));
    expect(await createNamespace(own, 'after-restart')).toMatch(/^after-restart-/);
    expect(Object.values(own.components).filter(({ pid }) => before.includes(pid))).toEqual([]);
  });
});

describe('a control plane whose owner dies', () => {
  const start = join(import.meta.dirname, '../../framework/control-plane/start.ts');
  const owner = `
    import { startControlPlane } from '${start}';
    const { dir, components } = await startControlPlane();
    process.stdout.write(JSON.stringify({ dir, pids: Object.values(components).map(({ pid }) => pid) }));
    setInterval(() => undefined, 1000);
  `;

  test.each(['SIGKILL', 'SIGINT'] as const)('leaves no process and no folder after %s', async (signal) => {
    const child = spawn(process.execPath, ['--input-type=module', '-e', owner]);
    child.stderr.pipe(process.stderr);
    const [line] = (await once(child.stdout, 'data')) as [Buffer];
    const { dir, pids } = JSON.parse(line.toString()) as { dir: string; pids: number[] };
    expect(pids.filter(isAlive)).toHaveLength(5);
    child.kill(signal);
    await eventually(() => expect(pids.filter(isAlive)).toEqual([]));
    await eventually(() => expect(existsSync(dir)).toBe(false));
  });
});
