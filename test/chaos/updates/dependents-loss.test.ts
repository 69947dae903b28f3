/**
 * Dependents with a real kube-apiserver and kube-controller-manager: three Deployments, one of them with an
 * autoscaler, in a cluster whose nodes fall silent.
 */
import { mkdtempSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { jest } from '@jest/globals';
import type { CoreV1EventList, V1Deployment, V1RoleBinding, V2HorizontalPodAutoscaler } from '@kubernetes/client-node';
import type { BrupopConfig } from '../../../packages/shared/src/api/brupop-config.ts';
import { targetKey } from '../../../packages/shared/src/api/config-dependents.ts';
import type { BrupopConfigSpec } from '../../../packages/shared/src/api/config-spec.ts';
import { IGNORE_SCALING_ANNOTATION } from '../../../packages/shared/src/api/names.ts';
import { systemClock } from '../../../packages/shared/src/runtime/clock.ts';
import { restore } from '../../../packages/controller/src/main.ts';
import { type ControllerConfig, readConfig } from '../../../packages/controller/src/config.ts';
import { releaseNamespace } from '../../framework/chart.ts';
import { CUT_OFF_ANNOTATION } from '../../framework/control-plane/node-leases.ts';
import { createNode } from '../../framework/control-plane/nodes.ts';
import { type ControlPlane, startControlPlane } from '../../framework/control-plane/start.ts';
import { CONFIG_PATH, configure, readBrupopConfig } from '../../framework/controller/configuration.ts';
import { type Replica, startReplica } from '../../framework/controller/replica.ts';
import {
  dependentsByLevel,
  DEPLOYMENTS,
  DOWN,
  installWithTargets,
  NAMES,
  NAMESPACE,
  ScaledTargets,
  TARGETS,
  untilLeasesCount,
  UP,
} from '../../framework/controller/scaled-targets.ts';
import { eventually } from '../../framework/eventually.ts';
import { accessThrough, presentCredentials } from '../../framework/faulty-api/access.ts';
import { FaultyApi } from '../../framework/faulty-api/faulty-api.ts';
import type { Fault } from '../../framework/faulty-api/faults.ts';
import { recordingLogger } from '../../framework/recording-logger.ts';

jest.setTimeout(420_000);

const HPA = `/apis/autoscaling/v2/namespaces/${NAMESPACE}/horizontalpodautoscalers/descheduler`;
const BINDING = `/apis/rbac.authorization.k8s.io/v1/namespaces/${NAMESPACE}/rolebindings/brupop-controller-dependents`;
/** Six of them in one zone. */
const NODES = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10].map((index) => `node-${index}`);
const ZONE_B = NODES.slice(4);
/** 70 %, of both zones. */
const MOST = NODES.slice(1, 8);
const DEPENDENTS = dependentsByLevel('10s');
/** Kubelets of this cluster renew their Leases every ten seconds. */
const SILENT: BrupopConfigSpec = { connectivity: { nodeMonitorGracePeriod: '24s', dependents: DEPENDENTS } };
const LOSS = { limitMs: 120_000, pauseMs: 250 };

let cluster: ControlPlane;
let serviceAccountDir = '';
let replica: Replica | undefined;
let targets: ScaledTargets;

beforeAll(async () => {
  cluster = await startControlPlane();
  serviceAccountDir = await installWithTargets(cluster);
  for (const [index, name] of NODES.entries())
    await createNode(cluster, { name, zone: index < 4 ? 'a' : 'b', labels: { team: 'a' } });
  await configure(cluster, SILENT);
  targets = await ScaledTargets.deploy(cluster);
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
  await untilLeasesCount(cluster, NODES);
});

beforeEach(async () => {
  await configure(cluster, SILENT);
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

const start = async (settings: Partial<ControllerConfig> = {}): Promise<Replica> =>
  await startReplica(cluster, serviceAccountDir, { dependents: TARGETS, ...settings });

/** Exactly these nodes stop renewing their Leases. */
async function cut(names: readonly string[]): Promise<void> {
  for (const name of NODES) {
    const annotations = { [CUT_OFF_ANNOTATION]: names.includes(name) ? 'true' : null };
    await cluster.api.patch(`/api/v1/nodes/${name}`, { metadata: { annotations } });
  }
}

const scales = async (): Promise<string[]> => await targets.scales();
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
  return (await readBrupopConfig(cluster)).status;
}

const reasonOf = async (): Promise<string | undefined> =>
  (await status())?.conditions?.find(({ type }) => type === 'DependentsAvailable')?.reason;

it('while most nodes are silent three dependents are at 0, in their order, and an autoscaler leaves them there', async () => {
  const before = await told();
  await cut(MOST);
  await untilDown();
  await eventually(async () => {
    expect(await reasonOf()).toBe('ScaledDown');
    const { status: hpa } = await cluster.api.get<V2HorizontalPodAutoscaler>(HPA);
    expect(hpa?.conditions?.find(({ type }) => type === 'ScalingActive')?.reason).toBe('ScalingDisabled');
  }, LOSS);
  await eventually(async () => {
    const { dependents = [] } = (await status()) ?? {};
    expect(dependents.map(({ target, state, replicas }) => [target, state, replicas])).toEqual([
      ['autoscaler', 'Down', 1],
      ['node-repair', 'Down', 3],
      ['descheduler', 'Down', 2],
    ]);
  });
  expect(await replica?.metrics()).toMatch(/^brupop_dependents\{state="Down"\} 3$/m);
  await cut([]);
  await eventually(async () => expect(await scales()).toEqual(UP), LOSS);
  await eventually(async () => expect(await reasonOf()).toBe('NotScaled'), LOSS);
  await eventually(async () =>
    expect((await told()).slice(before.length)).toEqual([
      ...NAMES.map((name) => `DependentScaledDown ${name}`),
      ...NAMES.toReversed().map((name) => `DependentScaledUp ${name}`),
    ]),
  );
});

it('nothing is scaled when one zone is silent', async () => {
  await cut(ZONE_B);
  await new Promise((done) => setTimeout(done, 45_000));
  expect(await scales()).toEqual(UP);
});

const LIST: Fault['match'] = { verbs: ['list', 'watch'], path: /kube-node-lease\/leases$/u };
const READ: Fault['match'] = { verbs: ['get'], path: /deployments/u };

describe('through an API server that fails', () => {
  let api: FaultyApi;
  let access: ControllerConfig['access'];

  beforeAll(async () => {
    api = await FaultyApi.start(cluster);
    const dir = mkdtempSync(join(tmpdir(), 'brupop-faulty-'));
    await presentCredentials(dir, { token: await readFile(join(serviceAccountDir, 'token'), 'utf8'), ca: api.ca });
    access = accessThrough(api, dir);
  });
  beforeEach(async () => {
    await replica?.stop();
    replica = await start({ access });
    await eventually(async () => {
      if ((await replica?.isLeader()) !== true) throw new Error('the replica does not lead yet');
    });
  });
  afterEach(() => api.clear());
  afterAll(async () => await api.stop());

  it.each<[string, readonly Fault[], readonly string[]]>([
    ['watches of Leases that are silent, and nodes that renew them', [{ match: LIST, answer: { kind: 'mute' } }], []],
    [
      'lists of Leases that fail, and nodes that renew them',
      [{ match: LIST, answer: { kind: 'status', status: 500 } }],
      [],
    ],
    [
      'reads of targets that get 429',
      [{ match: READ, answer: { kind: 'status', status: 429, retryAfterSeconds: 1 } }],
      MOST,
    ],
  ])('nothing is scaled with %s', async (_, faults, silent) => {
    for (const fault of faults) api.set(fault);
    api.interrupt({ kind: 'reset' }, LIST);
    await cut(silent);
    const before = api.count('patch', /deployments/u);
    await new Promise((done) => setTimeout(done, 45_000));
    expect([await scales(), api.count('patch', /deployments/u) - before]).toEqual([UP, 0]);
    api.clear();
    api.interrupt({ kind: 'reset' }, LIST);
    await cut(MOST);
    await untilDown();
  });
});

it('a leader that ends on the way is followed by one that goes on, and by one that scales back', async () => {
  await cut(MOST);
  await eventually(async () => expect((await scales())[0]).toBe('0 (1)'), LOSS);
  await replica?.stop();
  replica = await start();
  await untilDown();
  await replica.stop();
  await cut([]);
  replica = await start();
  await eventually(async () => expect(await scales()).toEqual(UP), LOSS);
});

it('the status keeps replicas, and since when they are 0, for the next leader and while targets cannot be read', async () => {
  await cut(MOST);
  await untilDown();
  const before = await eventually(async () => {
    const { dependents } = (await status()) ?? {};
    expect(dependents?.map(({ state }) => state)).toEqual(['Down', 'Down', 'Down']);
    return dependents;
  }, LOSS);
  await replica?.stop();
  const { metadata, ...binding } = await cluster.api.get<V1RoleBinding>(BINDING);
  await cluster.api.delete(BINDING);
  try {
    replica = await start();
    const unread = before?.map((one) => ({ ...one, state: 'Failed' }));
    await eventually(async () => expect((await status())?.dependents).toEqual(unread), LOSS);
  } finally {
    const { name = '' } = metadata ?? {};
    await cluster.api.create(BINDING.replace(`/${name}`, ''), { ...binding, metadata: { name } });
  }
  await eventually(async () => expect((await status())?.dependents).toEqual(before), LOSS);
});

it('what a user scales back stays so, and is told once', async () => {
  await cut(MOST);
  await untilDown();
  const before = (await told()).filter((one) => one === 'DependentScaledByOthers node-repair').length;
  await cluster.api.patch(`${DEPLOYMENTS}/node-repair/scale`, { spec: { replicas: 3 } });
  await eventually(async () => expect(await reasonOf()).toBe('ScaledByOthers'), LOSS);
  await new Promise((done) => setTimeout(done, 25_000));
  expect(await scales()).toEqual(['0 (1)', '3 (3)', '0 (2)']);
  const after = (await told()).filter((one) => one === 'DependentScaledByOthers node-repair').length;
  expect(after - before).toBe(1);
});

it('the account of the controller may read and patch the targets, and no other object', async () => {
  const controller = cluster.api.as(await readFile(join(serviceAccountDir, 'token'), 'utf8'));
  const nothing = { metadata: { annotations: { other: null } } };
  const { metadata } = await controller.get<V1Deployment>(`${DEPLOYMENTS}/autoscaler`);
  expect(metadata?.name).toBe('autoscaler');
  await controller.patch(`${DEPLOYMENTS}/autoscaler`, nothing);
  const others = [
    `${DEPLOYMENTS}/other`,
    `${DEPLOYMENTS}/autoscaler/scale`,
    `${DEPLOYMENTS}/autoscaler/status`,
    DEPLOYMENTS.replace(NAMESPACE, 'kube-system').concat('/autoscaler'),
    DEPLOYMENTS.replace('deployments', 'statefulsets').concat('/autoscaler'),
    DEPLOYMENTS.replace('deployments', 'daemonsets').concat('/autoscaler'),
  ];
  for (const path of others) {
    await expect(controller.patch(path, nothing)).rejects.toMatchObject({ status: 403 });
    await expect(controller.get(path)).rejects.toMatchObject({ status: 403 });
  }
  await expect(controller.get(DEPLOYMENTS)).rejects.toMatchObject({ status: 403 });
  await expect(controller.create(DEPLOYMENTS, { metadata: { name: 'other' } })).rejects.toMatchObject({ status: 403 });
  await expect(controller.delete(`${DEPLOYMENTS}/autoscaler`)).rejects.toMatchObject({ status: 403 });
});

it('what users let the operator ignore comes back during the loss, and goes down again without the annotation', async () => {
  const ignore = async (value: string | null): Promise<void> => {
    const metadata = { annotations: { [IGNORE_SCALING_ANNOTATION]: value } };
    await cluster.api.patch(`${DEPLOYMENTS}/node-repair`, { metadata });
  };
  await cut(MOST);
  await untilDown();
  await ignore('true');
  await eventually(async () => expect(await scales()).toEqual(['0 (1)', '3', '0 (2)']), LOSS);
  await ignore(null);
  await untilDown();
});

it('an entry that is removed, and the deletion of the configuration, bring dependents back during the loss', async () => {
  await cut(MOST);
  await untilDown();
  await configure(cluster, { connectivity: { nodeMonitorGracePeriod: '24s', dependents: DEPENDENTS.slice(1) } });
  await eventually(async () => expect(await scales()).toEqual(['1', ...DOWN.slice(1)]), LOSS);
  await cluster.api.delete(CONFIG_PATH);
  await eventually(async () => expect(await scales()).toEqual(UP), LOSS);
});

it('before an uninstallation all are scaled back, and no controller scales them again', async () => {
  await cut(MOST);
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
    DEPENDENTS: TARGETS.map(targetKey).join(','),
    RESTORE_DEPENDENTS: 'true',
  });
  expect(config.restoresDependents).toBe(true);
  const { log } = recordingLogger();
  await restore(config, { signal: new AbortController().signal, log, clock: systemClock });
  expect(await scales()).toEqual(UP);
  await new Promise((done) => setTimeout(done, 30_000));
  expect([await scales(), await replica?.isLeader()]).toEqual([UP, false]);
});
