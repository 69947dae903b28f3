/** Sets of `spec.quorums` with the real controller on a real kube-apiserver: lists of members that fail, hooks, status and metric. */
import { mkdtempSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { jest } from '@jest/globals';
import { NO_CHECKS } from '../../../packages/controller/src/testing/checks.ts';
import type { BrupopConfigSpec } from '../../../packages/shared/src/api/config-spec.ts';
import type { Condition } from '../../../packages/shared/src/api/meta.ts';
import { auditPosition, operatorRequests } from '../../framework/audit.ts';
import { releaseNamespace } from '../../framework/chart.ts';
import { type ControlPlane, startControlPlane } from '../../framework/control-plane/start.ts';
import {
  type Agents,
  createMember,
  deleteMembers,
  newVersion,
  oldVersion,
  playAgents,
  readShadow,
  report,
} from '../../framework/controller/agents.ts';
import {
  CHECKS_NAMESPACE,
  createChecksNamespace,
  createTemplate,
  endJobs,
  hook,
  jobsOfChecks,
} from '../../framework/controller/checks.ts';
import { CONFIG_PATH, configure, HEALTHY_AT_ONCE, readBrupopConfig } from '../../framework/controller/configuration.ts';
import { installForController } from '../../framework/controller/installation.ts';
import { type Replica, startReplica } from '../../framework/controller/replica.ts';
import { eventually } from '../../framework/eventually.ts';
import { presentCredentials } from '../../framework/faulty-api/access.ts';
import { FaultyApi } from '../../framework/faulty-api/faulty-api.ts';
import { setReady } from '../../framework/fleet/daemon-pods.ts';
import { createMembers, DATABASES, staticQuorum } from '../../framework/fleet/static-members.ts';

jest.setTimeout(180_000);

const CHECKS = { ...NO_CHECKS, namespace: CHECKS_NAMESPACE, serviceAccount: 'brupop-checks' };
const LIMIT = { limitMs: 90_000, pauseMs: 50 };
const ALL_AT_ONCE = { concurrency: { maxUpdating: '100%', controlPlane: 'Ignored' }, ...HEALTHY_AT_ONCE } as const;
/** Of the members, not of the pods on one node. */
const LISTS = { verbs: ['list'], path: new RegExp(`/namespaces/${DATABASES}/pods$`, 'u') } as const;

let cluster: ControlPlane;
let api: FaultyApi;
let dir = '';
let replica: Replica | undefined;
let agents: Agents | undefined;
const names: string[] = [];

beforeAll(async () => {
  cluster = await startControlPlane();
  await createChecksNamespace(cluster);
  const serviceAccountDir = await installForController(cluster, '--set', 'checks.enabled=true');
  await createTemplate(cluster, 'slow', 'hold');
  api = await FaultyApi.start(cluster);
  dir = mkdtempSync(join(tmpdir(), 'brupop-quorums-'));
  await presentCredentials(dir, { token: readFileSync(join(serviceAccountDir, 'token'), 'utf8'), ca: api.ca });
});

afterEach(async () => {
  api.clear();
  await agents?.stop();
  await replica?.stop();
  await deleteMembers(cluster, names.splice(0));
  await cluster.api.delete(CONFIG_PATH);
});

afterAll(async () => {
  await api.stop();
  await cluster.stop();
});

interface World {
  readonly replica: Replica;
  /** The nodes with a member. */
  readonly voters: readonly string[];
  /** A node without one. */
  readonly worker: string;
}

/** Starts a controller of three nodes with a static member each and one without, which may all update at once. */
async function worldOf(set: string, more: BrupopConfigSpec = {}): Promise<World> {
  const voters = [1, 2, 3].map((i) => `${set}-${i}`);
  const worker = `${set}-worker`;
  names.push(...voters, worker);
  for (const name of [...voters, worker]) await createMember(cluster, name);
  await createMembers({ cluster }, set, voters);
  await configure(cluster, { ...ALL_AT_ONCE, quorums: [staticQuorum(set, 3)], ...more });
  replica = await startReplica(api, dir, { checks: CHECKS });
  return { replica, voters, worker };
}

async function quorumsOf(): Promise<readonly object[] | undefined> {
  return (await readBrupopConfig(cluster)).status?.quorums;
}

/** As the metric has it; empty: the members are not known. */
async function counted(world: World, set: string): Promise<Record<string, number>> {
  const found = (await world.replica.metrics()).matchAll(
    /^brupop_quorum_members\{quorum="([^"]+)",state="(\w+)"\} (\d+)$/gmu,
  );
  const ofSet = [...found].filter(([, name]) => name === set);
  return Object.fromEntries(ofSet.map(([, , state = '', n]): [string, number] => [state, Number(n)]));
}

async function progressing(name: string): Promise<Condition | undefined> {
  return (await readShadow(cluster, name)).status?.conditions?.find(({ type }) => type === 'Progressing');
}

async function stateOf(name: string): Promise<string> {
  return (await readShadow(cluster, name)).spec.state;
}

/** As its agent does. */
async function reportStaged(name: string): Promise<void> {
  const { generation = 0 } = (await readShadow(cluster, name)).metadata;
  await report(cluster, name, { current_state: 'StagedAndPerformedUpdate', observedGeneration: generation });
}

async function expectUpdated(name: string): Promise<void> {
  const { spec, status } = await readShadow(cluster, name);
  expect([name, spec.state, status?.current_version]).toEqual([name, 'Idle', newVersion]);
}

async function untilUpdated(updating: readonly string[]): Promise<void> {
  await eventually(async () => {
    for (const name of updating) await expectUpdated(name);
  }, LIMIT);
}

async function expectWaiting(updating: readonly string[], reason: string, message: string): Promise<void> {
  for (const name of updating) {
    const condition = await progressing(name);
    expect([name, condition?.reason]).toEqual([name, reason]);
    expect(condition?.message).toContain(message);
  }
}

describe('while the list of members is answered with an error', () => {
  it('nodes with a member wait with the error, others go on, and later these go one at a time', async () => {
    const set = 'answers';
    const refuse = (status: number): void => api.set({ match: LISTS, answer: { kind: 'status', status } });
    refuse(403);
    const world = await worldOf(set);
    agents = playAgents(cluster);
    for (const status of [403, 429, 500]) {
      api.clear();
      refuse(status);
      const problem = `GET /api/v1/namespaces/${DATABASES}/pods: ${status} the test answers ${status}`;
      const message = `The members of the quorum ${set} cannot be listed: ${problem}`;
      await eventually(async () => await expectWaiting(world.voters, 'PodListFailed', message), LIMIT);
      await eventually(async () => expect(await quorumsOf()).toMatchObject([{ name: set, members: 3, message }]));
      expect((await quorumsOf())?.[0]).not.toHaveProperty('ready');
      expect(await counted(world, set)).toEqual({});
      await untilUpdated([world.worker]);
    }
    await agents.stop();
    for (const name of world.voters)
      expect([(await readShadow(cluster, name)).metadata.generation, await stateOf(name)]).toEqual([1, 'Idle']);

    agents = playAgents(cluster);
    api.clear();
    await untilUpdated(world.voters);
    expect(agents.mostUnderWay()).toBe(1);
    await eventually(async () => expect(await quorumsOf()).toMatchObject([{ name: set, members: 3, ready: 3 }]));
  });

  it('a node that is staged keeps its slot, and is not drained before the list works again', async () => {
    const set = 'staged';
    const world = await worldOf(set);
    const [first = '', ...others] = world.voters;
    await eventually(async () => expect(await stateOf(first)).toBe('StagedAndPerformedUpdate'));
    await eventually(async () => expect(await counted(world, set)).toEqual({ ready: 3, away: 0 }));
    api.set({ match: LISTS, answer: { kind: 'status', status: 500 } });
    // The others ask, too.
    await eventually(async () => expect(await counted(world, set)).toEqual({}));
    await reportStaged(first);
    await eventually(async () => {
      await expectWaiting([first], 'Updating', `not drained yet: The members of the quorum ${set} cannot be listed`);
      expect((await readShadow(cluster, first)).status?.waitingFor).toBe('PodListFailed');
    });
    expect(await stateOf(first)).toBe('StagedAndPerformedUpdate');
    for (const name of others) expect([name, await stateOf(name)]).toEqual([name, 'Idle']);

    agents = playAgents(cluster);
    api.clear();
    await untilUpdated([...world.voters, world.worker]);
  });
});

it('a hook of a set runs its Job before the drain of each node with a member, and of no other one', async () => {
  const position = await auditPosition(cluster.auditLogPath);
  const { voters, worker } = await worldOf('hooked', {
    hooks: { before: [hook('snapshot', 'slow', { quorum: 'hooked', timeout: '5m' })] },
  });
  agents = playAgents(cluster);
  const hooked: string[] = [];
  while (hooked.length < voters.length) {
    const name = await eventually(async () => {
      const running = (await jobsOfChecks(cluster)).filter(({ status }) => status?.ready === 1);
      const [owner] = running.flatMap((job) => job.metadata?.ownerReferences?.[0]?.name ?? []);
      if (owner === undefined || hooked.includes(owner)) throw new Error('there is no other Job yet');
      return owner;
    }, LIMIT);
    if (hooked.length === 0) await untilUpdated([worker]);
    expect([await stateOf(name), (await readShadow(cluster, name)).status?.current_version]).toEqual([
      'StagedAndPerformedUpdate',
      oldVersion,
    ]);
    await endJobs(cluster, 'complete');
    hooked.push(name);
  }
  await untilUpdated(voters);
  await agents.stop();
  expect(hooked.toSorted()).toEqual(voters);
  const requests = await operatorRequests(cluster.auditLogPath, releaseNamespace, position);
  expect(requests.filter(({ verb, resource }) => `${verb} ${resource}` === 'create jobs')).toHaveLength(3);
});

it('the status and the metric have the members that are there and those that are away, once a node asks', async () => {
  const set = 'counted';
  const lists = api.count('list', LISTS.path);
  const world = await worldOf(set, { paused: true });
  const [first = '', second = '', third = ''] = world.voters;
  const setMemberReady = async (ready: boolean): Promise<void> =>
    await setReady({ cluster, namespace: DATABASES }, { metadata: { name: `${set}-${third}` } }, ready);
  const untilCounted = async (message: string): Promise<void> =>
    await eventually(async () => {
      expect(await counted(world, set)).toEqual({ ready: 2, away: 1 });
      expect(await quorumsOf()).toMatchObject([{ name: set, members: 3, ready: 2, message }]);
    });
  const memberOn = (name: string): string => `${DATABASES}/${set}-${name} on ${name}`;
  const pod = memberOn(third);

  await setMemberReady(false);
  await eventually(async () => await expectWaiting(world.voters, 'Paused', ''));
  expect([api.count('list', LISTS.path) - lists, await quorumsOf(), await counted(world, set)]).toEqual([
    0,
    undefined,
    {},
  ]);

  await configure(cluster, { ...ALL_AT_ONCE, quorums: [staticQuorum(set, 3)] });
  await untilCounted(`${pod} is not Ready`);
  // Its own member is away already, and those of the others are there.
  await eventually(async () => expect(await stateOf(third)).toBe('StagedAndPerformedUpdate'));
  for (const name of [first, second]) {
    const message = `The quorum ${set} cannot do without ${memberOn(name)}: ${pod}`;
    await eventually(async () => await expectWaiting([name], 'QuorumAtRisk', message));
  }

  await setMemberReady(true);
  await reportStaged(third);
  await eventually(async () => expect(await stateOf(third)).toBe('RebootedIntoUpdate'));
  await untilCounted(`${pod}, which is updating`);

  agents = playAgents(cluster);
  await untilUpdated([...world.voters, world.worker]);
  await agents.stop();
  await eventually(async () => expect(await quorumsOf()).toMatchObject([{ name: set, members: 3, ready: 3 }]));
  expect((await quorumsOf())?.[0]).not.toHaveProperty('message');
  // No node asks any more.
  await eventually(async () => expect(await counted(world, set)).toEqual({}));
  await configure(cluster, ALL_AT_ONCE);
  await eventually(async () => expect(await quorumsOf()).toBeUndefined());
});
