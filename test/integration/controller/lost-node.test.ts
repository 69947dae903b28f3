/** A node that does not return from the reboot of its update, with a real kube-apiserver and kube-controller-manager. */
import { recordText } from '../../../packages/shared/src/api/record.ts';
import { setTimeout as sleep } from 'node:timers/promises';
import { jest } from '@jest/globals';
import type { CoreV1EventList, V1Node, V1Taint } from '@kubernetes/client-node';
import type { BrupopConfigSpec } from '../../../packages/shared/src/api/config-spec.ts';
import {
  CORDONED_ANNOTATION,
  OUT_OF_SERVICE_ANNOTATION,
  OUT_OF_SERVICE_TAINT,
  shadowName,
  RECORD_ANNOTATION,
} from '../../../packages/shared/src/api/names.ts';
import { CUT_OFF_ANNOTATION } from '../../framework/control-plane/node-leases.ts';
import { setNodeBooted, setNodeUnreachable } from '../../framework/control-plane/nodes.ts';
import { type ControlPlane, startControlPlane } from '../../framework/control-plane/start.ts';
import { createMember, deleteMembers, newVersion, readShadow, shadowsPath } from '../../framework/controller/agents.ts';
import { configure, readBrupopConfig } from '../../framework/controller/configuration.ts';
import { installForController } from '../../framework/controller/installation.ts';
import { type Replica, startReplica } from '../../framework/controller/replica.ts';
import { eventually } from '../../framework/eventually.ts';

jest.setTimeout(120_000);

const NAME = 'away';
const NODE = `/api/v1/nodes/${NAME}`;
const OURS = { key: OUT_OF_SERVICE_TAINT, value: 'brupop', effect: 'NoExecute' };
const OF_A_USER = { key: OUT_OF_SERVICE_TAINT, value: 'nodeshutdown', effect: 'NoExecute' };
const OTHER = { key: 'dedicated', value: 'gpu', effect: 'NoSchedule' };
/** The deadline of the reboot, which has an Event of its own, is after the loss. */
const PATIENT: BrupopConfigSpec = { timeouts: { reboot: '1h' } };
const TAINTS: BrupopConfigSpec = { ...PATIENT, lostNode: { action: 'OutOfServiceTaint', after: '5m' } };

let cluster: ControlPlane;
let serviceAccountDir = '';
let replica: Replica;

beforeAll(async () => {
  cluster = await startControlPlane();
  serviceAccountDir = await installForController(cluster);
});

afterEach(async () => {
  await replica.stop();
  await deleteMembers(cluster, [NAME]);
});

afterAll(async () => {
  await cluster.stop();
});

const minutesAgo = (minutes: number): Date => new Date(Date.now() - minutes * 60_000);

/** A node that was drained, and whose host was asked to reboot and has not returned for 40 minutes. */
async function loseNode(taints: readonly object[]): Promise<void> {
  await createMember(cluster, NAME, newVersion, { [CUT_OFF_ANNOTATION]: 'true' });
  const [drained, requested] = [minutesAgo(42).toISOString(), minutesAgo(41).toISOString()];
  const cordon = { [CORDONED_ANNOTATION]: drained };
  await cluster.api.patch(NODE, { metadata: { annotations: cordon }, spec: { unschedulable: true, taints } });
  const path = `${shadowsPath}/${shadowName(NAME)}`;
  const { metadata } = await cluster.api.patch<{ metadata: { generation: number } }>(path, {
    metadata: { annotations: { [RECORD_ANNOTATION]: recordText({ rebootRequestedAt: drained }) } },
    spec: { state: 'RebootedIntoUpdate', version: newVersion, state_transition_timestamp: drained },
  });
  await cluster.api.patch(`${path}/status`, {
    status: {
      current_state: 'StagedAndPerformedUpdate',
      observedGeneration: metadata.generation,
      lastOperation: {
        operation: 'Reboot',
        state: 'Processing',
        version: newVersion,
        bootID: `boot-of-${NAME}`,
        startTime: requested,
        lastUpdateTime: requested,
      },
      drain: {
        observedGeneration: metadata.generation,
        startTime: drained,
        endTime: drained,
        result: 'Drained',
        evicted: 3,
        remaining: 0,
      },
    },
  });
  await setNodeUnreachable(cluster, NAME, minutesAgo(40));
}

async function start(): Promise<void> {
  replica = await startReplica(cluster, serviceAccountDir);
}

const readNode = async (): Promise<V1Node> => await cluster.api.get<V1Node>(NODE);

/** Its taints but those that Kubernetes itself sets. */
async function taintsOf(): Promise<V1Taint[]> {
  const { spec } = await readNode();
  const own = /^node\.kubernetes\.io\/(?:unreachable|not-ready|unschedulable)$/u;
  return (spec?.taints ?? []).filter(({ key }) => !own.test(key));
}

const record = async (): Promise<string | undefined> =>
  (await readNode()).metadata?.annotations?.[OUT_OF_SERVICE_ANNOTATION];

async function untilTainted(): Promise<void> {
  await eventually(async () => {
    expect(await taintsOf()).toEqual([expect.objectContaining(OTHER), expect.objectContaining(OURS)]);
    expect(await record()).toContain('T');
  });
}

async function untilNotTainted(): Promise<void> {
  await eventually(async () => {
    expect(await taintsOf()).toEqual([expect.objectContaining(OTHER)]);
    expect(await record()).toBeUndefined();
  });
}

async function eventsOf(): Promise<string[]> {
  const uid = (await readNode()).metadata?.uid;
  const query = new URLSearchParams({ fieldSelector: `involvedObject.uid=${uid},source=brupop-controller` });
  const { items } = await cluster.api.get<CoreV1EventList>(`/api/v1/namespaces/default/events?${query.toString()}`);
  return items.map(({ reason = '' }) => reason).toSorted();
}

describe('a controller whose node does not return from its reboot', () => {
  it('says so in condition, Event, metric and status, and taints no node by default', async () => {
    await configure(cluster, PATIENT);
    await loseNode([OTHER]);
    await start();
    await eventually(async () => {
      const { status } = await readShadow(cluster, NAME);
      expect(status?.conditions?.[0]?.message).toMatch(/^The node is lost: .* have not reported since 20/u);
      expect(await eventsOf()).toEqual(['NodeLost']);
      expect(await replica.metrics()).toMatch(/^brupop_lost_nodes 1$/m);
      const { status: fleet } = await readBrupopConfig(cluster);
      const degraded = fleet?.conditions?.find(({ type }) => type === 'Degraded');
      expect(degraded?.message).toContain(`lost in the reboot of their update: ${NAME}`);
    });
    await sleep(1_500);
    expect(await taintsOf()).toEqual([expect.objectContaining(OTHER)]);
  });

  it('taints it beside its other taints, and removes the taint when it is Ready again', async () => {
    await configure(cluster, TAINTS);
    await loseNode([OTHER]);
    await start();
    await untilTainted();
    await eventually(async () => expect(await eventsOf()).toEqual(['NodeLost', 'OutOfService']));
    await setNodeBooted(cluster, NAME, 'boot-after');
    await untilNotTainted();
    await eventually(async () => expect(await eventsOf()).toEqual(['NodeLost', 'OutOfService', 'OutOfServiceEnded']));
    expect(await replica.metrics()).toMatch(/^brupop_lost_nodes 0$/m);
  });

  it('removes its taint when the configuration says Report, also after a change of the leader', async () => {
    await configure(cluster, TAINTS);
    await loseNode([OTHER]);
    await start();
    await untilTainted();
    await replica.stop();
    await configure(cluster, { ...PATIENT, lostNode: { after: '5m' } });
    await start();
    await untilNotTainted();
    await eventually(async () => expect(await eventsOf()).toContain('OutOfServiceEnded'));
  });

  it('removes its taint when the node is no longer managed', async () => {
    await configure(cluster, TAINTS);
    await loseNode([OTHER]);
    await start();
    await untilTainted();
    await cluster.api.patch(NODE, { metadata: { labels: { 'bottlerocket.aws/updater-interface-version': null } } });
    await untilNotTainted();
    await eventually(async () => expect(await eventsOf()).toContain('OutOfServiceEnded'));
  });

  it('leaves the taint of a user alone, before and after the node returns', async () => {
    await configure(cluster, TAINTS);
    await loseNode([OTHER, OF_A_USER]);
    await start();
    await eventually(async () => expect(await eventsOf()).toEqual(['NodeLost']));
    await sleep(1_500);
    await setNodeBooted(cluster, NAME, 'boot-after');
    await eventually(async () => expect(await replica.metrics()).toMatch(/^brupop_lost_nodes 0$/m));
    await sleep(1_500);
    expect(await taintsOf()).toEqual([expect.objectContaining(OTHER), expect.objectContaining(OF_A_USER)]);
    expect(await record()).toBeUndefined();
  });
});
