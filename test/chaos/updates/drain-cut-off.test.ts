import { jest } from '@jest/globals';
import type { V1PodList } from '@kubernetes/client-node';
import { DRAIN_CALL_LIMIT_MS } from '../../../packages/shared/src/api/deadlines.ts';
import { fleetNodes } from '../../framework/fleet/fleet.ts';
import { NEW, withFleet } from '../../framework/fleet/with-fleet.ts';
import { budgetPath } from '../../framework/fleet/workloads.ts';

jest.setTimeout(360_000);

describe('a drain', () => {
  it('continues after an eviction was cut off, which blocks its disruption budget for two minutes', async () => {
    await withFleet({ nodes: fleetNodes(3), watchCalls: true }, async ({ fleet, cluster, namespace }) => {
      let cutOffAt: number | undefined;
      fleet.callWatcher = async (node, { moment, path }) => {
        if (cutOffAt !== undefined || moment === 'answered' || !path.endsWith('/drain')) return 'pass';
        const pods = await cluster.api.get<V1PodList>(`/api/v1/namespaces/${namespace}/pods?labelSelector=app%3Dweb`);
        const pod = pods.items.find(({ spec }) => spec?.nodeName === node)?.metadata?.name;
        if (pod === undefined) return 'pass';
        // kube-apiserver counts a pod in the budget before it deletes it. A kill between the two
        // leaves this count, which the disruption controller drops after two minutes.
        const status = { disruptedPods: { [pod]: new Date().toISOString() }, disruptionsAllowed: 0 };
        await cluster.api.patch(`${budgetPath(namespace)}/status`, { status });
        cutOffAt = performance.now();
        return 'pass';
      };
      await fleet.untilAllRun(NEW);
      expect(performance.now() - (cutOffAt ?? Infinity)).toBeGreaterThan(100_000);
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
