/**
 * Losses that begin and end, users who scale, remove entries and delete the configuration, while the leader is
 * killed at any of its requests, before it is sent or before its response arrives. After each story the cluster is
 * connected and a leader works: nothing is at 0 that its users want, and no number is lost.
 */
import type { Dependent } from '@brupop/shared/api/config-dependents';
import fc from 'fast-check';
import { jest } from '@jest/globals';
import { aDependent, ScaledWorld } from '../../testing/scaled-world.ts';

jest.setTimeout(60_000);

const MINUTE = 60_000;
const STORIES = 100;

const targets = fc.array(
  fc.record({
    replicas: fc.integer({ min: 0, max: 9 }),
    down: fc.integer({ min: 0, max: 2 }),
    up: fc.integer({ min: 0, max: 2 }),
  }),
  { minLength: 1, maxLength: 4 },
);
const event = fc.record({
  does: fc.constantFrom('lose', 'connect', 'stale', 'remove', 'delete', 'scale', 'wait'),
  which: fc.nat({ max: 3 }),
  replicas: fc.integer({ min: 1, max: 9 }),
  killedAfter: fc.integer({ min: 0, max: 12 }),
  ms: fc.integer({ min: 1_000, max: MINUTE }),
});

it('a leader that is killed at any request leaves nothing at 0, and loses no number', async () => {
  await fc.assert(
    fc.asyncProperty(targets, fc.array(event, { maxLength: 12 }), async (made, events) => {
      const all = made.map(({ down, up }, index) => aDependent(`d${index}`, down, up));
      const world = new ScaledWorld(
        all,
        made.map(({ replicas }) => replicas),
      );
      const wanted = new Map(all.map(({ target }, index) => [target, made[index]?.replicas ?? 0]));
      for (const { does, which, replicas, killedAfter, ms } of events) {
        const one = all[which % all.length] ?? all[0];
        if (one === undefined) continue;
        happen(world, does, one, replicas);
        if (does === 'scale') wanted.set(one.target, replicas);
        world.killedAfter = killedAfter;
        const error = await world.pass(ms).catch((thrown: unknown) => String(thrown));
        expect(typeof error === 'string' ? error : 'Error: killed').toBe('Error: killed');
        world.killedAfter = Infinity;
        for (const { target } of all)
          expect([
            String(wanted.get(target)),
            `0 (${wanted.get(target)})`,
            `${wanted.get(target)} (${recordOf(world, target)})`,
          ]).toContain(world.scaleOf(target));
        world.elect();
      }
      world.view = { ...world.view, isUnsure: false };
      world.lose(false);
      await world.pass(10 * MINUTE);
      expect(all.map(({ target }) => world.scaleOf(target))).toEqual(
        all.map(({ target }) => String(wanted.get(target))),
      );
    }),
    { numRuns: STORIES },
  );
});

it('in one loss and its end, killed once at each request in turn', async () => {
  const all = [aDependent('a', 0, 2), aDependent('b', 1, 1), aDependent('c', 2, 0)];
  for (let killedAfter = 0; killedAfter < 60; killedAfter += 1) {
    const world = new ScaledWorld(all, [2, 1, 3]);
    world.lose(true);
    world.killedAfter = killedAfter;
    for (const lost of [true, false]) {
      world.lose(lost);
      // It is killed once, in one of these.
      for (let passes = 0; passes < 3; passes += 1)
        await world.pass(2 * MINUTE).catch(() => {
          world.killedAfter = Infinity;
          world.elect();
        });
      expect(world.scales).toEqual(lost ? ['0 (2)', '0 (1)', '0 (3)'] : ['2', '1', '3']);
    }
  }
});

/** The record of what another actor has scaled back. */
function recordOf(world: ScaledWorld, target: string): string {
  return /\((?<record>.*)\)/u.exec(world.scaleOf(target))?.groups?.['record'] ?? '';
}

function happen(world: ScaledWorld, does: string, one: Dependent, replicas: number): void {
  world.view = { ...world.view, isUnsure: does === 'stale' };
  if (does === 'lose' || does === 'connect') world.lose(does === 'lose');
  if (does === 'remove') world.configure(world.view.dependents.filter(({ target }) => target !== one.target));
  if (does === 'delete') world.configure([], { config: undefined });
  if (does === 'scale') world.put(one, replicas);
}
