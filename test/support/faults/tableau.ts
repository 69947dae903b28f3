import type { LastOperation } from '../../../packages/shared/src/shadow.ts';
import { eventually } from '../eventually.ts';
import type { Scene } from '../fleet/with-fleet.ts';

/** Which node is held at which step of its update. */
export const HELD: ReadonlyMap<string, LastOperation['operation']> = new Map([
  ['node-1', 'Stage'],
  ['node-2', 'Drain'],
  ['node-3', 'Activate'],
  ['node-4', 'Reboot'],
]);

/** Long enough that all are at their steps together, and that a fault meets them there. */
const HOLD_MS = 4_000;
const ANCHOR = 'anchor';

/**
 * Publishes one version more and resolves when nodes are at every step of their update at the same time: one stages, one waits for a pod
 * that may not be evicted, one activates, one reboots. Answers the version. `release` lets them go on.
 */
export async function arrangeTableau(scene: Scene): Promise<string> {
  const { fleet } = scene;
  await holdDrain(scene);
  Object.assign(fleet.node('node-1').host.durations, { prepareMs: HOLD_MS });
  Object.assign(fleet.node('node-3').host.durations, { activateMs: HOLD_MS });
  Object.assign(fleet.node('node-4').host.durations, { bootMs: HOLD_MS });
  const version = fleet.publishNext();
  await eventually(
    () => {
      for (const [name, operation] of HELD) {
        const last = fleet.shadow(name)?.status?.lastOperation;
        const isThere = last?.operation === operation && last.state === 'Processing' && last.version === version;
        const isDown = operation !== 'Reboot' || !fleet.node(name).host.up;
        if (!isThere || !isDown) throw new Error(`${name} is not at ${operation} yet: ${fleet.describe(name)}`);
      }
    },
    { limitMs: 60_000, pauseMs: 5 },
  );
  return version;
}

/** The pod that holds up the drain may go. */
export async function release({ cluster, namespace }: Scene): Promise<void> {
  await eventually(async () => {
    await cluster.api.delete(`/apis/policy/v1/namespaces/${namespace}/poddisruptionbudgets/${ANCHOR}`);
  });
}

/** A pod on node-2 that no eviction may remove. */
async function holdDrain({ cluster, namespace }: Scene): Promise<void> {
  const labels = { app: ANCHOR };
  const containers = [{ name: 'main', image: 'workload' }];
  await eventually(async () => {
    const spec = { containers, nodeName: 'node-2' };
    await cluster.api.delete(`/api/v1/namespaces/${namespace}/pods/${ANCHOR}`);
    await cluster.api.create(`/api/v1/namespaces/${namespace}/pods`, { metadata: { name: ANCHOR, labels }, spec });
  });
  await cluster.api.create(`/apis/policy/v1/namespaces/${namespace}/poddisruptionbudgets`, {
    metadata: { name: ANCHOR },
    spec: { minAvailable: 1, selector: { matchLabels: labels } },
  });
}
