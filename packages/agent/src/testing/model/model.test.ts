/** The real agent against a host, an apiserver and a controller in memory, through faults at every instant. */
import { pinRecords } from '@brupop/shared/testing/settings';
import fc from 'fast-check';
import { aroundOthers, aroundReboot, aroundSettings, CALLS, type Fault, type TimedFault, anyFaults } from './faults.ts';
import { NEW, SimWorld } from './sim-world.ts';

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
// oxlint-disable-next-line node/no-process-env -- a run is repeated with its seed
const { BRUPOP_FUZZ_SEED = '20261121', BRUPOP_FUZZ_RUNS = '120' } = process.env;
const seed = Number(BRUPOP_FUZZ_SEED);
const numRuns = Number(BRUPOP_FUZZ_RUNS);

/** Runs a scenario, then time without faults until all is settled. `paused`: no update starts then. */
async function runScenario(scenario: readonly TimedFault[], paused: boolean): Promise<SimWorld> {
  const world = new SimWorld(scenario);
  await world.run(25 * MINUTE);
  world.heal(paused);
  for (let quiet = 0; quiet < 72 && !world.invariants.settled; quiet += 1) await world.run(10 * MINUTE);
  await world.run(20 * MINUTE);
  world.invariants.atRest();
  world.killAgent();
  return world;
}

/** Returns scenario and log when an invariant was violated. */
async function wrong(scenario: readonly TimedFault[], paused: boolean): Promise<string> {
  const { invariants } = await runScenario(scenario, paused);
  return invariants.violations.length === 0
    ? ''
    : `${JSON.stringify({ scenario, paused })}\n${invariants.transcript()}`;
}

/** Each call of an update, first and second time, before and after it. */
function atEachCall(fault: Fault): TimedFault[] {
  return CALLS.flatMap((on) =>
    [0, 1].flatMap((nth) => [false, true].map((after) => ({ on, nth, after, later: 0, fault }))),
  );
}

it('updates the node with no unnecessary calls when nothing fails', async () => {
  const { invariants, host } = await runScenario([], false);
  expect(invariants.violations).toEqual([]);
  expect(host.active).toBe(NEW);
  expect(invariants.calls).toBeLessThan(35);
});

const matrix: Record<string, readonly Fault[]> = {
  'the agent is killed': [{ kind: 'kill' }],
  'the request or its response is lost': [{ kind: 'lose' }],
  'the response is delayed': [{ kind: 'delay' }],
  "the socket's mount is stale": [{ kind: 'mount stale' }],
  'the host reboots for another reason': [{ kind: 'reboot' }],
  'all replicas of the apiserver are unavailable for 20 s, 60 s or 12 min': [20, 60, 720].map((seconds) => ({
    kind: 'apiserver unavailable',
    ms: seconds * SECOND,
  })),
  'the host API is unreachable for 60 s or 12 min': [60, 720].map((seconds) => ({
    kind: 'host unreachable',
    ms: seconds * SECOND,
  })),
  'another process holds the update lock for 5 min or 40 min': [5, 40].map((minutes) => ({
    kind: 'lock held',
    ms: minutes * MINUTE,
  })),
  'the spec goes back to Idle': [{ kind: 'spec Idle' }],
  'the spec requests another version': [
    { kind: 'spec other', state: 'StagedAndPerformedUpdate' },
    { kind: 'spec other', state: 'RebootedIntoUpdate' },
  ],
  'the shadow is deleted or loses its status': [{ kind: 'shadow deleted' }, { kind: 'status wiped' }],
  'the agent is stopped between its decision and the call for 20 s or 20 min': [20, 1200].map((seconds) => ({
    kind: 'freeze',
    ms: seconds * SECOND,
  })),
  'the label is removed for 5 min': [{ kind: 'label off', ms: 5 * MINUTE }],
  'the wall clock jumps by 2 h': [-120, 120].map((minutes) => ({ kind: 'clock jumps', ms: minutes * MINUTE })),
  'the next command fails, dies or writes another version': (
    ['fails', 'dies', 'writes nothing', 'writes another'] as const
  ).map((end) => ({ kind: 'command ends', end })),
  'the new version does not boot': [{ kind: 'rolls back' }],
  'the next boot takes 30 min': [{ kind: 'boot takes', ms: 30 * MINUTE }],
  'pods stay for 40 min': [{ kind: 'pods stay', ms: 40 * MINUTE }],
};

it.each(Object.entries(matrix))(
  'keeps every invariant at any call when %s',
  async (_name, faults) => {
    const scenarios = faults.flatMap((fault) => atEachCall(fault)).map((one) => [one]);
    const found: string[] = [];
    for (const [n, scenario] of scenarios.entries()) found.push(await wrong(scenario, n % 3 === 0));
    expect(found.filter((text) => text !== '')).toEqual([]);
  },
  120_000,
);

it('keeps every invariant when an update is cancelled while the host writes it, and the agent is killed at any call', async () => {
  const cancelled: TimedFault = { on: 'prepare', nth: 0, after: true, later: SECOND, fault: { kind: 'spec Idle' } };
  // Those calls that come from then on until the update has started again.
  const points = [
    ['look', 44, 106],
    ['report', 3, 7],
    ['restore', 1, 2],
  ] as const;
  const kills = points.flatMap(([on, from, to]) =>
    Array.from({ length: to - from }, (_one, n): TimedFault => ({
      on,
      nth: from + n,
      after: n % 2 === 0,
      later: 0,
      fault: { kind: 'kill' },
    })),
  );
  const found: string[] = [];
  for (const [n, kill] of kills.entries()) found.push(await wrong([cancelled, kill], n % 3 === 0));
  expect(found.filter((text) => text !== '')).toEqual([]);
}, 120_000);

/** Faults that come one after the other, 50 ms after the first reboot call was taken. */
function afterAsking(...faults: readonly Fault[]): TimedFault[] {
  return faults.map((fault, n) => ({ on: 'reboot', nth: 0, after: true, later: 50 + 10 * n, fault }));
}

const slowly: TimedFault = { at: 0, fault: { kind: 'reboot takes', ms: 5 * MINUTE - 5 * SECOND } };
const nothingOnRecord: Record<string, readonly TimedFault[]> = {
  'its shadow is deleted, its agent killed, and its host API ends long before the rest': [
    slowly,
    { at: 0, fault: { kind: 'shutdown takes', ms: MINUTE } },
    ...afterAsking({ kind: 'shadow deleted' }, { kind: 'kill' }, { kind: 'host unreachable', ms: 10 * MINUTE }),
  ],
  'its shadow is deleted, its agent killed, and its host API is unreachable for a minute': [
    slowly,
    ...afterAsking({ kind: 'shadow deleted' }, { kind: 'kill' }, { kind: 'host unreachable', ms: MINUTE }),
  ],
  'its shadow is deleted, its agent killed, and another process holds the update lock for a minute': [
    slowly,
    ...afterAsking({ kind: 'shadow deleted' }, { kind: 'kill' }, { kind: 'lock held', ms: MINUTE }),
  ],
  'its status is wiped, its agent killed, and its host API is unreachable': [
    slowly,
    ...afterAsking({ kind: 'status wiped' }, { kind: 'kill' }, { kind: 'host unreachable', ms: MINUTE }),
  ],
  'its shadow is deleted and its agent killed, and killed again after the host was read': [
    slowly,
    ...afterAsking({ kind: 'shadow deleted' }, { kind: 'kill' }, { kind: 'host unreachable', ms: 20 * SECOND }),
    { on: 'reboot', nth: 0, after: true, later: 40 * SECOND, fault: { kind: 'kill' } },
    { on: 'reboot', nth: 0, after: true, later: 40 * SECOND, fault: { kind: 'host unreachable', ms: MINUTE } },
  ],
};

it.each(Object.entries(nothingOnRecord))(
  'restores no Node whose reboot was requested when %s',
  async (_name, scenario) => {
    expect(await wrong(scenario, false)).toBe('');
  },
  60_000,
);

it('continues at once with a new shadow when the host answers that nothing is activated', async () => {
  const world = new SimWorld([{ at: 0, fault: { kind: 'host unreachable', ms: 2 * MINUTE } }]);
  await world.run(2 * MINUTE + 15 * SECOND);
  const { status } = world.cluster.shadow ?? {};
  world.killAgent();
  expect(status?.current_state).toBe('StagedAndPerformedUpdate');
});

it('waits once for a possibly requested reboot, although its process must exit because of a stale mount', async () => {
  const atReboot = { on: 'reboot', nth: 0, after: false } as const;
  const world = new SimWorld([
    { ...atReboot, later: 0, fault: { kind: 'shadow deleted' } },
    { ...atReboot, later: 0, fault: { kind: 'kill' } },
    { ...atReboot, later: 10 * SECOND, fault: { kind: 'mount stale' } },
  ]);
  await world.run(9 * MINUTE);
  expect(world.host.armed).toBe(false);
  await world.run(16 * MINUTE);
  world.killAgent();
  expect(world.invariants.violations).toEqual([]);
  expect(world.host.active).toBe(NEW);
});

it('retries a version that rolled back once when its shadow is deleted, then reports the failure', async () => {
  const world = new SimWorld([
    { on: 'reboot', nth: 0, after: false, later: 0, fault: { kind: 'rolls back' } },
    { on: 'reboot', nth: 1, after: false, later: 0, fault: { kind: 'rolls back' } },
    { on: 'reboot', nth: 0, after: true, later: MINUTE, fault: { kind: 'shadow deleted' } },
  ]);
  await world.run(120 * MINUTE);
  const { status } = world.cluster.shadow ?? {};
  world.killAgent();
  expect(world.invariants.log.filter((line) => line.endsWith('call reboot'))).toHaveLength(2);
  expect(status?.lastOperation).toMatchObject({ state: 'Failed', errorCode: 'RolledBack', version: NEW });
  expect(world.invariants.violations).toEqual([]);
});

it('detects a rollback although the host was unreachable for longer than a reboot may take and was then rebooted again', async () => {
  const atReboot = { on: 'reboot', nth: 0, after: false } as const;
  const world = new SimWorld([
    { ...atReboot, later: 0, fault: { kind: 'lose' } },
    { ...atReboot, later: 0, fault: { kind: 'spec Idle' } },
    { ...atReboot, later: 0, fault: { kind: 'kill' } },
    { ...atReboot, later: SECOND, fault: { kind: 'paused', ms: 60 * MINUTE } },
    { ...atReboot, later: SECOND, fault: { kind: 'host unreachable', ms: 12 * MINUTE } },
    { ...atReboot, later: SECOND, fault: { kind: 'rolls back' } },
    { ...atReboot, later: 10 * MINUTE, fault: { kind: 'reboot' } },
  ]);
  await world.run(20 * MINUTE);
  const { status } = world.cluster.shadow ?? {};
  world.killAgent();
  expect(status?.lastOperation).toMatchObject({ state: 'Failed', errorCode: 'RolledBack', version: NEW });
});

it(`keeps every invariant under any faults at any time (seed ${seed})`, async () => {
  const property = fc.asyncProperty(anyFaults, fc.boolean(), async (scenario, paused) =>
    expect(await wrong(scenario, paused)).toBe(''),
  );
  await fc.assert(property, { seed, numRuns });
}, 300_000);

it(`keeps every invariant under any faults around a reboot (seed ${seed})`, async () => {
  const property = fc.asyncProperty(aroundReboot, fc.boolean(), async (scenario, paused) =>
    expect(await wrong(scenario, paused)).toBe(''),
  );
  await fc.assert(property, { seed, numRuns });
}, 300_000);

it(`keeps every invariant while other clients run commands and versions come and go (seed ${seed})`, async () => {
  const property = fc.asyncProperty(aroundOthers, fc.boolean(), async (scenario, paused) =>
    expect(await wrong(scenario, paused)).toBe(''),
  );
  await fc.assert(property, { seed, numRuns });
}, 300_000);

/** Pinned to an older version and, 8 min later, to none, with `fault` at a call meanwhile. */
function pinned(fault: Fault): TimedFault[][] {
  const pins: TimedFault[] = [
    { at: 0, fault: { kind: 'pin', wanted: { versionLock: '1.25.0', ignoreWaves: true } } },
    { at: 8 * MINUTE, fault: { kind: 'pin', wanted: null } },
  ];
  const calls = ['configure', 'report', 'refresh', 'look', 'prepare'] as const;
  const points = calls.flatMap((on) => [0, 1, 2].flatMap((nth) => [false, true].map((after) => ({ on, nth, after }))));
  return points.map((point) => [...pins, { ...point, later: 0, fault }]);
}

const pinMatrix: Record<string, readonly Fault[]> = {
  'the agent is killed': [{ kind: 'kill' }],
  'the request or its response is lost': [{ kind: 'lose' }],
  'the response is delayed': [{ kind: 'delay' }],
  'the host reboots for another reason': [{ kind: 'reboot' }],
  'settings are stored but not applied': [{ kind: 'apply fails' }],
  'settings can be neither read nor changed for 5 min': [{ kind: 'settings broken', ms: 5 * MINUTE }],
  'a user changes them': [{ kind: 'settings by hand', settings: { versionLock: '1.26.5' } }],
  'the agent is stopped for 20 s': [{ kind: 'freeze', ms: 20 * SECOND }],
  'the apiserver is unavailable for 60 s': [{ kind: 'apiserver unavailable', ms: MINUTE }],
};

it.each(Object.entries(pinMatrix))(
  "follows a pin, and restores the user's settings after it, when at any call %s",
  async (_name, faults) => {
    const found: string[] = [];
    for (const scenario of faults.flatMap((fault) => pinned(fault))) found.push(await wrong(scenario, false));
    expect(found.filter((text) => text !== '')).toEqual([]);
  },
  120_000,
);

it('downgrades to an older version that it is pinned to, and updates to the newest when the pin is removed', async () => {
  const world = new SimWorld([{ at: 0, fault: { kind: 'pin', wanted: { versionLock: '1.25.0' } } }]);
  await world.run(10 * MINUTE);
  expect(world.host.active).toBe('1.25.0');
  expect(world.cluster.shadow?.status?.settings?.records).toEqual(pinRecords({ versionLock: '1.25.0' }));
  world.cluster.want(null);
  await world.run(10 * MINUTE);
  world.killAgent();
  expect(world.host.active).toBe(NEW);
  expect(world.host.stored.versionLock).toBe('latest');
  expect(world.cluster.shadow?.status?.settings).toBeUndefined();
  expect(world.invariants.violations).toEqual([]);
});

it(`follows pins, and restores the user's settings after them, under any faults (seed ${seed})`, async () => {
  const property = fc.asyncProperty(aroundSettings, fc.boolean(), async (scenario, paused) =>
    expect(await wrong(scenario, paused)).toBe(''),
  );
  await fc.assert(property, { seed, numRuns });
}, 300_000);
