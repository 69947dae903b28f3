/** A host does not return from the reboot of its update for longer than `spec.lostNode.after`. */
import { jest } from '@jest/globals';
import type { V1Node } from '@kubernetes/client-node';
import { OUT_OF_SERVICE_ANNOTATION, OUT_OF_SERVICE_TAINT } from '../../../packages/shared/src/api/names.ts';
import { CUT_OFF_ANNOTATION } from '../../framework/control-plane/node-leases.ts';
import { eventually } from '../../framework/eventually.ts';
import { fleetNodes } from '../../framework/fleet/fleet.ts';
import { untilSomeNodeIsAt } from '../../framework/fleet/steps.ts';
import { type FleetContext, NEW, withFleet } from '../../framework/fleet/with-fleet.ts';

jest.setTimeout(900_000);

const neverReturn = async ({ fleet }: FleetContext): Promise<void> => {
  for (const { host } of fleet.nodes.values()) await host.faults.set({ reboot: { neverReturns: true, times: 1 } });
};

it('a node whose host does not return is tainted as out of service, and is not when it returns', async () => {
  // The shortest time that the API server accepts.
  const config = { lostNode: { action: 'OutOfServiceTaint', after: '5m' } } as const;
  await withFleet({ nodes: fleetNodes(3), config, before: neverReturn }, async ({ fleet, cluster }) => {
    const lost = await untilSomeNodeIsAt(fleet, 'Reboot');
    await eventually(() => expect(fleet.node(lost).host.up).toBe(false));
    const cutOff = async (value: string | null): Promise<void> => {
      await cluster.api.patch(`/api/v1/nodes/${lost}`, { metadata: { annotations: { [CUT_OFF_ANNOTATION]: value } } });
    };
    const tainted = async (): Promise<string[]> => {
      const { items } = await cluster.api.get<{ items: V1Node[] }>('/api/v1/nodes');
      const isTainted = ({ metadata, spec }: V1Node): boolean =>
        metadata?.annotations?.[OUT_OF_SERVICE_ANNOTATION] !== undefined ||
        spec?.taints?.some(({ key }) => key === OUT_OF_SERVICE_TAINT) === true;
      return items.filter(isTainted).map(({ metadata }) => metadata?.name ?? '');
    };
    await cutOff('true');
    await eventually(async () => expect(await tainted()).toEqual([lost]), { limitMs: 480_000 });
    await eventually(() =>
      expect(fleet.shadow(lost)?.status?.conditions?.[0]?.message).toMatch(/^The node is lost: /u),
    );

    const others = [...fleet.nodes.keys()].filter((name) => name !== lost);
    for (const name of others) await fleet.node(name).host.faults.set({ reboot: undefined });
    await cutOff(null);
    await fleet.node(lost).host.powerOn();
    await eventually(async () => expect(await tainted()).toEqual([]), { limitMs: 60_000 });
    await fleet.untilAllRun(NEW);
  });
});
