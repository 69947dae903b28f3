import type { BrupopConfigStatus } from '@brupop/shared/api/brupop-config';
import { parseTime, rfc3339 } from '@brupop/shared/runtime/clock';
import { type ObjectEdit, type Release, rolloutsOf } from './rollouts.ts';

const start = parseTime('2026-11-28T10:00:00Z') ?? 0;
const HOUR = 3_600_000;

function release(more: Partial<Release>): Release {
  return { version: '1.21.0', group: undefined, updating: 0, waiting: 0, succeeded: [], failed: [], ...more };
}

/** What follows one after the other, an hour apart. */
function after(...steps: readonly (readonly Release[])[]): NonNullable<BrupopConfigStatus['rollouts']> {
  let status: BrupopConfigStatus = {};
  for (const [at, releases] of steps.entries()) status = rolloutsOf(status, releases, edits, start + at * HOUR);
  return status.rollouts ?? [];
}

const edit = { manager: 'kubectl-edit', fields: ['paused'] };
const edits: ObjectEdit[] = [
  { ...edit, time: rfc3339(start - HOUR), group: undefined },
  { ...edit, time: rfc3339(start + HOUR), group: undefined },
  { ...edit, time: rfc3339(start + HOUR), group: 'other' },
];

it('begins with the first node that starts, not with nodes that wait', () => {
  expect(after([release({ waiting: 3 })])).toEqual([]);
  expect(after([release({ updating: 1, waiting: 2 })])).toMatchObject([
    { version: '1.21.0', startTime: rfc3339(start) },
  ]);
});

it('ends when no node updates to it or waits for it, and counts the nodes since its start', () => {
  const succeeded = [start - HOUR, start + 1000];
  const rollouts = after([release({ updating: 1 })], [release({ waiting: 1 })], [release({ succeeded: [succeeded] })]);
  expect(rollouts).toMatchObject([{ endTime: rfc3339(start + 2 * HOUR), nodes: 1, failures: 0 }]);
});

it('keeps a failure although the node succeeds later', () => {
  const rollouts = after([release({ updating: 1 })], [release({ waiting: 1, failed: [[start + 1]] })], [release({})]);
  expect(rollouts).toMatchObject([{ failures: 1 }]);
});

it('is opened again when another node starts', () => {
  const rollouts = after([release({ updating: 1 })], [], [release({ updating: 1 })]);
  expect(rollouts).toHaveLength(1);
  expect(rollouts[0]).not.toHaveProperty('endTime');
});

it('names who has written the configuration just before its first node started', () => {
  const before = { ...edit, time: rfc3339(start - 60_000), group: undefined };
  expect(rolloutsOf({}, [release({ updating: 1 })], [before], start).rollouts?.[0]?.changes).toHaveLength(1);
});

it('names who has written the configuration or its own group meanwhile, once', () => {
  const steps = Array.from({ length: 3 }, () => [release({ updating: 1 })]);
  const object = 'BrupopConfig "cluster"';
  expect(after(...steps)[0]?.changes).toEqual([{ ...edit, object, time: rfc3339(start + HOUR) }]);
});

it('stays the same while nothing changes', () => {
  const [first] = after([release({ updating: 1 })]);
  const later = after([release({ updating: 1 })], [release({ updating: 1 })]);
  expect(later).toMatchObject([first ?? {}]);
});

it('keeps the latest twenty', () => {
  const steps = Array.from({ length: 30 }, (_, minor) => [release({ version: `1.${minor}.0`, updating: 1 })]);
  const rollouts = after(...steps);
  expect(rollouts.map(({ version }) => version)).toEqual(Array.from({ length: 20 }, (_, at) => `1.${29 - at}.0`));
});

it.each([['a text'], [{ rollouts: 1 }], [[{ version: 1 }, undefined]]])('replaces %j, which is no history', (found) => {
  const before = { rollouts: found } as unknown as BrupopConfigStatus;
  expect(rolloutsOf(before, [release({ updating: 1 })], [], start).rollouts).toHaveLength(1);
});

it('has edits of the same second in a fixed order, so that nothing is written while nothing changes', () => {
  const same = ['helm', 'flux'].map((manager) => ({ ...edit, manager, time: rfc3339(start), group: undefined }));
  const releases = [release({ updating: 1 })];
  const first = rolloutsOf({}, releases, same, start);
  const second = rolloutsOf(first, releases, same, start);
  expect(second).toEqual(first);
  expect(rolloutsOf(second, releases, same, start)).toEqual(first);
});

it('with more rollouts than are kept, keeps those that are open, and begins no further one', () => {
  const releases = Array.from({ length: 25 }, (_, index) => release({ group: `g${index}`, updating: 1 }));
  const first = rolloutsOf({}, releases, [], start);
  expect(first.rollouts).toHaveLength(20);
  expect(rolloutsOf(first, releases, [], start + HOUR)).toEqual(first);
});

it('with more rollouts than are kept, forgets the one that began first among those that have ended', () => {
  const older = Array.from({ length: 20 }, (_, index) => release({ group: `g${index}`, updating: 1 }));
  const known = rolloutsOf(rolloutsOf({}, older, [], start), [], [], start + HOUR);
  const { rollouts = [] } = rolloutsOf(known, [release({ updating: 1 })], [], start + 2 * HOUR);
  expect([rollouts.length, rollouts[0]?.version, rollouts[0]?.group]).toEqual([20, '1.21.0', undefined]);
});

it('with more rollouts than are kept, forgets those of the fewest nodes first: agents may invent versions', () => {
  const real = Array.from({ length: 18 }, (_, minor) => `1.${minor}.0`);
  const ended = (version: string, at: number, nodes: number): Release[][] => {
    const times = Array.from({ length: nodes }, () => start + 2 * at * HOUR + 1);
    return [[release({ version, updating: 1 })], [release({ version, succeeded: [times] })]];
  };
  const steps = real.flatMap((version, at) => ended(version, at, 5));
  const invented = Array.from({ length: 30 }, (_, at) => ended(`9.${at}.0`, real.length + at, at % 3)).flat();
  const rollouts = after(...steps, ...invented).map(({ version }) => version);
  expect(rollouts.filter((version) => version.startsWith('1.'))).toEqual(real.toReversed());
  expect(rollouts).toHaveLength(20);
});

it('with more rollouts than are kept, keeps the latest one of a small group while more nodes know its version', () => {
  const waiting = release({ version: '1.22.0', group: 'web', waiting: 5 });
  const [first, second] = ['canary', 'gpu'].map((group) => release({ version: '1.22.0', group, updating: 1 }));
  const former = Array.from({ length: 20 }, (_, at) => {
    const [group, times] = [`g${at}`, Array.from({ length: 5 }, () => start + 2 * at * HOUR + 1)];
    return [[release({ group, updating: 1 })], [release({ group, succeeded: [times] })]];
  });
  const small = [first, second].flatMap((one) => [[waiting, one ?? waiting], [waiting]]);
  const started = [release({ version: '1.22.0', group: 'web', updating: 1, waiting: 4 })];
  expect(after(...former.flat(), ...small, started).map(({ group }) => group)).toEqual([
    'web',
    'gpu',
    'canary',
    ...Array.from({ length: 17 }, (_, at) => `g${19 - at}`),
  ]);
});
