/** A node that is not healthy after its update. */
import { jest } from '@jest/globals';
import { eventually } from '../framework/eventually.ts';
import { daemonPods, setReady } from '../framework/fleet/daemon-pods.ts';
import { fleetNodes } from '../framework/fleet/fleet.ts';
import { untilSomeNodeIsToldTo } from '../framework/fleet/steps.ts';
import { type FleetContext, NEW, withFleet } from '../framework/fleet/with-fleet.ts';

jest.setTimeout(360_000);

async function setReadyOn(context: FleetContext, node: string, ready: boolean): Promise<void> {
  const pod = (await daemonPods(context)).find(({ spec }) => spec?.nodeName === node);
  if (pod === undefined) throw new Error(`no pod of the DaemonSet is on ${node}`);
  await setReady(context, pod, ready);
}

it('while a pod of a DaemonSet is not Ready after the update of its node no other node starts', async () => {
  const config = { monitoring: { healthyFor: '10s' } };
  await withFleet({ nodes: fleetNodes(3), config, trustsWorkloads: true }, async (context) => {
    const { fleet, namespace } = context;
    const node = await untilSomeNodeIsToldTo(fleet, 'MonitoringUpdate');
    await setReadyOn(context, node, false);
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

    await setReadyOn(context, node, true);
    await fleet.untilAllRun(NEW);
    expect([...fleet.nodes.values()].map(({ host }) => host.reboots)).toEqual([1, 1, 1]);
  });
});
