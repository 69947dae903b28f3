/** One API server, which cannot evict itself. */
import { jest } from '@jest/globals';
import { Evictions } from '../../framework/fleet/evictions.ts';
import { fleetNodes } from '../../framework/fleet/fleet.ts';
import { type FleetContext, NEW, withFleet } from '../../framework/fleet/with-fleet.ts';

jest.setTimeout(360_000);

it.each([1, 2])('a fleet of %i nodes is updated by one replica, which never evicts itself', async (nodes) => {
  const values = { 'agent.updateCheckIntervalSeconds': 1, 'apiserver.replicas': 1 };
  const evictions = new Evictions();
  const before = async ({ fleet }: FleetContext): Promise<void> => evictions.follow(fleet);
  await withFleet({ nodes: fleetNodes(nodes), values, before }, async ({ fleet }) => {
    await fleet.untilAllRun(NEW);
    expect(await evictions.ofSelf(fleet)).toEqual([]);
    expect([...fleet.nodes.values()].map(({ host }) => host.reboots)).toEqual(Array(nodes).fill(1));
  });
});
