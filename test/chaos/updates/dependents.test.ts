/** The whole chart: most nodes fall silent, dependents go to 0, and the release is uninstalled meanwhile. */
import { jest } from '@jest/globals';
import type { V1Deployment } from '@kubernetes/client-node';
import { DEPENDENT_REPLICAS_ANNOTATION } from '../../../packages/shared/src/api/names.ts';
import { runCommands } from '../../framework/commands.ts';
import { CUT_OFF_ANNOTATION } from '../../framework/control-plane/node-leases.ts';
import { eventually } from '../../framework/eventually.ts';
import { fleetNodes } from '../../framework/fleet/fleet.ts';
import { type FleetContext, withFleet } from '../../framework/fleet/with-fleet.ts';

jest.setTimeout(480_000);

const NAME = 'autoscaler';
const PATH = `/apis/apps/v1/namespaces/repair/deployments/${NAME}`;
const TARGET = { kind: 'Deployment', namespace: 'repair' } as const;
const UNINSTALL = 'helm uninstall bottlerocket-update-operator --namespace brupop-bottlerocket-aws --timeout 3m';

/** As `2`, or `0 (2)` with what is recorded. */
async function scale({ cluster }: FleetContext): Promise<string> {
  const { metadata, spec } = await cluster.api.get<V1Deployment>(PATH);
  const record = metadata?.annotations?.[DEPENDENT_REPLICAS_ANNOTATION];
  return `${spec?.replicas}${record === undefined ? '' : ` (${record})`}`;
}

async function deploy({ cluster }: FleetContext): Promise<void> {
  await cluster.api.create('/api/v1/namespaces', { metadata: { name: TARGET.namespace } });
  const labels = { app: NAME };
  const container = { name: NAME, image: 'registry.example/app:1' };
  const template = { metadata: { labels }, spec: { containers: [container] } };
  const spec = { replicas: 2, selector: { matchLabels: labels }, template };
  await cluster.api.create(PATH.replace(`/${NAME}`, ''), { metadata: { name: NAME }, spec });
}

it('helm uninstall in the middle of a loss brings dependents back, and leaves none at 0', async () => {
  const connectivity = { dependents: [{ ...TARGET, name: NAME, target: NAME }] };
  const values = Object.fromEntries(
    Object.entries({ ...TARGET, name: NAME }).map(([key, value]) => [`dependents.targets[0].${key}`, value]),
  );
  const options = { nodes: fleetNodes(4), config: { paused: true, connectivity }, values, before: deploy };
  await withFleet(options, async (context) => {
    const { cluster } = context;
    const setCutOff = async (isCutOff: boolean): Promise<void> => {
      const metadata = { annotations: { [CUT_OFF_ANNOTATION]: isCutOff ? 'true' : null } };
      for (const { name } of fleetNodes(4)) await cluster.api.patch(`/api/v1/nodes/${name}`, { metadata });
    };
    expect(await scale(context)).toBe('2');
    await setCutOff(true);
    await eventually(async () => expect(await scale(context)).toBe('0 (2)'), { limitMs: 240_000 });
    await runCommands(cluster, UNINSTALL, 200_000);
    expect(await scale(context)).toBe('2');
    await new Promise((done) => setTimeout(done, 20_000));
    expect(await scale(context)).toBe('2');
    await setCutOff(false);
  });
});
