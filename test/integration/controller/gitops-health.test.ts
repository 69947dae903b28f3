/** What kstatus (Flux) and the health check for Argo CD make of live objects, each in the states that users see. */
import { jest } from '@jest/globals';
import { CONFIG_NAME } from '../../../packages/shared/src/api/names.ts';
import type { BottlerocketShadow } from '../../../packages/shared/src/api/shadow.ts';
import { type ControlPlane, startControlPlane } from '../../framework/control-plane/start.ts';
import {
  createMember,
  newVersion,
  oldVersion,
  readShadow,
  report,
  shadowsPath,
} from '../../framework/controller/agents.ts';
import { installForController } from '../../framework/controller/installation.ts';
import { type Replica, startReplica } from '../../framework/controller/replica.ts';
import { eventually } from '../../framework/eventually.ts';
import { type Health, obtainHealth } from '../../framework/gitops/health.ts';

jest.setTimeout(600_000);

const API = '/apis/brupop.bottlerocket.aws/v1alpha1';
const CONFIG = `${API}/brupopconfigs/${CONFIG_NAME}`;
const GROUP = `${API}/bottlerocketnodegroups/web`;
const MAX_PODS = 'settings.kubernetes.max-pods';
/** It opens in February only. */
const NEVER = { maintenance: { windows: [{ schedule: '0 2 29 2 *', duration: '4h' }] } };

let cluster: ControlPlane;
let replica: Replica;
let healthOf: (object: object) => Health;

beforeAll(async () => {
  healthOf = await obtainHealth();
  cluster = await startControlPlane();
  const serviceAccountDir = await installForController(cluster);
  const metadata = { name: CONFIG_NAME };
  await cluster.api.create(`${API}/brupopconfigs`, {
    apiVersion: 'brupop.bottlerocket.aws/v1alpha1',
    kind: 'BrupopConfig',
    metadata,
    spec: {},
  });
  for (const name of ['a', 'b']) {
    await createMember(cluster, name, oldVersion);
    await cluster.api.patch(`/api/v1/nodes/${name}`, { metadata: { labels: { pool: 'web' } } });
  }
  replica = await startReplica(cluster, serviceAccountDir);
});

afterAll(async () => {
  await replica.stop();
  await cluster.stop();
});

/**
 * Both tools agree; the condition or its reason is named.
 * @param meanwhile - what agents do each time before it is looked at
 */
async function expectHealth(
  path: string,
  kstatus: string,
  text: RegExp | string = '',
  meanwhile?: () => Promise<void>,
): Promise<void> {
  const argo = { Current: 'Healthy', InProgress: 'Progressing', Failed: 'Degraded' }[kstatus];
  await eventually(async () => {
    await meanwhile?.();
    const found = healthOf(await cluster.api.get<object>(path));
    expect(found).toMatchObject({ kstatus, argo });
    expect(`${found.kstatusMessage} ${found.argoMessage}`).toMatch(text);
  });
}

async function createGroup(spec: object): Promise<void> {
  const kind = { apiVersion: 'brupop.bottlerocket.aws/v1alpha1', kind: 'BottlerocketNodeGroup' };
  await cluster.api.create(`${API}/bottlerocketnodegroups`, { ...kind, metadata: { name: 'web' }, spec });
}

async function shadowPathOf(node: string): Promise<string> {
  const { metadata } = await readShadow(cluster, node);
  return `${shadowsPath}/${metadata.name}`;
}

/** The agents confirm a spec that is Idle; `pending`: the class that the hosts report for the setting. */
async function confirm(pending?: string): Promise<void> {
  for (const name of ['a', 'b']) {
    const { metadata, spec } = await readShadow(cluster, name);
    if (spec.state !== 'Idle') continue;
    const settings = pending === undefined ? null : { pending: [{ key: MAX_PODS, class: pending, reason: 'because' }] };
    await report(cluster, name, {
      current_state: 'Idle',
      observedGeneration: metadata.generation ?? 0,
      settings: settings as never,
    });
  }
}

it('a configuration is Current at rest, during a pause, and before a window that opens in years', async () => {
  await expectHealth(CONFIG, 'Current');
  await expectHealth(await shadowPathOf('a'), 'Current');
  await cluster.api.patch(CONFIG, { spec: { paused: true, ...NEVER } });
  for (const name of ['a', 'b']) await report(cluster, name, { target_version: newVersion });
  await expectHealth(CONFIG, 'Current', 'Paused');
  await cluster.api.patch(CONFIG, { spec: { paused: false } });
  await expectHealth(CONFIG, 'Current', 'OutsideMaintenanceWindow');
  await expectHealth(await shadowPathOf('a'), 'Current');
  for (const name of ['a', 'b']) await report(cluster, name, { target_version: oldVersion });
});

it('a change of the configuration is InProgress until every node has confirmed it, and is seen at once', async () => {
  await cluster.api.patch(CONFIG, { spec: { versions: { pin: oldVersion } } });
  await expectHealth(CONFIG, 'InProgress', 'not confirmed yet by a, b');
  const { metadata, status } = await cluster.api.get<{
    metadata: { generation: number };
    status: { observedGeneration: number; confirmedGeneration: number };
  }>(CONFIG);
  expect(status.observedGeneration).toBe(metadata.generation);
  expect(status.confirmedGeneration).toBeLessThan(metadata.generation);
  await confirm();
  await expectHealth(CONFIG, 'Current');
});

it('a group with a mistake is Failed', async () => {
  // A group must not move nodes between groups.
  const nodeMetadata = { domains: ['pool'], labels: { pool: 'other' } };
  await createGroup({ nodeSelector: { matchLabels: { pool: 'none' } }, nodeMetadata });
  await expectHealth(GROUP, 'Failed', 'pool');
  await cluster.api.delete(GROUP);
});

it('a group is InProgress while its settings roll out, Current while they wait for a window, and Failed when they are refused', async () => {
  await createGroup({ nodeSelector: { matchLabels: { pool: 'web' } }, settings: { kubernetes: { 'max-pods': 110 } } });
  await expectHealth(GROUP, 'InProgress', 'not confirmed yet by a, b');
  await confirm('RestartsService');
  await expectHealth(GROUP, 'Current', /ChangingSettings|window/u);
  await expectHealth(await shadowPathOf('a'), 'Current', 'window');
  await cluster.api.patch(CONFIG, { spec: { maintenance: null } });
  await expectHealth(GROUP, 'InProgress');
  await confirm('Refused');
  await expectHealth(GROUP, 'Failed', 'cannot be set');
  // The other node has begun to set them, and proves what it could set.
  await expectHealth(await shadowPathOf('b'), 'Failed', 'cannot be set');
  await cluster.api.delete(GROUP);
});

it('a node is InProgress while it updates, and Failed when its update needs a user', async () => {
  await cluster.api.patch(CONFIG, { spec: { versions: null } });
  const state = async (): Promise<BottlerocketShadow['spec']['state']> => (await readShadow(cluster, 'a')).spec.state;
  await eventually(async () => {
    await confirm();
    await report(cluster, 'a', { target_version: newVersion });
    expect(await state()).toBe('StagedAndPerformedUpdate');
  });
  await expectHealth(await shadowPathOf('a'), 'InProgress');
  // The host of the other node may get its settings after this one has started.
  await expectHealth(CONFIG, 'Current', /updating|Updating/u, confirm);
  const { metadata } = await readShadow(cluster, 'a');
  const time = new Date().toISOString().replace(/\.\d+Z/u, 'Z');
  await report(cluster, 'a', {
    current_state: 'ErrorReset',
    observedGeneration: metadata.generation ?? 0,
    crash_count: 1,
    state_transition_failure_timestamp: time,
    lastOperation: {
      operation: 'Stage',
      state: 'Failed',
      version: newVersion,
      bootID: 'boot-of-a',
      startTime: time,
      lastUpdateTime: time,
      errorCode: 'HostUnsupported',
      message: 'made for this test',
    },
  });
  await eventually(async () => expect(await state()).toBe('Idle'));
  await confirm();
  await expectHealth(await shadowPathOf('a'), 'Failed');
});

it('a group that no controller has seen is InProgress', async () => {
  await replica.stop();
  await createGroup({ nodeSelector: { matchLabels: { pool: 'web' } } });
  await expectHealth(GROUP, 'InProgress');
});
