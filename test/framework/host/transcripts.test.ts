import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { BottlerocketHost } from './host.ts';
import * as replay from './replay.ts';
import type { Exchange } from './replay.ts';
import { parseStatus } from './status-file.ts';

const scenarios = await replay.readScenarios();
const folder = await mkdtemp(join(tmpdir(), 'host-'));
const PATIENCE_MS = 1000;
/**
 * These steps come after everything in the background has ended; the others only after command and
 * reboot.
 */
const AFTER_ALL = ['status after the orphaned updog has ended', 'refresh after the apply is through'];

const RUNNING = /^(?:no status yet|(.*)), (?:refresh|prepare) running$/;

/** The host's state in the words of the recording. */
function stateOf(host: BottlerocketHost): string {
  if (host.model.statusFile === undefined) return 'no status since boot';
  return parseStatus(host.model.statusFile)?.update_state ?? 'status file unreadable';
}

async function reachState(host: BottlerocketHost, { name, state }: Exchange): Promise<void> {
  const running = RUNNING.exec(state);
  if (running !== null) {
    expect(host.model.locked).toBe(true);
    if (running[1] !== undefined) expect(stateOf(host)).toBe(running[1]);
    return;
  }
  if (AFTER_ALL.includes(name)) await host.settled();
  while (host.model.locked || host.rebooting) await sleep(2);
  expect(stateOf(host)).toBe(state);
}

/** Sends the request and compares; returns how many milliseconds the answer took. */
async function exchange(host: BottlerocketHost, recorded: Exchange, times: Map<string, string>): Promise<number> {
  const expected = replay.responseText(recorded);
  const { closed_after_ms: closedAfter } = recorded;
  const answers = expected.match(/HTTP\/1\.[01] (?!100)\d{3} /g)?.length ?? 0;
  const started = performance.now();
  const expectation = { answers, untilClosed: closedAfter !== undefined };
  const received = await replay.send(host.socketPath, replay.requestBytes(recorded), expectation);
  expect(replay.comparable(received.text)).toBe(replay.comparable(expected));
  compareTimestamps(recorded, received.text, times);
  if (closedAfter !== undefined) {
    const soonest = closedAfter > 100 ? PATIENCE_MS * 0.9 : 0;
    const latest = closedAfter > 100 ? PATIENCE_MS * 3 : PATIENCE_MS * 0.9;
    expect(received.closedAfterMs).toBeGreaterThanOrEqual(soonest);
    expect(received.closedAfterMs).toBeLessThan(latest);
  }
  return performance.now() - started;
}

/**
 * A record kept in the recording is kept in the replay, a new one is new; a status file put in
 * place is restored.
 */
function compareTimestamps(recorded: Exchange, received: string, times: Map<string, string>): void {
  const expected = replay.timestampOf(replay.responseText(recorded));
  const actual = replay.timestampOf(received);
  if (expected === undefined || actual === undefined) return;
  const known = replay.replacesStatusFile(recorded) ? expected : times.get(expected);
  const seenBefore = [...times.values()].includes(actual);
  expect(known ?? (seenBefore ? 'a new time' : actual)).toBe(actual);
  times.set(expected, actual);
}

async function prepare(host: BottlerocketHost, recorded: Exchange): Promise<void> {
  for (const setup of recorded.setup) await replay.applySetup(host, setup);
  await reachState(host, recorded);
}

/** A reboot call, and beside it a request that has to wait for it. */
async function bothAtOnce(
  host: BottlerocketHost,
  [waiting, reboot]: Exchange[],
  times: Map<string, string>,
): Promise<void> {
  if (waiting === undefined || reboot === undefined) throw new Error('two requests are needed');
  const call = exchange(host, reboot, times);
  await sleep(50);
  const waited = await exchange(host, waiting, times);
  expect(waited).toBeGreaterThan((await call) / 2);
}

/** The next command runs until the function that is returned is called, however slow this machine is. */
async function holdCommand(host: BottlerocketHost): Promise<() => void> {
  const { promise: until, resolve } = Promise.withResolvers<void>();
  const { refresh, prepare: writing } = host.faults.values;
  await host.faults.set({ refresh: { ...refresh, until }, prepare: { ...writing, until } });
  return resolve;
}

/** Replays the exchanges of a scenario on its host; returns how many were compared. */
async function replayAll(host: BottlerocketHost, exchanges: readonly Exchange[]): Promise<number> {
  const times = new Map<string, string>();
  const rest = [...exchanges];
  let compared = 0;
  let release = (): void => undefined;
  for (let recorded = rest.shift(); recorded !== undefined; recorded = rest.shift()) {
    const isRunning = RUNNING.test(recorded.state);
    if (!isRunning) release();
    await prepare(host, recorded);
    if (!isRunning && RUNNING.test(rest[0]?.state ?? '')) release = await holdCommand(host);
    const paired = recorded.setup.some(({ note }) => note === 'two requests at once');
    if (paired) await bothAtOnce(host, [recorded, ...rest.splice(0, 1)], times);
    else await exchange(host, recorded, times);
    compared += paired ? 2 : 1;
  }
  return compared;
}

describe('the stand-in host gives the recorded answers of a real one', () => {
  afterAll(async () => rm(folder, { recursive: true }));

  it.concurrent.each([...scenarios.keys()])(
    '%s',
    async (scenario) => {
      const exchanges = scenarios.get(scenario) ?? [];
      const [start = {}, ...setup] = exchanges[0]?.setup ?? [];
      const { running, variant, arch, repository } = start as Record<string, string> & { repository: string[] };
      if (running === undefined || variant === undefined || arch === undefined) throw new Error('no host to start');
      const socketPath = join(folder, scenario.replaceAll(' ', '-'), 'api.sock');
      const options = { socketPath, version: running, variant, arch, repository, patienceMs: PATIENCE_MS };
      const host = await BottlerocketHost.start(options);
      try {
        const [first, ...others] = exchanges;
        if (first === undefined) throw new Error('an empty scenario');
        expect(await replayAll(host, [{ ...first, setup }, ...others])).toBe(exchanges.length);
      } finally {
        await host.stop();
      }
    },
    60_000,
  );

  it('replays every recorded exchange', () => {
    expect([...scenarios.values()].flat()).toHaveLength(329);
  });
});
