/** The whole chart: most nodes fall silent, dependents go to 0, and the release is uninstalled meanwhile. */
import { jest } from '@jest/globals';
import { runCommands } from '../../framework/commands.ts';
import { CUT_OFF_ANNOTATION, LEASES } from '../../framework/control-plane/node-leases.ts';
import { startControlPlane } from '../../framework/control-plane/start.ts';
import {
  dependentsByLevel,
  DOWN,
  NAMESPACE,
  ScaledTargets,
  TARGETS_VALUE,
  UP,
} from '../../framework/controller/scaled-targets.ts';
import { installCrds } from '../../framework/crds.ts';
import { eventually } from '../../framework/eventually.ts';
import { Fleet, fleetNodes } from '../../framework/fleet/fleet.ts';
import { OLD } from '../../framework/fleet/with-fleet.ts';

jest.setTimeout(480_000);

const UNINSTALL = 'helm uninstall bottlerocket-update-operator --namespace brupop-bottlerocket-aws --timeout 3m';

it('helm uninstall in the middle of a loss brings dependents back, and leaves none at 0', async () => {
  const connectivity = { dependents: dependentsByLevel('10s') };
  const values = Object.fromEntries(
    TARGETS_VALUE.flatMap((target, index) =>
      Object.entries(target).map(([key, value]) => [`dependents.targets[${index}].${key}`, value]),
    ),
  );
  const cluster = await startControlPlane();
  const fleet = await Fleet.start({ cluster, nodes: fleetNodes(4), version: OLD, repository: [OLD] });
  try {
    await cluster.api.create('/api/v1/namespaces', { metadata: { name: NAMESPACE } });
    const targets = await ScaledTargets.deploy(cluster);
    await installCrds(cluster);
    await fleet.configure({ paused: true, connectivity });
    await fleet.operator.install(values);
    await eventually(async () => {
      for (const { name } of fleetNodes(4)) await cluster.api.get(`${LEASES}/${name}`);
    });
    expect(await targets.scales()).toEqual(UP);
    const metadata = { annotations: { [CUT_OFF_ANNOTATION]: 'true' } };
    for (const { name } of fleetNodes(4)) await cluster.api.patch(`/api/v1/nodes/${name}`, { metadata });
    await eventually(async () => expect(await targets.scales()).toEqual(DOWN), { limitMs: 240_000 });
    await runCommands(cluster, UNINSTALL, 200_000);
    expect(await targets.scales()).toEqual(UP);
    await new Promise((done) => setTimeout(done, 20_000));
    expect(await targets.scales()).toEqual(UP);
  } finally {
    await fleet.stop();
    await cluster.stop();
  }
});
