import { DEPENDENT_REPLICAS_ANNOTATION, IGNORE_SCALING_ANNOTATION } from '@brupop/shared/api/names';
import { KubeError } from '@brupop/shared/kube/error';
import { aDependent, configWith, ScaledWorld } from '../../testing/scaled-world.ts';
import { targetPath } from './target.ts';

const MINUTE = 60_000;
/** Scaled down in this order, and up in the other one. */
const THREE = [aDependent('autoscaler', 0, 2), aDependent('node-repair', 1, 1), aDependent('descheduler', 2, 0)];
const [AUTOSCALER, REPAIR, DESCHEDULER] = THREE as [
  ReturnType<typeof aDependent>,
  ReturnType<typeof aDependent>,
  ReturnType<typeof aDependent>,
];

function condition({ leader: { report } }: ScaledWorld): string {
  return typeof report === 'object' ? `${report.condition.status} ${report.condition.reason}` : String(report);
}

/** A world whose dependents are all at 0. */
async function lostWorld(replicas: readonly number[] = [2, 1, 3]): Promise<ScaledWorld> {
  const world = new ScaledWorld(THREE, replicas);
  world.lose(true);
  await world.pass(MINUTE);
  expect(world.scales).toEqual(replicas.map((count) => `0 (${count})`));
  return world;
}

it('three dependents are scaled to 0 by their levels, and back in the other order, with the replicas they had', async () => {
  const world = new ScaledWorld(THREE, [2, 1, 3]);
  expect(await world.pass(10 * MINUTE)).toEqual([]);
  world.lose(true);
  expect(await world.pass(10 * MINUTE)).toEqual(['down autoscaler', 'down node-repair', 'down descheduler']);
  expect([world.scales, condition(world)]).toEqual([['0 (2)', '0 (1)', '0 (3)'], 'False ScaledDown']);
  world.lose(false);
  expect(await world.pass(10 * MINUTE)).toEqual(['up descheduler', 'up node-repair', 'up autoscaler']);
  expect([world.scales, condition(world)]).toEqual([['2', '1', '3'], 'True NotScaled']);
  expect(world.events.map(({ reason, related }) => `${reason} ${related?.name}`)).toEqual([
    ...['autoscaler', 'node-repair', 'descheduler'].map((name) => `DependentScaledDown ${name}`),
    ...['descheduler', 'node-repair', 'autoscaler'].map((name) => `DependentScaledUp ${name}`),
  ]);
});

it('those of one level go together', async () => {
  const world = new ScaledWorld([aDependent('a', 1, 1), aDependent('b', 1, 1), aDependent('c', 0, 2)]);
  world.lose(true);
  await world.check();
  expect(world.scales).toEqual(['3', '3', '0 (3)']);
  expect(await world.pass(MINUTE)).toEqual(['down a', 'down b']);
});

it('a level waits for the pods of the former one, for its timeout at most, and for its delay', async () => {
  const late = { level: 1, delayMs: 20_000, timeoutMs: 30_000 };
  const world = new ScaledWorld([aDependent('a'), aDependent('b', 1, 0, { scaleDown: late })]);
  world.stuck.add('a');
  world.lose(true);
  expect(await world.pass(30_000)).toEqual(['down a']);
  expect(await world.pass(19_000)).toEqual([]);
  expect(await world.pass(3_000)).toEqual(['down b']);
});

it('a level that cannot be scaled keeps the next one for its timeout only', async () => {
  const world = new ScaledWorld([aDependent('a', 0, 0, { namespace: 'other' }), aDependent('b', 1)]);
  world.targets = [aDependent('b')];
  world.elect();
  world.lose(true);
  expect(await world.pass(29_000)).toEqual([]);
  expect(await world.pass(4_000)).toEqual(['down b']);
  expect(condition(world)).toBe('False TargetNotAllowed');
});

it('a loss that ends while levels go down, and begins again, turns the order around', async () => {
  const world = new ScaledWorld(THREE, [2, 1, 3]);
  world.lose(true);
  await world.check();
  world.lose(false);
  expect(await world.pass(MINUTE)).toEqual(['up autoscaler']);
  expect(world.scales).toEqual(['2', '1', '3']);
});

describe('nothing is scaled', () => {
  it('and nothing is read while a watch is stale, in neither direction', async () => {
    const world = new ScaledWorld(THREE);
    await world.check();
    world.lose(true);
    world.view = { ...world.view, isUnsure: true };
    expect(await world.pass(MINUTE)).toEqual([]);
    expect([world.calls.length, condition(world)]).toEqual([3, 'False LossUnknown']);
    const down = await lostWorld();
    const before = down.calls.length;
    down.lose(false);
    down.view = { ...down.view, isUnsure: true };
    await down.pass(MINUTE);
    expect(down.calls.length).toBe(before);
  });

  it('while a loss is about to begin or to end', async () => {
    const world = await lostWorld();
    for (const lost of [true, false]) {
      world.lose(lost);
      world.change();
      expect(await world.pass(MINUTE)).toEqual([]);
    }
  });

  it('before it is known whether the cluster is lost', async () => {
    const world = new ScaledWorld(THREE);
    world.view = { ...world.view, loss: undefined };
    expect(await world.pass(MINUTE)).toEqual([]);
  });

  it.each([429, 500, 0])('when a read fails with %s, also not of the other targets', async (status) => {
    const world = new ScaledWorld(THREE);
    world.lose(true);
    world.failure = new KubeError(status, 'Busy', 'the API server is busy');
    await expect(world.check()).rejects.toMatchObject({ status });
    expect(world.scales).toEqual(['3', '3', '3']);
    world.failure = undefined;
    expect(await world.pass(MINUTE)).toHaveLength(3);
  });

  it('while the configuration has a mistake, but what is at 0 goes back when the loss has ended', async () => {
    const world = new ScaledWorld(THREE);
    world.lose(true);
    world.configure(THREE, { problem: 'spec.order: expected a word' });
    expect(await world.pass(MINUTE)).toEqual([]);
    const down = await lostWorld();
    down.configure([], { problem: 'spec.order: expected a word' });
    expect(await down.pass(MINUTE)).toEqual([]);
    down.lose(false);
    expect(await down.pass(MINUTE)).toHaveLength(3);
  });
});

it('what another actor scales back is told once, not scaled again, and keeps its replicas', async () => {
  const world = await lostWorld();
  world.put(REPAIR, 5);
  world.events.splice(0);
  expect(await world.pass(10 * MINUTE)).toEqual([]);
  world.elect();
  expect(await world.pass(10 * MINUTE)).toEqual([]);
  expect(condition(world)).toBe('False ScaledByOthers');
  expect(new Set(world.events.map(({ reason, key }) => `${reason} ${key}`)).size).toBe(1);
  world.lose(false);
  await world.pass(MINUTE);
  expect(world.scales).toEqual(['2', '5', '3']);
});

it.each<readonly [string, boolean, string]>([
  ['to 0', true, '0 (7)'],
  ['back', false, '7'],
])('what a user scales between the read and the patch that scales it %s is not overwritten', async (_, lost, scale) => {
  const world = lost ? new ScaledWorld(THREE) : await lostWorld();
  world.lose(lost);
  world.beforePatch = () => world.put(lost ? AUTOSCALER : DESCHEDULER, 7);
  await world.pass(10 * MINUTE);
  expect(world.scaleOf(lost ? 'autoscaler' : 'descheduler')).toBe(scale);
});

it('what is to be ignored is not scaled to 0, and goes back at once when it is', async () => {
  const world = await lostWorld();
  world.put(REPAIR, 0, { [IGNORE_SCALING_ANNOTATION]: 'true' });
  await world.pass(MINUTE);
  expect(world.scales).toEqual(['0 (2)', '1', '0 (3)']);
  world.lose(false);
  await world.pass(MINUTE);
  world.lose(true);
  expect(await world.pass(MINUTE)).toEqual(['down autoscaler', 'down descheduler']);
});

it.each<readonly [string, (world: ScaledWorld) => void]>([
  ['its entry is removed', (world) => world.configure([REPAIR, DESCHEDULER])],
  ['the configuration is deleted', (world) => world.configure([], { config: undefined })],
])('during the loss a dependent goes back when %s', async (_, change) => {
  const world = await lostWorld();
  change(world);
  await world.pass(MINUTE);
  expect(world.scaleOf('autoscaler')).toBe('2');
});

it('one that its users have scaled to 0 stays as it is', async () => {
  const world = new ScaledWorld(THREE, [0, 1, 1]);
  world.lose(true);
  expect(await world.pass(MINUTE)).toEqual(['down node-repair', 'down descheduler']);
  world.lose(false);
  await world.pass(MINUTE);
  expect(world.scales).toEqual(['0', '1', '1']);
});

it.each(['', 'three', '0', '-1', '1.5', '99999999999'])(
  'a record that is %j gives one replica back',
  async (record) => {
    const world = await lostWorld();
    world.put(REPAIR, 0, { [DEPENDENT_REPLICAS_ANNOTATION]: record });
    world.lose(false);
    await world.pass(MINUTE);
    expect(world.scales).toEqual(['2', '1', '3']);
  },
);

it('a target that does not exist is a problem unless it is optional', async () => {
  const world = new ScaledWorld(THREE);
  world.delete(REPAIR);
  await world.check();
  expect(condition(world)).toBe('False TargetNotFound');
  world.configure([AUTOSCALER, { ...REPAIR, optional: true }, DESCHEDULER]);
  await world.check();
  expect(condition(world)).toBe('True NotScaled');
  world.lose(true);
  expect(await world.pass(MINUTE)).toEqual(['down autoscaler', 'down descheduler']);
});

it('a target that the API server rejects is shown, retried, and does not keep others', async () => {
  const world = new ScaledWorld([AUTOSCALER]);
  world.failure = new KubeError(403, 'Forbidden', 'deployments.apps "autoscaler" is forbidden');
  expect(await world.pass(MINUTE)).toEqual([]);
  expect(condition(world)).toBe('False TargetRequestFailed');
  world.failure = undefined;
  await world.pass(6 * MINUTE);
  expect(condition(world)).toBe('True NotScaled');
});

it.each([409, 404, 429])(
  'on the way up a webhook that denies with %i is told, and keeps no other at 0',
  async (status) => {
    const world = await lostWorld();
    world.failure = new KubeError(status, '', 'admission webhook "policy.example.com" denied the request: not now');
    world.failing = 'up descheduler';
    world.lose(false);
    await world.pass(MINUTE);
    expect([world.scales, condition(world)]).toEqual([['2', '1', '0 (3)'], 'False TargetRequestFailed']);
  },
);

it.each(['up descheduler', 'get descheduler'])(
  'on the way up a webhook that is down for %s keeps no other at 0',
  async (request) => {
    const world = await lostWorld();
    world.failure = new KubeError(500, 'InternalError', 'failed calling webhook');
    world.failing = request;
    world.lose(false);
    await world.pass(25_000);
    expect(world.scales).toEqual(['0 (2)', '0 (1)', '0 (3)']);
    await world.pass(10_000);
    expect([world.scales, condition(world)]).toEqual([['2', '1', '0 (3)'], 'False TargetRequestFailed']);
    world.failure = undefined;
    await world.pass(MINUTE);
    expect([world.scales, condition(world)]).toEqual([['2', '1', '3'], 'True NotScaled']);
  },
);

describe('a leader', () => {
  const stop = new AbortController();
  afterAll(() => stop.abort());

  /** In which something changes in the cluster each second. */
  async function run(world: ScaledWorld, seconds: number): Promise<void> {
    for (let second = 0; second < seconds; second += 1) {
      world.wake();
      await world.clock.advance(1_000);
    }
  }

  it('sends nothing for the time that the API server asks for, then goes on, and does not warn', async () => {
    const world = new ScaledWorld(THREE);
    world.lose(true);
    world.failure = new KubeError(429, 'TooManyRequests', 'busy', { retryAfterMs: 10_000 });
    void world.leader.run(stop.signal);
    await run(world, 10);
    expect(world.calls).toHaveLength(3);
    world.failure = undefined;
    await run(world, 5);
    expect([world.scaleOf('autoscaler'), world.logged]).toEqual([
      '0 (3)',
      ['info reconcile failed, retrying', 'warn dependent scaled to 0'],
    ]);
  });

  it('warns once of what lasts for a minute, and at once of what no retry ends', async () => {
    for (const [status, first, later] of [
      [500, 'info', ['warn']],
      [403, 'warn', []],
    ] as const) {
      const world = await lostWorld();
      world.lose(false);
      world.failure = new KubeError(status, 'Denied', 'failed calling webhook');
      world.failing = 'up descheduler';
      world.logged.splice(0);
      void world.leader.run(stop.signal);
      const problems = (): string[] =>
        world.logged.filter((line) => line.endsWith('cannot scale a dependent, retrying'));
      await run(world, 50);
      expect(problems()).toEqual([`${first} cannot scale a dependent, retrying`]);
      await run(world, 300);
      expect(problems().slice(1)).toEqual(later.map((level) => `${level} cannot scale a dependent, retrying`));
    }
  });
});

it('without any, no metric shows the former ones, nor whether the cluster is lost', async () => {
  const world = new ScaledWorld([aDependent('a')]);
  const shown = async (): Promise<string[]> => {
    const lines = (await world.registry.metrics()).split('\n');
    return lines.filter((line) => /^brupop_(dependents|cluster_connectivity_lost)\b/u.test(line));
  };
  world.targets = [];
  world.elect();
  expect(await shown()).toEqual([]);
  await world.pass(MINUTE);
  expect(await shown()).toEqual(['brupop_cluster_connectivity_lost 0', 'brupop_dependents{state="NotAllowed"} 1']);
  world.configure([]);
  await world.pass(MINUTE);
  expect([condition(world), await shown()]).toEqual(['undefined', []]);
});

it('one that the chart no longer has, and that was left at 0, is shown until the chart has it again', async () => {
  const world = await lostWorld();
  const left = { kind: 'Deployment', namespace: 'kube-system', target: 'autoscaler', state: 'Down', replicas: 2 };
  world.configure([], { config: configWith({ dependents: [left] }) });
  world.targets = [REPAIR, DESCHEDULER];
  world.elect();
  await world.pass(MINUTE);
  expect(condition(world)).toBe('False TargetNotAllowed');
  expect(world.leader.report).toMatchObject({ dependents: [{ ...left, state: 'NotAllowed' }] });
  world.targets = THREE;
  world.elect();
  await world.pass(MINUTE);
  expect(world.scaleOf('autoscaler')).toBe('2');
});

it.each<readonly [string, string, (world: ScaledWorld) => void]>([
  ['the chart no longer has it', 'NotAllowed', (world) => void (world.targets = [REPAIR, DESCHEDULER])],
  ['it cannot be read', 'Failed', (world) => void (world.failing = 'get autoscaler')],
  ['its restoration is denied', 'Failed', (world) => void (world.failing = 'up autoscaler')],
])('the number of replicas of a target that is at 0 stays in the status when %s', async (_, state, change) => {
  const world = await lostWorld();
  const { report } = world.leader;
  world.configure(THREE, {
    config: configWith({ dependents: typeof report === 'object' ? [...report.dependents] : [] }),
  });
  change(world);
  if (world.failing !== undefined) world.failure = new KubeError(403, 'Forbidden', 'denied');
  world.elect();
  world.lose(false);
  await world.pass(6 * MINUTE);
  expect(world.scales).toEqual(['0 (2)', '1', '3']);
  expect(world.leader.report).toMatchObject({ dependents: [{ target: 'autoscaler', state, replicas: 2 }, {}, {}] });
});

it('at rest each target is read once in five minutes, also when the cluster changes', async () => {
  const world = new ScaledWorld(THREE);
  await world.check();
  for (let second = 0; second < 299; second += 1) {
    await world.clock.advance(1_000);
    await world.check();
  }
  expect(world.calls).toEqual(['get autoscaler', 'get node-repair', 'get descheduler']);
});

it('without dependents nothing is read and nothing is reported', async () => {
  const world = new ScaledWorld([]);
  expect([await world.check(), world.calls, world.leader.report]).toEqual([undefined, [], undefined]);
});

it('a StatefulSet whose volumes would be deleted with its pods is not scaled, and named', async () => {
  const world = new ScaledWorld(THREE, [2, 1, 3]);
  world.losing.add('node-repair');
  world.put(REPAIR, 1);
  await world.check();
  expect(condition(world)).toBe('False TargetLosesVolumes');
  world.lose(true);
  expect(await world.pass(MINUTE)).toEqual(['down autoscaler', 'down descheduler']);
  expect([world.scales, condition(world)]).toEqual([['0 (2)', '1', '0 (3)'], 'False TargetLosesVolumes']);
});

/** The status of the BrupopConfig is as the leader reports it. */
function write(world: ScaledWorld): void {
  const { report } = world.leader;
  const dependents = typeof report === 'object' ? [...report.dependents] : [];
  world.configure(world.view.dependents, { config: configWith({ dependents }) });
}

/** Lets another actor remove the record of the first target, as `kubectl rollout undo` does, and the loss end. */
async function removedWorld(): Promise<ScaledWorld> {
  const world = await lostWorld();
  write(world);
  world.events.length = 0;
  const metadata = { annotations: { [DEPENDENT_REPLICAS_ANNOTATION]: null } };
  await world.mergePatch(targetPath(AUTOSCALER), { metadata });
  for (const lost of [true, false]) {
    world.lose(lost);
    await world.pass(MINUTE);
    write(world);
  }
  return world;
}

it('the number of a target whose record another actor removes is reported', async () => {
  const world = await removedWorld();
  const removed = world.events.filter(({ reason }) => reason !== 'DependentScaledUp');
  expect(removed.map(({ reason, message }) => `${reason}: ${message}`)).toEqual([
    expect.stringMatching(
      /^DependentRecordRemoved: .*kube-system\/autoscaler, which the operator had scaled from 2 to 0\./u,
    ),
  ]);
  expect(world.logged.filter((line) => line.startsWith('warn dependent stays at 0'))).toHaveLength(1);
});

it('a target that remains at 0 without its record is shown with its number, also by the next leader', async () => {
  const world = await removedWorld();
  for (let leader = 0; leader < 2; leader += 1) {
    expect([world.scales, condition(world)]).toEqual([['0', '1', '3'], 'False RecordRemoved']);
    expect(world.leader.report).toMatchObject({
      dependents: [{ target: 'autoscaler', state: 'RecordRemoved', replicas: 2 }, { state: 'Up' }, { state: 'Up' }],
    });
    expect(await world.registry.metrics()).toContain('brupop_dependents{state="RecordRemoved"} 1');
    world.elect();
    await world.pass(6 * MINUTE);
    write(world);
  }
  world.configure([REPAIR, DESCHEDULER]);
  await world.pass(6 * MINUTE);
  expect(condition(world)).toBe('False RecordRemoved');
});

it('a target that was left at 0 without its record is forgotten when its entry and the target of the chart are removed', async () => {
  const world = await removedWorld();
  world.configure([REPAIR, DESCHEDULER]);
  world.targets = [REPAIR, DESCHEDULER];
  world.elect();
  await world.pass(MINUTE);
  expect(condition(world)).toBe('True NotScaled');
  expect(world.leader.report).toMatchObject({ dependents: [{ target: 'node-repair' }, { target: 'descheduler' }] });
});

it.each<readonly [string, number, Readonly<Record<string, string>>]>([
  ['a user scales it', 4, {}],
  ['it is to be ignored', 0, { [IGNORE_SCALING_ANNOTATION]: 'true' }],
])('a target that was left at 0 without its record is as it should be when %s', async (_, replicas, annotations) => {
  const world = await removedWorld();
  world.put(AUTOSCALER, replicas, annotations);
  await world.pass(6 * MINUTE);
  write(world);
  expect([world.scales, condition(world)]).toEqual([[String(replicas), '1', '3'], 'True NotScaled']);
  world.put(AUTOSCALER, 0);
  await world.pass(6 * MINUTE);
  expect(condition(world)).toBe('True NotScaled');
});
