/** A group requests another value and withdraws it, while the agent dies before and after each of its calls. */
import type { SettingsStatus } from '@brupop/shared/api/shadow';
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
/** Of the points, those whose call comes in every case: 768 interruptions in all, and the agent dies in 256 of them. */
const REACHED = 32;

interface Case {
  /** The value in force before B is requested, and after. */
  readonly value: string | null;
  /** It is interrupted on the way to B, or, when B is in force, on the way back. */
  readonly way: 'to' | 'back';
  readonly faults: readonly Fault[];
  /** The next change is stored, but not applied. */
  readonly applyFails?: boolean;
}

function settingsOf({ cluster }: SimWorld): SettingsStatus {
  return cluster.shadow?.status?.settings ?? {};
}

/** Requests B for a while. At a call the spec is reverted, and a fault happens. Returns whether that call came. */
async function interrupted({ value, way, faults, applyFails = false }: Case, at: Omit<AtCall, 'fault' | 'later'>) {
  const world = new SimWorld([{ at: 0, fault: { kind: 'paused', ms: 100 * MINUTE } }]);
  world.cluster.wantMotd(value);
  await world.run(5 * MINUTE);
  const { lastApplied: _time, ...known } = settingsOf(world);
  if (way === 'back') {
    world.cluster.wantMotd('b');
    await world.run(MINUTE);
  }
  world.host.applyFails = applyFails;
  const { length } = world.invariants.log;
  world.add([...faults, { kind: 'group', motd: value } as const].map((fault) => ({ ...at, later: 0, fault })));
  world.cluster.wantMotd(way === 'to' ? 'b' : value);
  await world.run(2 * MINUTE);
  const reached = world.invariants.log.slice(length).some((line) => line.includes('fault '));
  world.cluster.wantMotd(value);
  world.heal(true);
  await world.run(15 * MINUTE);
  world.invariants.atRest();
  world.killAgent();
  const { lastApplied, ...settings } = settingsOf(world);
  const text = value === null ? OWN : JSON.stringify(value);
  expect({ at, violations: world.invariants.violations }).toEqual({ at, violations: [] });
  expect([world.host.valueOf(MOTD), world.host.appliedOf(MOTD)]).toEqual([text, text]);
  expect(settings).toEqual(known);
  expect(lastApplied === undefined).toBe(value === null);
  return reached;
}

const ends: Record<string, Pick<Case, 'faults' | 'applyFails'>> = {
  'the agent is killed': { faults: [{ kind: 'kill' }] },
  'the agent is killed, and what it stores is not applied': { faults: [{ kind: 'kill' }], applyFails: true },
  'what it stores is not applied': { faults: [], applyFails: true },
  'the request or its response is lost': { faults: [{ kind: 'lose' }] },
  'the response is delayed': { faults: [{ kind: 'delay' }] },
  'the host reboots': { faults: [{ kind: 'reboot' }] },
};

it.each(
  Object.entries(ends).flatMap(([name, faults]) =>
    (['to', 'back'] as const).flatMap((way) =>
      [A, null].map((value) => [name, way, value ?? 'none', { ...faults, way, value }] as const),
    ),
  ),
)(
  'when %s at any call on the way %s, it ends exactly as with %s before',
  async (_name, _way, _value, given) => {
    let reached = 0;
    for (const at of points) if (await interrupted(given, at)) reached += 1;
    expect(reached).toBeGreaterThanOrEqual(REACHED);
  },
  120_000,
);

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
