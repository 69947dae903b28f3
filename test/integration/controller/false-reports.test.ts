/** Two agents that conspire, on a real API server: what they claim neither counts as a failure nor holds other nodes. */
import { readRecord } from '../../../packages/shared/src/api/record.ts';
import { jest } from '@jest/globals';
import type { BrupopConfig } from '../../../packages/shared/src/api/brupop-config.ts';
import { CONFIG_NAME, CONFIG_PLURAL, CONFIG_VERSION, GROUP } from '../../../packages/shared/src/api/names.ts';
import { type ControlPlane, startControlPlane } from '../../framework/control-plane/start.ts';
import { createMember, deleteMembers, newVersion, readShadow, report } from '../../framework/controller/agents.ts';
import { installForController } from '../../framework/controller/installation.ts';
import { type Replica, startReplica } from '../../framework/controller/replica.ts';
import { eventually } from '../../framework/eventually.ts';

jest.setTimeout(180_000);

const MADE_UP = '999.0.0';
const liars = ['liar-0', 'liar-1'];
const honest = 'with-an-older-version';
const path = `/apis/${GROUP}/${CONFIG_VERSION}/${CONFIG_PLURAL}/${CONFIG_NAME}`;

let cluster: ControlPlane;
let replica: Replica;

beforeAll(async () => {
  cluster = await startControlPlane();
  const serviceAccountDir = await installForController(cluster);
  for (const name of liars) await createMember(cluster, name, MADE_UP);
  const spec = { concurrency: { maxUpdating: 3 } };
  await cluster.api.create(path.slice(0, path.lastIndexOf('/')), {
    apiVersion: `${GROUP}/${CONFIG_VERSION}`,
    kind: 'BrupopConfig',
    metadata: { name: CONFIG_NAME },
    spec,
  });
  replica = await startReplica(cluster, serviceAccountDir);
});

afterAll(async () => {
  await replica.stop();
  await deleteMembers(cluster, [...liars, honest]);
  await cluster.stop();
});

/** Waits until the spec says so; returns its generation. */
async function untilRequested(node: string, state: string): Promise<number> {
  return await eventually(
    async () => {
      const { spec, metadata } = await readShadow(cluster, node);
      expect(spec.state).toBe(state);
      return metadata.generation ?? 0;
    },
    { limitMs: 30_000 },
  );
}

async function claimRollback(node: string): Promise<void> {
  const staged = await untilRequested(node, 'StagedAndPerformedUpdate');
  await report(cluster, node, { current_state: 'StagedAndPerformedUpdate', observedGeneration: staged });
  const observedGeneration = await untilRequested(node, 'RebootedIntoUpdate');
  const now = new Date().toISOString();
  await report(cluster, node, {
    current_state: 'ErrorReset',
    observedGeneration,
    crash_count: 1,
    bootID: 'made-up',
    lastOperation: {
      operation: 'Restore',
      state: 'Failed',
      errorCode: 'RolledBack',
      message: 'rolled back',
      version: MADE_UP,
      bootID: 'made-up',
      startTime: now,
      lastUpdateTime: now,
    },
  });
}

it('two agents that claim a version and its rollback without a drain freeze nothing for a third node', async () => {
  for (const name of liars) {
    await claimRollback(name);
    await untilRequested(name, 'Idle');
    expect(readRecord((await readShadow(cluster, name)).metadata).failed).toBeUndefined();
  }
  await createMember(cluster, honest, newVersion);
  await untilRequested(honest, 'StagedAndPerformedUpdate');
  const { status } = await cluster.api.get<BrupopConfig>(path);
  expect([status?.failedNodes ?? [], status?.frozenVersions ?? []]).toEqual([[], []]);
});
