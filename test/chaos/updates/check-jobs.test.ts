/** Jobs of checks and hooks, with a real kube-apiserver and the real controller of Jobs. */
import { type NodeRecord, readRecord } from '../../../packages/shared/src/api/record.ts';
import { jest } from '@jest/globals';
import type { V1Job } from '@kubernetes/client-node';
import { CHECK_LABEL, JOB_OF_ANNOTATION } from '../../../packages/shared/src/api/names.ts';
import { NO_CHECKS } from '../../../packages/controller/src/testing/checks.ts';
import { type AuditedRequest, auditPosition, operatorRequests } from '../../framework/audit.ts';
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
} from '../../framework/controller/agents.ts';
import {
  CHECKS_NAMESPACE,
  createChecksNamespace,
  createTemplate,
  deleteJob,
  endJobs,
  hook,
  jobsOfChecks,
} from '../../framework/controller/checks.ts';
import { CONFIG_PATH, configure } from '../../framework/controller/configuration.ts';
import {
  createQuota,
  deleteQuota,
  failedCreates,
  refusalBy,
  REFUSALS,
  untilRefused,
} from '../../framework/controller/refusals.ts';
import { installForController } from '../../framework/controller/installation.ts';
import { type Replica, startReplica } from '../../framework/controller/replica.ts';
import { eventually } from '../../framework/eventually.ts';

jest.setTimeout(180_000);

const checks = { ...NO_CHECKS, namespace: CHECKS_NAMESPACE, serviceAccount: 'brupop-checks' };
const LIMIT = { limitMs: 60_000, pauseMs: 100 };

let cluster: ControlPlane;
let serviceAccountDir = '';
let position = 0;
let agents: Agents;
const replicas: Replica[] = [];
const names: string[] = [];

beforeAll(async () => {
  cluster = await startControlPlane();
  await createChecksNamespace(cluster);
  serviceAccountDir = await installForController(cluster, '--set', 'checks.enabled=true');
  for (const name of ['smoke', 'standby', 'back']) await createTemplate(cluster, name);
  await createTemplate(cluster, 'broken', 'fail');
  await createTemplate(cluster, 'slow', 'hold');
});

beforeEach(async () => {
  position = await auditPosition(cluster.auditLogPath);
  agents = playAgents(cluster);
});

afterEach(async () => {
  await agents.stop();
  await Promise.all(replicas.splice(0).map((replica) => replica.stop()));
  await deleteMembers(cluster, names.splice(0));
  await cluster.api.delete(CONFIG_PATH);
  for (const { metadata } of await jobsOfChecks(cluster)) await deleteJob(cluster, metadata?.name ?? '');
  await eventually(async () => {
    if ((await jobsOfChecks(cluster)).length > 0) throw new Error('there are still Jobs');
  }, LIMIT);
});

afterAll(async () => await cluster.stop());

async function start(more: Partial<typeof checks> = {}): Promise<Replica> {
  const replica = await startReplica(cluster, serviceAccountDir, { checks: { ...checks, ...more } });
  replicas.push(replica);
  return replica;
}

async function member(name: string): Promise<void> {
  names.push(name);
  await createMember(cluster, name);
}

const stateOf = async (name: string): Promise<string> => (await readShadow(cluster, name)).spec.state;
const versionOf = async (name: string): Promise<string | undefined> =>
  (await readShadow(cluster, name)).status?.current_version;
const waitingFor = async (name: string): Promise<string | undefined> =>
  (await readShadow(cluster, name)).status?.waitingFor;
const eventsOn = async (name: string): Promise<string> => {
  const path = `/api/v1/namespaces/default/events?fieldSelector=involvedObject.name=${name}`;
  const { items } = await cluster.api.get<{ items: { message?: string }[] }>(path);
  return items.map(({ message }) => message).join('\n');
};
const recordOf = async (name: string): Promise<NodeRecord> => readRecord((await readShadow(cluster, name)).metadata);
const checkOf = ({ metadata }: V1Job): string => metadata?.labels?.[CHECK_LABEL] ?? '';

async function requestsFor(verb: string, resource = 'jobs'): Promise<AuditedRequest[]> {
  const all = await operatorRequests(cluster.auditLogPath, releaseNamespace, position);
  return all.filter((request) => request.resource === resource && request.verb === verb);
}

/** How many Jobs were created, in this test. */
const creations = async (): Promise<number> =>
  (await requestsFor('create')).filter(({ status }) => status === 201).length;

async function untilUpdated(name: string): Promise<void> {
  await eventually(async () => {
    expect([await stateOf(name), await versionOf(name)]).toEqual(['Idle', newVersion]);
    expect((await recordOf(name)).jobs).toBeUndefined();
  }, LIMIT);
}

async function untilJobRuns(check: string): Promise<V1Job> {
  return await eventually(async () => {
    const job = (await jobsOfChecks(cluster)).find((one) => checkOf(one) === check);
    expect(job?.status?.ready ?? 0).toBe(1);
    return job ?? {};
  }, LIMIT);
}

describe('the Jobs of an update', () => {
  it('run once each, before the drain and after the update, and leave nothing behind', async () => {
    const smoke = { name: 'smoke', when: ['Before', 'After'] as const, job: { cronJob: 'smoke' } };
    await configure(cluster, {
      health: { checks: [{ ...smoke, when: [...smoke.when] }] },
      hooks: { before: [hook('in', 'standby')], after: [hook('out', 'back')] },
    });
    await member('whole');
    await start();
    await untilUpdated('whole');
    await eventually(async () => expect(await jobsOfChecks(cluster)).toEqual([]), LIMIT);
    expect(await creations()).toBe(4);
    const denied = await operatorRequests(cluster.auditLogPath, releaseNamespace, position);
    expect(denied.filter(({ status }) => status === 403)).toEqual([]);
  });

  it('belong to the Node, and have the account, the limits and the environment of their check', async () => {
    await configure(cluster, { hooks: { before: [hook('in', 'slow', { timeout: '5m' })] } });
    await member('one');
    await start();
    const { metadata, spec } = await untilJobRuns('in');
    expect(metadata?.ownerReferences).toMatchObject([{ kind: 'Node', name: 'one' }]);
    expect(spec).toMatchObject({ backoffLimit: 0, activeDeadlineSeconds: 300, ttlSecondsAfterFinished: 3600 });
    const { serviceAccountName, restartPolicy, containers } = spec?.template.spec ?? {};
    expect([serviceAccountName, restartPolicy]).toEqual(['brupop-checks', 'Never']);
    expect(containers?.[0]?.env).toEqual([
      { name: 'BRUPOP_NODE', value: 'one' },
      { name: 'BRUPOP_FROM_VERSION', value: oldVersion },
      { name: 'BRUPOP_TO_VERSION', value: newVersion },
      { name: 'BRUPOP_PHASE', value: 'Before' },
      { name: 'BRUPOP_CHECK', value: 'in' },
    ]);
    expect(await stateOf('one')).toBe('StagedAndPerformedUpdate');
    await endJobs(cluster, 'complete');
    await untilUpdated('one');
  });

  it('are not created again by a controller that takes over while one runs', async () => {
    await configure(cluster, { hooks: { before: [hook('in', 'slow')] } });
    await member('handed');
    const first = await start();
    await untilJobRuns('in');
    await first.stop();
    replicas.pop();
    await start();
    await eventually(async () => expect((await requestsFor('get')).length).toBeGreaterThan(3), LIMIT);
    await endJobs(cluster, 'complete');
    await untilUpdated('handed');
    expect(await creations()).toBe(1);
  });

  it('are stopped when a user interrupts the update', async () => {
    await configure(cluster, { hooks: { before: [hook('in', 'slow')] } });
    await member('paused');
    await start();
    await untilJobRuns('in');
    await configure(cluster, { hooks: { before: [hook('in', 'slow')] }, paused: true, pauseMode: 'Interrupt' });
    await eventually(async () => {
      expect(await stateOf('paused')).toBe('Idle');
      expect(await jobsOfChecks(cluster)).toEqual([]);
    }, LIMIT);
  });
});

describe('a node is not drained', () => {
  it('when the Job of a check fails, and waits with its reason; the Job stays for an hour', async () => {
    await configure(cluster, { health: { checks: [{ name: 'smoke', when: ['Before'], job: { cronJob: 'broken' } }] } });
    await member('kept');
    await start();
    await eventually(async () => expect(await waitingFor('kept')).toMatch(/^CheckFailed until /u), LIMIT);
    expect([await versionOf('kept'), agents.mostUnderWay()]).toEqual([oldVersion, 1]);
    const [job, ...others] = await jobsOfChecks(cluster);
    expect([job?.spec?.ttlSecondsAfterFinished, others]).toEqual([3600, []]);
    expect((await recordOf('kept')).failed).toBeUndefined();
  });

  it('when a Job is deleted before its result is known', async () => {
    await configure(cluster, { hooks: { before: [hook('in', 'slow')] } });
    await member('gone');
    await start();
    const { metadata } = await untilJobRuns('in');
    await deleteJob(cluster, metadata?.name ?? '');
    await eventually(async () => expect(await waitingFor('gone')).toMatch(/^HookFailed until /u), LIMIT);
    expect([await creations(), await versionOf('gone')]).toEqual([1, oldVersion]);
  });

  it('when a hook does not end in time, unless it says to proceed', async () => {
    await configure(cluster, { hooks: { before: [hook('in', 'slow', { timeout: '10s' })] } });
    await member('late');
    await start();
    await eventually(async () => expect(await waitingFor('late')).toMatch(/^HookFailed until /u), LIMIT);
    expect(await versionOf('late')).toBe(oldVersion);
    await configure(cluster, { hooks: { before: [hook('in', 'slow', { timeout: '10s', onTimeout: 'Proceed' })] } });
    await member('later');
    await untilUpdated('later');
  });

  describe('when no pod of its Job can be created', () => {
    it.each(Object.keys(REFUSALS))(
      'by %s, with the reason of Kubernetes',
      async (what) => {
        const { refuse, allow, reason, isQuota = false } = refusalBy(what);
        await refuse(cluster);
        try {
          await untilRefused(cluster, reason);
          await configure(cluster, {
            hooks: { before: [hook('timeout', 'slow', { timeout: '10m', onTimeout: 'Proceed' })] },
          });
          const name = what.toLowerCase().replaceAll(' ', '-');
          await member(name);
          await start();
          // A quota has to be exceeded for a minute, by Events ever further apart.
          const limit = isQuota ? { ...LIMIT, limitMs: 240_000 } : LIMIT;
          await eventually(async () => expect(await waitingFor(name)).toMatch(/^HookFailed until /u), limit);
          await eventually(async () => expect(await eventsOn(name)).toContain(reason), LIMIT);
          expect(await versionOf(name)).toBe(oldVersion);
          await eventually(async () => expect(await jobsOfChecks(cluster)).toEqual([]), LIMIT);
        } finally {
          await allow(cluster);
        }
      },
      360_000,
    );

    it('since its account is missing', async () => {
      await configure(cluster, {
        hooks: { before: [hook('timeout', 'slow', { timeout: '10m', onTimeout: 'Proceed' })] },
      });
      await member('no-account');
      await start({ serviceAccount: 'missing' });
      await eventually(async () => expect(await waitingFor('no-account')).toMatch(/^HookFailed until /u), LIMIT);
      await eventually(async () => expect(await eventsOn('no-account')).toContain('"missing" not found'), LIMIT);
      expect(await versionOf('no-account')).toBe(oldVersion);
    });

    it.each(['a webhook that does not answer', 'a quota'])('but is when %s passes', async (what) => {
      const { refuse, allow, reason } = refusalBy(what);
      await refuse(cluster);
      try {
        await untilRefused(cluster, reason);
        await configure(cluster, { hooks: { before: [hook('in', 'smoke', { timeout: '10m' })] } });
        const name = what.replaceAll(' ', '-');
        await member(name);
        await start();
        await eventually(async () => expect(await failedCreates(cluster)).toContain(reason), LIMIT);
        // The controller has read the Event.
        await eventually(async () => expect((await requestsFor('list', 'events')).length).toBeGreaterThan(1), LIMIT);
        expect([await stateOf(name), await versionOf(name)]).toEqual(['StagedAndPerformedUpdate', oldVersion]);
        await allow(cluster);
        await untilUpdated(name);
      } finally {
        await allow(cluster);
      }
    });
  });

  describe('when a quota counts Jobs', () => {
    const hooks = { before: [hook('in', 'smoke', { timeout: '10m', onTimeout: 'Proceed' as const })] };

    it('and allows none for a minute, with the reason of Kubernetes', async () => {
      await createQuota(cluster, 'count/jobs.batch');
      try {
        await configure(cluster, { hooks });
        await member('counted');
        await start();
        await eventually(async () => expect(await waitingFor('counted')).toMatch(/^HookFailed until /u), {
          ...LIMIT,
          limitMs: 150_000,
        });
        await eventually(async () => expect(await eventsOn('counted')).toContain('exceeded quota'), LIMIT);
        expect([await versionOf('counted'), await creations()]).toEqual([oldVersion, 0]);
      } finally {
        await deleteQuota(cluster);
      }
    }, 300_000);

    it('but is drained when there is room meanwhile', async () => {
      await createQuota(cluster, 'count/jobs.batch');
      try {
        await configure(cluster, { hooks });
        await member('roomy');
        await start();
        await eventually(async () => expect((await requestsFor('create')).length).toBeGreaterThan(1), LIMIT);
      } finally {
        await deleteQuota(cluster);
      }
      await untilUpdated('roomy');
      expect(await creations()).toBe(1);
    });
  });

  it('and does not start while there is no such CronJob', async () => {
    await configure(cluster, { hooks: { after: [hook('out', 'misspelt')] } });
    await member('misled');
    await start();
    await eventually(async () => expect(await waitingFor('misled')).toBe('CheckNotPassed'), LIMIT);
    await createTemplate(cluster, 'misspelt');
    await untilUpdated('misled');
  });
});

it('a Job that fails after the update fails the version, and freezes it if the budget allows none', async () => {
  await configure(cluster, {
    health: { checks: [{ name: 'smoke', when: ['After'], job: { cronJob: 'broken' } }] },
    rollout: { failureBudget: 0 },
  });
  await member('bad-0');
  await member('bad-1');
  await start();
  await eventually(async () => {
    const records = await Promise.all(['bad-0', 'bad-1'].map(recordOf));
    const failures = records.filter(({ failed }) => failed?.version === newVersion && failed.code === 'CheckFailed');
    expect(failures).toHaveLength(1);
    const waiting = await Promise.all(['bad-0', 'bad-1'].map(waitingFor));
    expect(new Set(waiting)).toEqual(new Set(['CheckFailed', 'Frozen']));
  }, LIMIT);
});

it('a hook after the update that fails is told by an Event, and the update has succeeded', async () => {
  await configure(cluster, { hooks: { after: [hook('out', 'broken'), hook('more', 'back')] } });
  await member('told');
  await start();
  await untilUpdated('told');
  const query = 'fieldSelector=involvedObject.name%3Dtold';
  await eventually(async () => {
    const { items } = await cluster.api.get<{ items: { reason: string }[] }>(
      `/api/v1/namespaces/default/events?${query}`,
    );
    expect(items.map(({ reason }) => reason)).toEqual(expect.arrayContaining(['UpdateSucceeded', 'HookFailed']));
  }, LIMIT);
  expect(await creations()).toBe(1);
});

it('a new leader deletes the Jobs of attempts that are over, and no others', async () => {
  const path = `/apis/batch/v1/namespaces/${CHECKS_NAMESPACE}/jobs`;
  const job = (name: string, metadata: object): object => ({
    metadata: { name, labels: { [CHECK_LABEL]: 'smoke' }, ...metadata },
    spec: { suspend: true, template: { spec: { restartPolicy: 'Never', containers: [{ name: 'main', image: 'x' }] } } },
  });
  await cluster.api.create(
    path,
    job('over', { annotations: { [JOB_OF_ANNOTATION]: 'uid/2026-01-01T00:00:00Z/Before/check/smoke' } }),
  );
  await cluster.api.create(path, job('of-a-user', {}));
  await start();
  await eventually(async () => {
    expect((await jobsOfChecks(cluster)).map(({ metadata }) => metadata?.name)).toEqual(['of-a-user']);
  }, LIMIT);
  expect((await requestsFor('list')).length).toBeLessThanOrEqual(2);
});
