/** Two pools that their owners steer, beside a fleet that goes on, on a real API server. */
import { jest } from '@jest/globals';
import {
  NODE_GROUP_KIND,
  NODE_GROUP_PLURAL,
  NODE_GROUP_VERSION,
  GROUP,
} from '../../../packages/shared/src/api/names.ts';
import type { BottlerocketNodeGroup } from '../../../packages/shared/src/api/node-group.ts';
import { rfc3339 } from '../../../packages/shared/src/runtime/clock.ts';
import { type ControlPlane, startControlPlane } from '../../framework/control-plane/start.ts';
import {
  answer,
  createMember,
  deleteMembers,
  isAnswered,
  newVersion,
  oldVersion,
  readShadow,
  report,
} from '../../framework/controller/agents.ts';
import { configure, HEALTHY_AT_ONCE, readBrupopConfig } from '../../framework/controller/configuration.ts';
import { installForController } from '../../framework/controller/installation.ts';
import { type Replica, startReplica } from '../../framework/controller/replica.ts';
import { eventually } from '../../framework/eventually.ts';

jest.setTimeout(300_000);

const GROUPS = `/apis/${GROUP}/${NODE_GROUP_VERSION}/${NODE_GROUP_PLURAL}`;
const POOLS = { db: ['db-0', 'db-1', 'db-2'], web: ['web-0', 'web-1', 'web-2'], none: ['none-0', 'none-1'] } as const;
const NODES = Object.values(POOLS).flat();
/** The fleet has canaries, and a budget that no group exceeds. */
const FLEET = {
  ...HEALTHY_AT_ONCE,
  concurrency: { maxUpdating: 10 },
  rollout: { failureBudget: 3, canary: { nodes: 1 } },
} as const;

let cluster: ControlPlane;
let serviceAccountDir: string;
let replica: Replica;

beforeAll(async () => {
  cluster = await startControlPlane();
  serviceAccountDir = await installForController(cluster);
  for (const [pool, names] of Object.entries(POOLS)) {
    for (const name of names) {
      await createMember(cluster, name, oldVersion);
      await cluster.api.patch(`/api/v1/nodes/${name}`, { metadata: { labels: { pool } } });
    }
  }
  await configure(cluster, FLEET);
  await createGroup('db', {
    paused: true,
    pauseReason: 'end of quarter',
    rollout: { failureBudget: 0, canary: { nodes: 1 }, approval: 'Required' },
  });
  await createGroup('web', { rollout: { canary: { nodes: '100%' }, failureBudget: 1 } });
  replica = await startReplica(cluster, serviceAccountDir);
});

afterAll(async () => {
  await replica.stop();
  await deleteMembers(cluster, NODES);
  await cluster.stop();
});

async function createGroup(name: string, spec: object): Promise<void> {
  const nodeSelector = { matchLabels: { pool: name } };
  const metadata = { name };
  const kind = { apiVersion: `${GROUP}/${NODE_GROUP_VERSION}`, kind: NODE_GROUP_KIND };
  await cluster.api.create(GROUPS, { ...kind, metadata, spec: { nodeSelector, ...spec } });
}

async function patchGroup(name: string, spec: object): Promise<void> {
  await cluster.api.patch(`${GROUPS}/${name}`, { spec });
}

async function untilGroup(name: string, type: string, expected: object): Promise<BottlerocketNodeGroup['status']> {
  return await eventually(async () => {
    const { status } = await cluster.api.get<BottlerocketNodeGroup>(`${GROUPS}/${name}`);
    expect(status?.conditions?.find((one) => one.type === type)).toMatchObject(expected);
    return status;
  });
}

async function offerAll(): Promise<void> {
  for (const name of NODES) await report(cluster, name, { target_version: newVersion });
}

async function untilWaiting(names: readonly string[], reason: string): Promise<void> {
  await eventually(async () => {
    for (const name of names) {
      const { spec, status } = await readShadow(cluster, name);
      expect([name, spec.state, status?.waitingReason]).toEqual([name, 'Idle', reason]);
    }
  });
}

async function untilState(names: readonly string[], state: string): Promise<void> {
  await eventually(async () => {
    for (const name of names) expect([name, (await readShadow(cluster, name)).spec.state]).toEqual([name, state]);
  });
}

/** Their agents report what their specs ask for, until the update has succeeded. */
async function update(names: readonly string[]): Promise<void> {
  await eventually(
    async () => {
      for (const name of names) await answer(cluster, await readShadow(cluster, name));
      for (const name of names) {
        const shadow = await readShadow(cluster, name);
        const { spec, status } = shadow;
        expect([name, spec.state, status?.current_version]).toEqual([name, 'Idle', newVersion]);
        expect([name, isAnswered(shadow)]).toEqual([name, true]);
      }
    },
    { limitMs: 60_000 },
  );
}

/** The host is drained, and boots the old version. */
async function fail(name: string): Promise<void> {
  await untilState([name], 'StagedAndPerformedUpdate');
  await answer(cluster, await readShadow(cluster, name));
  await untilState([name], 'RebootedIntoUpdate');
  const { metadata } = await readShadow(cluster, name);
  const { generation: observedGeneration = 0 } = metadata;
  const time = rfc3339(Date.now());
  const drain = { observedGeneration, startTime: time, result: 'Drained', evicted: 0, remaining: 0 } as const;
  const bootID = `old-boot-of-${name}`;
  await report(cluster, name, { drain } as never);
  await cluster.api.patch(`/api/v1/nodes/${name}/status`, { status: { nodeInfo: { bootID } } });
  await report(cluster, name, {
    current_state: 'ErrorReset',
    observedGeneration,
    crash_count: 1,
    bootID,
    lastOperation: {
      operation: 'Reboot',
      state: 'Failed',
      errorCode: 'RolledBack',
      message: 'the host runs the old version again',
      version: newVersion,
      bootID,
      startTime: time,
      lastUpdateTime: time,
    },
  });
}

it('a paused pool waits, one pool goes on without canaries, and the fleet has one', async () => {
  await untilGroup('db', 'Paused', {
    status: 'True',
    message: 'BottlerocketNodeGroup "db" pauses its nodes: end of quarter',
  });
  await untilGroup('web', 'Paused', { status: 'False' });
  await offerAll();
  await untilWaiting(POOLS.db, 'Paused');
  await untilState([...POOLS.web, 'none-0'], 'StagedAndPerformedUpdate');
  await untilWaiting(['none-1'], 'WaitingForCanary');
  await update(['none-0']);
  await update(['none-1']);
  await update(['web-0']);
  expect.hasAssertions();
});

it('a pause of the fleet holds for a group that is not paused, and is named', async () => {
  await configure(cluster, { ...FLEET, paused: true, pauseReason: 'incident' });
  const status = { status: 'True', message: 'BrupopConfig "cluster" pauses all updates: incident' };
  await untilGroup('web', 'Paused', status);
  await patchGroup('db', { paused: false, pauseReason: null });
  await untilGroup('db', 'Paused', status);
  await untilWaiting(POOLS.db, 'Paused');
  await configure(cluster, FLEET);
  expect.hasAssertions();
});

it('a pool has a canary of its own, and is approved by its own group', async () => {
  await untilState(['db-0'], 'StagedAndPerformedUpdate');
  await untilWaiting(['db-1', 'db-2'], 'WaitingForCanary');
  await update(['db-0']);
  await untilWaiting(['db-1', 'db-2'], 'WaitingForApproval');
  const status = await untilGroup('db', 'Progressing', { reason: 'WaitingForApproval' });
  expect(status?.canaries).toMatchObject([{ version: newVersion }]);
  const { rollout } = FLEET;
  await configure(cluster, { ...FLEET, rollout: { ...rollout, approvedVersion: newVersion } });
  await untilWaiting(['db-1', 'db-2'], 'WaitingForApproval');
  await patchGroup('db', { concurrency: { maxUpdating: 1 }, rollout: { approvedVersion: newVersion } });
});

it('a version that fails in a pool is frozen for it, also by the next leader, until the group resumes', async () => {
  await fail('db-1');
  await untilWaiting(['db-2'], 'Frozen');
  const status = await untilGroup('db', 'Frozen', { status: 'True', reason: 'FailureBudgetExceeded' });
  expect(status?.frozenVersions).toMatchObject([{ version: newVersion }]);
  await untilGroup('db', 'Stalled', { status: 'True' });
  await untilGroup('web', 'Frozen', { status: 'False' });
  // Of each object, the status is written at most once a second.
  await eventually(async () =>
    expect((await readBrupopConfig(cluster)).status?.failedNodes).toMatchObject([{ name: 'db-1', group: 'db' }]),
  );
  expect((await readBrupopConfig(cluster)).status).not.toHaveProperty('frozenVersions');
  await update(['web-1']);
  await replica.stop();
  // The node that failed is deleted while no controller runs: the records of group and configuration are left.
  await deleteMembers(cluster, ['db-1']);
  replica = await startReplica(cluster, serviceAccountDir);
  await eventually(async () =>
    expect((await readBrupopConfig(cluster)).status?.failedNodes).toMatchObject([{ name: 'db-1', deleted: true }]),
  );
  await untilGroup('db', 'Frozen', { status: 'True' });
  await untilWaiting(['db-2'], 'Frozen');
  await patchGroup('db', { rollout: { resume: rfc3339(Date.now()) } });
  await update(['db-2']);
  const after = await untilGroup('db', 'Frozen', { status: 'False', reason: 'NotFrozen' });
  expect(after).not.toHaveProperty('frozenVersions');
});

it('what a group has accepted still counts for the fleet, whose freeze holds for a group that allows more', async () => {
  await patchGroup('web', { rollout: { failureBudget: 3 } });
  const rollout = { ...FLEET.rollout, failureBudget: 0 };
  await configure(cluster, { ...FLEET, rollout });
  const message = `Too many nodes failed with ${newVersion}; see the condition Frozen of BrupopConfig "cluster"`;
  for (const name of ['web', 'db']) await untilGroup(name, 'Frozen', { status: 'True', message });
  await answer(cluster, await readShadow(cluster, 'web-2'));
  await untilWaiting(['web-2'], 'Frozen');
  await configure(cluster, { ...FLEET, rollout: { ...rollout, resume: rfc3339(Date.now()) } });
  for (const name of ['web', 'db']) await untilGroup(name, 'Frozen', { status: 'False' });
  await update(['web-2']);
  expect.hasAssertions();
});
