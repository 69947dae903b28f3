/** Labels, annotations and taints that node groups give to Nodes, with a real kube-apiserver and the chart's policies. */
import { setTimeout as sleep } from 'node:timers/promises';
import { jest } from '@jest/globals';
import type { V1Node } from '@kubernetes/client-node';
import { CONFIG_NAME, GROUP_KEYS_ANNOTATION, GROUP_TAINTS_ANNOTATION } from '../../../packages/shared/src/api/names.ts';
import type { Condition } from '../../../packages/shared/src/api/meta.ts';
import type { BottlerocketNodeGroup } from '../../../packages/shared/src/api/node-group.ts';
import { auditPosition, countRequests, operatorRequests } from '../../framework/audit.ts';
import { releaseNamespace, renderChart } from '../../framework/chart.ts';
import { type ControlPlane, startControlPlane } from '../../framework/control-plane/start.ts';
import { createMember, deleteMembers, oldVersion, readShadow, report } from '../../framework/controller/agents.ts';
import { installForController } from '../../framework/controller/installation.ts';
import { type Replica, startReplica } from '../../framework/controller/replica.ts';
import { eventually } from '../../framework/eventually.ts';
import { applyGroup } from '../../framework/fleet/pools.ts';

jest.setTimeout(120_000);

const GROUPS = '/apis/brupop.bottlerocket.aws/v1alpha1/bottlerocketnodegroups';
const CONFIGS = '/apis/brupop.bottlerocket.aws/v1alpha1/brupopconfigs';
const TEAM = 'example.com/team';
const OWNER = 'example.com/owner';
const DEDICATED = { key: 'example.com/dedicated', value: 'gpu', effect: 'NoSchedule' } as const;
const domains = ['example.com'];
/** Longer than the controller takes for anything that it would write. */
const QUIET_MS = 3_000;
/** Less than the fifth delay after a rejection. */
const JOINS_MS = 5_000;
const ADMISSION = '/apis/admissionregistration.k8s.io/v1';
const REJECTING = 'no-team';

let cluster: ControlPlane;
let serviceAccountDir = '';
let replica: Replica;
const names: string[] = [];

beforeAll(async () => {
  cluster = await startControlPlane();
  serviceAccountDir = await installForController(cluster);
  await installPolicies();
  await cluster.api.create(CONFIGS, {
    apiVersion: 'brupop.bottlerocket.aws/v1alpha1',
    kind: 'BrupopConfig',
    metadata: { name: CONFIG_NAME },
    spec: {},
  });
  replica = await startReplica(cluster, serviceAccountDir);
});

afterEach(async () => {
  for (const name of ['gpu', 'web']) await cluster.api.delete(`${GROUPS}/${name}`);
  await eventually(async () => {
    const { items } = await cluster.api.get<{ items: unknown[] }>(GROUPS);
    if (items.length > 0) throw new Error('a group is still being deleted');
  });
  await deleteMembers(cluster, names.splice(0));
});

afterAll(async () => {
  await replica.stop();
  await cluster.stop();
});

/** The chart's policies of what the controller may write; not the one of shadows, which these tests write. */
async function installPolicies(): Promise<void> {
  for (const object of await renderChart(cluster, '--set', 'nodeMetadata.domains={example.com}')) {
    const { kind, metadata } = object;
    if (!kind.startsWith('ValidatingAdmissionPolicy') || !metadata.name.startsWith('brupop-node')) continue;
    const plural =
      kind === 'ValidatingAdmissionPolicy' ? 'validatingadmissionpolicies' : 'validatingadmissionpolicybindings';
    await cluster.api.create(`${ADMISSION}/${plural}`, object);
  }
}

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
async function untilConfirmed(name: string): Promise<void> {
  await eventually(async () => {
    const { metadata, status } = await groupOf(name);
    expect([status?.confirmedGeneration, status?.conditions]).toEqual([metadata.generation, status?.conditions]);
  });
}

async function untilCondition(name: string, type: string, reason: string): Promise<string> {
  return await eventually(async () => {
    const condition = await conditionOf(name, type);
    expect([condition?.reason, condition?.message]).toEqual([reason, condition?.message]);
    return condition?.message ?? '';
  });
}

/** Returns when an admission policy rejects the label on this Node. */
async function rejectTeamOn(name: string): Promise<void> {
  const rule = {
    apiGroups: [''],
    apiVersions: ['v1'],
    operations: ['UPDATE'],
    resources: ['nodes'],
    resourceNames: [name],
  };
  await cluster.api.create(`${ADMISSION}/validatingadmissionpolicies`, {
    metadata: { name: REJECTING },
    spec: {
      failurePolicy: 'Fail',
      matchConstraints: { resourceRules: [rule] },
      validations: [{ expression: `!('${TEAM}' in object.metadata.?labels.orValue({}))` }],
    },
  });
  await cluster.api.create(`${ADMISSION}/validatingadmissionpolicybindings`, {
    metadata: { name: REJECTING },
    spec: { policyName: REJECTING, validationActions: ['Deny'] },
  });
  await eventually(async () => {
    const tried = cluster.api.patch(`/api/v1/nodes/${name}?dryRun=All`, { metadata: { labels: { [TEAM]: 'any' } } });
    await expect(tried).rejects.toMatchObject({ status: 422 });
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

/** Deletes the Node, and creates it from a backup without managed fields; its agent reports again. */
async function restoreNode(name: string): Promise<void> {
  const { metadata = {}, spec = {} } = await nodeOf(name);
  await cluster.api.delete(`/api/v1/nodes/${name}`);
  const kept = { name, labels: metadata.labels, annotations: metadata.annotations };
  const body = { metadata: kept, spec: { taints: spec.taints } };
  await cluster.api.request('POST', '/api/v1/nodes?fieldManager=velero', body);
  const { uid } = (await nodeOf(name)).metadata ?? {};
  await eventually(async () => {
    const shadow = await readShadow(cluster, name);
    expect(shadow.metadata.ownerReferences?.[0]?.uid).toBe(uid);
    await report(cluster, name, {
      current_state: 'Idle',
      current_version: oldVersion,
      target_version: oldVersion,
      crash_count: 0,
      observedGeneration: shadow.metadata.generation ?? 1,
      bootID: `boot-of-${name}`,
    });
  });
}

/** Which values the label has had until it is stopped. */
function watchTeams(node: string): { stop: () => Promise<ReadonlySet<string | undefined>> } {
  const seen = new Set<string | undefined>();
  const stopped = new AbortController();
  const watching = (async (): Promise<void> => {
    while (!stopped.signal.aborted) seen.add((await shownOn(node)).team);
  })();
  const stop = async (): Promise<ReadonlySet<string | undefined>> => {
    stopped.abort();
    await watching;
    return seen;
  };
  return { stop };
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
    await untilConfirmed('gpu');
    for (const name of [first, second]) {
      expect(await shownOn(name)).toEqual({ team: 'ml', owner: 'ada', taints: ['gpu'] });
    }
    await applyGroup({ cluster }, 'gpu', { nodeMetadata: { labels: { [TEAM]: 'web' }, domains } });
    await untilConfirmed('gpu');
    expect(await shownOn(first)).toEqual({ team: 'web', owner: undefined, taints: [] });
    await applyGroup({ cluster }, 'gpu', {});
    await untilConfirmed('gpu');
    expect(await shownOn(first)).toEqual({ team: undefined, owner: undefined, taints: [] });
    const { metadata } = await nodeOf(second);
    expect(metadata?.annotations).not.toHaveProperty([GROUP_KEYS_ANNOTATION]);
    expect(metadata?.annotations).not.toHaveProperty([GROUP_TAINTS_ANNOTATION]);
    expect(JSON.stringify(metadata?.managedFields)).not.toContain('brupop-group-gpu');
    await eventually(async () => expect((await groupOf('gpu')).metadata.finalizers ?? []).toEqual([]));
  });

  it('applies again what someone removed, and writes nothing else', async () => {
    const [node = ''] = await members('gpu', 1);
    await applyGroup({ cluster }, 'gpu', { nodeMetadata: full });
    await untilConfirmed('gpu');
    const position = await auditPosition(cluster.auditLogPath);
    const removed = { metadata: { labels: { [TEAM]: null }, annotations: { [OWNER]: null } } };
    await patchAs('kubectl-label', node, removed);
    await eventually(async () => expect(await shownOn(node)).toEqual({ team: 'ml', owner: 'ada', taints: ['gpu'] }));
    await cluster.api.patch(`/api/v1/nodes/${node}`, { spec: { taints: [] } });
    await eventually(async () => expect((await shownOn(node)).taints).toEqual(['gpu']));
    expect((await writesSince(position))['brupop-controller patch nodes']).toBe(2);
  });

  it('names the Node that another writer changes back again and again', async () => {
    const [node = ''] = await members('gpu', 1);
    await applyGroup({ cluster }, 'gpu', { nodeMetadata: full });
    await untilConfirmed('gpu');
    const found = `To be written: ${node}. Another writer changes these back again and again`;
    await eventually(
      async () => {
        await patchAs('sync', node, { metadata: { labels: { [TEAM]: null } } });
        expect((await conditionOf('gpu', 'MetadataApplied'))?.message).toContain(found);
      },
      { pauseMs: 200 },
    );
  });

  it('leaves what kubelets and other writers say of their Node, and writes nothing when a kubelet starts', async () => {
    const [node = ''] = await members('gpu', 1);
    await applyGroup({ cluster }, 'gpu', { nodeMetadata: full });
    await untilConfirmed('gpu');
    const position = await auditPosition(cluster.auditLogPath);
    const own = { 'kubernetes.io/arch': 'amd64', 'kubernetes.io/os': 'linux', 'kubernetes.io/hostname': node };
    for (const os of ['other', 'linux']) {
      await patchAs('kubelet', node, { metadata: { labels: { ...own, 'kubernetes.io/os': os } } });
    }
    await patchAs('csi', node, { metadata: { annotations: { 'csi.volume.kubernetes.io/nodeid': '{}' } } });
    const lifecycle = { key: 'example.net/starting', effect: 'NoSchedule' };
    await cluster.api.patch(`/api/v1/nodes/${node}`, { spec: { taints: [DEDICATED, lifecycle] } });
    await sleep(QUIET_MS);
    expect(await writesSince(position)).toEqual({});
    await applyGroup({ cluster }, 'gpu', {});
    await untilConfirmed('gpu');
    const { metadata, spec } = await nodeOf(node);
    expect(metadata?.labels).toMatchObject(own);
    expect(metadata?.annotations).toHaveProperty(['csi.volume.kubernetes.io/nodeid']);
    expect(spec?.taints).toEqual([lifecycle]);
  });

  it('does not take over what was there before with the same value', async () => {
    const [node = ''] = await members('gpu', 1);
    const own = {
      metadata: { labels: { [TEAM]: 'ml' }, annotations: { [OWNER]: 'ada' } },
      spec: { taints: [DEDICATED] },
    };
    await patchAs('kubectl-edit', node, own);
    await applyGroup({ cluster }, 'gpu', { nodeMetadata: full });
    await untilConfirmed('gpu');
    await applyGroup({ cluster }, 'gpu', {});
    await untilConfirmed('gpu');
    expect(await shownOn(node)).toEqual({ team: 'ml', owner: 'ada', taints: ['gpu'] });
  });

  it('names the Node, the key and the other manager of a conflict, applies the rest, and takes over by Force', async () => {
    const [node = ''] = await members('gpu', 1);
    const other = { key: DEDICATED.key, value: 'mine', effect: DEDICATED.effect };
    await patchAs('kubectl-label', node, { metadata: { labels: { [TEAM]: 'mine' } }, spec: { taints: [other] } });
    await applyGroup({ cluster }, 'gpu', { nodeMetadata: full });
    const message = await untilCondition('gpu', 'MetadataApplied', 'Conflict');
    expect(message).toContain(`the label "${TEAM}" of Node "${node}" is that of "kubectl-label"`);
    expect(message).toContain(`the taint "${DEDICATED.key}:NoSchedule" of Node "${node}" is that of "kubectl-label"`);
    expect(await shownOn(node)).toEqual({ team: 'mine', owner: 'ada', taints: ['mine'] });
    expect((await groupOf('gpu')).status?.confirmedGeneration).toBeUndefined();

    await applyGroup({ cluster }, 'gpu', { nodeMetadata: { ...full, conflicts: 'Force' } });
    await untilConfirmed('gpu');
    expect(await shownOn(node)).toEqual({ team: 'ml', owner: 'ada', taints: ['gpu'] });
    await applyGroup({ cluster }, 'gpu', {});
    await untilConfirmed('gpu');
    expect(await shownOn(node)).toEqual({ team: undefined, owner: undefined, taints: [] });
  });

  it('hands a key to the group that a Node moves to, which never is without it', async () => {
    const [node = ''] = await members('gpu', 1);
    await applyGroup({ cluster }, 'gpu', { nodeMetadata: full });
    await applyGroup({ cluster }, 'web', { nodeMetadata: { ...full, annotations: {}, labels: { [TEAM]: 'web' } } });
    await untilConfirmed('gpu');
    const seen = watchTeams(node);
    await patchAs('kubectl-label', node, { metadata: { labels: { pool: 'web' } } });
    await eventually(async () =>
      expect(await shownOn(node)).toEqual({ team: 'web', owner: undefined, taints: ['gpu'] }),
    );
    await untilConfirmed('gpu');
    await untilConfirmed('web');
    expect(await seen.stop()).toEqual(new Set(['ml', 'web']));
    const managers = (await nodeOf(node)).metadata?.managedFields?.map(({ manager }) => manager);
    expect(managers).toContain('brupop-group-web');
    expect(managers).not.toContain('brupop-group-gpu');
  });

  it('that is deleted or renamed is removed from its Nodes before it ends', async () => {
    const [node = '', left = ''] = await members('gpu', 2);
    await applyGroup({ cluster }, 'gpu', { nodeMetadata: full });
    await untilConfirmed('gpu');
    await cluster.api.delete(`/api/v1/nodes/${left}`);
    await cluster.api.delete(`${GROUPS}/gpu`);
    await applyGroup({ cluster }, 'web', {
      nodeSelector: { matchLabels: { pool: 'gpu' } },
      nodeMetadata: { labels: { [TEAM]: 'web' }, domains },
    });
    await eventually(async () => await expect(groupOf('gpu')).rejects.toMatchObject({ status: 404 }));
    await untilConfirmed('web');
    expect(await shownOn(node)).toEqual({ team: 'web', owner: undefined, taints: [] });
    await cluster.api.delete(`${GROUPS}/web`);
    await eventually(async () => await expect(groupOf('web')).rejects.toMatchObject({ status: 404 }));
    expect(await shownOn(node)).toEqual({ team: undefined, owner: undefined, taints: [] });
  });

  it('is not written to a Node whose kubelet poses as it with 20,000 keys, and says so after few reads', async () => {
    const [node = ''] = await members('gpu', 1);
    const annotations = Object.fromEntries(Array.from({ length: 20_000 }, (_, i) => [i.toString(36), '']));
    const position = await auditPosition(cluster.auditLogPath);
    await cluster.api.request(
      'PATCH',
      `/api/v1/nodes/${node}?fieldManager=brupop-group-gpu`,
      { apiVersion: 'v1', kind: 'Node', metadata: { name: node, annotations } },
      'application/apply-patch+yaml',
    );
    await applyGroup({ cluster }, 'gpu', { nodeMetadata: full });
    const message = await untilCondition('gpu', 'MetadataApplied', 'WriteRejected');
    expect(message).toContain(`The write of Node "${node}" is rejected: metadata.managedFields names 19800 keys more`);
    await sleep(QUIET_MS);
    const requests = await operatorRequests(cluster.auditLogPath, releaseNamespace, position);
    const counts = Object.fromEntries(countRequests(requests));
    expect(counts['brupop-controller get nodes']).toBeLessThanOrEqual(2);
    expect(counts['brupop-controller patch nodes']).toBeUndefined();
  });

  it('reaches a Node at once that joins while the writes of another one are rejected', async () => {
    const [node = ''] = await members('gpu', 2);
    await rejectTeamOn(node);
    const position = await auditPosition(cluster.auditLogPath);
    await applyGroup({ cluster }, 'gpu', { nodeMetadata: full });
    expect(await untilCondition('gpu', 'MetadataApplied', 'WriteRejected')).toContain(`Node "${node}"`);
    await eventually(async () => expect((await shownOn('gpu-1')).team).toBe('ml'));
    // The next try is more than JOINS_MS later.
    await eventually(
      async () => {
        const requests = await operatorRequests(cluster.auditLogPath, releaseNamespace, position);
        const isRejected = ({ verb, name, status }: (typeof requests)[number]): boolean =>
          verb === 'patch' && name === node && status === 422;
        expect(requests.filter(isRejected).length).toBeGreaterThan(4);
      },
      { limitMs: 60_000 },
    );
    names.push('gpu-2');
    await createMember(cluster, 'gpu-2', oldVersion);
    await cluster.api.patch('/api/v1/nodes/gpu-2', { metadata: { labels: { pool: 'gpu' } } });
    await eventually(async () => expect((await shownOn('gpu-2')).team).toBe('ml'), { limitMs: JOINS_MS });
    await cluster.api.delete(`${ADMISSION}/validatingadmissionpolicybindings/${REJECTING}`);
    await cluster.api.delete(`${ADMISSION}/validatingadmissionpolicies/${REJECTING}`);
  });

  it('is removed from a Node that is no longer managed, but for its taints, which are removed when it leaves the group', async () => {
    const [node = ''] = await members('gpu', 1);
    await applyGroup({ cluster }, 'gpu', { nodeMetadata: full });
    await untilConfirmed('gpu');
    await patchAs('kubectl-label', node, {
      metadata: { labels: { 'bottlerocket.aws/updater-interface-version': null } },
    });
    await eventually(async () =>
      expect(await shownOn(node)).toEqual({ team: undefined, owner: undefined, taints: [DEDICATED.value] }),
    );
    await patchAs('kubectl-label', node, { metadata: { labels: { pool: null } } });
    await eventually(async () =>
      expect(await shownOn(node)).toEqual({ team: undefined, owner: undefined, taints: [] }),
    );
  });

  it('owns again what it owned on a Node that was restored without managed fields', async () => {
    const [node = ''] = await members('gpu', 1);
    await patchAs('kubectl-label', node, { metadata: { labels: { 'example.com/mine': 'yes' } } });
    const labels = { [TEAM]: 'ml', 'example.com/mine': 'yes' };
    await applyGroup({ cluster }, 'gpu', { nodeMetadata: { ...full, labels } });
    await untilConfirmed('gpu');
    await restoreNode(node);
    await eventually(async () => {
      const managers = (await nodeOf(node)).metadata?.managedFields?.map(({ manager }) => manager);
      expect(managers).toContain('brupop-group-gpu');
    });
    await untilConfirmed('gpu');
    expect(await shownOn(node)).toEqual({ team: 'ml', owner: 'ada', taints: ['gpu'] });
    await applyGroup({ cluster }, 'gpu', {});
    await untilConfirmed('gpu');
    expect(await shownOn(node)).toEqual({ team: undefined, owner: undefined, taints: [] });
    expect((await nodeOf(node)).metadata?.labels).toMatchObject({ 'example.com/mine': 'yes' });
  });
});

describe('a group is not applied to any Node, and says why, when', () => {
  it('a selector of a group reads one of its labels', async () => {
    const [node = ''] = await members('gpu', 1);
    await applyGroup({ cluster }, 'gpu', {
      nodeMetadata: { ...full, labels: { [TEAM]: 'ml', pool: 'web' }, domains: ['example.com', 'pool'] },
    });
    const message = await untilCondition('gpu', 'Ready', 'InvalidConfiguration');
    expect(message).toContain('found "pool", which spec.nodeSelector of the BottlerocketNodeGroup "gpu" reads');
    await sleep(QUIET_MS);
    expect(await shownOn(node)).toEqual({ team: undefined, owner: undefined, taints: [] });
  });

  it('the chart does not allow a domain', async () => {
    const [node = ''] = await members('gpu', 1);
    const labels = { [TEAM]: 'ml', 'example.org/team': 'ml' };
    await applyGroup({ cluster }, 'gpu', { nodeMetadata: { labels, domains: ['example.com', 'example.org'] } });
    const message = await untilCondition('gpu', 'MetadataApplied', 'WriteRejected');
    expect(message).toContain(`Node "${node}"`);
    expect(message).toContain('value nodeMetadata.domains of the chart');
    expect(message).toContain('example.org/team');
    expect((await shownOn(node)).team).toBeUndefined();
    await applyGroup({ cluster }, 'gpu', { nodeMetadata: full });
    await untilConfirmed('gpu');
    expect((await shownOn(node)).team).toBe('ml');
  });
});
