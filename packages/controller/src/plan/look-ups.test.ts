import type { PodsOfNode } from '../cluster/snapshot.ts';
import { carryOut, happen, newWorld, snapshotOf } from '../testing/fleet-simulation.ts';
import { aManagedNode, podsOf } from '../testing/objects.ts';
import type { World } from '../testing/world.ts';
import { KeptFacts, wholePlan } from '../whole-plan.ts';

const SLOTS = 500;
const TURN_MS = 2_000;

/** How many plans the updates of as many nodes take, if hosts, agents and lists take no longer than one. */
function plansOfRollout(): number {
  const names = Array.from({ length: SLOTS }, (_, i) => `node-${i}`);
  const config = { concurrency: { maxUpdating: SLOTS }, monitoring: { healthyFor: '0s' } };
  const world: World = { ...newWorld(), managedNodes: names.map((name) => aManagedNode(name)), config };
  const kept = new KeptFacts();
  let pods: ReadonlyMap<string, PodsOfNode> = new Map();
  let plans = 0;
  for (let succeeded = 0; succeeded < SLOTS && plans < SLOTS; plans += 1) {
    const made = wholePlan({ ...snapshotOf(world), pods }, world.now, kept);
    carryOut(world, made);
    for (const { node } of made.specs)
      happen(world, { kind: 'report', node: names.indexOf(node.metadata.name), how: 'reached' });
    world.now += TURN_MS;
    const listed = made.lookUps.map((node) => [node.metadata.name, podsOf(node, [], world.now)] as const);
    pods = new Map([...[...pods].filter(([name]) => made.needsPodsOf.has(name)), ...listed]);
    succeeded += made.specs.filter(({ outcome }) => outcome === 'Succeeded').length;
  }
  return plans;
}

test('lists of pods do not keep a fleet from using most of 500 slots', () =>
  expect(plansOfRollout()).toBeLessThanOrEqual(9));
