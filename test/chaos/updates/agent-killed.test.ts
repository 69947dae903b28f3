import { jest } from '@jest/globals';
import { withRollingFleet } from '../../framework/faults/rolling-fleet.ts';
import { nameOf, watchCalls } from '../../framework/faults/trigger.ts';
import { type Fleet, fleetNodes } from '../../framework/fleet/fleet.ts';
import { NEW, type FleetContext, withFleet } from '../../framework/fleet/with-fleet.ts';

jest.setTimeout(600_000);

/** A call that is retried may not occur again in the state in which it occurred once. */
const TRIES = 3;
/** Kills of an agent in one update of its node. */
const KILLS_PER_UPDATE = 3;

/** Instants that occur in every update. */
const NEVER_MISSED = [
  'before POST /actions/prepare-update of the host in StagedAndPerformedUpdate, Stage',
  'after POST /actions/prepare-update of the host in StagedAndPerformedUpdate, Stage',
  'before POST drain of the API server in RebootedIntoUpdate, Drain',
  'after POST drain of the API server in RebootedIntoUpdate, Drain',
  'before POST /actions/activate-update of the host in RebootedIntoUpdate, Activate',
  'after POST /actions/activate-update of the host in RebootedIntoUpdate, Activate',
  'before POST /actions/reboot of the host in RebootedIntoUpdate, Reboot',
  'after POST /actions/reboot of the host in RebootedIntoUpdate, Reboot',
];

async function instantsOfAnUpdate(fleet: Fleet): Promise<Set<string>> {
  const instants = new Set<string>();
  watchCalls(fleet, (_node, instant) => {
    // A call that only reads changes nothing since the call before it.
    if (instant.method !== 'GET') instants.add(nameOf(instant));
    return 'pass';
  });
  await fleet.untilAllRun(fleet.publishNext());
  return instants;
}

function killAgent(fleet: Fleet, node: string): void {
  for (const pid of fleet.kubelet.pids('brupop-agent', node)) process.kill(pid, 'SIGKILL');
}

/**
 * Updates each node and kills its agent at its share of the instants; returns those that occurred.
 */
async function killAt(fleet: Fleet, instants: readonly string[]): Promise<Set<string>> {
  const nodes = [...fleet.nodes.keys()];
  const nodeOf = new Map(instants.map((instant, index) => [instant, nodes[index % nodes.length]]));
  const killed = new Set<string>();
  watchCalls(fleet, (node, at) => {
    const instant = nameOf(at);
    if (nodeOf.get(instant) !== node || killed.has(instant)) return 'pass';
    killed.add(instant);
    killAgent(fleet, node);
    return 'drop';
  });
  await fleet.untilAllRun(fleet.publishNext());
  return killed;
}

/**
 * Kills agents until every instant has occurred, with a few retries for instants that do not occur
 * again; returns the number of versions used.
 */
async function killAtAll(fleet: Fleet, instants: ReadonlySet<string>): Promise<{ came: Set<string>; rounds: number }> {
  const came = new Set<string>();
  let rounds = 0;
  for (let tries = TRIES; tries > 0; tries -= 1) {
    const left = [...instants].filter((instant) => !came.has(instant));
    const atOnce = KILLS_PER_UPDATE * fleet.nodes.size;
    for (let at = 0; at < left.length; at += atOnce) {
      for (const instant of await killAt(fleet, left.slice(at, at + atOnce))) came.add(instant);
      rounds += 1;
    }
  }
  return { came, rounds };
}

describe('an agent that is killed', () => {
  it('at any call, before its effect and after, in any state, updates its node once and violates nothing', async () => {
    const body = async ({ fleet }: FleetContext): Promise<void> => {
      const instants = await instantsOfAnUpdate(fleet);
      const { came, rounds } = await killAtAll(fleet, instants);
      expect([...came]).toEqual(expect.arrayContaining(NEVER_MISSED));
      const missed = [...instants].filter((instant) => !came.has(instant));
      expect(missed.slice(Math.floor(instants.size / 4))).toEqual([]);
      // One update for NEW, one to record the instants, and one for each round.
      expect([...fleet.nodes.values()].map(({ host }) => host.reboots)).toEqual(
        Array.from({ length: fleet.nodes.size }, () => rounds + 2),
      );
    };
    await withRollingFleet(2, body, { watchCalls: true });
  });

  it('between its reboot call and the shutdown of its host, does not reboot it twice', async () => {
    await withFleet({ nodes: fleetNodes(2), durations: { shutdownMs: 5_000 } }, async ({ fleet }) => {
      const killed = new Set<string>();
      watchCalls(fleet, (node, { at, path }) => {
        if (at !== 'call answered' || path !== '/actions/reboot' || killed.has(node)) return 'pass';
        killed.add(node);
        killAgent(fleet, node);
        return 'pass';
      });
      await fleet.untilAllRun(NEW);
      expect([...killed].toSorted()).toEqual(['node-1', 'node-2']);
      expect([...fleet.nodes.values()].map(({ host }) => host.reboots)).toEqual([1, 1]);
    });
  });
});
