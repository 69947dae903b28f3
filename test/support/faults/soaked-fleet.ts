import { fleetNodes } from '../fleet/fleet.ts';
import { NEW, withFleet } from '../fleet/with-fleet.ts';
import type { Scene } from '../fleet/with-fleet.ts';

const NODES = 6;
const AT_ONCE = 2;

/** The fleet of a campaign: six nodes, two at a time, which look for updates every second. */
export async function soakedFleet(body: (scene: Scene) => Promise<void>): Promise<void> {
  const values = { 'agent.updateCheckIntervalSeconds': 1 };
  await withFleet({ nodes: fleetNodes(NODES), maxUnavailable: AT_ONCE, values }, async (scene) => {
    await scene.fleet.configure({ concurrency: { maxUpdating: AT_ONCE } });
    await scene.fleet.untilAllRun(NEW);
    await body(scene);
  });
}
