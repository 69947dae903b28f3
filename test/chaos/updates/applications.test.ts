/** What applications that break do to a rollout, on whole fleets. */
import { jest } from '@jest/globals';
import { createNamespace } from '../../framework/control-plane/namespaces.ts';
import { again } from '../../framework/again.ts';
import {
  breakApp,
  createApp,
  DEVICE,
  heldVersions,
  rebooted,
  setDevices,
  untilTrue,
} from '../../framework/fleet/breaking-app.ts';
import { fleetNodes } from '../../framework/fleet/fleet.ts';
import { type FleetContext, NEW, withFleet } from '../../framework/fleet/with-fleet.ts';

jest.setTimeout(600_000);

/** A fleet whose tenant has an application on each node. Updates are paused. */
async function withApp(body: (context: FleetContext, tenant: string) => Promise<void>): Promise<void> {
  await withFleet({ nodes: fleetNodes(6), config: { paused: true } }, async (context) => {
    const tenant = await createNamespace(context.cluster, 'tenant');
    await createApp(context, tenant, 6);
    await body(context, tenant);
  });
}

/** No further node starts, until the pods of applications are ignored. */
async function expectHeldUntilIgnored(context: FleetContext): Promise<void> {
  await new Promise((done) => setTimeout(done, 10_000));
  expect(rebooted(context).length).toBeLessThanOrEqual(3);
  await context.fleet.configure({ health: { pods: 'Ignored' } });
  await context.fleet.untilAllRun(NEW);
}

it('an application that never becomes Ready on the new version holds it after three nodes at most, until its pods are ignored', async () => {
  await withApp(async (context, tenant) => {
    const { fleet } = context;
    const stop = breakApp(context, tenant, 'never becomes Ready', (node) => fleet.node(node).host.version === NEW);
    try {
      await fleet.configure({ monitoring: { timeout: '10m' } });
      expect((await untilTrue(context, 'Held')).message).toContain(`ReplicaSet ${tenant}/app-`);
      await expectHeldUntilIgnored(context);
    } finally {
      await stop();
    }
  });
});

it('an application that flaps on the new version holds it, until a user resumes it', async () => {
  await withApp(async (context, tenant) => {
    const { fleet } = context;
    const stop = breakApp(context, tenant, 'flaps', (node) => fleet.node(node).host.version === NEW);
    try {
      await fleet.configure({});
      expect((await untilTrue(context, 'Held')).message).toContain(`ReplicaSet ${tenant}/app-`);
      expect(rebooted(context).length).toBeLessThanOrEqual(3);
      const resume = new Date().toISOString().replace(/\.\d+/u, '');
      await fleet.configure({ rollout: { resume } });
      await fleet.untilAllRun(NEW);
    } finally {
      await stop();
    }
  });
});

it('an application whose device updated nodes have lost does not return, and holds the version', async () => {
  await withFleet({ nodes: fleetNodes(6), config: { paused: true } }, async (context) => {
    const { fleet, cluster } = context;
    const isLost = (node: string): boolean => fleet.node(node).host.version === NEW;
    await setDevices(context, () => false);
    const tenant = await createNamespace(cluster, 'tenant');
    await createApp(context, tenant, 6, { limits: { [DEVICE]: '1' } });
    const stop = again(() => setDevices(context, isLost), 250);
    try {
      await fleet.configure({});
      const { message } = await untilTrue(context, 'Held');
      for (const part of [`ReplicaSet ${tenant}/app-`, `no longer finds ${DEVICE} on `])
        expect(message).toContain(part);
      await expectHeldUntilIgnored(context);
    } finally {
      await stop();
    }
  });
});

it('a workload of a trusted namespace that crashes on the new version freezes it, as far as the budget of failures says', async () => {
  await withApp(async (context, tenant) => {
    const { fleet } = context;
    const stop = breakApp(context, tenant, 'crashes', (node) => fleet.node(node).host.version === NEW);
    try {
      await fleet.configure({ health: { trustedNamespaces: [tenant] }, rollout: { failureBudget: 0 } });
      expect((await untilTrue(context, 'Frozen')).message).toContain(NEW);
      expect(rebooted(context).length).toBeLessThanOrEqual(3);
      const resume = new Date().toISOString().replace(/\.\d+/u, '');
      await fleet.configure({ health: { pods: 'Ignored' }, rollout: { resume } });
      await fleet.untilAllRun(NEW);
    } finally {
      await stop();
    }
  });
});

it.each<[string, (context: FleetContext) => boolean]>([
  ['was broken before', () => true],
  ['breaks on all nodes after the first update', (context) => rebooted(context).length > 0],
])('an application that %s holds no version', async (_, isBroken) => {
  await withApp(async (context, tenant) => {
    const { fleet } = context;
    const stop = breakApp(context, tenant, 'crashes', () => isBroken(context));
    try {
      await fleet.configure({ health: { podsBefore: 'Ignored' } });
      await fleet.untilAllRun(NEW, 300_000);
      expect(await heldVersions(context)).toEqual([]);
    } finally {
      await stop();
    }
  });
});
