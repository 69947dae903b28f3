/** An application that breaks on a new version, with the defaults; test/chaos/updates/applications.test.ts has other ways. */
import { jest } from '@jest/globals';
import { createNamespace } from '../framework/control-plane/namespaces.ts';
import { breakApp, createApp, rebooted, untilTrue } from '../framework/fleet/breaking-app.ts';
import { fleetNodes } from '../framework/fleet/fleet.ts';
import { NEW, withFleet } from '../framework/fleet/with-fleet.ts';

jest.setTimeout(600_000);

it('an application that crashes on the new version only holds it after three nodes at most, until a user resumes it', async () => {
  await withFleet({ nodes: fleetNodes(6) }, async (context) => {
    const { fleet, cluster } = context;
    const namespace = await createNamespace(cluster, 'tenant');
    await createApp(context, namespace, 6);
    const stop = breakApp(context, namespace, 'crashes', (node) => fleet.node(node).host.version === NEW);
    try {
      expect((await untilTrue(context, 'Held')).message).toContain(`ReplicaSet ${namespace}/app-`);
      await new Promise((done) => setTimeout(done, 10_000));
      expect(rebooted(context).length).toBeLessThanOrEqual(3);
      await fleet.configure({ rollout: { resume: new Date().toISOString().replace(/\.\d+/u, '') } });
      await fleet.untilAllRun(NEW);
    } finally {
      await stop();
    }
  });
});
