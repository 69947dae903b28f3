/** What happens to hosts whose record of settings is lost, on a whole fleet: a shadow is deleted, a Node is registered again. */
import { jest } from '@jest/globals';
import type { CoreV1EventList } from '@kubernetes/client-node';
import type { SettingsStatus } from '../../../packages/shared/src/api/shadow.ts';
import { eventually } from '../../framework/eventually.ts';
import { type Fleet, fleetNodes } from '../../framework/fleet/fleet.ts';
import { applyGroup, groupStatus, setPool } from '../../framework/fleet/pools.ts';
import { type FleetContext, NEW, OLD, withFleet } from '../../framework/fleet/with-fleet.ts';

jest.setTimeout(900_000);

const NAMESPACE = 'brupop-bottlerocket-aws';
const LOCK = 'settings.updates.version-lock';
const MOTD = 'settings.motd';
const LONG = { limitMs: 240_000 };

const settingsOf = (fleet: Fleet, node: string): SettingsStatus | undefined => fleet.shadow(node)?.status?.settings;
const locks = (fleet: Fleet): unknown[] => [...fleet.nodes.values()].map(({ host }) => host.settings.live.get(LOCK));
const progressing = (fleet: Fleet, node: string): readonly (string | undefined)[] => {
  const found = fleet.shadow(node)?.status?.conditions?.find(({ type }) => type === 'Progressing');
  return [found?.reason, found?.message];
};

async function eventsOf({ cluster }: FleetContext, node: string): Promise<string[]> {
  const path = `/api/v1/namespaces/${NAMESPACE}/events?fieldSelector=involvedObject.name=brs-${node}`;
  const { items } = await cluster.api.get<CoreV1EventList>(path);
  return items.map(({ reason, message }) => `${reason}: ${message}`);
}

it('hosts follow the fleet after a pin, although meanwhile one shadow is deleted and one Node is registered again', async () => {
  const options = { nodes: fleetNodes(3), config: { versions: { pin: OLD } } };
  await withFleet(options, async (context) => {
    const { cluster, fleet } = context;
    const pinned = [expect.objectContaining({ key: LOCK, value: JSON.stringify(OLD), before: '"latest"' })];
    const isPinned = (name: string): void => expect(settingsOf(fleet, name)?.records).toEqual(pinned);
    await eventually(() => {
      [...fleet.nodes.keys()].forEach(isPinned);
      expect(locks(fleet)).toEqual([OLD, OLD, OLD]);
    }, LONG);

    const uid = fleet.shadow('node-1')?.metadata.uid;
    await cluster.api.delete(fleet.shadowPath('node-1'));
    await eventually(() => {
      expect(fleet.shadow('node-1')?.metadata.uid).not.toBe(uid);
      isPinned('node-1');
    }, LONG);

    await fleet.node('node-2').registerAnew();
    await eventually(async () => {
      expect((await eventsOf(context, 'node-2')).join('\n')).toMatch(
        /AgentTokenOutdated: The token of pod brupop-agent-\S+ is for an earlier Node node-2.*kubectl delete pod/u,
      );
      expect(progressing(fleet, 'node-2')[0]).toBe('AgentNotConnected');
    }, LONG);
    const message = (await eventsOf(context, 'node-2')).join('\n');
    const [, pod] = /token of pod (brupop-agent-\S+) is/u.exec(message) ?? [];
    await cluster.api.delete(`/api/v1/namespaces/${NAMESPACE}/pods/${pod}`);
    await eventually(() => isPinned('node-2'), LONG);

    await fleet.configure({});
    await fleet.untilAllRun(NEW);
    await eventually(() => {
      expect(locks(fleet)).toEqual(['latest', 'latest', 'latest']);
      for (const name of fleet.nodes.keys()) expect(settingsOf(fleet, name)).toBeUndefined();
    }, LONG);
  });
});

it('a lock and values that no record explains are shown, and the lock ends with a pin', async () => {
  const before = async (context: FleetContext): Promise<void> => {
    context.fleet.node('node-1').host.setVersionLock(OLD);
    await setPool(context, 'node-2', 'web');
  };
  const values = { 'hostSettings.allowed': '{motd}' };
  await withFleet({ nodes: fleetNodes(2), values, before }, async (context) => {
    const { cluster, fleet } = context;
    await eventually(() => expect(progressing(fleet, 'node-1')[0]).toBe('HostLocked'), LONG);
    expect(progressing(fleet, 'node-1')[1]).toContain(`version-lock of its host is ${OLD}`);
    await eventually(async () =>
      expect((await eventsOf(context, 'node-1')).join('\n')).toMatch(/^Waiting: .*HostLocked: /mu),
    );
    await eventually(() => fleet.assertRuns('node-2', NEW), LONG);

    await fleet.configure({ versions: { pin: NEW } });
    await fleet.untilAllRun(NEW);
    await fleet.configure({});
    await eventually(() => {
      expect(locks(fleet)).toEqual(['latest', 'latest']);
      expect(progressing(fleet, 'node-1')[0]).toBe('UpToDate');
    }, LONG);

    await applyGroup(context, 'web', { settings: { motd: 'hello' } });
    const applied = async (): Promise<string | undefined> =>
      (await groupStatus(context, 'web')).conditions?.find(({ type }) => type === 'SettingsApplied')?.reason;
    await eventually(async () => expect(await applied()).toBe('SettingsInForce'), LONG);
    await cluster.api.delete(fleet.shadowPath('node-2'));
    const record = { key: MOTD, value: '"hello"', owner: 'BottlerocketNodeGroup/web' };
    await eventually(() => expect(settingsOf(fleet, 'node-2')?.records).toEqual([record]), LONG);
    await eventually(async () => expect(await applied()).toBe('SettingsInForce'), LONG);
    await applyGroup(context, 'web', {});
    await eventually(async () => {
      expect(settingsOf(fleet, 'node-2')?.cannotUnset).toEqual([MOTD]);
      expect(progressing(fleet, 'node-2')).toEqual(['UpToDate', expect.stringContaining(MOTD)]);
      expect(await applied()).toBe('CannotUnset');
      expect((await eventsOf(context, 'node-2')).join('\n')).toContain('SettingsKept: ');
    }, LONG);
  });
});
