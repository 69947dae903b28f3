import type { BrupopConfigSpec } from '../../../packages/shared/src/api/config-spec.ts';
import { fleetNodes } from '../fleet/fleet.ts';
import { NEW, type FleetContext, type FleetTestOptions, withFleet } from '../fleet/with-fleet.ts';

const NODES = 6;

/** The fields of the configuration that make updates slower and safer, with short times. */
const CAREFUL: BrupopConfigSpec = {
  drain: { startupTaint: true },
  health: { workloads: 'Required', pods: 'Required' },
  monitoring: { healthyFor: '2s', timeout: '1m' },
  lostNode: { action: 'OutOfServiceTaint' },
};
const CAREFUL_ROLLOUT: BrupopConfigSpec['rollout'] = {
  canary: { nodes: 1 },
  soak: '2s',
  rollback: 'Automatic',
};

/**
 * Runs `body` on six nodes, which check for updates every second, update `atOnce` at a time, and
 * have run a first update.
 *
 * @param options.isCareful - with canaries, a soak, automatic rollback and every check of the health
 */
export async function withRollingFleet(
  atOnce: number,
  body: (context: FleetContext) => Promise<void>,
  { isCareful = false, ...options }: Pick<FleetTestOptions, 'watchCalls'> & { readonly isCareful?: boolean } = {},
): Promise<void> {
  const values = { 'agent.updateCheckIntervalSeconds': 1 };
  await withFleet({ nodes: fleetNodes(NODES), maxUnavailable: atOnce, values, ...options }, async (context) => {
    // Without a freeze, since hosts that fail to boot are among the faults.
    await context.fleet.configure({
      ...(isCareful && CAREFUL),
      concurrency: { maxUpdating: atOnce },
      rollout: { failureBudget: '100%', ...(isCareful && CAREFUL_ROLLOUT) },
    });
    await context.fleet.untilAllRun(NEW);
    await body(context);
  });
}
