import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { jest } from '@jest/globals';
import { EXCLUSION_LABEL, WAITING_TAINT } from '../../packages/shared/src/api/names.ts';
import { createBudget, createPod } from '../framework/apiserver/pods.ts';
import { eventually } from '../framework/eventually.ts';
import { createDatabase } from '../framework/fleet/databases.ts';
import { Evictions } from '../framework/fleet/evictions.ts';
import { fleetNodes } from '../framework/fleet/fleet.ts';
import { replicasOnSameNode } from '../framework/fleet/replicas.ts';
import { NEW, OLD, type FleetContext, withFleet } from '../framework/fleet/with-fleet.ts';

jest.setTimeout(360_000);

const STRICT = 'node-2';
const CORDONED = 'node-3';

/**
 * A database on node-1, a pod on node-2 whose budget allows nothing, and a user's cordon on node-3.
 */
async function arrange({ cluster, namespace }: FleetContext): Promise<void> {
  await createDatabase(cluster, namespace, 'node-1');
  await createPod(cluster, { namespace, node: STRICT, name: 'strict', labels: { app: 'strict' } });
  await createBudget(cluster, namespace, 'strict-budget', { app: 'strict' });
  await cluster.api.patch(`/api/v1/nodes/${CORDONED}`, { spec: { unschedulable: true } });
}

const reasonOf = ({ fleet }: FleetContext, name: string): string | undefined =>
  fleet.shadow(name)?.status?.conditions?.[0]?.reason;

describe('a rollout over nodes of which some cannot be drained', () => {
  it('skips those that cannot be drained, shows why, and keeps a StatefulSet from losing two pods at once', async () => {
    const config = { drain: { taintWaitingNodes: true }, loadBalancer: { exclusion: '1s' } };
    // The arrangement cordons three nodes; later the one that a user has cordoned counts as
    // unavailable.
    await withFleet({ nodes: fleetNodes(4), maxUnavailable: 3, config, before: arrange }, async (context) => {
      const { fleet, cluster, namespace } = context;
      fleet.maxUnavailable = 2;
      const excluded = new Set<string>();
      fleet.observer.nodes.subscribe(({ object: { metadata } }) => {
        if (metadata.labels?.[EXCLUSION_LABEL] !== undefined) excluded.add(metadata.name);
      });
      const tainted = (): string[] =>
        fleet.observer.nodes
          .list()
          .filter(({ spec }) => spec?.taints?.some(({ key }) => key === WAITING_TAINT) === true)
          .map(({ metadata }) => metadata.name)
          .toSorted();
      await eventually(() => ['node-1', 'node-4'].forEach((name) => fleet.assertRuns(name, NEW)), { limitMs: 90_000 });
      expect(fleet.observer.leastReady.get(`${namespace}/db`)).toBe(2);
      expect([STRICT, CORDONED].map((name) => fleet.node(name).host.version)).toEqual([OLD, OLD]);
      await eventually(() => {
        expect([reasonOf(context, STRICT), reasonOf(context, CORDONED)]).toEqual([
          'DrainBlocked',
          'CordonedExternally',
        ]);
        expect(tainted()).toEqual([STRICT, CORDONED]);
      });
      expect(fleet.observer.nodes.get(STRICT)?.spec?.unschedulable).toBeUndefined();
      expect(fleet.observer.nodes.get(CORDONED)?.spec?.unschedulable).toBe(true);
      const described = promisify(execFile)('kubectl', ['describe', 'brs', '-A'], { env: cluster.env });
      expect((await described).stdout).toMatch(
        /cannot be drained: \S*strict is protected by its disruption budget strict-budget, which allows/u,
      );

      await cluster.api.delete(`/apis/policy/v1/namespaces/${namespace}/poddisruptionbudgets/strict-budget`);
      await eventually(() => fleet.assertRuns(STRICT, NEW), { limitMs: 60_000 });
      await cluster.api.patch(`/api/v1/nodes/${CORDONED}`, { spec: { unschedulable: null } });
      await fleet.untilAllRun(NEW);
      await eventually(() => expect(tainted()).toEqual([]));
      expect([...excluded].toSorted()).toEqual(['node-1', 'node-2', 'node-3', 'node-4']);
    });
  });
});

const HURRIED = { 'agent.updateCheckIntervalSeconds': 1 };

describe('a node that the draining replica runs on', () => {
  it('is updated by a replica that evicts itself, and no drain fails', async () => {
    const evictions = new Evictions();
    const before = async ({ fleet }: FleetContext): Promise<void> => evictions.follow(fleet);
    await withFleet({ nodes: fleetNodes(3), values: HURRIED, before }, async ({ fleet }) => {
      await fleet.untilAllRun(NEW);
      fleet.proxy.choose = replicasOnSameNode(fleet);
      for (let rollout = 0; rollout < 2; rollout += 1) await fleet.untilAllRun(fleet.publishNext());
      expect((await evictions.ofSelf(fleet)).length).toBeGreaterThan(0);
      expect([...fleet.nodes.values()].map(({ host }) => host.reboots)).toEqual([3, 3, 3]);
      expect([...fleet.nodes.keys()].map((name) => fleet.shadow(name)?.status?.crash_count)).toEqual([0, 0, 0]);
    });
  });

  it('is updated also if no other node has a replica', async () => {
    const config = { drain: { startupTaint: true } };
    const evictions = new Evictions();
    const before = async ({ fleet }: FleetContext): Promise<void> => evictions.follow(fleet);
    await withFleet({ nodes: fleetNodes(1), values: HURRIED, config, before }, async ({ fleet }) => {
      await fleet.untilAllRun(NEW);
      expect(await evictions.ofSelf(fleet)).toEqual([]);
      expect(fleet.node('node-1').host.reboots).toBe(1);
    });
  });
});
