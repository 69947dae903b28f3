/** Checks and hooks of users on a fleet. */
import { readRecord } from '../../../packages/shared/src/api/record.ts';
import { jest } from '@jest/globals';
import { operatorRequests } from '../../framework/audit.ts';
import {
  createChecksNamespace,
  createTemplate,
  endJobs,
  hook,
  jobsOfChecks,
} from '../../framework/controller/checks.ts';
import { eventually } from '../../framework/eventually.ts';
import { inject } from '../../framework/faults/inject.ts';
import { fleetNodes } from '../../framework/fleet/fleet.ts';
import { type FleetContext, NEW, OLD, withFleet } from '../../framework/fleet/with-fleet.ts';

jest.setTimeout(420_000);

const values = { 'checks.enabled': true };
const LIMIT = { limitMs: 120_000, pauseMs: 200 };
const seconds = async (count: number): Promise<void> => await new Promise((done) => setTimeout(done, count * 1000));

async function before({ cluster }: FleetContext): Promise<void> {
  await createChecksNamespace(cluster);
  await createTemplate(cluster, 'smoke');
  await createTemplate(cluster, 'broken', 'fail');
  await createTemplate(cluster, 'slow', 'hold');
}

const waitingFor = ({ fleet }: FleetContext): (string | undefined)[] =>
  [...fleet.nodes.keys()].map((name) => fleet.shadow(name)?.status?.waitingFor);
const reboots = ({ fleet }: FleetContext): number[] => [...fleet.nodes.values()].map(({ host }) => host.reboots);

/** The names of the Jobs that controllers have asked for successfully, one for each creation. */
async function created({ cluster, fleet }: FleetContext): Promise<number> {
  const requests = await operatorRequests(cluster.auditLogPath, fleet.operator.namespace, 0);
  return requests.filter(({ verb, resource, status }) => verb === 'create' && resource === 'jobs' && status === 201)
    .length;
}

async function untilNoJobsAreLeft({ cluster }: FleetContext): Promise<void> {
  await eventually(async () => expect(await jobsOfChecks(cluster)).toEqual([]), LIMIT);
}

describe('checks and hooks', () => {
  it('that pass let every node be updated, with one Job for each node, and leave nothing behind', async () => {
    const config = {
      health: { checks: [{ name: 'smoke', when: ['Before' as const, 'After' as const], job: { cronJob: 'smoke' } }] },
      hooks: { before: [hook('in', 'smoke')], after: [hook('out', 'smoke')] },
    };
    await withFleet({ nodes: fleetNodes(3), values, config, before }, async (context) => {
      await context.fleet.untilAllRun(NEW);
      await untilNoJobsAreLeft(context);
      expect([await created(context), reboots(context)]).toEqual([12, [1, 1, 1]]);
    });
  });

  it('before the drain that fail keep each node undrained, with the reason, until a user corrects them', async () => {
    const config = {
      retry: { backoff: '10s' },
      health: { checks: [{ name: 'smoke', when: ['Before' as const], job: { cronJob: 'broken' } }] },
    };
    await withFleet({ nodes: fleetNodes(2), values, config, before }, async (context) => {
      const { fleet } = context;
      await eventually(() => {
        for (const reason of waitingFor(context)) expect(reason).toMatch(/^CheckFailed until |^WaitingForCapacity/u);
        expect(waitingFor(context).filter((reason) => reason?.startsWith('CheckFailed'))).not.toEqual([]);
      }, LIMIT);
      await seconds(10);
      expect(reboots(context)).toEqual([0, 0]);
      expect(fleet.observer.mostUnavailable).toBe(0);
      await fleet.configure({ retry: { backoff: '10s' } });
      await fleet.untilAllRun(NEW);
    });
  });

  it('after the update that fail freeze the version when more nodes have failed than the budget allows', async () => {
    const checks = [{ name: 'smoke', when: ['After' as const], job: { cronJob: 'broken' } }];
    // Each node that failed keeps its slot.
    const config = { health: { checks }, concurrency: { maxUpdating: 2 } };
    await withFleet({ nodes: fleetNodes(4), maxUnavailable: 2, values, config, before }, async (context) => {
      const { fleet } = context;
      await eventually(
        () => expect(waitingFor(context).filter((reason) => reason === 'Frozen')).toHaveLength(2),
        LIMIT,
      );
      await seconds(5);
      expect(reboots(context).toSorted((a, b) => a - b)).toEqual([0, 0, 1, 1]);
      const failed = [...fleet.nodes.keys()].filter((name) => fleet.node(name).host.version === NEW);
      const failures = failed.map((name) => readRecord(fleet.shadow(name)?.metadata ?? {}).failed);
      expect(failures.filter((one) => one?.version === NEW && one.code === 'CheckFailed')).toHaveLength(2);
      expect([...fleet.nodes.values()].filter(({ host }) => host.version === OLD)).toHaveLength(2);
    });
  });

  it('run no Job twice when controllers are killed while it runs', async () => {
    const config = { hooks: { before: [hook('in', 'slow')], after: [hook('out', 'slow')] } };
    await withFleet({ nodes: fleetNodes(1), values, config, before }, async (context) => {
      const { cluster, fleet } = context;
      for (const jobs of [1, 2]) {
        await eventually(async () => {
          const running = (await jobsOfChecks(cluster)).filter(({ status }) => (status?.ready ?? 0) > 0);
          expect([await created(context), running.length]).toEqual([jobs, 1]);
        }, LIMIT);
        for (let kill = 0; kill < 2; kill += 1) {
          await eventually(() => expect(fleet.observer.leader()).toBeDefined(), LIMIT);
          await inject(context, { kind: 'killed', who: { program: 'controller', which: 'leader' }, forMs: 0 });
          await seconds(20);
        }
        expect(await created(context)).toBe(jobs);
        await endJobs(cluster, 'complete');
      }
      await fleet.untilAllRun(NEW);
      await untilNoJobsAreLeft(context);
      expect([await created(context), reboots(context)]).toEqual([2, [1]]);
    });
  });
});
