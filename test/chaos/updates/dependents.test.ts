/** The whole chart: most nodes fall silent, dependents go to 0, and the release is uninstalled meanwhile. */
import { isDeepStrictEqual } from 'node:util';
import { jest } from '@jest/globals';
import { commandsOf, runCommands } from '../../framework/commands.ts';
import { CUT_OFF_ANNOTATION, LEASES } from '../../framework/control-plane/node-leases.ts';
import { type ControlPlane, startControlPlane } from '../../framework/control-plane/start.ts';
import {
  dependentsByLevel,
  DEPLOYMENTS,
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

jest.setTimeout(720_000);

const UNINSTALL = 'helm uninstall bottlerocket-update-operator --namespace brupop-bottlerocket-aws';
const LAST_LINE = commandsOf('docs/uninstall.md', 'Dependents');
const CONTROLLERS = '/apis/apps/v1/namespaces/brupop-bottlerocket-aws/deployments/brupop-controller';
const ADMISSION = '/apis/admissionregistration.k8s.io/v1';
const POLICIES = `${ADMISSION}/validatingadmissionpolicies`;
const BINDINGS = `${ADMISSION}/validatingadmissionpolicybindings`;
const LOSS = { limitMs: 240_000 };

let cluster: ControlPlane;
let fleet: Fleet;
let targets: ScaledTargets;

beforeAll(async () => {
  const connectivity = { dependents: dependentsByLevel('10s') };
  const values = Object.fromEntries(
    TARGETS_VALUE.flatMap((target, index) =>
      Object.entries(target).map(([key, value]) => [`dependents.targets[${index}].${key}`, value]),
    ),
  );
  cluster = await startControlPlane();
  fleet = await Fleet.start({ cluster, nodes: fleetNodes(4), version: OLD, repository: [OLD] });
  await cluster.api.create('/api/v1/namespaces', { metadata: { name: NAMESPACE } });
  targets = await ScaledTargets.deploy(cluster);
  await installCrds(cluster);
  await fleet.configure({ paused: true, connectivity });
  await fleet.operator.install(values);
  await eventually(async () => {
    for (const { name } of fleetNodes(4)) await cluster.api.get(`${LEASES}/${name}`);
  });
  await untilScales(UP);
  const metadata = { annotations: { [CUT_OFF_ANNOTATION]: 'true' } };
  for (const { name } of fleetNodes(4)) await cluster.api.patch(`/api/v1/nodes/${name}`, { metadata });
});

beforeEach(async () => {
  await untilScales(DOWN);
});

afterAll(async () => {
  await fleet.stop();
  await cluster.stop();
});

async function untilScales(wanted: readonly string[]): Promise<void> {
  await eventually(async () => {
    const scales = await targets.scales();
    if (!isDeepStrictEqual(scales, wanted)) throw new Error(`the dependents are at ${scales.join(', ')}`);
  }, LOSS);
}

/** As a webhook that is broken would. */
async function deny(name: string): Promise<void> {
  await cluster.api.create(POLICIES, {
    metadata: { name: 'deny' },
    spec: {
      matchConstraints: {
        resourceRules: [
          { apiGroups: ['apps'], apiVersions: ['*'], operations: ['UPDATE'], resources: ['deployments'] },
        ],
      },
      matchConditions: [{ name: 'one', expression: `object.metadata.name == '${name}' && object.spec.replicas > 0` }],
      validations: [{ expression: 'false', message: 'not today' }],
    },
  });
  await cluster.api.create(BINDINGS, {
    metadata: { name: 'deny' },
    spec: { policyName: 'deny', validationActions: ['Deny'] },
  });
  const restore = async (): Promise<unknown> =>
    await cluster.api.patch(`${DEPLOYMENTS}/${name}?dryRun=All`, { spec: { replicas: 1 } });
  await eventually(async () => await expect(restore()).rejects.toThrow('not today'));
}

it('helm uninstall removes nothing while a dependent cannot be brought back, and the log of the Job names it', async () => {
  await deny('node-repair');
  await expect(runCommands(cluster, UNINSTALL, 320_000)).rejects.toThrow('brupop-restore-dependents');
  expect(await runCommands(cluster, LAST_LINE)).toMatch(
    /cannot scale back: Deployment repair\/node-repair: [^;]*not today[^;]*$/u,
  );
  await cluster.api.get(CONTROLLERS);
  for (const path of [BINDINGS, POLICIES]) await cluster.api.delete(`${path}/deny`);
});

it('helm uninstall in the middle of a loss brings dependents back, and leaves none at 0', async () => {
  await runCommands(cluster, UNINSTALL, 200_000);
  expect(await targets.scales()).toEqual(UP);
  await new Promise((done) => setTimeout(done, 20_000));
  expect(await targets.scales()).toEqual(UP);
});
