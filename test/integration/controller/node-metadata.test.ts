/** Labels, annotations and taints that node groups give to Nodes, with a real kube-apiserver and the chart's policies. */
import { jest } from '@jest/globals';
import type { V1Node } from '@kubernetes/client-node';
import { GROUP_KEYS_ANNOTATION, GROUP_TAINTS_ANNOTATION } from '../../../packages/shared/src/api/names.ts';
import type { Condition } from '../../../packages/shared/src/api/meta.ts';
import type { BottlerocketNodeGroup } from '../../../packages/shared/src/api/node-group.ts';
import { auditPosition, countRequests, operatorRequests } from '../../framework/audit.ts';
import { releaseNamespace } from '../../framework/chart.ts';
import { type ControlPlane, startControlPlane } from '../../framework/control-plane/start.ts';
import { createMember, deleteMembers, oldVersion } from '../../framework/controller/agents.ts';
import { installForController } from '../../framework/controller/installation.ts';
import { type Replica, startReplica } from '../../framework/controller/replica.ts';
import { eventually } from '../../framework/eventually.ts';
import { applyGroup } from '../../framework/fleet/pools.ts';

jest.setTimeout(120_000);

const GROUPS = '/apis/brupop.bottlerocket.aws/v1alpha1/bottlerocketnodegroups';
const TEAM = 'example.com/team';
const OWNER = 'example.com/owner';
const DEDICATED = { key: 'example.com/dedicated', value: 'gpu', effect: 'NoSchedule' } as const;
const domains = ['example.com'];

let cluster: ControlPlane;
let serviceAccountDir = '';
let replica: Replica;
const names: string[] = [];

beforeAll(async () => {
  cluster = await startControlPlane();
  serviceAccountDir = await installForController(cluster, '--set', 'nodeMetadata.domains={example.com}');
  replica = await startReplica(cluster, serviceAccountDir);
});

afterEach(async () => {
  for (const name of ['gpu', 'web']) await cluster.api.delete(`${GROUPS}/${name}`);
  await eventually(async () => {
    const { items } = await cluster.api.get<{ items: unknown[] }>(GROUPS);
    expect(items).toEqual([]);
  });
  await deleteMembers(cluster, names.splice(0));
});

afterAll(async () => {
  await replica.stop();
  await cluster.stop();
});

/** Managed nodes of a pool that need no update. */
async function members(pool: string, count: number): Promise<string[]> {
  const made = Array.from({ length: count }, (_, i) => `${pool}-${i}`);
  names.push(...made);
  for (const name of made) {
    await createMember(cluster, name, oldVersion);
    await cluster.api.patch(`/api/v1/nodes/${name}`, { metadata: { labels: { pool } } });
  }
  return made;
}

const nodeOf = async (name: string): Promise<V1Node> => await cluster.api.get<V1Node>(`/api/v1/nodes/${name}`);

async function groupOf(name: string): Promise<BottlerocketNodeGroup> {
  return await cluster.api.get<BottlerocketNodeGroup>(`${GROUPS}/${name}`);
}

async function conditionOf(name: string, type: string): Promise<Condition | undefined> {
  return (await groupOf(name)).status?.conditions?.find((one) => one.type === type);
}

/** Until every node has confirmed the spec of the group as it is now. */
async function untilObserved(name: string): Promise<void> {
  await eventually(async () => {
    const { metadata, status } = await groupOf(name);
    expect([status?.observedGeneration, status?.conditions]).toEqual([metadata.generation, status?.conditions]);
  });
}

async function untilCondition(name: string, type: string, reason: string): Promise<string> {
  return await eventually(async () => {
    const condition = await conditionOf(name, type);
    expect([condition?.reason, condition?.message]).toEqual([reason, condition?.message]);
    return condition?.message ?? '';
  });
}

interface Shown {
  readonly team: string | undefined;
  readonly owner: string | undefined;
  readonly taints: readonly string[];
}

/** What the Node has of the keys of these tests. */
async function shownOn(name: string): Promise<Shown> {
  const { metadata, spec } = await nodeOf(name);
  return {
    team: metadata?.labels?.[TEAM],
    owner: metadata?.annotations?.[OWNER],
    taints: (spec?.taints ?? []).filter(({ key }) => key.startsWith('example.com/')).map(({ value }) => value ?? ''),
  };
}

async function patchAs(manager: string, name: string, patch: object): Promise<void> {
  await cluster.api.request(
    'PATCH',
    `/api/v1/nodes/${name}?fieldManager=${manager}`,
    patch,
    'application/merge-patch+json',
  );
}

async function writesSince(position: number): Promise<Readonly<Record<string, number>>> {
  const requests = await operatorRequests(cluster.auditLogPath, releaseNamespace, position);
  const writes = requests.filter(
    ({ verb, resource }) => !['get', 'list', 'watch'].includes(verb) && resource !== 'leases',
  );
  return Object.fromEntries(countRequests(writes));
}

const full = { labels: { [TEAM]: 'ml' }, annotations: { [OWNER]: 'ada' }, taints: [DEDICATED], domains };

describe('a group', () => {
  it('gives its Nodes labels, annotations and taints, and takes them back when it drops them', async () => {
    const [first = '', second = ''] = await members('gpu', 2);
    await applyGroup({ cluster }, 'gpu', { nodeMetadata: full });
    await untilObserved('gpu');
    for (const name of [first, second]) {
      expect(await shownOn(name)).toEqual({ team: 'ml', owner: 'ada', taints: ['gpu'] });
    }
    await applyGroup({ cluster }, 'gpu', { nodeMetadata: { labels: { [TEAM]: 'web' }, domains } });
    await untilObserved('gpu');
    expect(await shownOn(first)).toEqual({ team: 'web', owner: undefined, taints: [] });
    await applyGroup({ cluster }, 'gpu', {});
    await untilObserved('gpu');
    expect(await shownOn(first)).toEqual({ team: undefined, owner: undefined, taints: [] });
    const { metadata } = await nodeOf(second);
    expect(metadata?.annotations).not.toHaveProperty([GROUP_KEYS_ANNOTATION]);
    expect(metadata?.annotations).not.toHaveProperty([GROUP_TAINTS_ANNOTATION]);
    expect(JSON.stringify(metadata?.managedFields)).not.toContain('brupop-group-gpu');
    await eventually(async () => expect((await groupOf('gpu')).metadata.finalizers ?? []).toEqual([]));
  });
});
