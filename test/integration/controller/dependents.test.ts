/**
 * Dependents with a real kube-apiserver and kube-controller-manager: three Deployments of one replica, one of three and
 * one with an autoscaler, in a cluster whose nodes fall silent.
 */
import { isDeepStrictEqual } from 'node:util';
import { jest } from '@jest/globals';
import type { CoreV1EventList, V1Deployment, V1Node, V2HorizontalPodAutoscaler } from '@kubernetes/client-node';
import type { BrupopConfig } from '../../../packages/shared/src/api/brupop-config.ts';
import type { BrupopConfigSpec } from '../../../packages/shared/src/api/config-spec.ts';
import {
  CONFIG_NAME,
  CONFIG_PLURAL,
  CONFIG_VERSION,
  DEPENDENT_REPLICAS_ANNOTATION,
  GROUP,
} from '../../../packages/shared/src/api/names.ts';
import { systemClock } from '../../../packages/shared/src/runtime/clock.ts';
import { restore } from '../../../packages/controller/src/main.ts';
import { readConfig } from '../../../packages/controller/src/config.ts';
import { releaseNamespace } from '../../framework/chart.ts';
import { CUT_OFF_ANNOTATION, LEASES } from '../../framework/control-plane/node-leases.ts';
import { createNode } from '../../framework/control-plane/nodes.ts';
import { type ControlPlane, startControlPlane } from '../../framework/control-plane/start.ts';
import { installForController } from '../../framework/controller/installation.ts';
import { type Replica, startReplica } from '../../framework/controller/replica.ts';
import { eventually } from '../../framework/eventually.ts';
import { recordingLogger } from '../../framework/recording-logger.ts';

jest.setTimeout(300_000);

const NAMESPACE = 'repair';
const CONFIG = `/apis/${GROUP}/${CONFIG_VERSION}/${CONFIG_PLURAL}/${CONFIG_NAME}`;
const DEPLOYMENTS = `/apis/apps/v1/namespaces/${NAMESPACE}/deployments`;
const HPA = `/apis/autoscaling/v2/namespaces/${NAMESPACE}/horizontalpodautoscalers/descheduler`;
const NODES = [1, 2, 3, 4, 5].map((index) => `node-${index}`);
const TARGETS = ['autoscaler', 'node-repair', 'descheduler'].map((name) => ({
  kind: 'Deployment' as const,
  namespace: NAMESPACE,
  name,
}));
const phase = (level: number) => ({ level, timeout: '10s' });
const DEPENDENTS = TARGETS.map(({ name, ...target }, index) => ({
  ...target,
  name,
  target: name,
  scaleDown: phase(index),
  scaleUp: phase(TARGETS.length - index),
}));
/** Kubelets of this cluster renew their Leases every ten seconds. */
const SILENT: BrupopConfigSpec = { connectivity: { nodeMonitorGracePeriod: '24s', dependents: DEPENDENTS } };
const LOSS = { limitMs: 120_000, pauseMs: 250 };

let cluster: ControlPlane;
let serviceAccountDir = '';
let replica: Replica | undefined;

beforeAll(async () => {
  cluster = await startControlPlane();
  await cluster.api.create('/api/v1/namespaces', { metadata: { name: NAMESPACE } });
  serviceAccountDir = await installForController(
    cluster,
    '--set-json',
    `dependents.targets=${JSON.stringify(TARGETS)}`,
  );
  for (const [index, name] of NODES.entries())
    await createNode(cluster, { name, zone: index < 2 ? 'a' : 'b', labels: { team: 'a' } });
  await configure(SILENT);
  await Promise.all(TARGETS.map(async ({ name }, index) => await deploy(name, [1, 3, 2][index] ?? 1)));
  await cluster.api.create(HPA.replace('/descheduler', ''), {
    apiVersion: 'autoscaling/v2',
    kind: 'HorizontalPodAutoscaler',
    metadata: { name: 'descheduler' },
    spec: {
      scaleTargetRef: { apiVersion: 'apps/v1', kind: 'Deployment', name: 'descheduler' },
      minReplicas: 2,
      maxReplicas: 4,
      metrics: [
        { type: 'Resource', resource: { name: 'cpu', target: { type: 'Utilization', averageUtilization: 80 } } },
      ],
    },
  });
  // Leases count when their nodes are older than a minute.
  await eventually(async () => {
    for (const name of NODES) {
      await cluster.api.get(`${LEASES}/${name}`);
      const { metadata } = await cluster.api.get<V1Node>(`/api/v1/nodes/${name}`);
      const ageMs = Date.now() - new Date(metadata?.creationTimestamp ?? 0).getTime();
      if (ageMs < 61_000) throw new Error('the nodes are too young');
    }
  }, LOSS);
});

beforeEach(async () => {
  await configure(SILENT);
  replica = await start();
});

afterEach(async () => {
  await cut([]);
  await untilUp();
  await replica?.stop();
});

afterAll(async () => {
  await cluster.stop();
});

const start = async (): Promise<Replica> =>
  await startReplica(cluster, serviceAccountDir, {
    dependents: TARGETS.map(({ name: target, ...one }) => ({ ...one, target })),
  });

async function configure(spec: BrupopConfigSpec): Promise<void> {
  const kind = { apiVersion: `${GROUP}/${CONFIG_VERSION}`, kind: 'BrupopConfig' };
  const body = { ...kind, metadata: { name: CONFIG_NAME }, spec };
  await cluster.api.request('PATCH', `${CONFIG}?fieldManager=user&force=true`, body, 'application/apply-patch+yaml');
}

async function deploy(name: string, replicas: number): Promise<void> {
  const labels = { app: name };
  await cluster.api.create(DEPLOYMENTS, {
    metadata: { name },
    spec: {
      replicas,
      selector: { matchLabels: labels },
      template: {
        metadata: { labels },
        spec: {
          terminationGracePeriodSeconds: 0,
          tolerations: [{ operator: 'Exists' }],
          containers: [{ name, image: 'registry.example/app:1', resources: { requests: { cpu: '1m' } } }],
        },
      },
    },
  });
  await eventually(async () => expect((await read(name)).status?.readyReplicas).toBe(replicas), { limitMs: 60_000 });
}

/** Exactly these nodes stop renewing their Leases. */
async function cut(names: readonly string[]): Promise<void> {
  for (const name of NODES) {
    const annotations = { [CUT_OFF_ANNOTATION]: names.includes(name) ? 'true' : null };
    await cluster.api.patch(`/api/v1/nodes/${name}`, { metadata: { annotations } });
  }
}

const read = async (name: string): Promise<V1Deployment> => await cluster.api.get(`${DEPLOYMENTS}/${name}`);

/** As `3`, or `0 (3)` with what is recorded. */
async function scales(): Promise<string[]> {
  const found = await Promise.all(TARGETS.map(async ({ name }) => await read(name)));
  return found.map(({ metadata, spec }) => {
    const record = metadata?.annotations?.[DEPENDENT_REPLICAS_ANNOTATION];
    return `${spec?.replicas}${record === undefined ? '' : ` (${record})`}`;
  });
}

const UP = ['1', '3', '2'];
const DOWN = ['0 (1)', '0 (3)', '0 (2)'];
const untilDown = async (): Promise<void> => await eventually(async () => expect(await scales()).toEqual(DOWN), LOSS);

async function untilUp(): Promise<void> {
  await eventually(async () => {
    const found = await scales();
    if (!isDeepStrictEqual(found, UP)) throw new Error(`the dependents are at ${found.join(', ')}`);
  }, LOSS);
}

/** The Events of dependents, as `REASON NAME`, in the order of their creation. */
async function told(): Promise<string[]> {
  const { items } = await cluster.api.get<CoreV1EventList>('/api/v1/namespaces/default/events');
  return items
    .filter(({ reason = '' }) => reason.startsWith('Dependent'))
    .toSorted((a, b) => Number(a.metadata.resourceVersion) - Number(b.metadata.resourceVersion))
    .map(({ reason, related }) => `${reason} ${related?.name}`);
}

async function status(): Promise<BrupopConfig['status']> {
  return (await cluster.api.get<BrupopConfig>(CONFIG)).status;
}

const reasonOf = async (): Promise<string | undefined> =>
  (await status())?.conditions?.find(({ type }) => type === 'DependentsAvailable')?.reason;

it('while most nodes are silent three dependents are at 0, in their order, and an autoscaler leaves them there', async () => {
  const before = await told();
  await cut(NODES.slice(0, 4));
  await untilDown();
  await eventually(async () => {
    expect(await reasonOf()).toBe('ScaledDown');
    const { status: hpa } = await cluster.api.get<V2HorizontalPodAutoscaler>(HPA);
    expect(hpa?.conditions?.find(({ type }) => type === 'ScalingActive')?.reason).toBe('ScalingDisabled');
  }, LOSS);
  expect((await status())?.dependents?.map(({ target, state, replicas }) => [target, state, replicas])).toEqual([
    ['autoscaler', 'Down', 1],
    ['node-repair', 'Down', 3],
    ['descheduler', 'Down', 2],
  ]);
  expect(await replica?.metrics()).toMatch(/^brupop_dependents\{state="Down"\} 3$/m);
  await cut([]);
  await eventually(async () => expect(await scales()).toEqual(UP), LOSS);
  await eventually(async () => expect(await reasonOf()).toBe('NotScaled'), LOSS);
  const names = TARGETS.map(({ name }) => name);
  await eventually(async () =>
    expect((await told()).slice(before.length)).toEqual([
      ...names.map((name) => `DependentScaledDown ${name}`),
      ...names.toReversed().map((name) => `DependentScaledUp ${name}`),
    ]),
  );
});

it('nothing is scaled when one zone is silent', async () => {
  await cut(NODES.slice(2));
  await new Promise((done) => setTimeout(done, 45_000));
  expect(await scales()).toEqual(UP);
});

it('a leader that ends on the way is followed by one that goes on, and by one that scales back', async () => {
  await cut(NODES.slice(0, 4));
  await eventually(async () => expect((await scales())[0]).toBe('0 (1)'), LOSS);
  await replica?.stop();
  replica = await start();
  await untilDown();
  await replica.stop();
  await cut([]);
  replica = await start();
  await eventually(async () => expect(await scales()).toEqual(UP), LOSS);
});

it('what a user scales back stays so, and is told once', async () => {
  await cut(NODES.slice(0, 4));
  await untilDown();
  const before = (await told()).filter((one) => one === 'DependentScaledByOthers node-repair').length;
  await cluster.api.patch(`${DEPLOYMENTS}/node-repair/scale`, { spec: { replicas: 3 } });
  await eventually(async () => expect(await reasonOf()).toBe('ScaledByOthers'), LOSS);
  await new Promise((done) => setTimeout(done, 25_000));
  expect(await scales()).toEqual(['0 (1)', '3 (3)', '0 (2)']);
  const after = (await told()).filter((one) => one === 'DependentScaledByOthers node-repair').length;
  expect(after - before).toBe(1);
});

it('an entry that is removed, and the deletion of the configuration, bring dependents back during the loss', async () => {
  await cut(NODES.slice(0, 4));
  await untilDown();
  await configure({ connectivity: { nodeMonitorGracePeriod: '24s', dependents: DEPENDENTS.slice(1) } });
  await eventually(async () => expect(await scales()).toEqual(['1', ...DOWN.slice(1)]), LOSS);
  await cluster.api.delete(CONFIG);
  await eventually(async () => expect(await scales()).toEqual(UP), LOSS);
});

it('before an uninstallation all are scaled back, and no controller scales them again', async () => {
  await cut(NODES.slice(0, 4));
  await untilDown();
  const { hostname, port } = new URL(cluster.url);
  const config = readConfig({
    POD_NAME: 'restore',
    POD_UID: 'uid',
    POD_NAMESPACE: releaseNamespace,
    NODE_NAME: 'node-1',
    POD_IP: '127.0.0.1',
    KUBERNETES_SERVICE_HOST: hostname,
    KUBERNETES_SERVICE_PORT: port,
    SERVICE_ACCOUNT_DIR: serviceAccountDir,
    DEPENDENTS: TARGETS.map(({ kind, namespace, name }) => `${kind} ${namespace}/${name}`).join(','),
    RESTORE_DEPENDENTS: 'true',
  });
  expect(config.restoresDependents).toBe(true);
  const { log } = recordingLogger();
  await restore(config, { signal: new AbortController().signal, log, clock: systemClock });
  expect(await scales()).toEqual(UP);
  await new Promise((done) => setTimeout(done, 30_000));
  expect([await scales(), await replica?.isLeader()]).toEqual([UP, false]);
});
