/** Labels of a large group, and releases that render the same spec otherwise, with a real kube-apiserver. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { jest } from '@jest/globals';
import type { V1Node } from '@kubernetes/client-node';
import { CONFIG_NAME } from '../../../packages/shared/src/api/names.ts';
import type { BottlerocketNodeGroup } from '../../../packages/shared/src/api/node-group.ts';
import { auditPosition, countRequests, operatorRequests } from '../../framework/audit.ts';
import { releaseNamespace } from '../../framework/chart.ts';
import { kwokNodeAnnotation } from '../../framework/control-plane/stages.ts';
import { type ControlPlane, startControlPlane } from '../../framework/control-plane/start.ts';
import { createMember, deleteMembers, managedLabel, oldVersion } from '../../framework/controller/agents.ts';
import { installForController } from '../../framework/controller/installation.ts';
import { otherRelease } from '../../framework/controller/other-release.ts';
import { type Replica, startReplica } from '../../framework/controller/replica.ts';
import { eventually } from '../../framework/eventually.ts';
import { applyGroup } from '../../framework/fleet/pools.ts';

jest.setTimeout(1_200_000);

const GROUP = '/apis/brupop.bottlerocket.aws/v1alpha1/bottlerocketnodegroups/gpu';
const CONFIGS = '/apis/brupop.bottlerocket.aws/v1alpha1/brupopconfigs';
const SHADOWS = `/apis/brupop.bottlerocket.aws/v2/namespaces/${releaseNamespace}/bottlerocketshadows`;
const TEAM = 'example.com/team';
const domains = ['example.com'];
const LARGE = 2_000;
/** Longer than the controller takes for anything that it would write. */
const QUIET_MS = 10_000;

let cluster: ControlPlane;
let serviceAccountDir = '';
let folder = '';
let replica: Replica | undefined;

beforeAll(async () => {
  cluster = await startControlPlane();
  serviceAccountDir = await installForController(cluster);
  folder = await mkdtemp(join(tmpdir(), 'brupop-release-'));
  const kind = { apiVersion: 'brupop.bottlerocket.aws/v1alpha1', kind: 'BrupopConfig' };
  await cluster.api.create(CONFIGS, { ...kind, metadata: { name: CONFIG_NAME }, spec: {} });
});

afterAll(async () => {
  await replica?.stop();
  await rm(folder, { recursive: true, force: true });
  await cluster.stop();
});

async function start(release?: Parameters<typeof startReplica>[3]): Promise<void> {
  await replica?.stop();
  replica = await startReplica(cluster, serviceAccountDir, {}, release);
}

/** The writes of the controller, without those of its Lease. */
async function writesSince(position: number): Promise<ReadonlyMap<string, number>> {
  const requests = await operatorRequests(cluster.auditLogPath, releaseNamespace, position);
  const writes = requests.filter(({ verb }) => !['get', 'list', 'watch'].includes(verb));
  // A write that another writer was faster than changes nothing.
  return countRequests(writes.filter(({ resource, status }) => resource !== 'leases' && status !== 409));
}

async function groupOf(): Promise<BottlerocketNodeGroup> {
  return await cluster.api.get<BottlerocketNodeGroup>(GROUP);
}

async function teams(): Promise<(string | undefined)[]> {
  const { items } = await cluster.api.get<{ items: V1Node[] }>('/api/v1/nodes');
  return items.map(({ metadata }) => metadata?.labels?.[TEAM]);
}

async function untilAllAre(team: string | undefined): Promise<void> {
  await eventually(async () => expect(new Set(await teams())).toEqual(new Set([team])), {
    limitMs: 300_000,
    pauseMs: 1_000,
  });
}

test('a release that renders the same spec otherwise writes nothing until the spec changes', async () => {
  await createMember(cluster, 'gpu-0', oldVersion);
  await cluster.api.patch('/api/v1/nodes/gpu-0', { metadata: { labels: { pool: 'gpu' } } });
  await applyGroup({ cluster }, 'gpu', { nodeMetadata: { labels: { [TEAM]: 'ml' }, domains } });
  await start();
  await untilAllAre('ml');
  await eventually(async () => expect((await groupOf()).status?.confirmedGeneration).toBe(1));

  const prefixed = {
    'labels: sorted(labels)': "labels: { ...sorted(labels), 'example.com/rendered-by': 'another-release' }",
  };
  await replica?.stop();
  replica = undefined;
  const position = await auditPosition(cluster.auditLogPath);
  await start(await otherRelease(folder, { rendered: prefixed }));
  const pending = await eventually(async () => {
    const found = (await groupOf()).status?.conditions?.find(({ type }) => type === 'PendingChanges');
    expect(found?.reason).toBe('OtherRendering');
    return found?.message;
  });
  expect(pending).toContain('spec.nodeMetadata.labels.example.com/rendered-by from none to another-release');
  await sleep(QUIET_MS);
  expect([...(await writesSince(position)).keys()]).toEqual(['brupop-controller patch bottlerocketnodegroups/status']);
  const rendered = async (): Promise<string | undefined> =>
    (await cluster.api.get<V1Node>('/api/v1/nodes/gpu-0')).metadata?.labels?.['example.com/rendered-by'];
  expect(await rendered()).toBeUndefined();

  await applyGroup({ cluster }, 'gpu', { nodeMetadata: { labels: { [TEAM]: 'web' }, domains } });
  await untilAllAre('web');
  await eventually(async () => expect(await rendered()).toBe('another-release'));
  await cluster.api.delete(GROUP);
  await eventually(async () => await expect(groupOf()).rejects.toMatchObject({ status: 404 }));
  expect(await teams()).toEqual([undefined]);
  await deleteMembers(cluster, ['gpu-0']);
});

/** These nodes have no agent, which the controller writes five minutes after the creation of a shadow. */
async function untilAllAreStalled(): Promise<void> {
  await eventually(
    async () => {
      const { items } = await cluster.api.get<{ items: { status?: { conditions?: { type: string }[] } }[] }>(SHADOWS);
      const stalled = items.filter(({ status }) => status?.conditions?.some(({ type }) => type === 'Stalled') === true);
      expect(stalled).toHaveLength(LARGE);
    },
    // Other files of the matrix may use the processors meanwhile.
    { limitMs: 900_000, pauseMs: 10_000 },
  );
}

test(`a change of a group of ${LARGE} nodes that KWOK plays is one write of each, and nothing else but statuses`, async () => {
  await start();
  await applyGroup({ cluster }, 'gpu', {});
  const queue = Array.from({ length: LARGE }, (_, i) => `large-${i}`).values();
  const create = async (): Promise<void> => {
    for (const name of queue) {
      const annotations = { [kwokNodeAnnotation]: 'fake' };
      await cluster.api.create('/api/v1/nodes', {
        metadata: { name, annotations, labels: { ...managedLabel, pool: 'gpu' } },
      });
    }
  };
  await Promise.all(Array.from({ length: 20 }, create));
  await untilAllAreStalled();
  await untilQuiet();
  for (const team of ['ml', 'web']) {
    const position = await auditPosition(cluster.auditLogPath);
    const startedAt = Date.now();
    await applyGroup({ cluster }, 'gpu', { nodeMetadata: { labels: { [TEAM]: team }, domains } });
    await untilAllAre(team);
    process.stdout.write(`${LARGE} nodes have the label after ${Date.now() - startedAt} ms\n`);
    await untilQuiet();
    const writes = new Map(await writesSince(position));
    expect(writes.get('brupop-controller patch nodes')).toBe(LARGE);
    expect(writes.get('brupop-controller patch bottlerocketnodegroups') ?? 0).toBe(team === 'ml' ? 1 : 0);
    // It has the generations of the groups that are in force.
    expect(writes.get('brupop-controller patch brupopconfigs/status')).toBe(1);
    for (const kind of ['nodes', 'bottlerocketnodegroups', 'bottlerocketnodegroups/status', 'brupopconfigs/status']) {
      writes.delete(`brupop-controller patch ${kind}`);
    }
    expect([...writes]).toEqual([]);
  }
});

/** Until the controller writes nothing any more. */
async function untilQuiet(): Promise<void> {
  await eventually(
    async () => {
      const position = await auditPosition(cluster.auditLogPath);
      await sleep(QUIET_MS);
      expect([...(await writesSince(position))]).toEqual([]);
    },
    { limitMs: 300_000 },
  );
}
