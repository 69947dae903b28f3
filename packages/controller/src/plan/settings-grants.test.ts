/** Settings of groups on their way to hosts at rest. */
import type { NodeRecord } from '@brupop/shared/api/record';
import { SKIP_ANNOTATION } from '@brupop/shared/api/names';
import { hashOf, leavesOf, type SettingClass } from '@brupop/shared/api/settings';
import type { Allowed, PendingSetting, Setting, SettingsSpec, SettingsStatus } from '@brupop/shared/api/shadow';
import { pinned } from '@brupop/shared/testing/settings';
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
  type ShadowParts,
  underWay,
  withGroups,
} from '../testing/objects.ts';
import { CONDITIONS } from '../report/config-conditions.ts';
import { hashOfSettings } from './facts/settings.ts';
import { evaluateSettings } from '../report/group-settings.ts';
import { wholePlan as plan, type WholePlan as Plan } from '../whole-plan.ts';

const KEY = 'settings.kubernetes.max-pods';
const SETTINGS = { kubernetes: { 'max-pods': 110 } };
const wanted: Setting[] = [...leavesOf(SETTINGS)].map(([key, value]) => ({
  key,
  value,
  owner: 'BottlerocketNodeGroup/gpu',
}));
const hash = hashOfSettings(wanted);

function spec(allow: Allowed, agoMs = 0, leaves: readonly Setting[] = wanted): NonNullable<ShadowParts['spec']> {
  return { settings: { leaves, allow }, state_transition_timestamp: ago(agoMs) };
}

function left(found: SettingClass, key = KEY): PendingSetting {
  return { key, class: found, reason: 'because' };
}

/** A node of the group, up to date unless told otherwise. */
function member(name: string, parts: ShadowParts = {}, node: NodeParts = {}): ManagedNode {
  const status = parts.status === null ? null : { target_version: OLD, ...parts.status };
  return aManagedNode(name, { labels: { pool: 'gpu' }, ...node }, { ...parts, status });
}

const inForce: SettingsStatus = { records: [{ key: KEY, value: '110', owner: 'x' }] };
const proved = (name: string): ManagedNode =>
  member(name, { spec: spec('None', 60 * MINUTE), status: { settings: inForce } });
const classified = (name: string, found: SettingClass = 'RestartsService'): ManagedNode =>
  member(name, { spec: spec('None', MINUTE), status: { settings: { pending: [left(found)] } } });

function planOf(nodes: readonly ManagedNode[], config: object = {}, group: object = {}): Plan {
  return plan(withGroups(aSnapshot(nodes, config), [aGroup('gpu', { settings: SETTINGS, ...group })]), NOW);
}

type Written = [name: string, outcome: string, settings: SettingsSpec | null | undefined];
const written = ({ specs }: Plan): Written[] =>
  specs.map(({ node, outcome, spec: next }) => [node.metadata.name, outcome, next.settings]);
const granted = (made: Plan): string[] =>
  written(made).flatMap(([name, , settings]) => (settings?.allow === 'None' ? [] : [`${name} ${settings?.allow}`]));
const condition = ({ groups: [group] }: Plan): [string, string, string] => {
  if (group === undefined) throw new Error('the plan has no group');
  const { status, reason, message } = evaluateSettings(group.settings);
  return [status, reason, message];
};

it('asks the agents first, and allows nothing', () => {
  const made = planOf([member('a'), member('b')]);
  expect(written(made)).toEqual([
    ['a', 'Configured', { leaves: wanted, allow: 'None' }],
    ['b', 'Configured', { leaves: wanted, allow: 'None' }],
  ]);
  expect(condition(made).slice(0, 2)).toEqual(['False', 'ChangingSettings']);
});

it('keeps the pin beside the settings of the group', () => {
  const [[, , settings] = []] = written(planOf([member('a')], { versions: { pin: OLD } }));
  expect(settings?.leaves).toEqual([...(pinned({ versionLock: OLD })?.leaves ?? []), ...wanted]);
});

it('lets one node prove the settings before all others', () => {
  const made = planOf([classified('a'), classified('b'), classified('c', 'Live')], { concurrency: { maxUpdating: 3 } });
  expect(granted(made)).toEqual(['a RestartsService']);
  const rejected = { ...classified('a'), writeRejection: 'denied' };
  expect(granted(planOf([rejected, classified('b')]))).toEqual(['b RestartsService']);
  expect(condition(made)[2]).toBe(
    '0 of 3 hosts have the settings; the next one waits: One node of the group proves the settings first',
  );
});

it('lets nodes restart services within maxUpdating, and those that restart nothing at once', () => {
  const nodes = ['b', 'c', 'd'].map((name) => classified(name));
  const live = ['e', 'f', 'g'].map((name) => classified(name, 'Live'));
  const made = planOf([proved('a'), ...nodes, ...live], { concurrency: { maxUpdating: 2 } });
  expect(granted(made)).toEqual(['b RestartsService', 'c RestartsService', 'e Live', 'f Live', 'g Live']);
});

const changing = (name: string, agoMs: number, status: SettingsStatus, node: NodeParts = {}): ManagedNode =>
  member(name, { spec: spec('RestartsService', agoMs), status: { settings: status } }, node);
const flight: SettingsStatus = { inFlight: { hash, time: ago(0) } };

it.each([
  ['a change is in flight', changing('b', 10_000, flight)],
  ['a change is being proved', changing('b', 59_000, inForce)],
  ['the node is not Ready after it', changing('b', 2 * MINUTE, inForce, { ready: false, readySince: ago(2 * MINUTE) })],
])('holds the slot while %s', (_name, node) => {
  const made = planOf([proved('a'), node, classified('c')], { concurrency: { maxUpdating: 1 } });
  expect(granted(made)).toEqual([]);
  expect(written(made)).toEqual([]);
  expect(made.wakeAt).toBeGreaterThan(NOW);
});

it('grants more when a host tells another class after the grant, as one that was updated', () => {
  const updated = member('b', {
    spec: spec('Live', 60 * MINUTE),
    status: { settings: { ...inForce, pending: [left('RestartsService')] } },
  });
  expect(granted(planOf([proved('a'), updated]))).toEqual(['b RestartsService']);
});

it('takes a node as proved after a minute of being Ready, and goes on with the next', () => {
  const made = planOf([changing('a', MINUTE, inForce), classified('b')]);
  expect(granted(made)).toEqual(['b RestartsService']);
  expect(condition(planOf([changing('a', MINUTE, inForce)]))).toEqual([
    'True',
    'SettingsInForce',
    'All 1 hosts have the settings',
  ]);
});

describe('a change that is proved', () => {
  const made = (status: SettingsStatus = inForce): Plan => planOf([proved('b'), changing('a', 60 * MINUTE, status)]);

  it('ends the grant, so that what changes later waits for another one', () => {
    expect(written(made())).toEqual([['a', 'Configured', { leaves: wanted, allow: 'None' }]]);
    expect(condition(made())[1]).toBe('SettingsInForce');
  });

  it('is still in force while the agent has not confirmed the end of the grant', () => {
    const applied = hashOf(wanted.map(({ key, value }) => [key, value]));
    const unconfirmed = member('a', {
      spec: spec('None'),
      status: { settings: { ...inForce, lastApplied: { hash: applied, time: ago(0) } }, observedGeneration: 0 },
    });
    expect(condition(planOf([proved('b'), unconfirmed]))[1]).toBe('SettingsInForce');
  });

  it.each([
    ['a refresh fails', { ...inForce, message: 'settings.motd: not in force: refresh: exit status 1' }],
    ['the agent sets what a user has changed', { ...inForce, ...flight }],
  ])('does not fail later, when %s', (_case, settings) => {
    const later = member('a', { spec: spec('None', 60 * MINUTE), status: { settings } });
    expect(planOf([proved('b'), later]).specs).toEqual([]);
  });

  it('is granted anew when a user changes it on the host, within the limits', () => {
    const drifted = ['a', 'c'].map((name) => classified(name));
    expect(granted(planOf([proved('b'), ...drifted], { concurrency: { maxUpdating: 1 } }))).toEqual([
      'a RestartsService',
    ]);
    expect(granted(planOf([proved('b'), ...drifted], { paused: true }))).toEqual([]);
  });
});

it('records the boot of a grant, and forgets it with the end of the grant', () => {
  const bootOf = ({ specs: [first] }: Plan): unknown => first?.record.settingsBoot;
  const node = member('a', {
    spec: spec('None', MINUTE),
    status: { settings: { pending: [left('Live')] }, bootID: 'this-boot' },
  });
  expect(bootOf(planOf([node]))).toBe('this-boot');
  const done = member('a', {
    spec: spec('Live', MINUTE),
    status: { settings: inForce, bootID: 'this-boot' },
    record: { settingsBoot: 'this-boot' },
  });
  expect(bootOf(planOf([done]))).toBeUndefined();
});

describe('a change that fails', () => {
  const MOTD = { key: 'settings.motd', value: '"hello"', owner: 'BottlerocketNodeGroup/gpu' };
  const OLD_PODS = { key: KEY, value: '90', owner: 'BottlerocketNodeGroup/gpu' };
  const both = { settings: { ...SETTINGS, motd: 'hello' } };
  const leaves = [...leavesOf(both.settings)].map(([key, value]) => ({ key, value, owner: MOTD.owner }));
  const settingsProved = [OLD_PODS, MOTD].map(({ key, value }): [string, string] => [key, value]);
  const failing = (record: NodeRecord): ManagedNode =>
    member('a', { spec: spec('Live', 10_000, leaves), status: { settings: { message: 'PATCH: 500' } }, record });

  it('takes back only itself: what the host had proved before is requested again', () => {
    const made = planOf([failing({ settingsProved })], {}, both);
    expect(written(made)).toEqual([['a', 'SettingsFailed', { leaves: [OLD_PODS, MOTD], allow: 'Live' }]]);
    const failed = { settingsFailed: { hash: hashOfSettings(leaves), at: ago(0) } };
    const back = member('a', {
      spec: spec('Live', 10_000, [OLD_PODS, MOTD]),
      record: { settingsProved, ...failed },
    });
    expect(written(planOf([back], {}, both))).toEqual([]);
  });

  it.each<[string, NodeRecord]>([
    ['nothing was proved', {}],
    ['it is what was proved before', { settingsProved: [...leavesOf(both.settings)] }],
  ])('takes back all when %s', (_, record) => {
    const [[, outcome, settings] = []] = written(planOf([failing(record)], {}, both));
    expect([outcome, settings?.leaves]).toEqual(['SettingsFailed', []]);
  });
});

describe('of a change that fails', () => {
  const owner = 'BottlerocketNodeGroup/gpu';
  const record = (...leaves: readonly [key: string, value: string][]): NodeRecord => ({
    settingsProved: leaves,
  });

  it('what the host has lost meanwhile is not set again, and the rest of what was proved stays', () => {
    const settings = { settings: { ...SETTINGS, motd: 'hello' } };
    const leaves = [...leavesOf(settings.settings)].map(([key, value]) => ({ key, value, owner }));
    const all = record([KEY, '110'], ['settings.motd', '"hello"']);
    const drifted = member('a', {
      spec: spec('None', MINUTE, leaves),
      status: { settings: { pending: [left('Live')] } },
      record: all,
    });
    const [granting] = planOf([drifted], {}, settings).specs;
    expect(granting?.spec.settings?.allow).toBe('Live');
    expect(granting?.record.settingsProved).toEqual([['settings.motd', '"hello"']]);
    const failing = member('a', {
      spec: spec('Live', 10_000, leaves),
      status: { settings: { message: 'PATCH: 500' } },
      record: record(['settings.motd', '"hello"']),
    });
    expect(written(planOf([failing], {}, settings))).toEqual([
      ['a', 'SettingsFailed', { leaves: [{ key: 'settings.motd', value: '"hello"', owner }], allow: 'Live' }],
    ]);
  });
});

describe('no settings keep a node from updates without a reason and a time limit', () => {
  const none = { settings: undefined };
  const restoring = (agoMs: number, settings: SettingsStatus, version = OLD, node: NodeParts = {}): ManagedNode =>
    member('a', { spec: spec('Live', agoMs, []), status: { settings, target_version: version } }, node);
  const reasonOf = (made: Plan): string | undefined => made.conditions.flat()[0]?.progressing.reason;

  it('the update of a host that cannot restore its settings starts after 5 minutes', () => {
    for (const settings of [flight, { message: 'PATCH: 500' }, { ...flight, ...inForce }]) {
      expect(reasonOf(planOf([restoring(4 * MINUTE, settings, NEW)], {}, none))).toBe('ChangingSettings');
      const [change] = planOf([restoring(7 * MINUTE, settings, NEW)], {}, none).specs;
      expect(change).toMatchObject({ outcome: 'Started', spec: { version: NEW } });
    }
  });

  it('a host without an update keeps restoring its settings then, says so, and holds no slot', () => {
    const restarts = member('a', {
      spec: spec('RestartsService', 7 * MINUTE, []),
      status: { settings: flight },
    });
    const made = planOf([restarts, proved('b'), member('c', { status: { target_version: NEW } })], {}, none);
    expect(made.conditions.flat()[0]?.progressing).toMatchObject({
      reason: 'HostSettingsNotApplied',
      message: expect.stringContaining('within 5 min') as string,
    });
    expect(written(made).map(([name, outcome]) => `${name} ${outcome}`)).toEqual(['c Started', 'b Configured']);
  });

  it('a Node that is not Ready 5 minutes after a change has its own message', () => {
    const down = { ready: false, readySince: ago(2 * MINUTE) };
    expect(reasonOf(planOf([changing('a', 7 * MINUTE, inForce, down)]))).toBe('HostSettingsNotApplied');
    expect(reasonOf(planOf([restoring(7 * MINUTE, inForce, NEW, down)], {}, none))).toBe('NodeNotReady');
  });

  const conflict = { spec: spec('Live', 60 * MINUTE), status: { settings: { conflicts: [KEY] } } };
  it.each([
    ['Paused', 'waits for the end of the pause', classified('a')],
    ['ChangingSettings', 'is being proved', changing('a', 10_000, inForce)],
    ['SettingsConflict', 'was set by a user', member('a', conflict)],
    ['HostSettingsNotApplied', 'is refused', classified('a', 'Refused')],
    ['UpToDate', 'is in force', proved('a')],
  ])('the condition of a host that is up to date is %s when what its group sets %s', (reason, _what, node) => {
    const made = planOf([node], { paused: true });
    expect([reasonOf(made), made.counts.upToDate]).toEqual([reason, 1]);
  });

  it('the condition of a host on which the settings failed is HostSettingsNotApplied', () => {
    expect(reasonOf(planOf([failed('a')]))).toBe('HostSettingsNotApplied');
  });
});

it('what a host has proved is recorded', () => {
  const done = member('a', { spec: spec('Live', 2 * MINUTE), status: { settings: inForce } });
  const [change] = planOf([done]).specs;
  expect(change?.record.settingsProved).toEqual([[KEY, '110']]);
  const waits = { settings: { ...inForce, pending: [left('NeedsReboot')] } };
  const before: NodeRecord = { settingsProved: [[KEY, '90']] };
  const partly = member('a', { spec: spec('Live', 2 * MINUTE), status: waits, record: before });
  expect(planOf([partly]).specs[0]?.record.settingsProved).toEqual([[KEY, '90']]);
});

it('starts no update of a node whose settings are being proved', () => {
  const updating = member('a', {
    spec: spec('RestartsService', 10_000),
    status: { target_version: NEW, settings: inForce },
  });
  const made = planOf([updating]);
  expect(written(made)).toEqual([]);
  expect(made.conditions.flat()[0]?.progressing.reason).toBe('ChangingSettings');
});

it.each([
  ['the host rejects them', changing('a', 10_000, { ...flight, message: 'PATCH: 500' }), 'PATCH: 500'],
  ['the agent does not confirm them', changing('a', 5 * MINUTE, flight), 'has not confirmed'],
  [
    'the node is not Ready with them',
    changing('a', 5 * MINUTE, inForce, { ready: false, readySince: ago(5 * MINUTE - 30_000) }),
    'not Ready',
  ],
  [
    'the host reboots',
    member('a', {
      spec: spec('Live', 30_000),
      status: { settings: inForce, bootID: 'another-boot' },
      record: { settingsBoot: 'boot-of-the-grant' },
    }),
    'has rebooted',
  ],
])('puts back what was before, once, when %s', (_name, node, why) => {
  const made = planOf([node]);
  expect(made.specs).toMatchObject([
    {
      outcome: 'SettingsFailed',
      spec: { state: 'Idle', settings: { leaves: [], allow: node.shadow?.spec.settings?.allow } },
      record: { settingsFailed: { hash: hash, at: ago(0) } },
      event: { reason: 'SettingsFailed', warning: true, message: expect.stringContaining(why) as string },
    },
  ]);
});

const failed = (name: string, agoMs = 10_000): ManagedNode =>
  member(name, {
    spec: spec('RestartsService', agoMs, []),
    record: { settingsFailed: { hash: hash, at: ago(agoMs) } },
  });

it('does not try settings again that failed on a node, names it, and tries others', () => {
  const made = planOf([failed('a'), classified('b'), classified('c')]);
  expect(granted(made)).toEqual(['b RestartsService']);
  expect(written(made).map(([name]) => name)).not.toContain('a');
  const [status, reason, message] = condition(made);
  expect([status, reason]).toEqual(['False', 'SettingsFailed']);
  expect(message).toContain('failed on a, of which the former ones are requested again');
});

it('stops when they failed on more nodes than the failure budget allows', () => {
  const budget = { rollout: { failureBudget: 1 } };
  expect(granted(planOf([failed('a'), failed('b'), classified('c')], budget))).toEqual([]);
  expect(granted(planOf([failed('a'), failed('b'), proved('c'), classified('d', 'Live')], budget))).toEqual([]);
});

it('counts nodes that are not Ready with them, long after the grant, against the failure budget', () => {
  const down = { ready: false, readySince: ago(5 * MINUTE) };
  const nodes = ['a', 'b'].map((name) => changing(name, 7 * MINUTE, inForce, down));
  expect(granted(planOf([...nodes, classified('c', 'Live')]))).toEqual([]);
  expect(granted(planOf([...nodes.slice(0, 1), classified('c', 'Live')]))).toEqual(['c Live']);
});

it.each([
  ['other settings', {}, { settings: { kubernetes: { 'max-pods': 111 } } }],
  ['a later spec.rollout.resume', { rollout: { resume: ago(0) } }, {}],
])('tries again after %s', (_name, config, group) => {
  expect(written(planOf([failed('a')], config, group))).toMatchObject([['a', 'Configured', { allow: 'None' }]]);
});

it.each([
  ['a pause', { paused: true }],
  ['a mistake in the configuration', { maintenance: { timeZone: 'Nowhere' } }],
])('allows nothing during %s', (_name, config) => {
  expect(granted(planOf([proved('a'), classified('b'), classified('c', 'Live')], config))).toEqual([]);
});

it('restarts services inside of windows only; what restarts nothing does not wait for one', () => {
  const closed = { maintenance: { windows: [{ schedule: '0 0 1 1 *', duration: '1h' }] } };
  expect(granted(planOf([proved('a'), classified('b'), classified('c', 'Live')], closed))).toEqual(['c Live']);
});

describe('a node with the annotation skip', () => {
  const skipped = (name: string, found: SettingClass, value = 'true'): ManagedNode =>
    member(
      name,
      { spec: spec('None', MINUTE), status: { settings: { pending: [left(found)] } } },
      { annotations: { [SKIP_ANNOTATION]: value } },
    );

  it('gets settings that restart nothing, and is asked for the class of others', () => {
    const asked = member('c', {}, { annotations: { [SKIP_ANNOTATION]: 'true' } });
    const made = planOf([proved('a'), skipped('b', 'Live'), asked]);
    expect(granted(made)).toEqual(['b Live']);
    expect(written(made)).toContainEqual(['c', 'Configured', { leaves: wanted, allow: 'None' }]);
  });

  it('restarts no service, also to restore settings, until a user removes the annotation', () => {
    const nodes = (value: string): ManagedNode[] => [proved('a'), skipped('b', 'RestartsService', value)];
    expect(granted(planOf(nodes('true')))).toEqual([]);
    expect(granted(planOf(nodes('false')))).toEqual(['b RestartsService']);
    const restored = {
      spec: spec('None', MINUTE, []),
      status: { settings: { ...inForce, pending: [left('RestartsService')] } },
    };
    const restoring = (value: string): ManagedNode =>
      member('b', restored, { annotations: { [SKIP_ANNOTATION]: value } });
    const none = { settings: undefined };
    expect(granted(planOf([restoring('true')], {}, none))).toEqual([]);
    expect(granted(planOf([restoring('false')], {}, none))).toEqual(['b RestartsService']);
  });

  it('does not keep others from proving the settings, and is named beside what they wait for', () => {
    const nodes = [skipped('a', 'RestartsService'), classified('b'), classified('c')];
    const made = planOf(nodes);
    expect(granted(made)).toEqual(['b RestartsService']);
    expect(condition(made)[2]).toBe(
      '0 of 3 hosts have the settings; the next one waits: One node of the group proves the settings first; ' +
        `skipped until a user removes the annotation ${SKIP_ANNOTATION}: a`,
    );
  });

  it('keeps the generation of the group from being observed, and is named by the conditions', () => {
    const made = planOf([skipped('a', 'RestartsService'), proved('b')]);
    expect(made.groups[0]?.unconfirmed).toEqual(['a']);
    expect(condition(made)).toEqual([
      'False',
      'ChangingSettings',
      `1 of 2 hosts have the settings; skipped until a user removes the annotation ${SKIP_ANNOTATION}: a`,
    ]);
  });
});

it('allows none of the settings when a host refuses one, and says which and why', () => {
  const refused = [left('Live'), left('Refused', 'settings.aws.config')];
  const made = planOf([member('a', { spec: spec('None', MINUTE), status: { settings: { pending: refused } } })]);
  expect(granted(made)).toEqual([]);
  expect(condition(made)).toEqual([
    'False',
    'SettingsRefused',
    'settings.aws.config cannot be set on a, so none is: because',
  ]);
  expect(made.groups[0]?.settings.left).toEqual([
    { key: 'settings.aws.config', class: 'Refused', reason: 'because', nodes: 1 },
    { key: KEY, class: 'Live', reason: 'because', nodes: 1 },
  ]);
});

it('names nodes on which users have set other values; the configuration is Degraded, and updates start', () => {
  const settings = { conflicts: [KEY] };
  const made = planOf([member('a', { spec: spec('None', 60 * MINUTE), status: { target_version: NEW, settings } })]);
  expect(condition(made).slice(0, 2)).toEqual(['False', 'SettingsConflict']);
  const message = expect.stringMatching(
    /than these groups on hosts \(SettingsConflict\): gpu; see kubectl describe brng$/u,
  ) as string;
  expect(CONDITIONS.Degraded(made)).toMatchObject({ status: 'True', reason: 'NodesNeedAttention', message });
  expect(made.specs).toMatchObject([{ outcome: 'Started' }]);
});

it('lets hosts restore what is no longer requested, by its class, one node first', () => {
  const restoring = (name: string): ManagedNode => {
    const status = { settings: { ...inForce, pending: [left('RestartsService')] } };
    return member(name, { spec: { settings: null, state_transition_timestamp: ago(MINUTE) }, status });
  };
  const none = { settings: undefined };
  expect(written(planOf([proved('a')], {}, none))).toEqual([['a', 'Configured', null]]);
  const made = planOf([restoring('a'), restoring('b')], {}, none);
  expect(written(made)).toEqual([['a', 'Configured', { leaves: [], allow: 'RestartsService' }]]);
  const done = member('a', { spec: spec('RestartsService', 60 * MINUTE, []) });
  expect(written(planOf([done, restoring('b')], {}, none))).toEqual([
    ['a', 'Configured', null],
    ['b', 'Configured', { leaves: [], allow: 'RestartsService' }],
  ]);
  const restored = member('a', { spec: { settings: null } });
  const two = planOf([restored, restoring('b'), restoring('c')], { concurrency: { maxUpdating: 2 } }, none);
  expect(granted(two)).toEqual(['b RestartsService', 'c RestartsService']);
});

it('leaves an update under way alone', () => {
  const staging = member('a', {
    spec: { ...underWay('StagedAndPerformedUpdate'), settings: null },
    status: { target_version: NEW },
  });
  expect(written(planOf([staging]))).toMatchObject([['a', 'Advanced', null]]);
});

it('counts a node with settings that are not in force as not confirmed', () => {
  const unconfirmed = (node: ManagedNode): readonly string[] => planOf([node]).groups[0]?.unconfirmed ?? [];
  expect(unconfirmed(proved('a'))).toEqual([]);
  for (const node of [classified('a'), failed('a'), changing('a', 10_000, flight)])
    expect(unconfirmed(node)).toEqual(['a']);
});
