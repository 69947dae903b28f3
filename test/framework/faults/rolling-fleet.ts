import { fleetNodes } from '../fleet/fleet.ts';
import { NEW, type Scene, type SceneOptions, withFleet } from '../fleet/with-fleet.ts';

const NODES = 6;

/** Six nodes, `atOnce` of them at a time, which look for updates every second and have taken a first one. */
export async function withRollingFleet(
  atOnce: number,
  body: (scene: Scene) => Promise<void>,
  options: Pick<SceneOptions, 'watchCalls'> = {},
): Promise<void> {
  const values = { 'agent.updateCheckIntervalSeconds': 1 };
  await withFleet({ nodes: fleetNodes(NODES), maxUnavailable: atOnce, values, ...options }, async (scene) => {
    await scene.fleet.configure({ concurrency: { maxUpdating: atOnce } });
    await scene.fleet.untilAllRun(NEW);
    await body(scene);
  });
}
