import { fleetNodes } from '../fleet/fleet.ts';
import { NEW, type FleetContext, type FleetTestOptions, withFleet } from '../fleet/with-fleet.ts';

const NODES = 6;

/**
 * Runs `body` on six nodes, which check for updates every second, update `atOnce` at a time, and
 * have run a first update.
 */
export async function withRollingFleet(
  atOnce: number,
  body: (context: FleetContext) => Promise<void>,
  options: Pick<FleetTestOptions, 'watchCalls'> = {},
): Promise<void> {
  const values = { 'agent.updateCheckIntervalSeconds': 1 };
  await withFleet({ nodes: fleetNodes(NODES), maxUnavailable: atOnce, values, ...options }, async (context) => {
    // Without a freeze, since hosts that fail to boot are among the faults.
    await context.fleet.configure({ concurrency: { maxUpdating: atOnce }, rollout: { failureBudget: '100%' } });
    await context.fleet.untilAllRun(NEW);
    await body(context);
  });
}
