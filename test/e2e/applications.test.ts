/** Applications that break on a new version, with the defaults. */
import { jest } from '@jest/globals';
import { createNamespace } from '../framework/control-plane/namespaces.ts';
import { eventually } from '../framework/eventually.ts';
import { breakApp, type Breakage, createApp } from '../framework/fleet/breaking-app.ts';
import { fleetNodes } from '../framework/fleet/fleet.ts';
import { type FleetContext, NEW, withFleet } from '../framework/fleet/with-fleet.ts';

jest.setTimeout(600_000);

interface Condition {
  readonly type: string;
  readonly status: string;
  readonly reason: string;
  readonly message: string;
}

const rebooted = ({ fleet }: FleetContext): string[] =>
  [...fleet.nodes].flatMap(([name, { host }]) => (host.reboots > 0 ? [name] : []));

async function heldOf({ cluster: { api } }: FleetContext): Promise<Condition | undefined> {
  const { status } = await api.get<{ status?: { conditions?: readonly Condition[] } }>(
    '/apis/brupop.bottlerocket.aws/v1alpha1/brupopconfigs/cluster',
  );
  return status?.conditions?.find(({ type }) => type === 'Held');
}

it.each<readonly [Breakage, { readonly config: object; readonly resumed: () => object }]>([
  ['crashes', { config: {}, resumed: () => ({ rollout: { resume: new Date().toISOString().replace(/\.\d+/u, '') } }) }],
  ['never becomes Ready', { config: { monitoring: {} }, resumed: () => ({ health: { pods: 'Ignored' } }) }],
])(
  'an application that %s on the new version only holds the rollout after three nodes at most, until a user resumes it',
  async (how, { config, resumed }) => {
    await withFleet({ nodes: fleetNodes(6), config }, async (context) => {
      const { fleet, cluster } = context;
      const namespace = await createNamespace(cluster, 'tenant');
      await createApp(context, namespace, 6);
      const stop = breakApp(context, namespace, how, (node) => fleet.node(node).host.version === NEW);
      try {
        await eventually(async () => expect(await heldOf(context)).toMatchObject({ status: 'True' }), {
          limitMs: 400_000,
        });
        const held = await heldOf(context);
        expect(held?.message).toContain(`ReplicaSet ${namespace}/app-`);
        await new Promise((done) => setTimeout(done, 10_000));
        expect(rebooted(context).length).toBeLessThanOrEqual(3);
        await fleet.configure(resumed());
        await fleet.untilAllRun(NEW);
      } finally {
        await stop();
      }
    });
  },
);
