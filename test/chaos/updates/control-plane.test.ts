/** Nodes that run static pods of the control plane, beside workers, on a whole fleet. */
import { jest } from '@jest/globals';
import { createNode, osImageOf, setNodeBooted, setNodeUnreachable } from '../../framework/control-plane/nodes.ts';
import { eventually } from '../../framework/eventually.ts';
import { type Fleet, fleetNodes } from '../../framework/fleet/fleet.ts';
import { type FleetContext, NEW, OLD, withFleet } from '../../framework/fleet/with-fleet.ts';

jest.setTimeout(600_000);

const CONTROL_PLANE = 'node-role.kubernetes.io/control-plane';
const ETCD = 'node-role.kubernetes.io/etcd';
const VOTERS = ['node-1', 'node-2', 'node-3'];
const WORKERS = ['node-4', 'node-5', 'node-6'];

async function labelVoters({ cluster }: FleetContext): Promise<void> {
  for (const name of VOTERS)
    await cluster.api.patch(`/api/v1/nodes/${name}`, { metadata: { labels: { [CONTROL_PLANE]: '' } } });
}

/** Most nodes with a label of the control plane that were seen cordoned or not Ready at once, from now on. */
function mostVotersAway(fleet: Fleet): () => number {
  const away = new Set<string>();
  let most = 0;
  fleet.observer.nodes.subscribe(({ object: { metadata, spec, status } }) => {
    if (metadata.labels?.[CONTROL_PLANE] === undefined && metadata.labels?.[ETCD] === undefined) return;
    const isReady = status?.conditions?.some((one) => one.type === 'Ready' && one.status === 'True') === true;
    if (isReady && spec?.unschedulable !== true) away.delete(metadata.name);
    else away.add(metadata.name);
    most = Math.max(most, away.size);
  });
  return () => most;
}

const runs = (fleet: Fleet, version: string, names: readonly string[]): void => {
  for (const name of names) fleet.assertRuns(name, version);
};

it('three voters update one at a time when six nodes may update together', async () => {
  const config = { concurrency: { maxUpdating: 6 } };
  const options = { nodes: fleetNodes(6), config, maxUnavailable: 6, durations: { prepareMs: 300, bootMs: 1_000 } };
  await withFleet({ ...options, before: labelVoters }, async ({ fleet }) => {
    const most = mostVotersAway(fleet);
    await fleet.untilAllRun(NEW);
    expect(most()).toBe(1);
    expect(VOTERS.map((name) => fleet.node(name).host.reboots)).toEqual([1, 1, 1]);
  });
});

it('no voter starts while another one, which is not managed, is not Ready, and workers go on', async () => {
  const before = async (context: FleetContext): Promise<void> => {
    const { cluster } = context;
    await labelVoters(context);
    await createNode(cluster, { name: 'etcd-1', labels: { [ETCD]: '' } });
    const taints = [{ key: ETCD, effect: 'NoSchedule' }];
    await cluster.api.patch('/api/v1/nodes/etcd-1', { spec: { taints } });
    await setNodeUnreachable(cluster, 'etcd-1');
  };
  const config = { concurrency: { maxUpdating: 6 } };
  await withFleet({ nodes: fleetNodes(6), config, maxUnavailable: 6, before }, async ({ fleet, cluster }) => {
    await eventually(() => runs(fleet, NEW, WORKERS), { limitMs: 240_000 });
    const conditions = VOTERS.map((name) => fleet.shadow(name)?.status?.conditions?.[0]);
    expect(conditions.map((one) => one?.reason)).toEqual(VOTERS.map(() => 'WaitingForControlPlane'));
    expect(conditions[0]?.message).toContain('etcd-1');
    runs(fleet, OLD, VOTERS);
    const most = mostVotersAway(fleet);
    await setNodeBooted(cluster, 'etcd-1', 'boot-2', osImageOf(OLD));
    await fleet.untilAllRun(NEW);
    expect(most()).toBe(1);
  });
});
