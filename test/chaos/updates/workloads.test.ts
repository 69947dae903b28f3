/** What a node waits for whose workloads are not Ready, on a whole fleet. */
import type { V1Pod } from '@kubernetes/client-node';
import { jest } from '@jest/globals';
import { STARTUP_TAINT } from '../../../packages/shared/src/api/names.ts';
import { eventually } from '../../framework/eventually.ts';
import { daemonPods, setReady } from '../../framework/fleet/daemon-pods.ts';
import { fleetNodes } from '../../framework/fleet/fleet.ts';
import { untilSomeNodeIsToldTo } from '../../framework/fleet/steps.ts';
import { type FleetContext, NEW, withFleet } from '../../framework/fleet/with-fleet.ts';

jest.setTimeout(600_000);

const progressingOf = ({ fleet }: FleetContext): (string | undefined)[] =>
  [...fleet.nodes.keys()].map(
    (name) => fleet.shadow(name)?.status?.conditions?.find(({ type }) => type === 'Progressing')?.reason,
  );

it('a workload that is not Ready elsewhere keeps its nodes from starting', async () => {
  const config = { health: { workloads: 'Required' }, paused: true } as const;
  await withFleet({ nodes: fleetNodes(3), config }, async (context) => {
    const { fleet, cluster, namespace } = context;
    const { items } = await cluster.api.get<{ items: { metadata?: { name?: string } }[] }>(
      `/api/v1/namespaces/${namespace}/pods?labelSelector=app%3Dweb`,
    );
    const [pod] = items;
    if (pod === undefined) throw new Error('there is a pod of web');
    await setReady(context, pod, false);
    await fleet.configure({ ...config, paused: false });
    await eventually(() => expect(progressingOf(context)).toContain('WorkloadsNotReady'), { limitMs: 60_000 });
    await setReady(context, pod, true);
    await fleet.untilAllRun(NEW);
  });
});

it('the startup taint keeps pods from a node until its DaemonSets are Ready, and none is left', async () => {
  const config = { drain: { startupTaint: true }, monitoring: { healthyFor: '5s' } };
  await withFleet({ nodes: fleetNodes(2), config, trustsWorkloads: true }, async (context) => {
    const { fleet } = context;
    const tainted = (): string[] =>
      fleet.observer.nodes
        .list()
        .filter(({ spec }) => spec?.taints?.some(({ key }) => key === STARTUP_TAINT) === true)
        .map(({ metadata }) => metadata.name);
    const node = await untilSomeNodeIsToldTo(fleet, 'RebootedIntoUpdate');
    const daemonPod = async (): Promise<V1Pod> => {
      const found = (await daemonPods(context)).find(({ spec }) => spec?.nodeName === node);
      if (found === undefined) throw new Error(`no pod of the DaemonSet is on ${node}`);
      return found;
    };
    const pod = await daemonPod();
    await eventually(() => expect(tainted()).toEqual([node]));
    await setReady(context, pod, false);
    // The boot makes it Ready again, once.
    const isReady = async () => (await daemonPod()).status?.conditions?.find(({ type }) => type === 'Ready')?.status;
    await eventually(async () => expect(await isReady()).toBe('True'), { limitMs: 60_000 });
    await setReady(context, pod, false);
    await eventually(() => expect(fleet.shadow(node)?.spec.state).toBe('MonitoringUpdate'), { limitMs: 60_000 });
    await eventually(() => expect(fleet.observer.nodes.get(node)?.spec?.unschedulable).toBeUndefined());
    await new Promise((done) => setTimeout(done, 6_000));
    expect(tainted()).toEqual([node]);
    await setReady(context, pod, true);
    await fleet.untilAllRun(NEW);
    await eventually(() => expect(tainted()).toEqual([]));
  });
});
