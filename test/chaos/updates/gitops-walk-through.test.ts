/** The commands of docs/gitops.md on a whole fleet: an upgrade, changes of the configuration, and the way back. */
import { jest } from '@jest/globals';
import type { BrupopConfig } from '../../../packages/shared/src/api/brupop-config.ts';
import type { BrupopConfigSpec } from '../../../packages/shared/src/api/config-spec.ts';
import { commandsOf, runCommands, splitCommands } from '../../framework/commands.ts';
import { fleetNodes } from '../../framework/fleet/fleet.ts';
import { applyGroup, setPool } from '../../framework/fleet/pools.ts';
import { type FleetContext, NEW, OLD, withFleet } from '../../framework/fleet/with-fleet.ts';

jest.setTimeout(900_000);

const PAGE = 'docs/gitops.md';
const NODES = fleetNodes(3);
const CONFIG = '/apis/brupop.bottlerocket.aws/v1alpha1/brupopconfigs/cluster';
const INSTALL = splitCommands(commandsOf('README.md', 'Install')).slice(0, 3);
const [LOOK = '', UPGRADE = ''] = splitCommands(commandsOf(PAGE, 'Helm'));
const RETURN = splitCommands(commandsOf(PAGE, 'Roll back')).slice(-3).join('\n');
const WAIT = commandsOf(PAGE, 'Roll back').split('helm history')[0] ?? '';

/** Each is in force at once or after the agents' answers: no update has to end, and no window to open. */
const CHANGES: readonly BrupopConfigSpec[] = [
  { concurrency: { maxUpdating: 2 } },
  { concurrency: { maxUpdating: '50%', maxUnavailable: 2, maxPerZone: 1 } },
  { maintenance: { timeZone: 'Europe/Berlin', windows: [{ schedule: '0 2 29 2 *', duration: '4h' }] } },
  { drain: { timeout: '20m', onTimeout: 'Force' } },
  { timeouts: { stage: '2h' } },
  { versions: { minimumAge: '72h', deny: [NEW] } },
  { versions: { pin: OLD } },
  { paused: true },
  { versions: null, concurrency: null },
];

async function install({ cluster, fleet }: FleetContext): Promise<void> {
  for (const command of INSTALL) await runCommands(cluster, command);
  await fleet.configure({ versions: { deny: [NEW] } });
  for (const { name } of NODES) await setPool({ cluster }, name, 'web');
  await applyGroup({ cluster }, 'web', {});
}

const revisions = (history: string): string[] =>
  history
    .split('\n')
    .flatMap((line) => /^(?<revision>\d+) .*(?<status>deployed|superseded)/u.exec(line)?.slice(1).join(' ') ?? []);

it('the documented commands upgrade, wait until every change is in effect, and roll back', async () => {
  await withFleet({ nodes: NODES, install }, async ({ cluster, fleet }) => {
    expect(await runCommands(cluster, LOOK)).toContain('APPLY_METHOD: server-side apply');
    await runCommands(cluster, UPGRADE);

    for (const spec of CHANGES) {
      await cluster.api.patch(CONFIG, { spec });
      const waited = await runCommands(cluster, WAIT.replace('--timeout=2h', '--timeout=30s'));
      expect(waited.match(/condition met/gu)).toHaveLength(2);
      const { metadata, status } = await cluster.api.get<BrupopConfig>(CONFIG);
      expect(status?.confirmedGeneration).toBe(metadata.generation);
    }

    const output = await runCommands(cluster, RETURN, 180_000);
    expect(revisions(output)).toEqual(['1 superseded', '2 deployed']);
    expect(output).toMatch(/Rollback was a success!.*daemon set "brupop-agent" successfully rolled out/su);
    expect(revisions(await runCommands(cluster, RETURN.split('\n')[0] ?? ''))).toEqual([
      '1 superseded',
      '2 superseded',
      '3 deployed',
    ]);

    await cluster.api.patch(CONFIG, { spec: { paused: false, maintenance: null } });
    await fleet.untilAllRun(NEW);
  });
});
