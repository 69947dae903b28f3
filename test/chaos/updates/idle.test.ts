import { setTimeout as sleep } from 'node:timers/promises';
import { jest } from '@jest/globals';
import { auditPosition, countRequests, openWatches, operatorRequests } from '../../framework/audit.ts';
import { eventually } from '../../framework/eventually.ts';
import { fleetNodes } from '../../framework/fleet/fleet.ts';
import { NEW, withFleet } from '../../framework/fleet/with-fleet.ts';

jest.setTimeout(360_000);

/** Five renewals of the Lease. */
const IDLE_MS = 30_000;
/** The drains have moved replicas. A new one sends a read for each watch 10 s after opening it. */
const QUIET_MS = 15_000;

describe('a fleet with nothing to do', () => {
  it('sends the API server only one watch per resource and process and the renewal of one Lease', async () => {
    await withFleet({ nodes: fleetNodes(4) }, async ({ fleet, cluster }) => {
      const { namespace } = fleet.operator;
      await fleet.untilAllRun(NEW);
      await eventually(() => {
        const reasons = [...fleet.nodes.keys()].map((name) => fleet.shadow(name)?.status?.conditions?.[0]?.reason);
        expect(reasons).toEqual(reasons.map(() => 'UpToDate'));
      });
      await sleep(QUIET_MS);
      const position = await auditPosition(cluster.auditLogPath);
      await sleep(IDLE_MS);
      const counts = countRequests(await operatorRequests(cluster.auditLogPath, namespace, position));
      expect([...counts.keys()]).toEqual(['brupop-controller update leases']);
      expect(counts.get('brupop-controller update leases')).toBeGreaterThan(1);
      expect(counts.get('brupop-controller update leases')).toBeLessThanOrEqual(IDLE_MS / 6_000 + 1);
      expect(Object.fromEntries(countRequests(await openWatches(cluster.auditLogPath, namespace)))).toEqual({
        'brupop-apiserver watch pods': 3,
        'brupop-apiserver watch bottlerocketshadows': 3,
        'brupop-apiserver watch brupopconfigs': 3,
        'brupop-apiserver watch bottlerocketnodegroups': 3,
        'brupop-controller watch nodes': 2,
        'brupop-controller watch bottlerocketshadows': 2,
        'brupop-controller watch brupopconfigs': 2,
        'brupop-controller watch bottlerocketnodegroups': 2,
        'brupop-controller watch poddisruptionbudgets': 2,
        'brupop-controller watch leases': 4,
      });
    });
  });
});
