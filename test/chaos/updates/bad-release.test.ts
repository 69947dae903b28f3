/** Releases that boot, but on which nodes or pods do not work, on whole fleets. */
import { jest } from '@jest/globals';
import type { V1Pod, V1PodList } from '@kubernetes/client-node';
import type { BrupopConfigSpec } from '../../../packages/shared/src/api/config-spec.ts';
import { setNodeBooted } from '../../framework/control-plane/nodes.ts';
import { eventually } from '../../framework/eventually.ts';
import { type Fleet, fleetNodes } from '../../framework/fleet/fleet.ts';
import { configStatus } from '../../framework/fleet/reports.ts';
import { type FleetContext, NEW, OLD, withFleet } from '../../framework/fleet/with-fleet.ts';

jest.setTimeout(900_000);

const rebooted = ({ nodes }: Fleet): string[] =>
  [...nodes].filter(([, { host }]) => host.reboots > 0).map(([name]) => name);
const waitingFor = ({ fleet }: FleetContext): (string | undefined)[] =>
  [...fleet.nodes.keys()].map((name) => fleet.shadow(name)?.status?.waitingFor);
const countOf = (reason: string, reasons: readonly (string | undefined)[]): number =>
  reasons.filter((one) => one === reason).length;

describe('a release with which no kubelet becomes ready', () => {
  const failKubelets = async ({ fleet }: FleetContext): Promise<void> => {
    for (const node of fleet.nodes.values()) node.neverReadyOn = NEW;
    await Promise.resolve();
  };
  const repair = async ({ fleet, cluster }: FleetContext): Promise<void> => {
    for (const node of fleet.nodes.values()) node.neverReadyOn = undefined;
    for (const name of rebooted(fleet)) await setNodeBooted(cluster, name, fleet.node(name).host.bootID);
  };

  it('reaches one node by default, which keeps its slot until it is Ready', async () => {
    const config = { monitoring: { healthyFor: '5s', timeout: '1m' } };
    await withFleet({ nodes: fleetNodes(5), config, before: failKubelets }, async (context) => {
      const { fleet } = context;
      await eventually(
        async () => expect((await configStatus(context)).failedNodes).toMatchObject([{ code: 'NotHealthy' }]),
        { limitMs: 240_000 },
      );
      const [failed = ''] = rebooted(fleet);
      const progressing = fleet.shadow(failed)?.status?.conditions?.find(({ type }) => type === 'Progressing');
      expect(progressing?.message).toContain('the Node is not Ready');
      await new Promise((done) => setTimeout(done, 20_000));
      expect(rebooted(fleet)).toEqual([failed]);

      await repair(context);
      await fleet.untilAllRun(NEW);
    });
  });

  it('reaches no more nodes than the budget and the slots together, and is frozen', async () => {
    const config = { concurrency: { maxUpdating: 3 }, monitoring: { healthyFor: '5s', timeout: '1m' } };
    const fleetOptions = { nodes: fleetNodes(10), config, maxUnavailable: 3, before: failKubelets };
    await withFleet(fleetOptions, async (context) => {
      const { fleet } = context;
      await eventually(
        async () => expect((await configStatus(context)).nodes).toMatchObject({ updating: 0, failed: 3 }),
        {
          limitMs: 240_000,
        },
      );
      expect((await configStatus(context)).frozenVersions).toMatchObject([{ version: NEW }]);
      // Conditions of nodes are written after the status of the configuration.
      await eventually(() => expect(countOf('Frozen', waitingFor(context))).toBe(7));
      expect(rebooted(fleet)).toHaveLength(3);

      await repair(context);
      await fleet.configure({ ...config, rollout: { resume: new Date().toISOString() } });
      await fleet.untilAllRun(NEW);
    });
  });
});

describe('a release with which the pods of an app crash again and again', () => {
  const APP = 'app';
  const config: BrupopConfigSpec = {
    concurrency: { maxUpdating: 3 },
    health: { pods: 'Required' },
    monitoring: { healthyFor: '15s', timeout: '1m' },
    rollout: { rollback: 'Automatic' },
  };

  /** One Deployment for each node, whose pod runs nowhere else. */
  async function createApps({ fleet, cluster: { api }, namespace }: FleetContext): Promise<void> {
    for (const name of fleet.nodes.keys()) {
      const labels = { app: APP, node: name };
      const nodeSelector = { 'kubernetes.io/hostname': name };
      const template = { metadata: { labels }, spec: { nodeSelector, containers: [{ name: 'main', image: 'app' }] } };
      const spec = { replicas: 1, selector: { matchLabels: labels }, template };
      await api.create(`/apis/apps/v1/namespaces/${namespace}/deployments`, {
        metadata: { name: `app-${name}` },
        spec,
      });
    }
  }

  const isCrashing = ({ status }: V1Pod): boolean => status?.containerStatuses?.[0]?.state?.waiting !== undefined;

  const CRASHING = {
    conditions: [{ type: 'Ready', status: 'False', reason: 'ContainersNotReady' }],
    containerStatuses: [
      { name: 'main', ready: false, state: { waiting: { reason: 'CrashLoopBackOff' }, running: null } },
    ],
  };

  /** As kubelets report pods of the app where the host runs NEW; a drain replaces the pod. */
  async function crashOnNew({ fleet, cluster: { api }, namespace }: FleetContext): Promise<void> {
    const path = `/api/v1/namespaces/${namespace}/pods`;
    const { items } = await api.get<V1PodList>(`${path}?labelSelector=app%3D${APP}`);
    const crashes = (pod: V1Pod): boolean =>
      fleet.nodes.get(pod.spec?.nodeName ?? '')?.host.version === NEW &&
      pod.status?.phase === 'Running' &&
      !isCrashing(pod);
    for (const { metadata } of items.filter(crashes)) {
      const body = { status: CRASHING };
      const patch = api.request(
        'PATCH',
        `${path}/${metadata?.name}/status`,
        body,
        'application/strategic-merge-patch+json',
      );
      await patch.catch(() => undefined); // evicted meanwhile
    }
  }

  it('is frozen, and the nodes that run it return to their previous version', async () => {
    await withFleet({ nodes: fleetNodes(10), config, maxUnavailable: 3, before: createApps }, async (context) => {
      const { fleet } = context;
      const settled = async (reverted: number): Promise<void> => {
        await crashOnNew(context);
        const { nodes } = await configStatus(context);
        expect(nodes?.updating).toBe(0);
        expect(countOf('Reverted', waitingFor(context))).toBe(reverted);
        expect(countOf('Frozen', waitingFor(context))).toBe(10 - reverted);
      };
      await eventually(async () => await settled(3), { limitMs: 480_000, pauseMs: 200 });
      for (const name of fleet.nodes.keys()) fleet.assertRuns(name, OLD);
      const { failedNodes, frozenVersions } = await configStatus(context);
      expect(failedNodes?.map(({ code }) => code)).toEqual(['NotHealthy', 'NotHealthy', 'NotHealthy']);
      expect(frozenVersions).toMatchObject([{ version: NEW }]);

      await fleet.untilAllRun(fleet.publishNext());
    });
  });
});
