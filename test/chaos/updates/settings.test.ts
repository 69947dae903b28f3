/** Settings of a group, on a whole fleet: hosts change them in place, and no node is disrupted. */
import { jest } from '@jest/globals';
import type { V1Node } from '@kubernetes/client-node';
import type { SettingsStatus } from '../../../packages/shared/src/api/shadow.ts';
import { eventually } from '../../framework/eventually.ts';
import { Evictions } from '../../framework/fleet/evictions.ts';
import { type Fleet, fleetNodes } from '../../framework/fleet/fleet.ts';
import { applyGroup, groupStatus, setPool } from '../../framework/fleet/pools.ts';
import { type FleetContext, OLD, withFleet } from '../../framework/fleet/with-fleet.ts';

jest.setTimeout(600_000);

const NAMES = ['node-1', 'node-2', 'node-3'];
const MOTD = 'settings.motd';
const PODS = 'settings.kubernetes.max-pods';
/** Of the chart. */
const VALUES = { 'hostSettings.allowed': '{motd,kubernetes,unknown}' };
const WELCOME = 'Welcome to Bottlerocket!';

async function createPool(context: FleetContext): Promise<void> {
  evictions.follow(context.fleet);
  for (const name of NAMES) await setPool(context, name, 'web');
}

let evictions = new Evictions();
beforeEach(() => (evictions = new Evictions()));

const valueOf = (fleet: Fleet, node: string, key: string): unknown => fleet.node(node).host.settings.live.get(key);
const values = (fleet: Fleet, key: string): unknown[] => NAMES.map((name) => valueOf(fleet, name, key));
const statusOf = (fleet: Fleet, node: string): SettingsStatus | undefined => fleet.shadow(node)?.status?.settings;

async function applied(context: FleetContext): Promise<[string | undefined, string | undefined]> {
  const { conditions = [] } = await groupStatus(context, 'web');
  const condition = conditions.find(({ type }) => type === 'SettingsApplied');
  return [condition?.reason, condition?.message];
}

const until = async (context: FleetContext, reason: string, limitMs = 240_000): Promise<void> =>
  eventually(async () => expect(await applied(context)).toEqual([reason, expect.any(String)]), { limitMs });

async function expectInPlace({ cluster, fleet }: FleetContext): Promise<void> {
  const { items } = await cluster.api.get<{ items: V1Node[] }>('/api/v1/nodes');
  expect(items.filter(({ spec }) => spec?.unschedulable === true)).toEqual([]);
  expect(fleet.observer.mostUnavailable).toBe(0);
  for (const name of NAMES) expect(fleet.node(name).host.reboots).toBe(0);
  expect(await evictions.all(fleet)).toEqual([]);
}

it('one node proves the settings of its group, the others follow, and all get back what they had', async () => {
  const options = {
    nodes: fleetNodes(3),
    values: VALUES,
    config: { versions: { pin: OLD }, concurrency: { maxUpdating: 2 } },
    before: createPool,
  };
  await withFleet(options, async (context) => {
    const { fleet } = context;
    const before = values(fleet, PODS);
    await applyGroup(context, 'web', { settings: { motd: 'hello', kubernetes: { 'max-pods': 120 } } });
    let mostFirst = 0;
    await eventually(
      () => {
        const set = values(fleet, PODS).filter((value) => value === 120).length;
        const isProved = NAMES.some((name) => statusOf(fleet, name)?.lastApplied !== undefined);
        if (!isProved) mostFirst = Math.max(mostFirst, set);
        expect(set).toBeGreaterThan(0);
      },
      { limitMs: 120_000, pauseMs: 20 },
    );
    expect(mostFirst).toBeLessThanOrEqual(1);
    await until(context, 'SettingsInForce');
    expect(values(fleet, MOTD)).toEqual(['hello', 'hello', 'hello']);
    expect(values(fleet, PODS)).toEqual([120, 120, 120]);
    for (const name of NAMES) {
      expect(statusOf(fleet, name)).not.toHaveProperty('inFlight');
      expect(fleet.node(name).host.restarts.filter(({ command }) => command.includes('kubelet'))).toHaveLength(1);
    }
    await expectInPlace(context);

    await applyGroup(context, 'web', {});
    await eventually(
      () => {
        expect(values(fleet, MOTD)).toEqual([WELCOME, WELCOME, WELCOME]);
        expect(values(fleet, PODS)).toEqual(before.map((value) => value ?? 120));
      },
      { limitMs: 240_000 },
    );
    await expectInPlace(context);
  });
});

it('a host that rejects a setting keeps all of them, and a user keeps what they set by hand', async () => {
  const options = { nodes: fleetNodes(3), values: VALUES, config: { versions: { pin: OLD } }, before: createPool };
  await withFleet(options, async (context) => {
    const { fleet } = context;
    await applyGroup(context, 'web', { settings: { motd: 'hello', unknown: { field: 1 } } });
    await until(context, 'SettingsRefused');
    expect((await applied(context))[1]).toContain('unknown field');
    expect(values(fleet, MOTD)).toEqual([WELCOME, WELCOME, WELCOME]);

    await applyGroup(context, 'web', { settings: { motd: 'hello' } });
    await until(context, 'SettingsInForce');
    fleet.node('node-2').host.settings.live.set(MOTD, 'by hand');
    await until(context, 'SettingsConflict', 420_000);
    expect(values(fleet, MOTD)).toEqual(['hello', 'by hand', 'hello']);
    await expectInPlace(context);
  });
});

it('nodes are drained and rebooted once for settings that need it, one first, and once more to restore them', async () => {
  const options = {
    nodes: fleetNodes(3),
    values: { 'hostSettings.allowed': '{kernel}' },
    config: { versions: { pin: OLD } },
    before: createPool,
  };
  await withFleet(options, async (context) => {
    const { fleet } = context;
    const key = 'settings.kernel.lockdown';
    const reboots = (): number[] => NAMES.map((name) => fleet.node(name).host.reboots);
    for (const name of NAMES) fleet.node(name).host.settings.live.set(key, 'none');
    await applyGroup(context, 'web', { settings: { kernel: { lockdown: 'integrity' } } });
    let mostFirst = 0;
    await eventually(
      () => {
        const isProved = NAMES.some((name) => statusOf(fleet, name)?.lastApplied !== undefined);
        if (!isProved) mostFirst = Math.max(mostFirst, reboots().filter((count) => count > 0).length);
        expect(reboots()).toEqual([1, 1, 1]);
      },
      { limitMs: 240_000, pauseMs: 20 },
    );
    expect(mostFirst).toBeLessThanOrEqual(1);
    await until(context, 'SettingsInForce');
    expect(values(fleet, key)).toEqual(['integrity', 'integrity', 'integrity']);
    expect(fleet.observer.mostUnavailable).toBe(1);
    for (const name of NAMES) expect(fleet.shadow(name)?.status?.current_version).toBe(OLD);

    await applyGroup(context, 'web', {});
    await eventually(() => expect(values(fleet, key)).toEqual(['none', 'none', 'none']), { limitMs: 240_000 });
    await eventually(() => expect(reboots()).toEqual([2, 2, 2]), { limitMs: 120_000 });
    await until(context, 'NoSettings');
    expect(fleet.observer.mostUnavailable).toBe(1);
  });
});
