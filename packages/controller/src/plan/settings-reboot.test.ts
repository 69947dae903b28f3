/** Nodes that are rebooted for the settings of their group, without another version. */
import { RETRY_ANNOTATION, SKIP_ANNOTATION } from '@brupop/shared/api/names';
import { leavesOf } from '@brupop/shared/api/settings';
import type { Allowed, Setting, SettingsStatus, ShadowState } from '@brupop/shared/api/shadow';
import type { ManagedNode } from '../cluster/snapshot.ts';
import {
  aGroup,
  ago,
  aManagedNode,
  aSnapshot,
  failure,
  MINUTE,
  NEW,
  type NodeParts,
  NOW,
  OLD,
  type ShadowParts,
  underWay,
  withGroups,
} from '../testing/objects.ts';
import { settingsOfVersions } from '../policy/policy.ts';
import { hashOfSettings } from './facts/settings.ts';
import { evaluateSettings } from '../report/group-settings.ts';
import { wholePlan as plan, type WholePlan as Plan } from '../whole-plan.ts';

const KEY = 'settings.kernel.lockdown';
const SETTINGS = { kernel: { lockdown: 'integrity' } };
const wanted: Setting[] = [...leavesOf(SETTINGS)].map(([key, value]) => ({
  key,
  value,
  owner: 'BottlerocketNodeGroup/gpu',
}));
const hash = hashOfSettings(wanted);
const none = hashOfSettings([]);
const TWO = { concurrency: { maxUpdating: 2 } };

const pending: SettingsStatus = { pending: [{ key: KEY, class: 'NeedsReboot', reason: 'because' }] };
const inForce: SettingsStatus = { records: [{ key: KEY, value: '"integrity"', owner: 'x' }] };

function member(name: string, parts: ShadowParts = {}, node: NodeParts = {}): ManagedNode {
  const status = parts.status === null ? null : { target_version: OLD, ...parts.status };
  return aManagedNode(name, { labels: { pool: 'gpu' }, ...node }, { ...parts, status });
}

function atRest(
  name: string,
  parts: ShadowParts = {},
  leaves: readonly Setting[] = wanted,
  annotations: Readonly<Record<string, string>> = {},
): ManagedNode {
  const spec = { settings: { leaves, allow: 'None' as Allowed }, state_transition_timestamp: ago(60 * MINUTE) };
  return member(name, { spec, ...parts, status: { settings: pending, ...parts.status } }, { annotations });
}

/** A node that is rebooted for its settings. */
function rebooting(state: ShadowState, parts: ShadowParts = {}, node: NodeParts = {}): ManagedNode {
  const record = {
    startedAt: ago(5 * MINUTE),
    from: OLD,
    group: 'gpu',
  };
  const settings = { leaves: wanted, allow: 'NeedsReboot' } as const;
  const spec = { ...underWay(state), version: OLD, settings, ...parts.spec };
  const status = { current_state: state, settings: inForce, ...parts.status };
  return member('a', { record: { ...record, ...parts.record }, spec, status }, node);
}

const planOf = (nodes: readonly ManagedNode[], config: object = {}, group: object = {}): Plan =>
  plan(withGroups(aSnapshot(nodes, config), [aGroup('gpu', { settings: SETTINGS, ...group })]), NOW);
const outcomes = ({ specs }: Plan): string[] =>
  specs.map(({ node, outcome, spec }) => `${node.metadata.name} ${outcome} ${spec.version ?? ''}`.trim());
const reasons = ({ conditions }: Plan): string[] =>
  conditions.flat().map(({ node, progressing }) => `${node.metadata.name} ${progressing.reason}`);
const condition = ({ groups: [group] }: Plan): string => {
  if (group === undefined) throw new Error('the plan has no group');
  const { reason, message } = evaluateSettings(group.settings);
  return `${reason}: ${message}`;
};

it('starts a reboot into the version that the node runs, which may set what needs one', () => {
  const [first] = planOf([atRest('a')]).specs;
  const settings = { leaves: wanted, allow: 'NeedsReboot' };
  expect(first).toMatchObject({ outcome: 'Started', spec: { version: OLD, settings } });
  expect(first?.event?.message).toBe(`Rebooting ${OLD} for the settings of its group: settings.kernel.lockdown`);
});

it('brings the settings with an update where one is due', () => {
  const due = atRest('a', { status: { target_version: NEW } });
  expect(outcomes(planOf([due]))).toEqual([`a Started ${NEW}`]);
});

it('lets one node prove the settings before the others are rebooted', () => {
  const made = planOf([atRest('b'), atRest('c')], TWO);
  expect(outcomes(made)).toEqual([`b Started ${OLD}`]);
  expect(reasons(made)).toContain('c ChangingSettings');
  const waiting = planOf([rebooting('RebootedIntoUpdate', { status: { current_state: 'Idle' } }), atRest('b')], TWO);
  expect(outcomes(waiting)).toEqual([]);
  const proved = atRest('a', { status: { settings: inForce } });
  expect(outcomes(planOf([proved, atRest('b'), atRest('c'), atRest('d')], TWO))).toHaveLength(2);
});

it.each([
  ['Paused', { paused: true }],
  ['OutsideMaintenanceWindow', { maintenance: { windows: [{ schedule: '0 0 1 1 *', duration: '24h' }] } }],
  ['VersionDenied', { versions: { deny: [OLD] } }],
])('waits as an update does: %s', (reason, config) => {
  const made = planOf([atRest('a')], config);
  expect(outcomes(made)).toEqual([]);
  expect(reasons(made)).toEqual([`a ${reason}`]);
  expect(condition(made)).toMatch(
    /^RebootPending: Some settings need a drain and a reboot of a; the next one waits: /u,
  );
});

it('counts in the limits of updates', () => {
  const updating = aManagedNode('z', {}, { spec: underWay('RebootedIntoUpdate'), status: { current_state: 'Idle' } });
  const made = planOf([updating, atRest('a')]);
  expect(outcomes(made)).toEqual([]);
  expect(reasons(made)).toContain('a WaitingForCapacity');
});

it.each([
  ['how long a version has been available', { versions: { minimumAge: '336h' } }],
  ['canaries of a version', { rollout: { canary: { nodes: 1, nodeSelector: { matchLabels: { canary: 'yes' } } } } }],
])('does not ask %s', (_name, config) => {
  expect(outcomes(planOf([atRest('a')], config))).toEqual([`a Started ${OLD}`]);
});

it('reboots once for the same settings, whatever the agent reports, unless a user resumes', () => {
  const again = atRest('a', { record: { settingsRebooted: { hash, at: ago(MINUTE) } } });
  const made = planOf([again]);
  expect(outcomes(made)).toEqual([]);
  expect(condition(made)).toMatch(
    /^RebootPending: a rebooted for settings that their hosts still report as pending; /u,
  );
  expect(outcomes(planOf([again], { rollout: { resume: ago(0) } }))).toEqual([`a Started ${OLD}`]);
  const other = atRest('a', { record: { settingsRebooted: { hash: none, at: ago(MINUTE) } } });
  expect(outcomes(planOf([other]))).toEqual([`a Started ${OLD}`]);
});

it('records the reboot when it succeeds, and leaves on record what other versions did', () => {
  const done = rebooting('MonitoringUpdate', {
    record: {
      failed: { version: NEW, code: 'RolledBack', at: ago(60 * MINUTE) },
      attempts: { version: NEW, count: 2 },
      unsuccessful: 1,
    },
  });
  const [change] = planOf([done]).specs;
  expect(change).toMatchObject({ outcome: 'Succeeded', event: { message: 'Rebooted for the settings of its group' } });
  const { failed, attempts, unsuccessful } = done.shadow?.record ?? {};
  expect({ ...change?.record, history: undefined }).toEqual({
    startedAt: ago(5 * MINUTE),
    from: OLD,
    failed: { ...failed, isHidden: true },
    attempts,
    unsuccessful,
    succeeded: { version: OLD, at: ago(0), isReboot: true },
    settingsRebooted: { hash, at: ago(0) },
    settingsProved: wanted.map(({ key, value }) => [key, value]),
  });
});

it('leaves on record when the node was updated to the version', () => {
  const updated = { version: OLD, at: ago(60 * MINUTE) };
  const [change] = planOf([atRest('a', { record: { succeeded: updated } })]).specs;
  expect(change?.outcome).toBe('Started');
  expect(change?.record).toMatchObject({ updated });
  expect(change?.record.succeeded).toBeUndefined();
});

it('does not make the node try a version again that did not boot, from its start on', () => {
  const failed = { version: NEW, code: 'RolledBack', at: ago(60 * MINUTE) };
  const [change] = planOf([atRest('a', { record: { failed } })]).specs;
  expect(change?.outcome).toBe('Started');
  const again = atRest('a', { record: change?.record ?? {}, status: { target_version: NEW, settings: inForce } });
  const made = planOf([again]);
  expect(outcomes(made)).toEqual([]);
  const [found] = made.conditions.flat();
  expect(found?.progressing.reason).toBe('ManualRetryRequired');
  expect(found?.progressing.message).toContain(`The node failed with ${NEW} (RolledBack, at ${failed.at})`);
});

it("lets a user's retry of that version go on after it was deferred", () => {
  const failed = { version: NEW, code: 'RolledBack', at: ago(60 * MINUTE), isHidden: true };
  const settings = { leaves: wanted, allow: 'None' as Allowed };
  const status = { target_version: NEW, settings: inForce };
  const retried = atRest('a', {
    annotations: { [RETRY_ANNOTATION]: NEW },
    record: { failed },
    spec: { settings },
    status,
  });
  const [change] = planOf([retried]).specs;
  expect([change?.outcome, change?.record.failed]).toEqual(['Started', { ...failed, isHidden: undefined }]);
  const deferred = atRest('a', { record: change?.record ?? {}, spec: { settings }, status });
  expect(outcomes(planOf([deferred]))).toEqual([`a Started ${NEW}`]);
});

it('leaves no failure of its own on record when it succeeds', () => {
  const [change] = planOf([rebooting('MonitoringUpdate', { record: { unsuccessful: 1 } })]).specs;
  expect(change?.outcome).toBe('Succeeded');
  expect(change?.record.unsuccessful).toBeUndefined();
});

it('leaves on record that the node went back from another version', () => {
  const rollback = { failed: NEW, previous: OLD, since: ago(60 * MINUTE), isDone: true };
  const [change] = planOf([atRest('a', { record: { rollback } })]).specs;
  expect(change?.outcome).toBe('Started');
  expect(change?.record.rollback).toEqual(rollback);
});

it.each(['RebootTimedOut', 'SettingsFailed', 'WrongVersionBooted'] as const)(
  'blames the settings, not the version, when the reboot fails with %s',
  (errorCode) => {
    const lastOperation = failure(errorCode, { operation: 'Reboot', version: OLD });
    const failed = rebooting('RebootedIntoUpdate', {
      status: { current_state: 'ErrorReset', crash_count: 1, lastOperation },
    });
    const made = planOf([failed], { rollout: { failureBudget: 0 } });
    expect([made.failed, made.frozen]).toEqual([[], []]);
    const [change] = made.specs;
    expect(change).toMatchObject({ outcome: 'Failed', spec: { state: 'Idle' } });
    expect(change?.record).toMatchObject({ unsuccessful: 1 });
    expect(change?.record.settingsFailed).toMatchObject({ hash });
    expect(change?.record.failed).toBeUndefined();
  },
);

it('ends with a pause that interrupts while the node is drained, and not once its host may reboot', () => {
  const interrupted = { paused: true, pauseMode: 'Interrupt' };
  const during = (operation: 'Drain' | 'Activate'): ManagedNode =>
    rebooting('RebootedIntoUpdate', {
      status: {
        current_state: 'StagedAndPerformedUpdate',
        lastOperation: { ...failure(undefined, { operation, version: OLD }), state: 'Processing' },
      },
    });
  expect(outcomes(planOf([during('Drain')], interrupted))).toEqual(['a Interrupted']);
  expect(outcomes(planOf([during('Activate')], interrupted))).toEqual([]);
});

it('blames nothing when the drain fails', () => {
  const lastOperation = failure('DrainTimedOut', { operation: 'Drain', version: OLD });
  const failed = rebooting('RebootedIntoUpdate', {
    status: { current_state: 'ErrorReset', crash_count: 1, lastOperation },
  });
  const [change] = planOf([failed]).specs;
  expect(change?.outcome).toBe('Failed');
  expect(change?.record.settingsFailed).toBeUndefined();
});

it('restores the former settings of a node that is not healthy after the reboot in time', () => {
  const late = rebooting(
    'MonitoringUpdate',
    {
      spec: { state_transition_timestamp: ago(6 * 60 * MINUTE), timeoutSeconds: 60 },
      status: { crash_count: 0 },
    },
    { ready: false, readySince: ago(7 * 60 * MINUTE) },
  );
  const made = planOf([late]);
  const [change] = made.specs;
  expect(change).toMatchObject({ outcome: 'SettingsFailed', spec: { state: 'Idle', settings: null } });
  expect(change?.record.settingsFailed).toMatchObject({ hash });
  expect([made.failed, made.frozen]).toEqual([[], []]);
});

it('restores them with another reboot, also of a node that is not Ready, which holds its slot until then', () => {
  const parts = {
    record: {
      settingsFailed: { hash, at: ago(MINUTE) },
      settingsRebooted: { hash, at: ago(MINUTE) },
    },
    spec: { settings: null, state_transition_timestamp: ago(MINUTE) },
    status: { settings: { ...inForce, ...pending } },
  };
  const restoring = member('b', parts, { ready: false });
  const closed = { maintenance: { windows: [{ schedule: '0 0 1 1 *', duration: '24h' }] } };
  for (const config of [{}, closed]) {
    const [change, ...others] = planOf([atRest('a'), restoring], config).specs;
    expect(change).toMatchObject({ outcome: 'Started', node: { metadata: { name: 'b' } } });
    expect(change?.spec).toMatchObject({ version: OLD, settings: { leaves: [], allow: 'NeedsReboot' } });
    expect(others).toEqual([]);
  }
  const made = planOf([atRest('a'), restoring], { paused: true });
  expect(outcomes(made)).toEqual([]);
  const restored = { ...parts.record, settingsRebooted: { hash: none, at: ago(0) } };
  expect(outcomes(planOf([member('b', { ...parts, record: restored })]))).toEqual([]);
});

describe('restoring settings that were proved', () => {
  const former: Setting[] = wanted.map((one) => ({ ...one, value: '"none"' }));
  const settingsProved = former.map(({ key, value }): [string, string] => [key, value]);
  const settingsFailed = { hash, at: ago(60 * MINUTE) };
  const record = { settingsProved, settingsFailed, settingsRebooted: settingsFailed };

  it.each([OLD, NEW])('keeps them on record when the reboot or update to %s starts', (target_version) => {
    const found = { ...record, settingsRebooted: undefined };
    const [change] = planOf([atRest('a', { record: found, status: { target_version } }, former)]).specs;
    expect(change).toMatchObject({
      outcome: 'Started',
      spec: { version: target_version, settings: { leaves: former, allow: 'NeedsReboot' } },
    });
    expect(change?.record.settingsProved).toEqual(settingsProved);
  });

  it('reboots into the version that the node runs, whatever it is offered, since it holds its slot until then', () => {
    const made = planOf([atRest('a', { record, status: { target_version: NEW } }, former)]);
    expect(outcomes(made)).toEqual([`a Started ${OLD}`]);
  });

  it('waits for no refresh', () => {
    const message = 'ignore-waves true: not in force: refresh: no route to host';
    const made = planOf([atRest('a', { record, status: { settings: { ...pending, message } } }, former)]);
    expect(outcomes(made)).toEqual([`a Started ${OLD}`]);
  });

  const restoring = (state: ShadowState, parts: ShadowParts, node: NodeParts = {}): ManagedNode =>
    rebooting(
      state,
      { record, ...parts, spec: { settings: { leaves: former, allow: 'NeedsReboot' }, ...parts.spec } },
      node,
    );

  it.each([{ pin: NEW }, { deny: [OLD] }])('continues it in spite of versions %o', (versions) => {
    const leaves = [...settingsOfVersions({ pin: undefined, ignoreWaves: false, ...versions }), ...former];
    const settings = { leaves, allow: 'NeedsReboot' as const };
    const status = { current_state: 'Idle', settings: pending } as const;
    const made = planOf([restoring('StagedAndPerformedUpdate', { spec: { settings }, status })], { versions });
    expect([outcomes(made), reasons(made)]).toEqual([[], ['a Updating']]);
  });

  it.each(['RebootTimedOut', 'RebootRefused', 'SettingsFailed'] as const)(
    'tries it once, and does not request again what has failed, when it fails with %s',
    (errorCode) => {
      const lastOperation = failure(errorCode, { operation: 'Reboot', version: OLD });
      const status = { current_state: 'ErrorReset', crash_count: 1, lastOperation } as const;
      const [change] = planOf([restoring('RebootedIntoUpdate', { status })]).specs;
      expect(change).toMatchObject({ outcome: 'Failed', record: { settingsFailed } });
      const after = { ...record, ...change?.record };
      expect(planOf([atRest('a', { record: after }, former)]).specs).toEqual([]);
    },
  );

  it.each(['RebootTimedOut', 'RebootRefused', 'SettingsFailed'] as const)(
    'tries it once also when nothing was proved, when it fails with %s',
    (errorCode) => {
      const lastOperation = failure(errorCode, { operation: 'Reboot', version: OLD });
      const status = { current_state: 'ErrorReset', crash_count: 1, lastOperation } as const;
      const found = { settingsFailed, settingsRebooted: settingsFailed };
      const spec = { settings: { leaves: [], allow: 'NeedsReboot' as const } };
      const [change] = planOf([restoring('RebootedIntoUpdate', { record: found, spec, status })]).specs;
      expect(change).toMatchObject({ outcome: 'Failed', record: { settingsFailed, settingsRebooted: { hash: none } } });
      const after = member('a', {
        record: { ...found, ...change?.record },
        spec: { settings: null, state_transition_timestamp: ago(60 * MINUTE) },
        status: { settings: { ...inForce, ...pending } },
      });
      expect(planOf([after]).specs).toEqual([]);
    },
  );

  it('tries it once when the node is not healthy afterwards', () => {
    const late = restoring(
      'MonitoringUpdate',
      {
        spec: { state_transition_timestamp: ago(6 * 60 * MINUTE), timeoutSeconds: 60 },
        status: { crash_count: 0 },
      },
      { ready: false, readySince: ago(7 * 60 * MINUTE) },
    );
    const [change] = planOf([late]).specs;
    expect(change).toMatchObject({
      outcome: 'SettingsFailed',
      spec: { settings: { leaves: former, allow: 'None' } },
      record: { settingsFailed },
    });
    const after = { ...record, ...change?.record };
    expect(planOf([atRest('a', { record: after }, former)]).specs).toEqual([]);
  });
});

it('restores with a reboot what a change without one has undone, as any other reboot', () => {
  const parts = {
    record: { settingsFailed: { hash, at: ago(MINUTE) } },
    spec: { settings: null, state_transition_timestamp: ago(MINUTE) },
    status: { settings: { ...inForce, ...pending } },
  };
  const closed = { maintenance: { windows: [{ schedule: '0 0 1 1 *', duration: '24h' }] } };
  expect(reasons(planOf([member('b', parts)], closed))).toEqual(['b OutsideMaintenanceWindow']);
  expect(reasons(planOf([member('b', parts, { ready: false })]))).toEqual(['b NodeNotReady']);
  const made = planOf([member('a', parts), member('b', parts)], { rollout: { failureBudget: 0 } });
  expect(outcomes(made)).toEqual([`a Started ${OLD}`]);
});

it('cancels a reboot before its drain when other settings are requested, and finishes it afterwards', () => {
  const other = { settings: { kernel: { lockdown: 'none' } } };
  const before = rebooting('StagedAndPerformedUpdate', { status: { current_state: 'Idle' } });
  expect(outcomes(planOf([before], {}, other))).toEqual(['a Superseded']);
  expect(outcomes(planOf([before]))).toEqual([]);
  const lastOperation = {
    ...failure('DrainTimedOut', { operation: 'Reboot', version: OLD }),
    state: 'Processing',
  } as const;
  const after = rebooting('RebootedIntoUpdate', {
    status: { current_state: 'StagedAndPerformedUpdate', lastOperation },
  });
  expect(outcomes(planOf([after], {}, other))).toEqual([]);
});

it('stops after more failures than the budget allows', () => {
  const failed = (name: string): ManagedNode =>
    atRest(name, {
      record: { settingsFailed: { hash, at: ago(MINUTE) } },
      spec: { settings: null },
      status: { settings: {} },
    });
  const made = planOf([failed('a'), failed('b'), atRest('c')], { rollout: { failureBudget: 1 } });
  expect(outcomes(made)).toEqual([]);
  expect(reasons(made)).toContain('c HostSettingsNotApplied');
});

describe('a node that is away in its reboot', () => {
  const lastOperation = { ...failure(undefined, { operation: 'Reboot', version: OLD }), state: 'Processing' } as const;
  const outcomesAfter = (minutes: number, settings: SettingsStatus, resume?: string): string[] => {
    const away = rebooting(
      'RebootedIntoUpdate',
      {
        spec: { state_transition_timestamp: ago(minutes * MINUTE) },
        record: { startedAt: ago((minutes + 3) * MINUTE), rebootRequestedAt: ago(minutes * MINUTE) },
        status: { current_state: 'StagedAndPerformedUpdate', lastOperation, settings },
      },
      { ready: false, readySince: ago((minutes - 2) * MINUTE) },
    );
    const done = atRest('b', { status: { settings: inForce } });
    return outcomes(planOf([away, done, atRest('c')], { ...TWO, rollout: { failureBudget: 0, resume } }));
  };
  const inFlight = { ...inForce, inFlight: { hash: 'x', time: ago(10 * MINUTE) } };

  it.each([inForce, inFlight])('is no failure for longer than a change may take: %o', (settings) => {
    expect(outcomesAfter(12, settings)).toEqual([`c Started ${OLD}`]);
  });

  it.each([inForce, inFlight])('is one past its deadline, until a user accepts it: %o', (settings) => {
    expect(outcomesAfter(24 * 60, settings)).toEqual([]);
    expect(outcomesAfter(24 * 60, settings, ago(0))).toEqual([`c Started ${OLD}`]);
  });
});

it('starts updates without the settings then, but for a node that gets back the former ones', () => {
  const failed = atRest(
    'a',
    { record: { settingsFailed: { hash, at: ago(MINUTE) } }, status: { target_version: NEW } },
    [],
  );
  const due = atRest('b', { status: { target_version: NEW } });
  const proved = member('c', { spec: { settings: { leaves: wanted, allow: 'None' } }, status: { settings: inForce } });
  const started = (failureBudget: number): unknown[] =>
    planOf([failed, due, proved], { ...TWO, rollout: { failureBudget } }).specs.map(({ node, outcome, spec }) => [
      node.metadata.name,
      outcome,
      spec.settings?.allow,
    ]);
  const restored = ['a', 'Started', 'NeedsReboot'];
  expect(started(0)).toEqual([restored, ['b', 'Started', 'None']]);
  expect(started(1)).toEqual([restored, ['b', 'Started', 'NeedsReboot']]);
});

it.each([OLD, NEW])('does not reboot a node with the annotation skip, which is offered %s, and names it', (version) => {
  const annotations = { [SKIP_ANNOTATION]: 'true' };
  const made = planOf([
    atRest('a', { status: { settings: pending, target_version: version } }, wanted, annotations),
    member('b', { spec: { settings: { leaves: wanted, allow: 'None' } }, status: { settings: inForce } }),
  ]);
  expect([outcomes(made), reasons(made)[0]]).toEqual([[], 'a Skipped']);
  expect(condition(made)).toBe(
    `RebootPending: Some settings need a drain and a reboot of a; skipped until a user removes the annotation ${SKIP_ANNOTATION}: a`,
  );
});

it('a node that is lost in its reboot counts as a failure, and no longer as the one that goes first', () => {
  const status = { current_state: 'StagedAndPerformedUpdate' } as const;
  const lost = (minutes: number): ManagedNode => {
    const spec = { state: 'RebootedIntoUpdate', state_transition_timestamp: ago(minutes * MINUTE) } as const;
    return rebooting('RebootedIntoUpdate', { spec, status });
  };
  const started = (minutes: number, failureBudget: number): string[] =>
    outcomes(planOf([lost(minutes), atRest('b')], { ...TWO, rollout: { failureBudget } }));
  expect(started(1, 1)).toEqual([]);
  expect(started(24 * 60, 1)).toEqual([`b Started ${OLD}`]);
  expect(started(24 * 60, 0)).toEqual([]);
});

it('no update brings settings that have failed on one node and were proved on none', () => {
  const record = { settingsFailed: { hash, at: ago(90 * MINUTE) }, settingsRebooted: { hash: none, at: ago(MINUTE) } };
  const due = atRest('b', { status: { target_version: NEW } });
  const nodes = [member('a', { spec: { settings: null }, record }), due];
  expect(planOf(nodes, TWO).specs.map(({ spec }) => spec.settings?.allow)).toEqual(['None']);
});
