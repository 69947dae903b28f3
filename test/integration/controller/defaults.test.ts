import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { jest } from '@jest/globals';
import { type ControlPlane, startControlPlane } from '../../framework/control-plane/start.ts';
import { createMember, deleteMembers, newVersion, playAgents, readShadow } from '../../framework/controller/agents.ts';
import { configure, HEALTHY_AT_ONCE, readBrupopConfig } from '../../framework/controller/configuration.ts';
import { installForController } from '../../framework/controller/installation.ts';
import { otherRelease } from '../../framework/controller/other-release.ts';
import { type Replica, startReplica } from '../../framework/controller/replica.ts';
import { eventually } from '../../framework/eventually.ts';

jest.setTimeout(120_000);

let cluster: ControlPlane;
let serviceAccountDir = '';
let folder = '';
let running: Replica | undefined;

beforeAll(async () => {
  cluster = await startControlPlane();
  serviceAccountDir = await installForController(cluster);
  folder = await mkdtemp(join(tmpdir(), 'brupop-release-'));
});

afterAll(async () => {
  await running?.stop();
  await rm(folder, { recursive: true, force: true });
  await cluster.stop();
});

async function start(release?: Parameters<typeof startReplica>[3]): Promise<void> {
  await running?.stop();
  running = await startReplica(cluster, serviceAccountDir, {}, release);
}

/** Until the spec as it is now is in effect; answers what is in force. */
async function untilInForce(): Promise<unknown> {
  return await eventually(async () => {
    const { metadata, status } = await readBrupopConfig(cluster);
    if (status?.confirmedGeneration !== metadata.generation) throw new Error('the spec is not in effect yet');
    return status?.inForce?.spec['concurrency'];
  });
}

async function pendingChanges(): Promise<string | undefined> {
  const { status } = await readBrupopConfig(cluster);
  return status?.conditions?.find(({ type }) => type === 'PendingChanges')?.message;
}

async function mostAtOnce(prefix: string): Promise<number> {
  const names = Array.from({ length: 4 }, (_, i) => `${prefix}-${i}`);
  await Promise.all(names.map((name) => createMember(cluster, name)));
  const agents = playAgents(cluster);
  await eventually(async () => {
    const shadows = await Promise.all(names.map(async (name) => await readShadow(cluster, name)));
    for (const { spec, status } of shadows) expect([spec.state, status?.current_version]).toEqual(['Idle', newVersion]);
  });
  await agents.stop();
  await deleteMembers(cluster, names);
  return agents.mostUnderWay();
}

test('a release with other defaults changes nothing until the configuration is changed', async () => {
  await configure(cluster, { ...HEALTHY_AT_ONCE, order: 'Name' });
  await start();
  expect(await untilInForce()).toMatchObject({ maxUpdating: 1 });
  expect(await mostAtOnce('first')).toBe(1);

  await start(await otherRelease(folder, { 'config-spec': { 'always(1)': '{ default: 3, absent: 1 }' } }));
  expect(await mostAtOnce('second')).toBe(1);
  expect(await untilInForce()).toMatchObject({ maxUpdating: 1 });
  expect(await pendingChanges()).toMatch(
    /^This release has other defaults\..* spec\.concurrency\.maxUpdating from 1 to 3/u,
  );

  await configure(cluster, { ...HEALTHY_AT_ONCE, order: 'Random' });
  expect(await untilInForce()).toMatchObject({ maxUpdating: 3 });
  expect(await pendingChanges()).toBe('The next change of the spec changes nothing else');
  expect(await mostAtOnce('third')).toBe(3);
});
