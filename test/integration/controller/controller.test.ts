import { readRecord } from '../../../packages/shared/src/api/record.ts';
import { setTimeout as sleep } from 'node:timers/promises';
import { jest } from '@jest/globals';
import type { CoreV1EventList, V1Node } from '@kubernetes/client-node';
import {
  AGENT,
  CORDONED_ANNOTATION,
  EXCLUDED_ANNOTATION,
  EXCLUSION_LABEL,
  GROUP,
  RETRY_ANNOTATION,
  shadowName,
} from '../../../packages/shared/src/api/names.ts';
import type { Condition } from '../../../packages/shared/src/api/meta.ts';
import { createWorkload, ownerReference } from '../../framework/apiserver/cluster.ts';
import { auditPosition, countRequests, operatorRequests } from '../../framework/audit.ts';
import { releaseNamespace } from '../../framework/chart.ts';
import type { ApiError } from '../../framework/control-plane/api.ts';
import { createNode } from '../../framework/control-plane/nodes.ts';
import { type ControlPlane, startControlPlane } from '../../framework/control-plane/start.ts';
import {
  createMember,
  deleteMembers,
  managedLabel,
  newVersion,
  oldVersion,
  playAgents,
  readShadow,
  report,
  shadowsPath,
} from '../../framework/controller/agents.ts';
import { CONFIG_PATH, configure, HEALTHY_AT_ONCE, readBrupopConfig } from '../../framework/controller/configuration.ts';
import { installForController } from '../../framework/controller/installation.ts';
import { type Replica, startReplica } from '../../framework/controller/replica.ts';
import { EVENTS_OF_AN_UPDATE, transitionsOf } from '../../framework/controller/transitions.ts';
import { eventually } from '../../framework/eventually.ts';

jest.setTimeout(120_000);

const failed = { errorCode: 'RolledBack', message: 'the host runs 1.20.0 again', operation: 'Reboot' } as const;

let cluster: ControlPlane;
let serviceAccountDir = '';
const replicas: Replica[] = [];
const names: string[] = [];

beforeAll(async () => {
  cluster = await startControlPlane();
  serviceAccountDir = await installForController(cluster);
  await createWorkload(cluster, releaseNamespace, 'DaemonSet', AGENT);
});

beforeEach(async () => await configure(cluster, HEALTHY_AT_ONCE));

afterEach(async () => {
  await Promise.all(replicas.splice(0).map((replica) => replica.stop()));
  await deleteMembers(cluster, names.splice(0));
  await cluster.api.delete(CONFIG_PATH);
});

afterAll(async () => {
  await cluster.stop();
});

async function start(): Promise<Replica> {
  const replica = await startReplica(cluster, serviceAccountDir);
  replicas.push(replica);
  return replica;
}

async function members(prefix: string, count: number): Promise<string[]> {
  const made = Array.from({ length: count }, (_, i) => `${prefix}-${i}`);
  names.push(...made);
  await Promise.all(made.map((name) => createMember(cluster, name)));
  return made;
}

async function progressing(name: string): Promise<Condition | undefined> {
  return (await readShadow(cluster, name)).status?.conditions?.find(({ type }) => type === 'Progressing');
}

async function waitFor(name: string, reason: string): Promise<Condition | undefined> {
  return await eventually(async () => {
    const condition = await progressing(name);
    expect([name, condition?.reason]).toEqual([name, reason]);
    return condition;
  });
}

async function waitForState(name: string, state: string): Promise<number> {
  return await eventually(async () => {
    const { spec, metadata } = await readShadow(cluster, name);
    expect([name, spec.state]).toEqual([name, state]);
    return metadata.generation ?? 0;
  });
}

async function eventsOf(name: string): Promise<string[]> {
  const query = new URLSearchParams({ fieldSelector: `involvedObject.name=${name},source=brupop-controller` });
  const { items } = await cluster.api.get<CoreV1EventList>(`/api/v1/namespaces/default/events?${query.toString()}`);
  return items.map(({ reason = '' }) => reason).toSorted();
}

async function expectNoShadow(name: string): Promise<void> {
  await expect(readShadow(cluster, name)).rejects.toMatchObject({ status: 404 });
}

const nodeOf = async (name: string): Promise<V1Node> => await cluster.api.get<V1Node>(`/api/v1/nodes/${name}`);

describe('a controller', () => {
  it('updates one node after another, with four writes of the spec and at most three of the condition for each', async () => {
    const fleet = await members('fleet', 3);
    const position = await auditPosition(cluster.auditLogPath);
    const agents = playAgents(cluster);
    const replica = await start();
    for (const name of fleet) await waitFor(name, 'UpToDate');
    await agents.stop();

    expect(await transitionsOf(replica, oldVersion, newVersion)).toEqual({ Started: 3, Advanced: 6, Succeeded: 3 });
    expect(agents.mostUnderWay()).toBe(1);
    for (const name of fleet) {
      const { spec, status } = await readShadow(cluster, name);
      expect([spec.state, status?.current_version]).toEqual(['Idle', newVersion]);
      await eventually(async () => expect(await eventsOf(name)).toEqual(EVENTS_OF_AN_UPDATE));
    }
    const requests = await operatorRequests(cluster.auditLogPath, releaseNamespace, position);
    expect(requests.filter(({ status }) => status === 403)).toEqual([]);
    const done = requests.filter(({ status, verb }) => verb === 'patch' && status === 200);
    const count = (resource: string, name: string): number =>
      done.filter((request) => request.resource === resource && request.name === shadowName(name)).length;
    for (const name of fleet) {
      expect(count('bottlerocketshadows', name)).toBe(4);
      expect(count('bottlerocketshadows/status', name)).toBeLessThanOrEqual(3);
    }
  });

  it('starts as many nodes as the configuration allows, and reports the state of the fleet in its status', async () => {
    await configure(cluster, { ...HEALTHY_AT_ONCE, concurrency: { maxUpdating: '50%' } });
    const fleet = await members('half', 4);
    const agents = playAgents(cluster);
    await start();
    for (const name of fleet) await waitFor(name, 'UpToDate');
    await agents.stop();
    expect(agents.mostUnderWay()).toBe(2);
    await eventually(async () => {
      const { status, metadata } = await readBrupopConfig(cluster);
      expect(status?.nodes).toEqual({ managed: 4, upToDate: 4, updating: 0, waiting: 0, failed: 0 });
      expect(status?.confirmedGeneration).toBe(metadata.generation);
      expect(status?.conditions?.map(({ type, status, reason }) => `${type} ${status} ${reason}`).join(', ')).toBe(
        'Ready True InUse, Paused False NotPaused, Frozen False NotFrozen, Held False NotHeld, Connected True LeasesRenewed, ' +
          'WindowOpen True NoWindows, ' +
          'Progressing False UpToDate, Degraded False AsExpected, PendingChanges False NoOtherDefaults',
      );
    });
  });

  it('finishes updates in progress while paused, and starts none until updates resume', async () => {
    const [first = '', second = ''] = await members('paused', 2);
    await start();
    const generation = await waitForState(first, 'StagedAndPerformedUpdate');
    await configure(cluster, { ...HEALTHY_AT_ONCE, paused: true, pauseReason: 'change freeze' });
    expect((await waitFor(second, 'Paused'))?.message).toContain('change freeze');

    await report(cluster, first, { current_state: 'StagedAndPerformedUpdate', observedGeneration: generation });
    await waitForState(first, 'RebootedIntoUpdate');
    const agents = playAgents(cluster);
    await waitFor(first, 'UpToDate');
    expect((await readShadow(cluster, second)).spec.state).toBe('Idle');
    await eventually(async () => {
      const { status } = await readBrupopConfig(cluster);
      const paused = status?.conditions?.find(({ type }) => type === 'Paused');
      expect([paused?.status, paused?.message]).toEqual(['True', 'change freeze']);
    });

    await configure(cluster, { ...HEALTHY_AT_ONCE, paused: false });
    await waitFor(second, 'UpToDate');
    await agents.stop();
  });

  it('applies a changed monitoring period to a node that is being monitored', async () => {
    await configure(cluster, { monitoring: { healthyFor: '1h' } });
    const [name = ''] = await members('monitored', 1);
    const agents = playAgents(cluster);
    await start();
    const generation = await waitForState(name, 'MonitoringUpdate');
    await sleep(1_000);
    expect(await waitForState(name, 'MonitoringUpdate')).toBe(generation);

    await configure(cluster, { monitoring: { healthyFor: '1s' } });
    await waitForState(name, 'Idle');
    await waitFor(name, 'UpToDate');
    await agents.stop();
  });

  it('starts the next node although an agent does not count its failure and its kubelet renews the cordon of the operator', async () => {
    const [liar = '', other = ''] = await members('liar', 2);
    await start();
    const generation = await waitForState(liar, 'StagedAndPerformedUpdate');
    const now = new Date().toISOString();
    const failure = { operation: 'Stage', state: 'Failed', errorCode: 'PrepareFailed', message: 'no space' } as const;
    const lastOperation = { ...failure, version: newVersion, bootID: 'before', startTime: now, lastUpdateTime: now };
    const reset = { current_state: 'ErrorReset', crash_count: 0, observedGeneration: generation } as const;
    await report(cluster, liar, { ...reset, lastOperation });
    const idle = await waitForState(liar, 'Idle');
    await cluster.api.patch(`/api/v1/nodes/${liar}`, {
      metadata: { annotations: { [CORDONED_ANNOTATION]: new Date().toISOString() } },
      spec: { unschedulable: true },
    });
    await report(cluster, liar, { current_state: 'Idle', observedGeneration: idle });
    await waitForState(other, 'StagedAndPerformedUpdate');
    const { metadata, spec } = await readShadow(cluster, liar);
    expect(spec.state).toBe('Idle');
    expect(readRecord(metadata)).toMatchObject({ unsuccessful: 1 });
  });

  it('retries an update that rolled back only when a user asks for it, and then once', async () => {
    const [name = ''] = await members('rollback', 1);
    await start();
    for (const attempt of [1, 2]) {
      const generation = await waitForState(name, 'StagedAndPerformedUpdate');
      const now = new Date().toISOString();
      const times = { startTime: now, lastUpdateTime: now };
      const lastOperation = { ...failed, ...times, state: 'Failed', version: newVersion, bootID: 'before' } as const;
      await report(cluster, name, {
        current_state: 'ErrorReset',
        crash_count: attempt,
        state_transition_failure_timestamp: now,
        observedGeneration: generation,
        lastOperation,
      });
      await report(cluster, name, { current_state: 'Idle', observedGeneration: await waitForState(name, 'Idle') });
      const condition = await waitFor(name, 'ManualRetryRequired');
      expect(condition?.message).toContain('RolledBack (the host runs 1.20.0 again)');
      const expected = Array.from({ length: attempt }, () => ['UpdateFailed', 'UpdateStarted'])
        .flat()
        .toSorted();
      await eventually(async () => expect((await eventsOf(name)).toSorted()).toEqual(expected));
      if (attempt === 1) {
        const annotations = { [RETRY_ANNOTATION]: newVersion };
        await cluster.api.patch(`${shadowsPath}/${shadowName(name)}`, { metadata: { annotations } });
      }
    }
    // The agent claims it without a drain, so it is no failure of the version.
    expect(readRecord((await readShadow(cluster, name)).metadata)).toEqual({
      startedAt: expect.stringContaining('T') as string,
      from: oldVersion,
      attempts: { version: newVersion, count: 2 },
      unsuccessful: 2,
      history: { count: 2, seconds: {} },
    });
  });

  it('cancels the update of a node that is no longer managed, and restores the node when its agent has exited', async () => {
    const [name = ''] = await members('released', 1);
    const pod = await agentPod(name);
    await start();
    await waitForState(name, 'StagedAndPerformedUpdate');
    await mark(name, true);
    const unmanaged = Object.fromEntries(Object.keys(managedLabel).map((label) => [label, null]));
    await cluster.api.patch(`/api/v1/nodes/${name}`, { metadata: { labels: unmanaged } });

    await waitForState(name, 'Idle');
    await sleep(1_500);
    expect((await nodeOf(name)).spec?.unschedulable).toBe(true);

    await cluster.api.delete(pod, { gracePeriodSeconds: 0 });
    await expectRestored(name);
    await eventually(async () => {
      const found = cluster.api.get(`${shadowsPath}/${shadowName(name)}`);
      await expect(found).rejects.toMatchObject({ status: 404 } satisfies Partial<ApiError>);
    });
  });

  /** Creates a pod in place of the agent of a node, and returns its path. */
  async function agentPod(node: string, owner: { readonly uid?: string } = {}): Promise<string> {
    const pods = `/api/v1/namespaces/${releaseNamespace}/pods`;
    const name = `agent-of-${node}-${owner.uid ?? 'own'}`;
    const ownerReferences = [{ ...(await ownerReference(cluster, releaseNamespace, 'DaemonSet', AGENT)), ...owner }];
    await cluster.api.create(pods, {
      metadata: { name, labels: { [`${GROUP}/component`]: AGENT }, ownerReferences },
      spec: { nodeName: node, serviceAccountName: 'brupop-agent', containers: [{ name: 'agent', image: 'agent' }] },
    });
    return `${pods}/${name}`;
  }

  /** Leaves the cordon and the load balancer exclusion of an update on a node. */
  async function mark(name: string, cordon: boolean): Promise<void> {
    const time = '2026-01-01T00:00:00Z';
    await cluster.api.patch(`/api/v1/nodes/${name}`, {
      metadata: {
        annotations: { ...(cordon && { [CORDONED_ANNOTATION]: time }), [EXCLUDED_ANNOTATION]: time },
        labels: { [EXCLUSION_LABEL]: 'true' },
      },
      spec: { unschedulable: true },
    });
  }

  async function expectRestored(name: string): Promise<void> {
    await eventually(async () => {
      const { metadata, spec } = await nodeOf(name);
      expect(spec?.unschedulable).toBeUndefined();
      expect(metadata?.annotations).not.toHaveProperty([CORDONED_ANNOTATION]);
      expect(metadata?.annotations).not.toHaveProperty([EXCLUDED_ANNOTATION]);
      expect(metadata?.labels).not.toHaveProperty([EXCLUSION_LABEL]);
    });
  }

  it('restores a node that an idle agent does not restore', async () => {
    const [name = ''] = await members('leftover', 1);
    await configure(cluster, { ...HEALTHY_AT_ONCE, paused: true });
    await mark(name, true);
    await start();
    // The shadow was never updating, so the 30 seconds that the agent has are over.
    await expectRestored(name);
    await waitFor(name, 'Paused');
    await eventually(async () => expect(await eventsOf(name)).toEqual(['Restored']));
  });

  it('creates the shadow of a labelled node, which shows AgentNotConnected until its agent reports', async () => {
    const [name = ''] = names.slice(names.push('agentless') - 1);
    const node = await createNode(cluster, { name, labels: managedLabel, bootID: 'boot-1' });
    await start();
    const condition = await waitFor(name, 'AgentNotConnected');
    expect(condition?.message).toContain(
      `check the agent's pod on the node (kubectl get pods -n ${releaseNamespace} -o wide)`,
    );
    const { metadata, spec, status } = await readShadow(cluster, name);
    const owner = { apiVersion: 'v1', kind: 'Node', name, uid: node.metadata?.uid };
    expect(metadata.ownerReferences).toEqual([{ ...owner, controller: false, blockOwnerDeletion: false }]);
    expect([spec, status]).toMatchObject([{ state: 'Idle' }, { waitingFor: 'AgentNotConnected' }]);
    const idle = { current_state: 'Idle', current_version: newVersion, target_version: newVersion } as const;
    await report(cluster, name, { ...idle, crash_count: 0, observedGeneration: 1, bootID: 'boot-1' });
    await waitFor(name, 'UpToDate');
  });

  it('recreates a shadow that a user deletes, and deletes that of a node without the label', async () => {
    const [name = ''] = await members('deleted', 1);
    await configure(cluster, { ...HEALTHY_AT_ONCE, paused: true });
    await start();
    await waitFor(name, 'Paused');
    const { metadata } = await readShadow(cluster, name);
    await cluster.api.delete(`${shadowsPath}/${shadowName(name)}`);
    await waitFor(name, 'AgentNotConnected');
    expect((await readShadow(cluster, name)).metadata.uid).not.toBe(metadata.uid);
    await cluster.api.patch(`/api/v1/nodes/${name}`, {
      metadata: { labels: { 'bottlerocket.aws/updater-interface-version': null } },
    });
    await eventually(async () => await expectNoShadow(name));
    await sleep(1_000);
    await expectNoShadow(name);
  });

  it('restores the node of an agent that does not answer, once its pod is gone and although another one poses as it', async () => {
    const [name = ''] = await members('silent', 1);
    await configure(cluster, { ...HEALTHY_AT_ONCE, paused: true });
    await mark(name, true);
    const [pod, forged] = [await agentPod(name), await agentPod(name, { uid: 'forged' })];
    // The spec went to Idle ten minutes ago, and the agent has not confirmed it.
    const state_transition_timestamp = new Date(Date.now() - 600_000).toISOString();
    await cluster.api.patch(`${shadowsPath}/${shadowName(name)}`, { spec: { state_transition_timestamp } });
    await start();
    await waitFor(name, 'AgentNotResponding');
    await sleep(1_500);
    expect((await nodeOf(name)).spec?.unschedulable).toBe(true);

    await cluster.api.delete(pod, { gracePeriodSeconds: 0 });
    await expectRestored(name);
    await cluster.api.delete(forged, { gracePeriodSeconds: 0 });
  });

  it('keeps a cordon that a user sets after removing that of the operator', async () => {
    const [name = ''] = await members('recordoned', 1);
    await configure(cluster, { ...HEALTHY_AT_ONCE, paused: true });
    await mark(name, true);
    await cluster.api.patch(`/api/v1/nodes/${name}`, { spec: { unschedulable: null } });
    await start();
    await eventually(async () => {
      expect((await nodeOf(name)).metadata?.annotations).not.toHaveProperty([CORDONED_ANNOTATION]);
    });
    await cluster.api.patch(`/api/v1/nodes/${name}`, { spec: { unschedulable: true } });
    await configure(cluster, { ...HEALTHY_AT_ONCE, paused: false });
    await waitFor(name, 'CordonedExternally');
    expect((await nodeOf(name)).spec?.unschedulable).toBe(true);
  });

  it('starts no other node while a cordoned node without a shadow holds the slot', async () => {
    const [lost = '', other = ''] = await members('lost', 2);
    await cluster.api.patch(`/api/v1/nodes/${lost}`, {
      metadata: { annotations: { [CORDONED_ANNOTATION]: new Date().toISOString() } },
      spec: { unschedulable: true },
    });
    await cluster.api.delete(`${shadowsPath}/${shadowName(lost)}`);
    const replica = await start();
    await waitFor(other, 'WaitingForCapacity');
    expect((await readShadow(cluster, other)).spec.state).toBe('Idle');
    expect(await replica.metrics()).toMatch(/^brupop_controller_watch_lag_seconds\{resource="nodes"\} [\d.]+$/m);
  });

  it('keeps the cordon of another actor, and does not update that node', async () => {
    const [name = ''] = await members('foreign', 1);
    await mark(name, false);
    await start();
    await waitFor(name, 'CordonedExternally');
    const { spec, metadata } = await nodeOf(name);
    expect(spec?.unschedulable).toBe(true);
    expect(metadata?.labels).not.toHaveProperty([EXCLUSION_LABEL]);
    expect((await readShadow(cluster, name)).spec.state).toBe('Idle');
  });

  it('deletes the shadow of an earlier Node of the same name', async () => {
    const [name = ''] = await members('reborn', 1);
    await cluster.api.patch(`${shadowsPath}/${shadowName(name)}`, {
      metadata: {
        ownerReferences: [{ apiVersion: 'v1', kind: 'Namespace', name: 'default', uid: await uidOfDefault() }],
      },
    });
    await start();
    await eventually(async () => {
      const found = cluster.api.get(`${shadowsPath}/${shadowName(name)}`);
      await expect(found).rejects.toMatchObject({ status: 404 });
    });
  });

  /** Of an object that exists, so that garbage collection does not delete what it owns. */
  async function uidOfDefault(): Promise<string | undefined> {
    return (await cluster.api.get<V1Node>('/api/v1/namespaces/default')).metadata?.uid;
  }

  it('writes its specs while another client keeps changing the shadows', async () => {
    const fleet = await members('busy', 2);
    const agents = playAgents(cluster);
    const over = new AbortController();
    const disturb = async (): Promise<void> => {
      for (let i = 0; !over.signal.aborted; i += 1) {
        for (const name of fleet) {
          await cluster.api.patch(`${shadowsPath}/${shadowName(name)}`, { metadata: { labels: { i: String(i) } } });
        }
      }
    };
    const disturbing = disturb();
    await start();
    for (const name of fleet) await waitFor(name, 'UpToDate');
    over.abort();
    await disturbing;
    await agents.stop();
    expect(agents.mostUnderWay()).toBe(1);
  });

  it('only renews its Lease while nothing changes', async () => {
    const [name = ''] = await members('idle', 1);
    await report(cluster, name, { target_version: oldVersion });
    const [leader, other] = [await start(), await start()];
    await waitFor(name, 'UpToDate');
    await eventually(async () => {
      const { status } = await readBrupopConfig(cluster);
      expect(status?.nodes?.upToDate).toBe(1);
    });
    await eventually(async () => expect(await leader.isLeader()).not.toBe(await other.isLeader()));
    await sleep(1_000);
    const position = await auditPosition(cluster.auditLogPath);
    await sleep(5_000);
    const counts = countRequests(await operatorRequests(cluster.auditLogPath, releaseNamespace, position));
    expect([...counts.keys()]).toEqual(['brupop-controller update leases']);
    expect(counts.get('brupop-controller update leases')).toBeLessThanOrEqual(4);
  });
});

describe('two controllers', () => {
  it('fail over in the middle of an update without starting one node too many', async () => {
    const fleet = await members('handover', 6);
    const agents = playAgents(cluster);
    const position = await auditPosition(cluster.auditLogPath);
    const [first, second] = [await start(), await start()];
    await waitFor('handover-1', 'Updating');
    expect([await first.isLeader(), await second.isLeader()]).toEqual([true, false]);
    await first.stop();
    await eventually(async () => expect(await second.isLeader()).toBe(true));
    for (const name of fleet) await waitFor(name, 'UpToDate');
    await agents.stop();

    expect(agents.mostUnderWay()).toBe(1);
    const requests = await operatorRequests(cluster.auditLogPath, releaseNamespace, position);
    const written = requests.filter(({ resource, verb, status }) => {
      return resource === 'bottlerocketshadows' && verb === 'patch' && status === 200;
    });
    expect(written.length).toBeLessThanOrEqual(4 * fleet.length);
    // The API server counts also a write whose answer the leader that ends does not wait for.
    const shadows = await Promise.all(fleet.map(async (name) => await readShadow(cluster, name)));
    expect(shadows.map(({ metadata }) => metadata.generation)).toEqual(fleet.map(() => 1 + 4));
  });
});
