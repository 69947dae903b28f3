/** Which nodes prove the settings of a group for the others, and what is no failure of theirs. */
import { hashOf, type SettingClass } from '@brupop/shared/api/settings';
import type { Setting, SettingsStatus } from '@brupop/shared/api/shadow';
import type { ManagedNode } from '../cluster/snapshot.ts';
import { aGroup, ago, aManagedNode, aSnapshot, MINUTE, NOW, OLD, withGroups } from '../testing/objects.ts';
import { hashOfSettings } from './facts/settings.ts';
import { wholePlan as plan } from '../whole-plan.ts';

const KEY = 'settings.dns.name-servers';
const SETTINGS = { dns: { 'name-servers': ['10.0.0.1'] } };
const wanted: Setting[] = [{ key: KEY, value: '["10.0.0.1"]', owner: 'BottlerocketNodeGroup/gpu' }];

const member = (name: string, settings: SettingsStatus, leaves: readonly Setting[] = wanted): ManagedNode =>
  aManagedNode(
    name,
    { labels: { pool: 'gpu' } },
    {
      spec: { settings: { leaves, allow: 'None' }, state_transition_timestamp: ago(60 * MINUTE) },
      status: { target_version: OLD, settings },
    },
  );
const waiting = (
  name: string,
  found: SettingClass,
  others: SettingsStatus = {},
  leaves: readonly Setting[] = wanted,
): ManagedNode => member(name, { ...others, pending: [{ key: KEY, class: found, reason: 'because' }] }, leaves);
const changed = (nodes: readonly ManagedNode[], settings: Readonly<Record<string, unknown>> = SETTINGS): string[] => {
  const config = { concurrency: { maxUpdating: 4 } };
  const { specs } = plan(withGroups(aSnapshot(nodes, config), [aGroup('gpu', { settings })]), NOW);
  return specs.map(({ node, spec }) => `${node.metadata.name} ${spec.settings?.allow}`);
};

it.each(['Live', 'RestartsService', 'NeedsReboot'] as const)(
  'a node with the value of a user proves nothing: %s',
  (found) => {
    const others = ['b', 'c', 'd'].map((name) => waiting(name, found));
    expect(changed([member('a', { conflicts: [KEY] }), ...others])).toEqual([`b ${found}`]);
    expect(changed([member('a', {}), ...others])).toHaveLength(3);
  },
);

it.each(['Live', 'RestartsService', 'NeedsReboot'] as const)(
  'a node on which a user has set something else proves the rest: %s',
  (found) => {
    const conflicts = ['settings.motd'];
    const both: Setting[] = [...wanted, { key: 'settings.motd', value: '"a"', owner: 'BottlerocketNodeGroup/gpu' }];
    const settings = { ...SETTINGS, motd: 'a' };
    const others = ['b', 'c', 'd'].map((name) => waiting(name, found, { conflicts }, both));
    expect(changed([member('a', { conflicts }, both), ...others], settings)).toHaveLength(3);
    const user = member('a', { conflicts: [KEY] }, both);
    expect(changed([user, ...others], settings)).toHaveLength(1);
  },
);

it('a node that waits for a reboot proves nothing for hosts of another version, which need none', () => {
  const others = ['b', 'c', 'd'].map((name) => waiting(name, 'Live'));
  expect(changed([waiting('a', 'NeedsReboot'), ...others])).toEqual(['a NeedsReboot', 'b Live']);
});

describe('a message about a refresh', () => {
  const REBOOT = 'settings.kernel.lockdown';
  const group = aGroup('gpu', { settings: { ...SETTINGS, kernel: { lockdown: 'integrity' } } });
  const both: Setting[] = [...wanted, { key: REBOOT, value: '"integrity"', owner: 'BottlerocketNodeGroup/gpu' }];
  const applied = (leaves: readonly Setting[]): SettingsStatus => ({
    lastApplied: { hash: hashOf(leaves.map(({ key, value }) => [key, value])), time: ago(2 * MINUTE) },
  });
  const outcomesOf = (settings: SettingsStatus): string[] => {
    const message = 'ignore-waves true: not in force: refresh: no route to host';
    const spec = {
      settings: { leaves: both, allow: 'Live' as const },
      state_transition_timestamp: ago(2 * MINUTE),
    };
    const status = { target_version: OLD, settings: { ...settings, message } };
    const node = aManagedNode('a', { labels: { pool: 'gpu' } }, { spec, status });
    return plan(withGroups(aSnapshot([node]), [group]), NOW).specs.map(({ outcome }) => outcome);
  };
  const reboot: SettingsStatus = { pending: [{ key: REBOOT, class: 'NeedsReboot', reason: 'because' }] };

  it('is no failure of settings that are in force, which are proved with it', () => {
    expect(outcomesOf(applied(both))).toEqual(['Configured']);
    expect(outcomesOf({ ...applied(wanted), ...reboot })).toEqual(['Configured']);
    expect(outcomesOf({ ...applied(wanted), conflicts: [REBOOT] })).toEqual(['Configured']);
  });

  it('is taken as their failure while they are not', () => {
    expect(outcomesOf({})).toEqual(['SettingsFailed']);
    expect(outcomesOf(applied(wanted))).toEqual(['SettingsFailed']);
    expect(outcomesOf({ ...applied([]), pending: [{ key: KEY, class: 'Live', reason: 'because' }] })).toEqual([
      'SettingsFailed',
    ]);
  });
});

it('the grant with which the former settings are set again ends a minute later, without another change', () => {
  const record = { settingsFailed: { hash: hashOfSettings(wanted), at: ago(10_000) } };
  const spec = { settings: { leaves: [], allow: 'Live' as const }, state_transition_timestamp: ago(10_000) };
  const failed = aManagedNode('a', { labels: { pool: 'gpu' } }, { record, spec, status: { target_version: OLD } });
  const { specs, wakeAt } = plan(withGroups(aSnapshot([failed]), [aGroup('gpu', { settings: SETTINGS })]), NOW);
  expect([specs, wakeAt]).toEqual([[], NOW + 50_000]);
});
