/** Someone who may write in one namespace creates disruption budgets that no quota counts. */
import { jest } from '@jest/globals';
import { createNamespace } from '../../framework/control-plane/namespaces.ts';
import { fleetNodes } from '../../framework/fleet/fleet.ts';
import { type FleetContext, NEW, withFleet } from '../../framework/fleet/with-fleet.ts';

jest.setTimeout(900_000);

const BUDGETS = 250;
/** About 900 KiB, less than what kube-apiserver takes. */
const VALUES = Array.from({ length: 13_500 }, (_, i) => `${'v'.repeat(55)}${i}`);

async function createBudgets({ cluster }: FleetContext): Promise<void> {
  const namespace = await createNamespace(cluster, 'tenant');
  const path = `/apis/policy/v1/namespaces/${namespace}/poddisruptionbudgets`;
  const selector = { matchExpressions: [{ key: 'app', operator: 'In', values: VALUES }] };
  const names = Array.from({ length: BUDGETS }, (_, i) => `large-${i}`);
  const annotations = { note: 'a'.repeat(200_000) };
  for (let at = 0; at < BUDGETS; at += 5)
    await Promise.all(
      names.slice(at, at + 5).map(async (name) => {
        await cluster.api.create(path, { metadata: { name, annotations }, spec: { minAvailable: 1, selector } });
      }),
    );
}

it('large selectors in one namespace neither end the controllers nor hold up nodes without pods of it', async () => {
  await withFleet({ nodes: fleetNodes(2), before: createBudgets }, async ({ fleet }) => {
    await fleet.untilAllRun(NEW);
  });
});
