import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { jest } from '@jest/globals';
import { LEASE_LIMITS } from '../../../packages/shared/src/api/deadlines.ts';
import { type ClusterAccess, createKubeClient } from '../../../packages/shared/src/kube/client.ts';
import type { LeaseSpec } from '../../../packages/shared/src/kube/leader-election.ts';
import { systemClock } from '../../../packages/shared/src/runtime/clock.ts';
import { createNamespace } from '../../framework/control-plane/namespaces.ts';
import { type ControlPlane, startControlPlane } from '../../framework/control-plane/start.ts';
import { eventually } from '../../framework/eventually.ts';
import { accessThrough, presentCredentials } from '../../framework/faulty-api/access.ts';
import type { Answer, Fault } from '../../framework/faulty-api/faults.ts';
import { FaultyApi } from '../../framework/faulty-api/faulty-api.ts';
import { type Cut, TcpForwarder } from '../../framework/kubelet/tcp-forwarder.ts';
import { MachineLag } from '../../framework/machine-lag.ts';
import { recordingLogger } from '../../framework/recording-logger.ts';
import { LeaseCandidate, type LeaseCandidateOptions } from './lease/candidate.ts';
import { killed, scenario } from './lease/scenario.ts';
import { createLedger, expectOneAtATime, leasePath, readSpec, termsOf, TwoLeaders, type World } from './lease/world.ts';

jest.setTimeout(120_000);

const LIMITS = { leaseDurationMs: 2_000, renewDeadlineMs: 1_300, retryPeriodMs: 300 };
/** Margin for renewals that need a second attempt on a busy machine. */
const PATIENT = { leaseDurationMs: 10_000, renewDeadlineMs: 8_000, retryPeriodMs: 1_000 };
/** Jitter of a candidate, and a margin for a busy machine. */
const MARGIN_MS = 1_500;

const world = {} as World & { cluster: ControlPlane };

interface Pair {
  readonly lease: string;
  readonly leader: LeaseCandidate;
  readonly other: LeaseCandidate;
  /** The leader's connection to the API server. */
  readonly api: FaultyApi;
}

let pairs = 0;

/** Cases that run in parallel. */
const PARALLEL = 15;
/** A leader on a machine that is frozen for this long may lose leadership. */
const FROZEN_MS = 400;
let machineLag: MachineLag | undefined;

/** Retries a case if the machine was frozen meanwhile, but never after two leaders at once. */
async function steadily(run: Case, triesLeft = 2): Promise<void> {
  const since = performance.now();
  try {
    await run();
  } catch (error) {
    const frozen = (machineLag?.worstSince(since) ?? 0) > FROZEN_MS;
    if (error instanceof TwoLeaders || !frozen || triesLeft === 0) throw error;
    await steadily(run, triesLeft - 1);
  }
}

/** Cleanup functions, also run after failures. */
const ends: (() => Promise<void>)[] = [];

async function start(options: Omit<LeaseCandidateOptions, 'namespace'>): Promise<LeaseCandidate> {
  const candidate = await LeaseCandidate.start({ ...options, namespace: world.namespace });
  ends.push(() => candidate.stop());
  return candidate;
}

async function startApi(): Promise<{ api: FaultyApi; access: ClusterAccess }> {
  const api = await FaultyApi.start(world.cluster);
  const dir = mkdtempSync(join(tmpdir(), 'brupop-lease-'));
  ends.push(async () => {
    await api.stop();
    rmSync(dir, { recursive: true, force: true });
  });
  await presentCredentials(dir, { token: world.cluster.adminToken, ca: api.ca });
  return { api, access: accessThrough(api, dir) };
}

/**
 * Runs two candidates; the leader writes through a proxy. Stops them and expects that they did not
 * write at the same time.
 */
async function withPair(
  work: (pair: Pair) => Promise<void>,
  settings: Partial<LeaseCandidateOptions> = {},
): Promise<void> {
  pairs += 1;
  const lease = `pair-${pairs}`;
  const { api, access } = await startApi();
  await createLedger(world, lease);
  const common = { lease, pauseMs: 100, limits: LIMITS, ...settings };
  const leader = await start({ ...common, identity: 'a', access });
  await eventually(() => expect(leader.isLeader).toBe(true));
  const other = await start({ ...common, identity: 'b', access: world.cluster.accessAs('admin') });
  await eventually(() => expect(other.election.holder).toBe('a'));
  await eventually(async () => expect(await termsOf(world, lease)).toContain('a-1'));
  await work({ lease, leader, other, api });
  await Promise.all([leader.stop(), other.stop()]);
  await expectOneAtATime(world, lease);
}

/** Breaks the leader's connection until the other candidate is the leader, then repairs it. */
async function takenOver({ leader, other, api, lease }: Pair, open: Answer, faults: readonly Fault[]): Promise<void> {
  for (const fault of faults) api.set(fault);
  api.interrupt(open);
  const since = performance.now();
  await eventually(() => expect(other.isLeader).toBe(true));
  // The last renewal may have succeeded without a response, up to the end of the lease.
  expect((other.ledAt[0] ?? Infinity) - since).toBeLessThan(
    LIMITS.leaseDurationMs + LIMITS.renewDeadlineMs + MARGIN_MS,
  );
  expect(leader.isLeader).toBe(false);
  api.clear();
  await eventually(async () => expect(await termsOf(world, lease)).toContain('b-1'));
  await sleep(500);
  expect(leader.isLeader).toBe(false);
}

/** Writes in flight arrive when the network is back: only their resourceVersion can reject them. */
async function hung(pair: Pair, how: Cut): Promise<void> {
  pair.api.wire.cut(how);
  await takenOver(pair, mute, []);
  pair.api.wire.heal();
  await sleep(500);
  expect(pair.leader.isLeader).toBe(false);
}

/** Disturbs the leader, which must stay the leader. */
async function kept({ leader, other, api, lease }: Pair, answer: Answer, times: number): Promise<void> {
  api.set({ match: { verbs: ['update'] }, answer, times });
  await eventually(async () => expect(await readSpec(world, lease)).toMatchObject({ holderIdentity: 'a' }));
  await sleep(PATIENT.renewDeadlineMs);
  expect(leader.isLeader).toBe(true);
  expect(leader.ledAt).toHaveLength(1);
  expect(other.ledAt).toHaveLength(0);
}

type Case = () => Promise<void>;

const mute: Answer = { kind: 'mute' };
const reset: Answer = { kind: 'reset' };
const all = (answer: Answer): Fault[] => [{ answer }];

const cuts: Record<string, readonly [Answer, readonly Fault[]]> = {
  'nothing of it arrives': [mute, all({ kind: 'silent' })],
  'no answer arrives': [mute, all({ kind: 'lost' })],
  'each answer is 401': [reset, all({ kind: 'status', status: 401 })],
  'each answer is 410': [reset, all({ kind: 'status', status: 410 })],
  'each answer is 429': [reset, all({ kind: 'status', status: 429, retryAfterSeconds: 1 })],
  'each answer is 500': [reset, all({ kind: 'status', status: 500 })],
  'each answer is 503': [reset, all({ kind: 'status', status: 503 })],
  'each answer is no JSON': [reset, all({ kind: 'malformed' })],
  'each answer is half': [reset, all({ kind: 'truncated', clean: true })],
  'each answer is half and the connection ends': [reset, all({ kind: 'truncated', clean: false })],
  'each answer drips': [reset, all({ kind: 'drip', everyMs: 50 })],
  'each connection ends': [reset, all(reset)],
};

const disturbances: Record<string, readonly [Answer, number]> = {
  'one answer to a renewal is lost': [{ kind: 'lost' }, 1],
  'one renewal is lost': [{ kind: 'silent' }, 1],
  'three renewals are answered with 500': [{ kind: 'status', status: 500 }, 3],
  'two answers to renewals are no JSON': [{ kind: 'malformed' }, 2],
  'one answer to a renewal is half': [{ kind: 'truncated', clean: true }, 1],
};

/** Edits of the spec by a user, and whether the leader stays the leader. */
const edits: Record<string, readonly [(spec: LeaseSpec) => object | undefined, boolean]> = {
  'loses its spec': [() => ({}), true],
  'loses its holder': [(spec) => ({ ...spec, holderIdentity: '' }), true],
  'is deleted': [() => undefined, true],
  'gets a duration of a second': [(spec) => ({ ...spec, leaseDurationSeconds: 1 }), true],
  'gets a duration of 68 years': [(spec) => ({ ...spec, leaseDurationSeconds: 2_147_483_647 }), true],
  'gets a renewal far in the future': [(spec) => ({ ...spec, renewTime: '2199-01-01T00:00:00.000000Z' }), true],
  'gets a renewal long ago': [(spec) => ({ ...spec, renewTime: '1970-01-01T00:00:00.000000Z' }), true],
  'gets the largest count of transitions': [(spec) => ({ ...spec, leaseTransitions: 2_147_483_647 }), true],
  'gets a holder that does not exist, for 68 years': [
    () => ({ holderIdentity: 'x', renewTime: '2199-01-01T00:00:00.000000Z', leaseDurationSeconds: 2_147_483_647 }),
    false,
  ],
  'gets the other candidate as its holder': [(spec) => ({ ...spec, holderIdentity: 'b' }), false],
};

async function edited(
  { lease, leader, other }: Pair,
  edit: (spec: LeaseSpec) => object | undefined,
  keeps: boolean,
): Promise<void> {
  const path = leasePath(world, lease);
  await eventually(async () => {
    const found = await world.cluster.api.get<{ spec: LeaseSpec }>(path);
    const spec = edit(found.spec);
    await (spec === undefined
      ? world.cluster.api.delete(path)
      : world.cluster.api.request('PUT', path, { ...found, spec }));
  });
  const limitMs = 4 * LIMITS.leaseDurationMs + LIMITS.renewDeadlineMs + MARGIN_MS;
  await sleep(LIMITS.renewDeadlineMs);
  await eventually(() => expect([leader.isLeader, other.isLeader].filter(Boolean)).toHaveLength(1), { limitMs });
  await eventually(async () => expect((await readSpec(world, lease)).holderIdentity).toMatch(/^[ab]$/u));
  const kept = leader.ledAt.length === 1 && leader.isLeader;
  if (kept !== keeps) throw new Error(`the lead was ${kept ? '' : 'not '}kept: ${leader.lines.join(' ')}`);
}

/**
 * Stops a leader whose renewal has succeeded without a response; it must still release the Lease.
 */
async function stoppedInRenewal({ leader, other, api }: Pair): Promise<void> {
  api.set({ match: { verbs: ['update'] }, answer: { kind: 'lost' }, times: 1 });
  const before = api.count('update');
  await eventually(() => expect(api.count('update')).toBe(before + 1));
  await sleep(100);
  const stoppedAt = performance.now();
  await leader.stop();
  await eventually(() => expect(other.isLeader).toBe(true));
  expect((other.ledAt[0] ?? Infinity) - stoppedAt).toBeLessThan(1_000);
}

const table: Record<string, Case> = {
  ...Object.fromEntries(
    Object.entries(cuts).map(([how, [open, faults]]): [string, Case] => [
      `goes to another candidate when ${how}`,
      () => withPair((pair) => takenOver(pair, open, faults)),
    ]),
  ),
  ...Object.fromEntries(
    (['hang', 'requests lost', 'answers lost'] as const).map((how): [string, Case] => [
      `goes to another candidate when the network cuts it off (${how}), and what was on its way comes too late`,
      () => withPair((pair) => hung(pair, how), { conditional: true }),
    ]),
  ),
  ...Object.fromEntries(
    Object.entries(disturbances).map(([how, [answer, times]]): [string, Case] => [
      `stays when ${how}`,
      () => withPair((pair) => kept(pair, answer, times), { limits: PATIENT }),
    ]),
  ),
  ...Object.fromEntries(
    Object.entries(edits).map(([how, [edit, keeps]]): [string, Case] => [
      `is never with two when the Lease ${how}`,
      () => withPair((pair) => edited(pair, edit, keeps), { limits: keeps ? PATIENT : LIMITS }),
    ]),
  ),
  'is released within a second by a leader that stops during a renewal': () =>
    withPair((pair) => stoppedInRenewal(pair), { limits: LEASE_LIMITS }),
};

describe('leadership', () => {
  const outcomes = new Map<string, Promise<void>>();

  beforeAll(async () => {
    world.cluster = await startControlPlane();
    world.namespace = await createNamespace(world.cluster, 'lease-faults');
    machineLag = new MachineLag(world.cluster.api);
    const queue = Object.entries(table).values();
    const worker = async (): Promise<void> => {
      for (const [name, run] of queue) {
        const outcome = steadily(run);
        outcomes.set(name, outcome);
        await outcome.catch(() => undefined);
      }
    };
    await Promise.all(Array.from({ length: PARALLEL }, worker));
  });

  afterAll(async () => {
    await machineLag?.stop();
    await Promise.all(ends.map((end) => end()));
    await world.cluster.stop();
  });

  it.each(Object.keys(table))('%s', async (name) => {
    await expect(outcomes.get(name)).resolves.toBeUndefined();
  });

  it('stays with a leader whose connections all hang: it opens new ones', async () => {
    const wire = await TcpForwarder.start(() => ({ host: '127.0.0.1', port: Number(new URL(world.cluster.url).port) }));
    const dir = mkdtempSync(join(tmpdir(), 'brupop-lease-'));
    await presentCredentials(dir, { token: world.cluster.adminToken, ca: world.cluster.ca });
    const access = { host: '127.0.0.1', port: wire.address.port, serviceAccountDir: dir };
    const leader = await start({ lease: 'stranded', identity: 'a', access, limits: PATIENT, pauseMs: 50 });
    await eventually(() => expect(leader.isLeader).toBe(true));
    wire.strand();
    const { renewTime } = await readSpec(world, 'stranded');
    await eventually(async () => expect((await readSpec(world, 'stranded')).renewTime).not.toBe(renewTime), {
      limitMs: PATIENT.renewDeadlineMs,
    });
    await leader.stop();
    await wire.stop();
    rmSync(dir, { recursive: true, force: true });
    expect(leader.ledAt).toHaveLength(1);
  });

  it('does not crash the process when its client is closed during calls', async () => {
    const { log } = recordingLogger();
    const access = world.cluster.accessAs('admin');
    const client = await createKubeClient({ userAgent: 'closed', clock: systemClock, log, access });
    const path = `/api/v1/namespaces/${world.namespace}/configmaps`;
    await client.request({ method: 'GET', path });
    const calls = Array.from({ length: 20 }, () => client.request({ method: 'GET', path }));
    const settled = Promise.allSettled(calls);
    await sleep(2);
    await client.close();
    expect((await settled).map(({ status }) => status)).toContain('rejected');
  });

  it('is never held by two processes, whether the leader is frozen, stopped or killed, and is acquired in time', async () => {
    const since = performance.now();
    const outcome = await scenario(world, 'scenario', LIMITS);
    const frozen = machineLag?.worstSince(since) ?? 0;
    expect(outcome.terms).toEqual([...new Set(outcome.terms)]);
    expect(Math.max(...outcome.takeovers, outcome.killMs)).toBeLessThan(LIMITS.leaseDurationMs + MARGIN_MS + frozen);
    expect(outcome.stopMs).toBeLessThan(1_000 + frozen);
    expect(outcome.terms.length).toBeGreaterThanOrEqual(4);
  });

  it('is acquired within 20 s after the leader was killed, with the durations of the controller', async () => {
    expect(await killed(world, 'killed')).toBeLessThan(20_000);
  });

  it('is written into the Lease in a form that the API server accepts', async () => {
    const lease = (spec: object): object => ({ metadata: { name: 'refused' }, spec });
    for (const spec of [{ leaseDurationSeconds: 0 }, { renewTime: 'yesterday' }, { leaseTransitions: -1 }])
      await expect(world.cluster.api.create(leasePath(world), lease(spec))).rejects.toThrow(/4(00|22)/u);
  });

  it('is checked when a write is sent, not when the call starts', async () => {
    const { log } = recordingLogger();
    const access = world.cluster.accessAs('admin');
    const client = await createKubeClient({ userAgent: 'fenced', clock: systemClock, log, access });
    let isLeader = true;
    const fenced = client.fenced(() => isLeader);
    const path = `/api/v1/namespaces/${world.namespace}/configmaps`;
    const writing = fenced.request({ method: 'POST', path, body: { metadata: { name: 'fenced' } } });
    isLeader = false;
    await expect(writing).rejects.toMatchObject({ name: 'KubeError', reason: 'Fenced' });
    await expect(client.request({ method: 'GET', path: `${path}/fenced` })).rejects.toMatchObject({ status: 404 });
    await client.close();
  });
});
