/** The documented walk through labels, annotations and taints of a node group, on a whole fleet. */
import { jest } from '@jest/globals';
import { blocksOf, commandsOf, runCommands, withFile } from '../framework/commands.ts';
import { fleetNodes } from '../framework/fleet/fleet.ts';
import { withFleet } from '../framework/fleet/with-fleet.ts';

jest.setTimeout(360_000);

const PAGE = 'docs/node-groups.md';
const SECTION = 'Labels, annotations and taints';
const [MANIFEST = ''] = blocksOf(PAGE, SECTION, 'yaml');
const COMMANDS = commandsOf(PAGE, SECTION);

it('the documented commands give the Nodes of a pool a label, show a conflict, end it, and take the label back', async () => {
  await withFile('gpu.yaml', MANIFEST, async (file) => {
    await withFleet({ nodes: fleetNodes(6).slice(2), config: { paused: true } }, async ({ cluster, fleet }) => {
      const output = await runCommands(cluster, COMMANDS.replaceAll('gpu.yaml', file), 180_000);
      expect(output).toMatch(/^node-5 .*\n(?:.*\n)*node-6 /mu);
      expect(output).toContain('the label "example.com/team" of Node "node-5" is that of "kubectl-label"');
      expect(output).toContain('manager: brupop-group-gpu');
      const nodes = fleet.observer.nodes.list();
      expect(JSON.stringify(nodes.map(({ metadata, spec }) => [metadata.labels, spec?.taints]))).not.toContain(
        'example.com',
      );
    });
  });
});
