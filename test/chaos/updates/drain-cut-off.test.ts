import { jest } from '@jest/globals';
import type { V1PodDisruptionBudget } from '@kubernetes/client-node';
import { DRAIN_CALL_LIMIT_MS } from '../../../packages/shared/src/api/deadlines.ts';
import { eventually } from '../../framework/eventually.ts';
import { fleetNodes } from '../../framework/fleet/fleet.ts';
import { untilSomeNodeIsAt } from '../../framework/fleet/steps.ts';
import { NEW, withFleet } from '../../framework/fleet/with-fleet.ts';
import { budgetPath } from '../../framework/fleet/workloads.ts';

jest.setTimeout(360_000);

describe('a drain', () => {
  it('continues after an eviction was cut off, which blocks its disruption budget for two minutes', async () => {
    await withFleet({ nodes: fleetNodes(3) }, async ({ fleet, cluster, namespace }) => {
      // The kill must happen between the count in the budget and the deletion of the pod; a node
      // may drain faster.
      const isCutOff = async (): Promise<boolean> => {
        await untilSomeNodeIsAt(fleet, 'Drain');
        await cluster.components.apiserver.kill('SIGKILL');
        await cluster.components.apiserver.restart();
        const { status } = await eventually(() => cluster.api.get<V1PodDisruptionBudget>(budgetPath(namespace)));
        return Object.keys(status?.disruptedPods ?? {}).length === 1;
      };
      expect((await isCutOff()) || (await isCutOff()) || (await isCutOff())).toBe(true);
      // A scheduler may exit when the API server is unavailable, and nothing else restarts it here.
      await cluster.components.scheduler.restart();
      await fleet.untilAllRun(NEW);
    });
  });

  it('continues with another replica when the machine of the draining one is lost', async () => {
    await withFleet({ nodes: fleetNodes(3), watchCalls: true }, async ({ fleet }) => {
      const drains: { node: string; at: number }[] = [];
      fleet.callWatcher = async (node, { moment, path }) => {
        if (moment === 'answered' || !path.endsWith('/drain')) return 'pass';
        drains.push({ node, at: performance.now() });
        if (drains.length === 1) await fleet.proxy.links.strand(node);
        return 'pass';
      };
      await fleet.untilAllRun(NEW);
      const [lost, next] = drains.filter(({ node }) => node === drains[0]?.node);
      expect(next === undefined || lost === undefined ? 0 : next.at - lost.at).toBeGreaterThan(
        DRAIN_CALL_LIMIT_MS - 1_000,
      );
      expect([...fleet.nodes.values()].map(({ host }) => host.reboots)).toEqual([1, 1, 1]);
    });
  });
});
