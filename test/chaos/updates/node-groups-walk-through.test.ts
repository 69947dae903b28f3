/** The documented walk through two pools of nodes, on a whole fleet. */
import { jest } from '@jest/globals';
import { blocksOf, runCommands, withFile } from '../../framework/commands.ts';
import { fleetNodes } from '../../framework/fleet/fleet.ts';
import { NEW, OLD, withFleet } from '../../framework/fleet/with-fleet.ts';

jest.setTimeout(360_000);

const PAGE = 'docs/node-groups.md';
const SECTION = 'A walk through';
const NODES = fleetNodes(4);
const [MANIFEST = ''] = blocksOf(PAGE, SECTION, 'yaml');
const [LABEL = '', APPLY = '', SHOW = ''] = blocksOf(PAGE, SECTION, 'sh');

it('the documented commands update one pool, while the other one waits for it, and show why', async () => {
  await withFile('pools.yaml', MANIFEST, async (file) => {
    // The groups are there before a node starts its update.
    await withFleet({ nodes: NODES, config: { paused: true } }, async ({ cluster, fleet }) => {
      await runCommands(cluster, LABEL);
      await runCommands(cluster, APPLY.replace('pools.yaml', file));
      await fleet.configure({});
      const output = await runCommands(cluster, SHOW, 240_000);
      expect(output).toMatch(/^NAME +STATUS +PAUSED +FROZEN +DEGRADED +UP TO DATE +UPDATING +WAITING +FAILED/mu);
      expect(output).toMatch(/^db +\S+ +False +False +False +0 +0 +2 +0$/mu);
      expect(output).toMatch(/^web +\S+ +False +False +False +2 +0 +0 +0$/mu);
      for (const node of ['node-1', 'node-2']) expect(output).toMatch(new RegExp(`brs-${node} .* web `, 'u'));
      for (const node of ['node-3', 'node-4']) expect(output).toMatch(new RegExp(`brs-${node} .* db `, 'u'));
      // The node of the leading controller is the last.
      for (const node of ['node-3', 'node-4']) expect(output).toContain(`\n${node}: Soaking\n`);
      const versions = NODES.map(({ name }) => fleet.node(name).host.version);
      expect(versions).toEqual([NEW, NEW, OLD, OLD]);
    });
  });
});
