/** A node that is not healthy after its update. */
import type { V1Pod, V1PodList } from '@kubernetes/client-node';
import { jest } from '@jest/globals';
import { eventually } from '../framework/eventually.ts';
import { fleetNodes } from '../framework/fleet/fleet.ts';
import { untilSomeNodeIsToldTo } from '../framework/fleet/steps.ts';
import { type FleetContext, NEW, withFleet } from '../framework/fleet/with-fleet.ts';

jest.setTimeout(360_000);

async function daemonPodOn({ cluster: { api }, namespace }: FleetContext, node: string): Promise<string> {
  const { items } = await api.get<V1PodList>(`/api/v1/namespaces/${namespace}/pods?labelSelector=app%3Dlog-shipper`);
  const found = items.find(({ spec }: V1Pod) => spec?.nodeName === node)?.metadata?.name;
  if (found === undefined) throw new Error(`no pod of the DaemonSet is on ${node}`);
  return found;
}

/** As a kubelet does. With a reason, KWOK leaves the pod alone. */
async function setReady(context: FleetContext, node: string, ready: boolean): Promise<void> {
  const pod = await daemonPodOn(context, node);
  const lastTransitionTime = new Date().toISOString();
  const condition = { type: 'Ready', status: ready ? 'True' : 'False', reason: 'ByTest', lastTransitionTime };
  const path = `/api/v1/namespaces/${context.namespace}/pods/${pod}/status`;
  const patch = { status: { conditions: [condition] } };
  await context.cluster.api.request('PATCH', path, patch, 'application/strategic-merge-patch+json');
}

it('while a pod of a DaemonSet is not Ready after the update of its node no other node starts', async () => {
  const config = { monitoring: { healthyFor: '10s' } };
  await withFleet({ nodes: fleetNodes(3), config }, async (context) => {
    const { fleet, namespace } = context;
    const node = await untilSomeNodeIsToldTo(fleet, 'MonitoringUpdate');
    await setReady(context, node, false);
    await eventually(
      () =>
        expect(fleet.shadow(node)?.status?.conditions).toContainEqual(
          expect.objectContaining({
            type: 'Progressing',
            message: `Runs ${NEW}, and is not healthy yet: on it, the pods of these DaemonSets are not Ready: ${namespace}/log-shipper`,
          }),
        ),
      { limitMs: 30_000 },
    );
    await new Promise((done) => setTimeout(done, 10_000));
    const others = [...fleet.nodes].filter(([name]) => name !== node);
    expect(others.map(([, { host }]) => host.reboots)).toEqual([0, 0]);

    await setReady(context, node, true);
    await fleet.untilAllRun(NEW);
    expect([...fleet.nodes.values()].map(({ host }) => host.reboots)).toEqual([1, 1, 1]);
  });
});
