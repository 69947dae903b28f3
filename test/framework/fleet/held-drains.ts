import type { Connection } from '../control-plane/connection.ts';
import { eventually } from '../eventually.ts';
import type { FleetContext } from './with-fleet.ts';

interface Place {
  readonly cluster: Pick<Connection, 'api'>;
  readonly namespace: string;
}

const ANCHOR = 'anchor';
const labels = { app: ANCHOR };
const containers = [{ name: 'main', image: 'workload' }];

/**
 * Creates a pod on each of these nodes that cannot be evicted. Another pod of the same disruption
 * budget never becomes ready, so the controller cannot know that the budget stays blocked: drains
 * start, and wait.
 */
export async function holdDrains({ cluster, namespace }: Place, nodes: readonly string[]): Promise<void> {
  const specs = nodes.map((nodeName) => [`${ANCHOR}-${nodeName}`, { containers, nodeName }] as const);
  const late = [`${ANCHOR}-late`, { containers, nodeSelector: { nowhere: 'true' } }] as const;
  for (const [name, spec] of [...specs, late]) {
    await eventually(async () => {
      await cluster.api.delete(`/api/v1/namespaces/${namespace}/pods/${name}`);
      await cluster.api.create(`/api/v1/namespaces/${namespace}/pods`, { metadata: { name, labels }, spec });
    });
  }
  await cluster.api.create(`/apis/policy/v1/namespaces/${namespace}/poddisruptionbudgets`, {
    metadata: { name: ANCHOR },
    spec: { minAvailable: nodes.length, selector: { matchLabels: labels } },
  });
  await eventually(async () => {
    const { items } = await cluster.api.get<{ items: { status?: { phase?: string } }[] }>(
      `/api/v1/namespaces/${namespace}/pods?labelSelector=app%3D${ANCHOR}`,
    );
    const running = items.filter(({ status }) => status?.phase === 'Running');
    if (running.length !== nodes.length) throw new Error(`${running.length} of ${nodes.length} anchors are running`);
  });
}

/** Holds drains on every node of the fleet. */
export async function holdAllDrains(context: FleetContext): Promise<void> {
  await holdDrains(context, [...context.fleet.nodes.keys()]);
}

/** Allows the eviction of those pods. */
export async function releaseDrains({ cluster, namespace }: Place): Promise<void> {
  await eventually(async () => {
    await cluster.api.delete(`/apis/policy/v1/namespaces/${namespace}/poddisruptionbudgets/${ANCHOR}`);
  });
}
