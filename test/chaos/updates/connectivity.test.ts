/** Most nodes lose the control plane. */
import { jest } from '@jest/globals';
import type { BrupopConfig } from '../../../packages/shared/src/api/brupop-config.ts';
import { CUT_OFF_ANNOTATION, LEASES } from '../../framework/control-plane/node-leases.ts';
import { eventually } from '../../framework/eventually.ts';
import { type Fleet, fleetNodes } from '../../framework/fleet/fleet.ts';
import { type FleetContext, NEW, OLD, withFleet } from '../../framework/fleet/with-fleet.ts';

jest.setTimeout(360_000);

async function cutOff({ cluster, fleet }: FleetContext, nodes: readonly string[], isCutOff: boolean): Promise<void> {
  // kube-controller-manager marks the pods of silent nodes as not Ready, as often as their kubelets say otherwise.
  if (isCutOff) fleet.observer.hostsFail = true;
  const metadata = { annotations: { [CUT_OFF_ANNOTATION]: isCutOff ? 'true' : null } };
  for (const node of nodes) await cluster.api.patch(`/api/v1/nodes/${node}`, { metadata });
}

async function connected({ cluster }: FleetContext): Promise<string | undefined> {
  const path = '/apis/brupop.bottlerocket.aws/v1alpha1/brupopconfigs/cluster';
  const { status } = await cluster.api.get<BrupopConfig>(path);
  return status?.conditions?.find(({ type }) => type === 'Connected')?.message;
}

const waitingFor = (fleet: Fleet): (string | undefined)[] =>
  [...fleet.nodes.keys()].map((name) => fleet.shadow(name)?.status?.waitingFor);

it('while most Leases are expired no node starts, and updates continue by themselves when they are renewed', async () => {
  const names = fleetNodes(4).map(({ name }) => name);
  await withFleet({ nodes: fleetNodes(4), config: { paused: true }, maxUnavailable: 4 }, async (context) => {
    const { fleet } = context;
    await eventually(async () => {
      for (const name of names) await context.cluster.api.get(`${LEASES}/${name}`);
    });
    await cutOff(context, names.slice(1), true);
    const lost = /3 of 4 nodes that are not updating have not renewed their Leases \(node-\d since 20/u;
    await eventually(async () => expect(await connected(context)).toMatch(lost), { limitMs: 120_000 });

    await fleet.configure({});
    await eventually(() => expect(waitingFor(fleet)).toEqual(names.map(() => 'ConnectivityLost')), { limitMs: 60_000 });
    for (const name of names) fleet.assertRuns(name, OLD);

    await cutOff(context, names.slice(1), false);
    await fleet.untilAllRun(NEW);
    expect(await connected(context)).toBe('Most nodes renew their Leases');
    expect([...fleet.nodes.values()].map(({ host }) => host.reboots)).toEqual([1, 1, 1, 1]);
  });
});

it('in a running rollout nothing starts once 7 of 10 Leases have expired', async () => {
  const nodes = fleetNodes(10);
  // Longer than Leases take to expire on a slow machine: a node that boots renews its own.
  const config = { monitoring: { healthyFor: '2m' } };
  await withFleet({ nodes, config, maxUnavailable: 10 }, async (context) => {
    const { fleet } = context;
    /** The nodes that have started their update. */
    const started = (): string[] =>
      [...fleet.nodes].flatMap(([name, { host }]) =>
        host.version === OLD && (fleet.shadow(name)?.spec.state ?? 'Idle') === 'Idle' ? [] : [name],
      );
    await eventually(async () => {
      for (const { name } of nodes) await context.cluster.api.get(`${LEASES}/${name}`);
    });
    await eventually(() => expect(started()).toHaveLength(1), { limitMs: 60_000 });
    const cut = nodes.map(({ name }) => name).filter((name) => !started().includes(name));
    await cutOff(context, cut.slice(0, 7), true);
    const lost = /7 of (?:9|10) nodes that are not updating have not renewed their Leases/u;
    await eventually(async () => expect(await connected(context)).toMatch(lost), { limitMs: 120_000, pauseMs: 100 });
    const before = started();
    expect(before.length).toBeLessThan(10);
    await new Promise((done) => setTimeout(done, 30_000));
    expect(started()).toEqual(before);

    await fleet.configure({});
    await cutOff(context, cut, false);
    await fleet.untilAllRun(NEW);
    expect([...fleet.nodes.values()].map(({ host }) => host.reboots)).toEqual(Array(10).fill(1));
  });
});
