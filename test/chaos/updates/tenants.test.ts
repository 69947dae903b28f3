/** What a tenant can do to a rollout with pods that crash in all its namespaces, on whole fleets with the defaults. */
import { jest } from '@jest/globals';
import { createNamespace } from '../../framework/control-plane/namespaces.ts';
import { eventually } from '../../framework/eventually.ts';
import { breakApp, createApp, heldVersions, rebooted, untilTrue } from '../../framework/fleet/breaking-app.ts';
import { fleetNodes } from '../../framework/fleet/fleet.ts';
import { configStatus } from '../../framework/fleet/reports.ts';
import { type FleetContext, NEW, withFleet } from '../../framework/fleet/with-fleet.ts';

const HOUR = 3_600_000;
/** The first test waits as long as a tenant can make a node wait. */
jest.setTimeout(HOUR);

const NAMESPACES = 3;
const PODS = 50;

/** A fleet whose tenant has as many pods in each of its namespaces, which crash where `isBroken`. Updates are paused. */
async function withTenant(
  isBroken: (context: FleetContext, node: string) => boolean,
  body: (context: FleetContext, namespaces: readonly string[]) => Promise<void>,
): Promise<void> {
  await withFleet({ nodes: fleetNodes(6), config: { paused: true } }, async (context) => {
    const namespaces: string[] = [];
    const stops: (() => Promise<void>)[] = [];
    try {
      for (let i = 0; i < NAMESPACES; i += 1) {
        const namespace = await createNamespace(context.cluster, 'tenant');
        namespaces.push(namespace);
        await createApp(context, namespace, PODS);
        stops.push(breakApp(context, namespace, 'crashes', (node) => isBroken(context, node)));
      }
      await body(context, namespaces);
    } finally {
      for (const stop of stops) await stop();
    }
  });
}

it('pods that crash everywhere delay the rollout by less than an hour, and neither hold nor freeze the version', async () => {
  await withTenant(
    () => true,
    async (context) => {
      const { fleet } = context;
      const startedAt = Date.now();
      await fleet.configure({});
      await eventually(
        () => {
          for (const name of fleet.nodes.keys()) expect(fleet.shadow(name)?.status?.waitingFor).toBe('NodeUnhealthy');
        },
        { limitMs: 120_000 },
      );
      expect(rebooted(context)).toEqual([]);
      await fleet.untilAllRun(NEW, HOUR - 120_000);
      expect(Date.now() - startedAt).toBeLessThan(HOUR);
      expect(await heldVersions(context)).toEqual([]);
      expect((await configStatus(context)).frozenVersions ?? []).toEqual([]);
    },
  );
});

it('pods that crash on the new version only hold it after three nodes at most, and one resume is enough for all of them', async () => {
  await withTenant(
    ({ fleet }, node) => fleet.node(node).host.version === NEW,
    async (context, namespaces) => {
      const { fleet } = context;
      await fleet.configure({});
      const { message } = await untilTrue(context, 'Held');
      expect(namespaces.some((namespace) => message.includes(`ReplicaSet ${namespace}/app-`))).toBe(true);
      expect(rebooted(context).length).toBeLessThanOrEqual(3);
      await fleet.configure({ rollout: { resume: new Date().toISOString().replace(/\.\d+/u, '') } });
      await fleet.untilAllRun(NEW, 600_000);
      expect((await configStatus(context)).frozenVersions ?? []).toEqual([]);
    },
  );
});
