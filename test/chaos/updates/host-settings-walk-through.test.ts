/** The documented walk through the settings of a node group, on a whole fleet. */
import { jest } from '@jest/globals';
import { blocksOf, runCommands, withFile } from '../../framework/commands.ts';
import type { ControlPlane } from '../../framework/control-plane/start.ts';
import { eventually } from '../../framework/eventually.ts';
import { type Fleet, fleetNodes } from '../../framework/fleet/fleet.ts';
import { type FleetTestOptions, OLD, withFleet } from '../../framework/fleet/with-fleet.ts';

jest.setTimeout(600_000);

const PAGE = 'docs/node-groups.md';
const SECTION = 'Settings of the hosts';
const [MANIFEST = ''] = blocksOf(PAGE, SECTION, 'yaml');
const [LABEL = '', ALLOW = '', APPLY = '', REMOVE = ''] = blocksOf(PAGE, SECTION, 'sh');
/** The last two are in the group. */
const NODES = fleetNodes(8).slice(4);
const WELCOME = 'Welcome to Bottlerocket!';
const SEARCH = 'Search. Ask before you touch anything.';
const LIMIT_MS = 300_000;

/** Until a policy that was changed is in effect, `kubectl apply` says what is not allowed. */
async function untilAllowed(cluster: ControlPlane, file: string): Promise<void> {
  await eventually(async () => await runCommands(cluster, `kubectl apply --server-side --dry-run=server -f ${file}`));
}

/** Of each host, in the order of their names. */
const valuesOf = (fleet: Fleet, key: string): unknown[] =>
  [...fleet.nodes.keys()]
    .toSorted((one, other) => one.localeCompare(other, 'en', { numeric: true }))
    .map((name) => fleet.node(name).host.settings.live.get(`settings.${key}`));

/** Nothing but the settings changes: there is no version to update to. */
const options: Omit<FleetTestOptions, 'nodes'> = { before: async ({ fleet }) => fleet.publish([OLD]) };

it('the documented commands allow settings, show what they disrupt, set them, and give former values back', async () => {
  await withFile('search.yaml', MANIFEST, async (file) => {
    await withFleet({ nodes: NODES, ...options }, async ({ cluster, fleet }) => {
      await runCommands(cluster, LABEL);
      await expect(runCommands(cluster, `kubectl apply --server-side -f ${file}`)).rejects.toThrow(
        'hostSettings.allowed',
      );
      await runCommands(cluster, ALLOW);
      await untilAllowed(cluster, file);

      const set = await runCommands(cluster, APPLY.replaceAll('search.yaml', file), LIMIT_MS);
      expect(set).toContain('settings.kubernetes.container-log-max-files: RestartsService, it restarts kubelet\n');
      expect(set).toContain('settings.motd: Live, it restarts no service that pods need\n');
      expect(set).toMatch(/^brs-node-5 +<none>\nbrs-node-6 +<none>\nbrs-node-7 +20.*Z\nbrs-node-8 +20.*Z\n$/mu);
      expect(valuesOf(fleet, 'motd')).toEqual([WELCOME, WELCOME, SEARCH, SEARCH]);
      expect(valuesOf(fleet, 'kubernetes.container-log-max-files')).toEqual([undefined, undefined, 4, 4]);
      expect(valuesOf(fleet, 'kernel.sysctl."vm.max_map_count"').slice(2)).toEqual(['262144', '262144']);

      const restored = await runCommands(cluster, REMOVE, LIMIT_MS);
      expect(restored).toMatch(/^Settings that are no longer requested stay on node-7, node-8: /mu);
      expect(valuesOf(fleet, 'motd')).toEqual([WELCOME, WELCOME, WELCOME, WELCOME]);
      expect(fleet.observer.mostUnavailable).toBe(0);
      for (const { host } of fleet.nodes.values()) expect(host.reboots).toBe(0);
    });
  });
});
