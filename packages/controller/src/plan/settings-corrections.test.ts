/** Changes of settings that take long on a node, or that end otherwise than they began, as when their group is edited. */
import { CONFIG_KIND, RETRY_ANNOTATION, UPDATE_NOW_ANNOTATION } from '@brupop/shared/api/names';
import { leavesOf, type SettingClass, VERSION_LOCK } from '@brupop/shared/api/settings';
import type { Allowed, PendingSetting, Setting, SettingsStatus } from '@brupop/shared/api/shadow';
import type { NodeRecord } from '@brupop/shared/api/record';
import { aPod } from '@brupop/shared/testing/pods';
import { annotationsOf } from '../apply/shadows.ts';
import type { ManagedNode } from '../cluster/snapshot.ts';
import {
  aGroup,
  ago,
  aManagedNode,
  aSnapshot,
  MINUTE,
  NEW,
  type NodeParts,
  NOW,
  OLD,
  podsOf,
  withGroups,
} from '../testing/objects.ts';
import { hashOfSettings } from './facts/settings.ts';
import { wholePlan as plan, type WholePlan as Plan } from '../whole-plan.ts';

const KEY = 'settings.kubernetes.max-pods';
const owner = 'BottlerocketNodeGroup/gpu';
const SETTINGS = { kubernetes: { 'max-pods': 110 } };
const requested = (settings: object): Setting[] =>
  [...leavesOf(settings)].map(([key, value]) => ({ key, value, owner }));

interface Parts {
  readonly allow?: Allowed;
  readonly leaves?: readonly Setting[];
  readonly agoMs?: number;
  readonly settings?: SettingsStatus;
  readonly record?: NodeRecord;
  readonly node?: NodeParts;
  readonly settingsSince?: number;
  /** The version that its host is offered. */
  readonly offered?: string;
}

function member(name: string, parts: Parts): ManagedNode {
  const {
    allow = 'None',
    leaves = requested(SETTINGS),
    agoMs = MINUTE,
    settings = {},
    record = {},
    node,
    offered = OLD,
    ...seen
  } = parts;
  const spec = { settings: { leaves, allow }, state_transition_timestamp: ago(agoMs) };
  const status = { target_version: offered, settings };
  return { ...aManagedNode(name, { labels: { pool: 'gpu' }, ...node }, { spec, status, record }), ...seen };
}
const pending = (found: SettingClass): PendingSetting[] => [{ key: KEY, class: found, reason: 'because' }];
const planOf = (nodes: readonly ManagedNode[], config: object = {}, group: object = {}): Plan =>
  plan(withGroups(aSnapshot(nodes, config), [aGroup('gpu', { settings: SETTINGS, ...group })]), NOW);
const granted = ({ specs }: Plan): string[] =>
  specs.flatMap(({ node, spec: { settings } }) =>
    settings == null || settings.allow === 'None' ? [] : [`${node.metadata.name} ${settings.allow}`],
  );

it('former values get another grant when an update has ended theirs, and only one', () => {
  const hash = hashOfSettings(requested(SETTINGS));
  const record = { settingsFailed: { hash, at: ago(10 * MINUTE) } };
  const restoring = (allow: Allowed): ManagedNode =>
    member('a', { allow, leaves: [], agoMs: 10_000, settings: { pending: pending('RestartsService') }, record });
  expect(granted(planOf([restoring('None')]))).toEqual(['a RestartsService']);
  expect(granted(planOf([restoring('RestartsService')]))).toEqual([]);
});

it('former values that get another grant remain those that the node has proved', () => {
  const former = requested({ kubernetes: { 'max-pods': 58 } });
  const hash = hashOfSettings(requested(SETTINGS));
  const record: NodeRecord = { settingsFailed: { hash, at: ago(10 * MINUTE) }, settingsProved: [[KEY, '58']] };
  const settings = { pending: pending('RestartsService') };
  const [change] = planOf([member('a', { leaves: former, settings, record })]).specs;
  expect(change?.spec.settings).toEqual({ leaves: former, allow: 'RestartsService' });
  expect(change?.record.settingsProved).toEqual([[KEY, '58']]);
});

describe('a Node that is not Ready with settings that it has not proved', () => {
  const down = { ready: false, readySince: ago(2 * MINUTE) };
  const has = (value: string): SettingsStatus => ({ records: [{ key: KEY, value, before: '90', owner }] });
  const broken = (leaves: readonly Setting[], record: NodeRecord = {}, found: SettingClass = 'RestartsService') =>
    member('a', { leaves, record, node: down, settings: { ...has('1'), pending: pending(found) } });

  it.each(['Live', 'RestartsService'] as const)('gets the former ones when the group drops them: %s', (found) => {
    expect(granted(planOf([broken([], {}, found)], {}, { settings: undefined }))).toEqual([`a ${found}`]);
    const limits = { concurrency: { maxUpdating: 1, maxUnavailable: 1 } };
    expect(granted(planOf([broken([], {}, found)], limits, { settings: undefined }))).toEqual([`a ${found}`]);
  });

  it('gets those that correct them, after the nodes that are Ready', () => {
    const leaves = requested(SETTINGS);
    expect(granted(planOf([broken(leaves)]))).toEqual(['a RestartsService']);
    const ready = member('b', { settings: { pending: pending('RestartsService') } });
    expect(granted(planOf([broken(leaves), ready]))).toEqual(['b RestartsService']);
  });

  it('gets none if it has proved what they replace, or they replace nothing', () => {
    const leaves = requested(SETTINGS);
    expect(granted(planOf([broken(leaves, { settingsProved: [[KEY, '1']] })]))).toEqual([]);
    const motd = { records: [{ key: 'settings.motd', value: '"hello"', owner }] };
    for (const settings of [{}, motd]) {
      const other = member('a', { node: down, settings: { ...settings, pending: pending('RestartsService') } });
      expect(granted(planOf([other]))).toEqual([]);
    }
  });
});

describe('a Node that is not Ready since it was rebooted for settings', () => {
  const down = { ready: false, readySince: ago(2 * MINUTE) };
  const found = { records: [{ key: KEY, value: '1', before: '90', owner }], pending: pending('NeedsReboot') };
  const broken = (leaves: readonly Setting[], record: NodeRecord = {}) =>
    member('a', { leaves, record, node: down, settings: found });
  const started = (made: Plan): string[] => made.specs.map(({ node, outcome }) => `${node.metadata.name} ${outcome}`);

  it('is rebooted for those that correct them, or for the former ones when the group drops them', () => {
    const limits = { concurrency: { maxUpdating: 1, maxUnavailable: 1 } };
    expect(started(planOf([broken(requested(SETTINGS))], limits))).toEqual(['a Started']);
    expect(started(planOf([broken([])], limits, { settings: undefined }))).toEqual(['a Started']);
  });

  it('is rebooted for them before an update, which would wait for the Node, if it may run its version', () => {
    const due = (versions: { readonly pin?: string; readonly deny?: string[] }, node: NodeParts = down): unknown[] => {
      const lock = { key: VERSION_LOCK, value: JSON.stringify(versions.pin), owner: CONFIG_KIND, force: true };
      const leaves = [...(versions.pin === undefined ? [] : [lock]), ...requested(SETTINGS)];
      const made = planOf([member('a', { leaves, node, settings: found, offered: NEW })], { versions });
      return made.specs.map(({ outcome, spec }) => [outcome, spec.version]);
    };
    expect(due({})).toEqual([['Started', OLD]]);
    expect([due({ deny: [OLD] }), due({ pin: NEW })]).toEqual([[], []]);
    expect(due({}, {})).toEqual([['Started', NEW]]);
  });

  it.each([NEW, OLD])(
    'is rebooted for them again when a user retries the version that its host is offered, or its own: %s',
    (version) => {
      const record: NodeRecord = { aborted: { version: OLD, at: ago(MINUTE) } };
      const due = (annotations: Record<string, string>): string[] => {
        const node = member('a', { record, node: down, settings: found, offered: NEW });
        const shadow = node.shadow && { ...node.shadow, metadata: { ...node.shadow.metadata, annotations } };
        return started(planOf([{ ...node, shadow }]));
      };
      expect(due({})).toEqual([]);
      expect(due({ [RETRY_ANNOTATION]: version })).toEqual(['a Started']);
    },
  );

  it('is rebooted for them without using up or refusing a request of the update that follows', () => {
    const asked = { [UPDATE_NOW_ANNOTATION]: NEW };
    const node = member('a', { node: down, settings: found, offered: NEW });
    const shadow = node.shadow && { ...node.shadow, metadata: { ...node.shadow.metadata, annotations: asked } };
    const [start] = planOf([{ ...node, shadow }]).specs;
    expect(start?.spec.version).toBe(OLD);
    expect(start && annotationsOf(start)).not.toHaveProperty([UPDATE_NOW_ANNOTATION]);
    const known = { version: NEW, at: ago(MINUTE) };
    const record: NodeRecord = { startedAt: ago(MINUTE), from: OLD, group: 'gpu', asked: known };
    const spec = { ...start?.spec, state_transition_timestamp: ago(MINUTE) };
    const parts = { annotations: asked, spec, record, status: { target_version: NEW, current_state: 'Idle' } } as const;
    const rebooting = aManagedNode('a', { labels: { pool: 'gpu' }, ...down }, parts);
    expect(rebooting.shadow?.purpose).toBe('Settings');
    const made = planOf([rebooting]);
    expect([made.specs, made.records]).toEqual([[], []]);
  });

  it.each(['Required', 'Prefer'])('does not wait for its pods: podsBefore %s', (podsBefore) => {
    const node = broken(requested(SETTINGS));
    const pods = [aPod('web', { ready: false, readyChanged: NOW - 60 * MINUTE }), aPod('job', { failing: true })];
    const listed = new Map(node.node === undefined ? [] : [['a', podsOf(node.node, pods)]]);
    const snapshot = { ...aSnapshot([node], { health: { podsBefore } }), pods: listed };
    expect(started(plan(withGroups(snapshot, [aGroup('gpu', { settings: SETTINGS })]), NOW))).toEqual(['a Started']);
  });

  it('is not rebooted if it has proved what its host has', () => {
    const record: NodeRecord = { settingsProved: [[KEY, '1']] };
    expect(started(planOf([broken(requested(SETTINGS), record)]))).toEqual([]);
  });
});

it('a change fails when the Node goes down soon after an agent has made it late, and not when it goes down for another reason', () => {
  const settings = { records: requested(SETTINGS) };
  const late = (downMs: number): unknown[] => {
    const node = { ready: false, readySince: ago(downMs) };
    const granted: Parts = { allow: 'RestartsService', agoMs: 5 * MINUTE, settingsSince: NOW - 3 * MINUTE };
    return planOf([member('a', { ...granted, settings, node })]).specs.map(({ outcome }) => outcome);
  };
  expect(late(2.5 * MINUTE)).toEqual(['SettingsFailed']);
  expect(late(MINUTE)).toEqual([]);
});

describe('settings whose grant has ended before they were proved', () => {
  const others = ['b', 'c', 'd'].map((name) => member(name, { settings: { pending: pending('Live') } }));
  const settings = { records: requested(SETTINGS) };

  it('are not proved for the other nodes until their node was Ready for a minute with them', () => {
    const made = (seconds: number, node: NodeParts = {}): Plan =>
      planOf([member('a', { settings, settingsSince: NOW - seconds * 1_000, node }), ...others]);
    expect(granted(made(59))).toEqual(['b Live']);
    expect(granted(made(60))).toEqual(['b Live', 'c Live', 'd Live']);
    expect(granted(made(90, { ready: false, readySince: ago(30_000) }))).toEqual(['b Live']);
    expect(granted(made(90, { readySince: ago(30_000) }))).toEqual(['b Live']);
    expect(made(10).wakeAt).toBeLessThanOrEqual(NOW + 50_000);
  });

  it('are proved if the record of the node says so, as after a change of the leader', () => {
    const record: NodeRecord = { settingsProved: [[KEY, '110']] };
    const proved = member('a', { settings, record, settingsSince: NOW });
    expect(granted(planOf([proved, ...others]))).toHaveLength(3);
  });
});

it.each([
  ['although versions need an approval', { rollout: { approval: 'Required' } }, ['a Started']],
  ['but not during a pause', { paused: true }, []],
])('what a deleted group has set is restored by a reboot, %s', (_when, config, expected) => {
  const settings = { records: [{ key: KEY, value: '120', before: '58', owner }], pending: pending('NeedsReboot') };
  const { specs } = plan(aSnapshot([member('a', { leaves: [], settings })], config), NOW);
  expect(specs.map(({ node, outcome }) => `${node.metadata.name} ${outcome}`)).toEqual(expected);
});

const own = { hash: hashOfSettings(requested(SETTINGS)), at: ago(60 * MINUTE) };

it.each<[string, NodeRecord, NodeRecord['settingsRebooted']]>([
  [
    'of other settings, to which the host may return',
    { settingsRebooted: { hash: 'other', at: ago(60 * MINUTE) } },
    undefined,
  ],
  ['of these settings', { settingsRebooted: own }, own],
  [
    'of settings that have failed, since the former ones are set again',
    {
      settingsRebooted: { hash: 'failed', at: ago(60 * MINUTE) },
      settingsFailed: { hash: 'failed', at: ago(60 * MINUTE) },
    },
    { hash: 'failed', at: ago(60 * MINUTE) },
  ],
])('a grant ends the record of a reboot only if it is %s', (_which, record, expected) => {
  const [change] = planOf([member('a', { settings: { pending: pending('RestartsService') }, record })]).specs;
  expect(change?.spec.settings?.allow).toBe('RestartsService');
  expect(change?.record.settingsRebooted).toEqual(expected);
});
