/**
 * Whatever the host or the apiserver answers, the agent does not crash, does not act on malformed
 * answers, and continues afterwards.
 */
import fc from 'fast-check';
import {
  type AgentShadow,
  agentShadow,
  drainResult,
  exclusionResult,
  streamMessage,
} from '@brupop/shared/api/agent-protocol';
import type { ShadowStatus } from '@brupop/shared/api/shadow';
import type { Agent } from './agent.ts';
import { ApiError, readError, readMessage } from './apiserver/messages.ts';
import { takeBody } from './host/host-socket.ts';
import { HostError, type UpdateStatus, parseUpdateStatus, parseVersion } from './host/host.ts';
import { malformedAnswers, MalformedApi, MalformedHost, body, OS, SHADOW, STATUS } from './testing/bad-answers.ts';
import { IDLE, MINUTE, NEW, REBOOT, STAGE, World } from './testing/world.ts';

// oxlint-disable-next-line node/no-process-env -- a run is repeated with its seed
const { BRUPOP_FUZZ_SEED = '20261121', BRUPOP_FUZZ_RUNS = '500' } = process.env;
const seed = Number(BRUPOP_FUZZ_SEED);
const numRuns = Number(BRUPOP_FUZZ_RUNS);

const VERSION = /^\d+\.\d+\.\d+[0-9A-Za-z.+-]*$/;
const isVersion = (value: unknown): boolean => typeof value === 'string' && VERSION.test(value);

/**
 * What `read` returns for a text; undefined when it throws a short error of the agent's own. Throws
 * any other error.
 */
function outcome<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    const isOwn = error instanceof HostError || error instanceof ApiError;
    if (isOwn && error.message.length < 2_000) return undefined;
    throw error;
  }
}

/** Whether every field that a decision reads has its type. */
function isUsableStatus({ chosenVersion, staged, latestCommand }: UpdateStatus): boolean {
  const versions = [chosenVersion, staged?.version].filter((one) => one !== undefined);
  const booleans = [staged?.nextToBoot, latestCommand?.succeeded].filter((one) => one !== undefined);
  const texts = [latestCommand?.stderr, latestCommand?.timestamp].filter((one) => one !== undefined);
  const typed = booleans.every((one) => typeof one === 'boolean') && texts.every((one) => typeof one === 'string');
  return typed && versions.every((one) => isVersion(one));
}

function isUsableShadow({ generation, spec, status }: AgentShadow): boolean {
  const count = status?.crash_count ?? 0;
  const whole = Number.isSafeInteger(generation) && count >= 0 && count < 2 ** 31;
  return whole && [spec.version, ...versionsOf(status)].every((one) => one == null || isVersion(one));
}

function versionsOf(status: ShadowStatus | undefined): readonly (string | undefined)[] {
  if (status === undefined) return [];
  const { current_version, target_version, lastOperation: last } = status;
  const dated =
    last === undefined || [last.startTime, last.lastUpdateTime].every((one) => !Number.isNaN(Date.parse(one)));
  return [current_version, target_version, last?.version, dated ? undefined : 'no time'];
}

const usable = <T>(value: T | undefined, check: (value: T) => boolean): boolean => value === undefined || check(value);

describe(`a malformed answer (seed ${seed})`, () => {
  it('of the host is parsed in every field that is used, or rejected with a named error', () => {
    const property = fc.property(body(STATUS), body(OS), (status, os) => {
      expect(
        usable(
          outcome(() => parseUpdateStatus(status)),
          isUsableStatus,
        ),
      ).toBe(true);
      expect(
        usable(
          outcome(() => parseVersion(os)),
          isVersion,
        ),
      ).toBe(true);
    });
    fc.assert(property, { seed, numRuns });
  });

  it('of the apiserver is parsed in every field that is used, or rejected with a named error', () => {
    const blockedBy = [{ pod: 'a/b', reason: 'Error', message: '' }];
    const drained = { done: false, evicted: 1, remaining: 2, blockedBy };
    const line = body({ type: 'shadow', shadow: SHADOW });
    const property = fc.property(body(SHADOW), body(drained), line, (one, two, three) => {
      expect(
        usable(
          outcome(() => readMessage(agentShadow, one)),
          isUsableShadow,
        ),
      ).toBe(true);
      const message = outcome(() => readMessage(streamMessage, three));
      expect(message?.type !== 'shadow' || isUsableShadow(message.shadow)).toBe(true);
      expect(
        usable(
          outcome(() => readMessage(drainResult, two)),
          ({ done, remaining }) => !done || remaining === 0,
        ),
      ).toBe(true);
      expect(
        usable(
          outcome(() => readMessage(exclusionResult, two)),
          ({ remainingMs }) => remainingMs >= 0,
        ),
      ).toBe(true);
      expect(readError('GET x', 500, two)).toBeInstanceOf(ApiError);
    });
    fc.assert(property, { seed, numRuns });
  });
});

/** Log lines that are written by default. */
const loud = (w: World): string[] => w.log.filter((line) => !line.includes('"level":"debug"'));

/** A world whose host and apiserver can give malformed answers. */
class MalformedWorld extends World {
  declare readonly badHost: MalformedHost;
  declare readonly badApi: MalformedApi;

  override startAgent(): Agent {
    const badHost = this.badHost ?? new MalformedHost(this.host);
    const badApi = this.badApi ?? new MalformedApi(this.api);
    Object.assign(this, { badHost, badApi });
    return super.startAgent({ host: badHost, api: badApi });
  }

  /** Every call here is answered within one turn of the event loop. */
  override async pass(ms: number): Promise<void> {
    for (let left = ms; left > 0; left -= 30_000) {
      await this.clock.advance(Math.min(left, 30_000));
      this.api.send({ type: 'heartbeat' });
    }
    await this.clock.advance(0);
  }
}

const NOT_ON_NONSENSE = ['prepare', 'activate', 'reboot', 'exclude', 'drain'];
/** Where an update is when the malformed answers start. */
const points = fc.constantFrom('at rest', 'to be staged', 'staged', 'draining');

async function bringTo(w: World, point: string): Promise<void> {
  await w.pass(MINUTE);
  const blocked = { done: false, evicted: 0, remaining: 1, blockedBy: [] };
  if (point === 'draining') w.api.drains = Array.from({ length: 5000 }, () => blocked);
  if (point === 'staged' || point === 'draining') await w.spec(STAGE);
  if (point === 'draining') await w.spec(REBOOT, 3000);
}

/** Restarts the update as the controller does, until the node runs the new version. */
async function finish(w: World): Promise<void> {
  w.api.drains = [];
  for (let tries = 0; tries < 3 && !w.host.rebootAsked; tries += 1) {
    if (w.ended !== undefined) w.startAgent();
    await w.spec(IDLE, 8 * MINUTE);
    await w.spec(STAGE, 5 * MINUTE);
    await w.spec(REBOOT, 5 * MINUTE);
  }
  await w.boot();
  expect(w.status).toMatchObject({ current_version: NEW, current_state: 'RebootedIntoUpdate' });
}

it(`does nothing on a host whose answers are malformed, logs few lines, and continues when it recovers (seed ${seed})`, async () => {
  const property = fc.asyncProperty(points, malformedAnswers, async (point, malformed) => {
    fc.pre(
      malformed.every((one) => one.status !== 404 && outcome(() => parseUpdateStatus(takeBody('', one))) === undefined),
    );
    const w = new MalformedWorld();
    await bringTo(w, point);
    w.badHost.malformed = malformed;
    await w.clock.advance(1000);
    w.api.calls.length = 0;
    w.badHost.asked.length = 0;
    w.log.length = 0;
    await w.pass(20 * MINUTE);
    if (point === 'to be staged') w.api.setSpec(STAGE);
    await w.pass(20 * MINUTE);
    const done = [...w.badHost.asked, ...w.api.calls];
    expect(done.filter((call) => NOT_ON_NONSENSE.includes(call))).toEqual([]);
    expect(w.log.filter((line) => /reconcile failed/.test(line))).toEqual([]);
    expect(loud(w).length).toBeLessThan(20);
    w.badHost.malformed = [];
    await finish(w);
    await w.killAgent();
  });
  await fc.assert(property, { seed, numRuns: Math.ceil(numRuns / 30) });
}, 300_000);

it(`never activates or reboots while the apiserver's answers are malformed, and continues when it recovers (seed ${seed})`, async () => {
  const property = fc.asyncProperty(points, malformedAnswers, async (point, malformed) => {
    const w = new MalformedWorld();
    await bringTo(w, point);
    w.badApi.malformed = malformed;
    w.api.send({ type: 'heartbeat' });
    await w.clock.advance(0);
    w.host.calls.length = 0;
    w.log.length = 0;
    await w.pass(20 * MINUTE);
    expect(w.host.calls.filter((call) => call !== 'refresh')).toEqual([]);
    expect(w.log.filter((line) => /reconcile failed/.test(line))).toEqual([]);
    // Alternating kinds of errors are logged alternately, a few times a minute at most.
    expect(loud(w).length).toBeLessThan(200);
    w.badApi.malformed = [];
    await w.pass(2 * MINUTE);
    await finish(w);
    await w.killAgent();
  });
  await fc.assert(property, { seed, numRuns: Math.ceil(numRuns / 30) });
}, 300_000);
