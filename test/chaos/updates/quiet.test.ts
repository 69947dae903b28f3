import { setTimeout as sleep } from 'node:timers/promises';
import type { V1PodList } from '@kubernetes/client-node';
import { jest } from '@jest/globals';
import type { BrupopConfig } from '../../../packages/shared/src/api/brupop-config.ts';
import { auditPosition, countRequests, openWatches, operatorRequests } from '../../framework/audit.ts';
import { eventually } from '../../framework/eventually.ts';
import { fleetNodes } from '../../framework/fleet/fleet.ts';
import { type FleetContext, NEW, withFleet } from '../../framework/fleet/with-fleet.ts';

jest.setTimeout(1_200_000);

/** As long as etcd, by default, reports no newer revision of a collection without changes. */
const QUIET_MINUTES = 10;
const SETTLE_MS = 5_000;
/** In all, at six nodes. */
const MOST_PER_MINUTE = 14;
const NODES = 6;

describe('a fleet without changes for ten minutes, with the default settings of etcd', () => {
  it('keeps every replica ready, sends at most 14 requests a minute, and then updates without delay', async () => {
    await withFleet({ nodes: fleetNodes(NODES), config: {} }, async (context) => {
      const { fleet, cluster } = context;
      await fleet.untilAllRun(NEW);
      await sleep(SETTLE_MS);
      const [position, before] = [await auditPosition(cluster.auditLogPath), await conditions(context)];
      const watchesBefore = await openWatches(cluster.auditLogPath, fleet.operator.namespace);
      await sleep(QUIET_MINUTES * 60_000);
      const requests = await operatorRequests(cluster.auditLogPath, fleet.operator.namespace, position);
      // Each condition has the time of its latest transition.
      expect(await conditions(context)).toEqual(before);
      expect(await openWatches(cluster.auditLogPath, fleet.operator.namespace)).toEqual(watchesBefore);
      const counts = Object.fromEntries(countRequests(requests));
      expect([requests.length / QUIET_MINUTES <= MOST_PER_MINUTE, counts]).toEqual([true, counts]);
      await fleet.untilAllRun(fleet.publishNext());
    });
  });
});

/** Which pods of the operator are ready and since when, and whether the fleet is frozen. */
async function conditions({ cluster, fleet }: FleetContext): Promise<readonly (string | undefined)[]> {
  const { items } = await cluster.api.get<V1PodList>(`/api/v1/namespaces/${fleet.operator.namespace}/pods`);
  const ready = items.map(({ metadata, status }) => {
    const condition = status?.conditions?.find(({ type }) => type === 'Ready');
    return [metadata?.name, condition?.status, String(condition?.lastTransitionTime)].join(' ');
  });
  return await eventually(async () => {
    const path = '/apis/brupop.bottlerocket.aws/v1alpha1/brupopconfigs/cluster';
    const config = await cluster.api.get<BrupopConfig>(path);
    const frozen = config.status?.conditions?.find(({ type }) => type === 'Frozen');
    expect(frozen?.status).toBe('False');
    return [...ready.toSorted(), frozen?.lastTransitionTime];
  });
}
