import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { jest } from '@jest/globals';
import { createKubeClient } from '../../../packages/shared/src/kube/client.ts';
import { Reflector } from '../../../packages/shared/src/kube/reflector.ts';
import type { KubernetesObject } from '../../../packages/shared/src/api/meta.ts';
import { systemClock } from '../../../packages/shared/src/runtime/clock.ts';
import { createNamespace } from '../../framework/control-plane/namespaces.ts';
import { type ControlPlane, startControlPlane } from '../../framework/control-plane/start.ts';
import { eventually } from '../../framework/eventually.ts';
import { accessThrough, presentCredentials } from '../../framework/faulty-api/access.ts';
import type { Answer, Fault, SeenRequest, Verb } from '../../framework/faulty-api/faults.ts';
import { FaultyApi } from '../../framework/faulty-api/faulty-api.ts';
import { recordingLogger } from '../../framework/recording-logger.ts';
import { LeaseCandidate } from './lease/candidate.ts';
import { createLedger, expectOneAtATime } from './lease/world.ts';
import { endure, type Outcome, type Scenario, SILENCE_LIMIT_MS, type Subject } from './reflector/scenario.ts';

jest.setTimeout(120_000);

interface World {
  cluster: ControlPlane;
  namespace: string;
}

const world = {} as World;
/** On a machine that is frozen for this long, healthy watches become idle. */
const STILL_MS = 400;
const LEASE = 'contended';

/**
 * A new watch counts as current for a moment before it has delivered the missed events. On a busy
 * machine this takes longer.
 */
const DECEPTION_LIMIT_MS = 1.5 * SILENCE_LIMIT_MS;

/**
 * Attempts of a reflector within `ms`: its backoff is at least 100, 200, 400, … ms, and is reset
 * after a watch of a second.
 */
function tries(ms: number): number {
  return Math.floor(Math.log2(ms / 100 + 1)) + 1 + Math.floor(ms / 1_000);
}

const answered = (verb: Verb, answer: Answer, times?: number): Fault => ({
  match: { verbs: [verb] },
  answer,
  ...(times !== undefined && { times }),
});

/** Ends the watch and waits until the API server has accepted another one. */
const broken = async (subject: Subject, answer: Answer, ...faults: Fault[]): Promise<void> => {
  const { api } = subject;
  for (const fault of faults) api.set(fault);
  const asked = faults.reduce((sum, { times = 0 }) => sum + times, 0);
  const before = api.requests.length;
  api.interrupt(answer);
  await eventually(() => expect(api.requests.length).toBeGreaterThan(before + asked));
  await sleep(500);
  api.clear();
};

/** How long a fault lasts. */
const lasting = async (subject: Subject, ms: number, answer: Answer, ...faults: Fault[]): Promise<void> => {
  for (const fault of faults) subject.api.set(fault);
  subject.api.interrupt(answer);
  await sleep(ms);
  subject.api.clear();
};

/**
 * Rejects the next `times` requests with Retry-After 1, and expects that they are repeated no
 * earlier.
 */
const patient = async (subject: Subject, first: Answer, verb: Verb): Promise<void> => {
  const before = subject.api.requests.length;
  await broken(subject, first, answered(verb, { kind: 'status', status: 429, retryAfterSeconds: 1 }, 2));
  const requests = subject.api.requests.slice(before);
  const refused = requests.flatMap(({ answer }, index) => (answer === undefined ? [] : [index]));
  const pauses = refused.map((index) => (requests[index + 1]?.atMs ?? Infinity) - (requests[index]?.atMs ?? 0));
  expect(pauses).toHaveLength(2);
  for (const pause of pauses) {
    expect(pause).toBeGreaterThanOrEqual(1_000);
    expect(pause).toBeLessThan(2_500);
  }
};

const gone: Answer = { kind: 'error-event', status: 410 };
const reset: Answer = { kind: 'reset' };
const spoilt: Readonly<Record<string, Answer>> = {
  malformed: { kind: 'malformed' },
  'truncated, as if whole': { kind: 'truncated', clean: true },
  'truncated, with a cut connection': { kind: 'truncated', clean: false },
};

const table: Record<string, Scenario> = {
  'an ERROR event 410 in the watch costs one list': { harm: (s) => broken(s, gone), lists: 1, watches: 1 },
  'an answer 410 to a watch costs one list': {
    harm: (s) => broken(s, reset, answered('watch', { kind: 'status', status: 410 }, 1)),
    lists: 1,
    watches: 2,
  },
  'ERROR events 410 to every watch make no storm of lists': {
    harm: (s) => lasting(s, 4_000, gone, answered('watch', gone)),
    lists: tries(4_000) + 1,
    watches: tries(4_000) + 1,
  },
  'answers 410 to every watch cause no burst of lists': {
    harm: (s) => lasting(s, 4_000, reset, answered('watch', { kind: 'status', status: 410 })),
    lists: tries(4_000) + 1,
    watches: tries(4_000) + 1,
  },
  'a watch that is reset resumes from its resourceVersion': { harm: (s) => broken(s, reset), watches: 1 },
  'a half-open watch is closed': { harm: (s) => broken(s, { kind: 'mute' }), watches: 2, silentMs: 900 },
  'a watch that is accepted and never answered is closed': {
    harm: (s) => broken(s, reset, answered('watch', { kind: 'silent' }, 1)),
    watches: 2,
    silentMs: 900,
  },
  'watches that are accepted and then idle are never trusted': {
    harm: (s) => lasting(s, 6_000, { kind: 'mute' }, answered('watch', { kind: 'mute' })),
    watches: tries(6_000) + 1,
    silentMs: 4_000,
  },
  'a watch that drips is never trusted': {
    harm: (s) => lasting(s, 6_000, { kind: 'drip', everyMs: 40 }, answered('watch', { kind: 'drip', everyMs: 40 })),
    watches: tries(6_000) + 1,
    silentMs: 4_000,
  },
  'a list that drips is cancelled': {
    harm: (s) => broken(s, gone, answered('list', { kind: 'drip', everyMs: 40 }, 1)),
    lists: 2,
    watches: 1,
  },
  'a list that is accepted and never answered is cancelled': {
    harm: (s) => broken(s, gone, answered('list', { kind: 'silent' }, 1)),
    lists: 2,
    watches: 1,
  },
  'a watch that gets Retry-After waits that long': {
    harm: (s) => patient(s, reset, 'watch'),
    watches: 3,
  },
  'a list that gets Retry-After waits that long': {
    harm: (s) => patient(s, gone, 'list'),
    lists: 3,
    watches: 1,
  },
  'a token that is replaced after it was refused': {
    harm: async (s) => {
      await s.present({ token: 'expired' });
      // The token is kept for a minute, and read again once it is rejected.
      s.api.set({ answer: { kind: 'status', status: 401 }, times: 1 });
      s.api.interrupt(reset);
      await sleep(1_000);
      await s.present({ token: world.cluster.tokens.kwok });
      await eventually(() => expect(s.api.openWatches).toBe(1));
      expect(s.api.requests.map(({ token }) => token)).toContain('expired');
      expect(s.api.requests.at(-1)?.token).toBe(world.cluster.tokens.kwok);
    },
    watches: 5,
    silentMs: 800,
  },
  'a certificate authority that is replaced': {
    harm: async (s) => {
      s.api.replaceCertificate();
      s.api.wire.cut('reset');
      s.api.wire.heal();
      await sleep(1_200);
      await s.present({ ca: s.api.ca });
      await eventually(() => expect(s.api.openWatches).toBe(1));
    },
    watches: 1,
    silentMs: 1_000,
  },
  'a network that drops all packets': {
    harm: async ({ api }) => {
      api.wire.cut('hang');
      await sleep(3_500);
      api.wire.heal();
    },
    watches: tries(3_500) + 1,
    silentMs: 3_000,
  },
  'a network that refuses connections': {
    harm: async ({ api }) => {
      api.wire.cut('reset');
      await sleep(2_000);
      api.wire.heal();
    },
    watches: 1,
    silentMs: 1_800,
  },
  ...Object.fromEntries(
    [500, 503].flatMap((status): [string, Scenario][] => [
      [
        `answers ${status} to watches cost no list`,
        { harm: (s) => broken(s, reset, answered('watch', { kind: 'status', status }, 3)), watches: 4 },
      ],
      [
        `answers ${status} to lists`,
        { harm: (s) => broken(s, gone, answered('list', { kind: 'status', status }, 3)), lists: 4, watches: 1 },
      ],
      [
        `an ERROR event ${status} costs no list`,
        { harm: (s) => broken(s, { kind: 'error-event', status }), watches: 1 },
      ],
    ]),
  ),
  ...Object.fromEntries(
    Object.entries(spoilt).flatMap(([how, answer]): [string, Scenario][] => [
      [`a watch that is ${how}`, { harm: (s) => broken(s, answer, answered('watch', answer, 2)), watches: 3 }],
      [`a list that is ${how}`, { harm: (s) => broken(s, gone, answered('list', answer, 2)), lists: 3, watches: 1 }],
    ]),
  ),
};

/** Faults of the API server itself and of etcd. */
const servers: Record<string, Scenario> = {
  'an API server that is killed and started again': {
    harm: async () => {
      await world.cluster.components.apiserver.kill('SIGKILL');
      await world.cluster.components.apiserver.restart();
    },
    // Its new watch cache starts after the resourceVersion of the watch: 410.
    lists: 1,
    watches: tries(10_000) + 1,
  },
  'an API server that is frozen for longer than the idle limit': {
    harm: async () => {
      await world.cluster.components.apiserver.kill('SIGSTOP');
      await sleep(3_000);
      await world.cluster.components.apiserver.kill('SIGCONT');
    },
    watches: tries(3_000) + 1,
    silentMs: 2_500,
  },
  'an etcd that is killed and started again': {
    harm: async () => {
      await world.cluster.components.etcd.kill('SIGKILL');
      await sleep(1_500);
      await world.cluster.components.etcd.restart();
    },
    // The API server recreates its watch cache when it has lost etcd.
    lists: 1,
    watches: tries(10_000) + 1,
    silentMs: 1_000,
  },
};

/** Two candidates that write while they are the leader, without a proxy. */
async function startCandidates({ cluster, namespace }: World): Promise<LeaseCandidate[]> {
  const limits = { leaseDurationMs: 2_000, renewDeadlineMs: 1_300, retryPeriodMs: 300 };
  const common = { access: cluster.accessAs('admin'), namespace, lease: LEASE, limits, pauseMs: 20 };
  await createLedger({ cluster, namespace }, LEASE);
  return await Promise.all(
    ['a', 'b'].map((identity) => LeaseCandidate.start({ ...common, identity, conditional: true })),
  );
}

describe('a reflector, while writers write', () => {
  let candidates: LeaseCandidate[] = [];
  let outcomes = new Map<string, Promise<Outcome>>();
  let bookmarked: Promise<readonly SeenRequest[]> | undefined;

  beforeAll(async () => {
    world.cluster = await startControlPlane();
    world.namespace = await createNamespace(world.cluster, 'reflector-faults');
    bookmarked = followQuietly(world);
    bookmarked.catch(() => undefined);
    outcomes = await endure(world, table);
    candidates = await startCandidates(world);
  });

  afterAll(async () => {
    await Promise.allSettled([...outcomes.values(), bookmarked, ...candidates.map((candidate) => candidate.stop())]);
    await world.cluster.stop();
  });

  it.each(Object.keys(table))('misses no change and trusts no stale view: %s', async (name) => {
    const [outcome, scenario] = [await outcomes.get(name), table[name]];
    if (outcome === undefined || scenario === undefined) throw new Error(`${name} has not been tried`);
    expect(await complaintsOf(name, scenario, outcome)).toEqual([]);
  });

  it('resumes from a bookmark when there was no other event, without another list', async () => {
    const requests = (await bookmarked) ?? [];
    expect(requests.map(({ verb }) => verb)).toEqual(['list', 'watch', 'watch', 'watch']);
    const [first = 0, second = 0, third = 0] = requests
      .slice(1)
      .map(({ query }) => Number(query.get('resourceVersion')));
    expect(second).toBeGreaterThan(first);
    expect(third).toBeGreaterThanOrEqual(second);
  });

  it.each(Object.entries(servers))('misses no change and trusts no stale view: %s', async (name, scenario) => {
    const outcome = await (await endure(world, { [name]: scenario })).get(name);
    if (outcome === undefined) throw new Error(`${name} has not been tried`);
    expect(complaints(outcome, scenario)).toEqual([]);
    await eventually(() => expect(candidates.filter(({ isLeader }) => isLeader)).toHaveLength(1));
  });

  it('leaves no two leaders that write at once after the API server or etcd was unavailable', async () => {
    expect(candidates.flatMap(({ ledAt }) => ledAt).length).toBeGreaterThan(1);
    await expectOneAtATime(world, LEASE);
  });
});

/**
 * Watches a collection without events, on watches that the API server ends after 4 s, until the
 * third watch is open.
 */
async function followQuietly({ cluster, namespace }: World): Promise<readonly SeenRequest[]> {
  const api = await FaultyApi.start(cluster);
  api.set(answered('watch', { kind: 'shortened', seconds: 4 }));
  const { log } = recordingLogger();
  const dir = mkdtempSync(join(tmpdir(), 'brupop-reflector-'));
  await presentCredentials(dir, { token: cluster.adminToken, ca: api.ca });
  const access = accessThrough(api, dir);
  const client = await createKubeClient({ userAgent: 'quiet', clock: systemClock, log, access });
  const path = `/api/v1/namespaces/${namespace}/configmaps`;
  const query = { labelSelector: 'suite=nobody' };
  const slim = (raw: unknown): KubernetesObject => raw as KubernetesObject;
  const reflector = new Reflector({ client, path, query, slim, clock: systemClock, log, name: 'configmaps' });
  const stop = new AbortController();
  const running = reflector.run(stop.signal);
  try {
    await eventually(() => expect(api.count('watch')).toBe(3));
  } finally {
    stop.abort();
    await running;
    await client.close();
    await api.stop();
    rmSync(dir, { recursive: true, force: true });
  }
  return api.requests;
}

/** Retries a scenario whose counts and times are wrong if the machine was frozen meanwhile. */
async function complaintsOf(name: string, scenario: Scenario, outcome: Outcome, triesLeft = 2): Promise<string[]> {
  const found = complaints(outcome, scenario);
  const wrong =
    outcome.trouble.length === 0 &&
    !(outcome.missed.length === 0 && isDeepStrictEqual(outcome.replayed, outcome.listed));
  if (found.length === 0 || wrong || outcome.stillMs < STILL_MS || triesLeft === 0) return found;
  const again = await (await endure(world, { [name]: scenario })).get(name);
  return again === undefined ? found : await complaintsOf(name, scenario, again, triesLeft - 1);
}

/** The expectations that an outcome violates. */
function complaints(outcome: Outcome, { lists = 0, watches, silentMs = 0 }: Scenario): string[] {
  const { stored, replayed, listed, missed, deceivedMs } = outcome;
  const rules: [boolean, string][] = [
    [isDeepStrictEqual(stored, listed), 'the store differs from a list'],
    [isDeepStrictEqual(replayed, listed), 'the events do not lead to what a list has'],
    [missed.length === 0, `there was no event for ${missed.map(({ resourceVersion }) => resourceVersion).join(', ')}`],
    [outcome.lists <= lists, `${outcome.lists} lists, not at most ${lists}`],
    [outcome.watches <= watches, `${outcome.watches} watches, not at most ${watches}`],
    [deceivedMs < DECEPTION_LIMIT_MS, `an old view was believed for ${deceivedMs} ms`],
    [outcome.silentMs >= silentMs, `the view was known to be ${outcome.silentMs} ms old, not at least ${silentMs} ms`],
  ];
  return [...outcome.trouble, ...rules.flatMap(([holds, complaint]) => (holds ? [] : [complaint]))];
}
