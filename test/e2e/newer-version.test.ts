import { readRecord } from '../../packages/shared/src/api/record.ts';
import { jest } from '@jest/globals';
import type { CoreV1EventList } from '@kubernetes/client-node';
import type { BottlerocketShadow } from '../../packages/shared/src/api/shadow.ts';
import { eventually } from '../framework/eventually.ts';
import { type Fleet, fleetNodes } from '../framework/fleet/fleet.ts';
import { NEW, OLD, type FleetContext, withFleet } from '../framework/fleet/with-fleet.ts';

jest.setTimeout(360_000);

const NEWEST = '1.28.0';
const [WITHDRAWN, REPLACED] = ['node-1', 'node-2'] as const;

/** All that the shadows showed from now on, in order. */
function record(fleet: Fleet): BottlerocketShadow[] {
  const seen: BottlerocketShadow[] = [];
  fleet.observer.shadows.subscribe(({ object }) => seen.push(object));
  return seen;
}

/** State and version of each spec of a node, from its first update on. */
function specs(seen: readonly BottlerocketShadow[], node: string): string[] {
  const all = seen
    .filter(({ metadata }) => metadata.name === `brs-${node}`)
    .map(({ spec }) => `${spec.state} ${spec.version ?? ''}`.trimEnd());
  return all.filter((spec, index) => spec !== (all[index - 1] ?? 'Idle'));
}

function refreshes(fleet: Fleet, node: string): number {
  return fleet.node(node).host.history.filter(({ path }) => path === '/actions/refresh-updates').length;
}

/** Events of the controller on a node, oldest first. */
async function eventsOn({ cluster }: FleetContext, node: string): Promise<{ type: string; message: string }[]> {
  const query = new URLSearchParams({ fieldSelector: `involvedObject.name=${node},source=brupop-controller` });
  const { items } = await cluster.api.get<CoreV1EventList>(`/api/v1/namespaces/default/events?${query.toString()}`);
  return items.map(({ type = '', message = '' }) => ({ type, message }));
}

describe('a release that a host no longer offers when the turn of its node comes', () => {
  it('ends the update at once without a failure, and the node updates to the newer version if there is one', async () => {
    const values = { 'agent.updateCheckIntervalSeconds': 300 };
    await withFleet({ nodes: fleetNodes(2), config: { paused: true }, values }, async (context) => {
      const { fleet } = context;
      // Both agents have checked; they check again in about five minutes.
      await eventually(() => {
        for (const name of fleet.nodes.keys()) {
          const { waitingFor, target_version } = fleet.shadow(name)?.status ?? {};
          expect([waitingFor, target_version]).toEqual(['Paused', NEW]);
        }
      });
      const seen = record(fleet);
      const checks = refreshes(fleet, WITHDRAWN);
      fleet.publish([OLD], [WITHDRAWN]);
      fleet.publish([OLD, NEW, NEWEST], [REPLACED]);
      await fleet.configure({ concurrency: { maxUpdating: 1 }, order: 'Name' });

      await eventually(() => fleet.assertRuns(REPLACED, NEWEST), { limitMs: 60_000 });
      await eventually(() => {
        for (const name of fleet.nodes.keys()) expect(fleet.shadow(name)?.status?.waitingFor ?? '').toBe('');
      });
      fleet.assertRuns(WITHDRAWN, OLD);
      expect(fleet.node(WITHDRAWN).host.reboots).toBe(0);
      expect(fleet.node(REPLACED).host.bootedVersions).toEqual([OLD, NEWEST]);

      const attempt = `StagedAndPerformedUpdate ${NEW}`;
      expect(specs(seen, WITHDRAWN)).toEqual([attempt, 'Idle']);
      expect(specs(seen, REPLACED).slice(0, 3)).toEqual([attempt, 'Idle', `StagedAndPerformedUpdate ${NEWEST}`]);
      expect(refreshes(fleet, WITHDRAWN) - checks).toBe(1);
      expect(seen.filter(({ status }) => (status?.crash_count ?? 0) > 0)).toEqual([]);
      expect(seen.filter(({ metadata }) => readRecord(metadata).unsuccessful)).toEqual([]);

      const ended = (offered: string): string => `The host no longer offers ${NEW}, and offers ${offered}`;
      await eventually(async () => {
        const [withdrawn, replaced] = [await eventsOn(context, WITHDRAWN), await eventsOn(context, REPLACED)];
        expect(withdrawn.map(({ message }) => message)).toContainEqual(
          expect.stringContaining(ended('no other version')),
        );
        expect(replaced.map(({ message }) => message)).toContainEqual(expect.stringContaining(ended(NEWEST)));
        expect(replaced.map(({ message }) => message)).toContain(`Updated to ${NEWEST}`);
        expect([...withdrawn, ...replaced].filter(({ type }) => type !== 'Normal')).toEqual([]);
      });
    });
  });
});
