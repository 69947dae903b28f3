/** Nodes that wait for others: for canaries, for the health of the one before, for an application that breaks. */
import { jest } from '@jest/globals';
import type { BrupopConfigSpec } from '../../packages/shared/src/api/config-spec.ts';
import { createNamespace } from '../framework/control-plane/namespaces.ts';
import { eventually } from '../framework/eventually.ts';
import { breakApp, createApp, untilTrue } from '../framework/fleet/breaking-app.ts';
import { daemonPods, setReady } from '../framework/fleet/daemon-pods.ts';
import { type Fleet, fleetNodes } from '../framework/fleet/fleet.ts';
import { configStatus, eventReasons } from '../framework/fleet/reports.ts';
import { untilSomeNodeIsToldTo } from '../framework/fleet/steps.ts';
import { type FleetContext, oneFleet } from '../framework/fleet/with-fleet.ts';

jest.setTimeout(600_000);

const onFleet = oneFleet({
  nodes: fleetNodes(5),
  config: { paused: true },
  values: { 'agent.updateCheckIntervalSeconds': 1 },
});

const CONFIG = { kind: 'BrupopConfig', name: 'cluster' } as const;

const nodesOn = (fleet: Fleet, version: string): string[] =>
  [...fleet.nodes].filter(([, { host }]) => host.version === version).map(([name]) => name);
const waitingFor = (fleet: Fleet): (string | undefined)[] =>
  [...fleet.nodes.keys()].map((name) => fleet.shadow(name)?.status?.waitingFor);

describe('canaries', () => {
  const rollout = { canary: { nodes: 1 }, soak: '10s', approval: 'Required' } as const;
  const config: BrupopConfigSpec = { concurrency: { maxUpdating: 2 }, rollout };

  it('update first, then soak, and the others start when a user has approved the version', async () => {
    await onFleet(async (context) => {
      const { fleet } = context;
      fleet.maxUnavailable = 2;
      const version = await fleet.startUpdate(config);
      await eventually(() => expect(waitingFor(fleet)).toContain('WaitingForCanary'), { limitMs: 60_000 });
      await eventually(() => expect(waitingFor(fleet).join(' ')).toMatch(/Soaking until 20/u), { limitMs: 120_000 });
      expect(nodesOn(fleet, version)).toHaveLength(1);
      await eventually(async () => expect(await eventReasons(context, CONFIG)).toContain('CanariesSucceeded'));

      await eventually(
        () => expect(waitingFor(fleet).filter((reason) => reason === 'WaitingForApproval')).toHaveLength(4),
        { limitMs: 60_000 },
      );
      await eventually(async () => {
        const { canaries, conditions, progress } = await configStatus(context);
        expect(canaries).toMatchObject([{ version }]);
        expect(progress).toEqual({
          lastProgressTime: progress?.lastProgressTime,
          countedSeconds: progress?.countedSeconds,
        });
        expect(conditions?.find(({ type }) => type === 'Progressing')).toMatchObject({ reason: 'WaitingForApproval' });
      });
      await eventually(async () => expect(await eventReasons(context, CONFIG)).toContain('WaitingForApproval'));
      expect(nodesOn(fleet, version)).toHaveLength(1);

      await fleet.configure({ ...config, rollout: { ...rollout, approvedVersion: version } });
      await fleet.untilAllRun(version);
      await eventually(async () => expect((await configStatus(context)).progress).toBeUndefined());
    });
  });
});

describe('a node that is not healthy after its update', () => {
  async function setReadyOn(context: FleetContext, node: string, ready: boolean): Promise<void> {
    const pod = (await daemonPods(context)).find(({ spec }) => spec?.nodeName === node);
    if (pod === undefined) throw new Error(`no pod of the DaemonSet is on ${node}`);
    await setReady(context, pod, ready);
  }

  it('while a pod of a DaemonSet is not Ready after the update of its node no other node starts', async () => {
    await onFleet(async (context) => {
      const { fleet, namespace } = context;
      const reboots = (): number[] => [...fleet.nodes.values()].map(({ host }) => host.reboots);
      const before = reboots();
      const health = { trustedNamespaces: [namespace] };
      const version = await fleet.startUpdate({ health, monitoring: { healthyFor: '10s' } });
      const node = await untilSomeNodeIsToldTo(fleet, 'MonitoringUpdate');
      await setReadyOn(context, node, false);
      await eventually(
        () =>
          expect(fleet.shadow(node)?.status?.conditions).toContainEqual(
            expect.objectContaining({
              type: 'Progressing',
              message: `Runs ${version}, and is not healthy yet: on it, the pods of these DaemonSets are not Ready: ${namespace}/log-shipper`,
            }),
          ),
        { limitMs: 30_000 },
      );
      await new Promise((done) => setTimeout(done, 10_000));
      expect(nodesOn(fleet, version)).toEqual([node]);

      await setReadyOn(context, node, true);
      await fleet.untilAllRun(version);
      expect(reboots()).toEqual(before.map((count) => count + 1));
    });
  });
});

/** With the defaults; test/chaos/updates/applications.test.ts has other ways to break. */
describe('an application that breaks', () => {
  it('an application that crashes on the new version only holds it after three nodes at most, until a user resumes it', async () => {
    await onFleet(async (context) => {
      const { fleet, cluster } = context;
      const namespace = await createNamespace(cluster, 'tenant');
      await createApp(context, namespace, 5);
      const version = await fleet.startUpdate({});
      const stop = breakApp(context, namespace, 'crashes', (node) => fleet.node(node).host.version === version);
      try {
        expect((await untilTrue(context, 'Held')).message).toContain(`ReplicaSet ${namespace}/app-`);
        await new Promise((done) => setTimeout(done, 10_000));
        expect(nodesOn(fleet, version).length).toBeLessThanOrEqual(3);
        await fleet.configure({ rollout: { resume: new Date().toISOString().replace(/\.\d+/u, '') } });
        await fleet.untilAllRun(version);
      } finally {
        await stop();
      }
    });
  });
});
