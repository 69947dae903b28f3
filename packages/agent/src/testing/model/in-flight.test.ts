/** A group requests another value and withdraws it, while the agent dies before and after each of its calls. */
import { grouped } from '@brupop/shared/testing/settings';
import type { AtCall, Fault } from './faults.ts';
import { type CallName, SimWorld } from './sim-world.ts';

const MINUTE = 60_000;
const MOTD = 'settings.motd';
const OWN = '"Welcome to Bottlerocket!"';
const A = 'a';

const POINTS: readonly (readonly [on: CallName, times: number])[] = [
  ['look', 12],
  ['classify', 1],
  ['configure', 2],
  ['report', 4],
];
const points = POINTS.flatMap(([on, times]) =>
  Array.from({ length: times }, (_one, nth) => [false, true].map((after) => ({ on, nth, after }))).flat(),
);

/** Requests B where A is in force, and at a call withdraws it as the agent dies. */
async function interrupted(before: string | null, at: Omit<AtCall, 'fault' | 'later'>, faults: readonly Fault[]) {
  const world = new SimWorld([{ at: 0, fault: { kind: 'paused', ms: 100 * MINUTE } }]);
  world.cluster.wantMotd(before);
  await world.run(5 * MINUTE);
  const { lastApplied: _time, ...known } = world.cluster.shadow?.status?.settings ?? {};
  world.add([...faults, { kind: 'group', motd: before } as const].map((fault) => ({ ...at, later: 0, fault })));
  world.cluster.wantMotd('b');
  await world.run(2 * MINUTE);
  const reached = world.cluster.motd === before;
  world.cluster.wantMotd(before);
  world.heal(true);
  await world.run(15 * MINUTE);
  world.invariants.atRest();
  world.killAgent();
  const { lastApplied, ...settings } = world.cluster.shadow?.status?.settings ?? {};
  const value = before === null ? OWN : JSON.stringify(before);
  expect({ at, faults, violations: world.invariants.violations }).toMatchObject({ violations: [] });
  expect([world.host.valueOf(MOTD), world.host.appliedOf(MOTD)]).toEqual([value, value]);
  expect(settings).toEqual(known);
  expect(lastApplied === undefined).toBe(before === null);
  return reached;
}

const ends: Record<string, readonly Fault[]> = {
  'the agent is killed': [{ kind: 'kill' }],
  'the agent is killed, and what it stores is not applied': [{ kind: 'apply fails' }, { kind: 'kill' }],
  'what it stores is not applied': [{ kind: 'apply fails' }],
  'the request or its response is lost': [{ kind: 'lose' }],
  'the response is delayed': [{ kind: 'delay' }],
  'the host reboots': [{ kind: 'reboot' }],
};

it.each(
  Object.entries(ends).flatMap(([name, faults]) => [
    [name, 'a value', A, faults] as const,
    [name, 'none', null, faults] as const,
  ]),
)('when %s at any call and the spec goes back to %s, it ends as that says', async (_name, _end, before, faults) => {
  let reached = 0;
  for (const at of points) if (await interrupted(before, at, faults)) reached += 1;
  expect(reached).toBeGreaterThan(points.length / 2);
}, 120_000);

it('sets, replaces and restores a value in as many calls as it takes when nothing fails', async () => {
  const world = new SimWorld([{ at: 0, fault: { kind: 'paused', ms: 100 * MINUTE } }]);
  for (const motd of [A, 'b', null]) {
    world.cluster.wantMotd(motd);
    await world.run(MINUTE);
  }
  world.killAgent();
  expect(world.cluster.shadow?.spec.settings).toEqual(grouped({}));
  expect(world.invariants.log.filter((line) => line.endsWith(' call configure'))).toHaveLength(3);
  expect(world.invariants.log.filter((line) => line.endsWith(' call classify'))).toHaveLength(3);
  expect(world.host.valueOf(MOTD)).toBe(OWN);
});
