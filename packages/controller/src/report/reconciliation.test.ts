/** What kstatus and kubectl, which wait for objects, see in each state of settings of groups and of drains. */
import { leavesOf, type SettingClass } from '@brupop/shared/api/settings';
import type { Allowed, SettingsStatus } from '@brupop/shared/api/shadow';
import type { Condition } from '@brupop/shared/api/meta';
import { CONNECTED } from '../cluster/connectivity.ts';
import type { ManagedNode } from '../cluster/snapshot.ts';
import {
  aGroup,
  ago,
  aManagedNode,
  aSnapshot,
  MINUTE,
  NOW,
  OLD,
  podsOf,
  type NodeParts,
  type ShadowParts,
  underWay,
  withGroups,
} from '../testing/objects.ts';
import { checkFailed, upToDate, waiting } from '../plan/condition.ts';
import { statusOf } from './config-status.ts';
import { groupStatusOf } from './group-status.ts';
import { wholePlan as plan, type WholePlan as Plan } from '../whole-plan.ts';
import { healthOf, reconciliationOf } from './reconciliation.ts';

const KEY = 'settings.kubernetes.max-pods';
const leaves = [...leavesOf({ kubernetes: { 'max-pods': 110 } })].map(([key, value]) => {
  return { key, value, owner: 'BottlerocketNodeGroup/web' };
});
const web = aGroup('web', { settings: { kubernetes: { 'max-pods': 110 } } });
/** NOW is 08:00 UTC. */
const CLOSED = { maintenance: { windows: [{ schedule: '0 2 * * *', duration: '2h' }] } };

function member(name: string, settings: SettingsStatus, allow: Allowed = 'None', parts: ShadowParts = {}): ManagedNode {
  const spec = { settings: { leaves, allow }, state_transition_timestamp: ago(allow === 'None' ? 60 * MINUTE : 0) };
  const shadow = { spec, status: { target_version: OLD, settings }, ...parts };
  return aManagedNode(name, { labels: { pool: 'web' } }, shadow);
}
const left = (found: SettingClass): SettingsStatus => ({ pending: [{ key: KEY, class: found, reason: 'because' }] });
const IN_FORCE: SettingsStatus = { records: [{ key: KEY, value: '110', owner: 'x' }] };

function planOf(nodes: readonly ManagedNode[], config: object = {}): Plan {
  return plan(withGroups(aSnapshot(nodes, config), [web]), NOW);
}

function offline(nodes: readonly ManagedNode[]): Plan {
  return plan({ ...withGroups(aSnapshot(nodes, {}), [web]), connectivity: { ...CONNECTED, lost: true } }, NOW);
}

function shown(conditions: readonly Condition[] | undefined, type: string): string | undefined {
  const found = conditions?.find((one) => one.type === type);
  return found && `${found.status} ${found.reason}`;
}

/** Of the group: Reconciling, Stalled, Ready and Progressing. */
function groupConditions(made: Plan, isWritten = true): (string | undefined)[] {
  const [rollout] = made.groups;
  if (rollout === undefined) throw new Error('there is one');
  const { conditions, observedGeneration } = groupStatusOf(web, { rollout, before: undefined, isWritten, now: NOW });
  expect(observedGeneration).toBe(1);
  return ['Reconciling', 'Stalled', 'Ready', 'Progressing'].map((type) => shown(conditions, type));
}

const nodeOf = (made: Plan, name: string): string[] =>
  made.conditions
    .flat()
    .flatMap(({ node, health, progressing: { reason, waitingFor } }) =>
      node.metadata.name === name ? [health, reason, waitingFor] : [],
    );

const groups: Record<string, [Plan, (string | undefined)[]]> = {
  'settings in force are Current': [
    planOf([member('a', IN_FORCE)]),
    [undefined, undefined, 'True InUse', 'False UpToDate'],
  ],
  'settings that are requested are InProgress, and do not count as up to date': [
    planOf([aManagedNode('a', { labels: { pool: 'web' } }, { status: { target_version: OLD } })]),
    ['True Applying', undefined, 'False Applying', 'True ChangingSettings'],
  ],
  'settings that are being set are InProgress': [
    planOf([member('a', { inFlight: { hash: 'x', time: ago(0) } }, 'Live')]),
    ['True Applying', undefined, 'False Applying', 'True ChangingSettings'],
  ],
  'settings that wait for a window are Current, and not up to date': [
    planOf([member('a', IN_FORCE), member('b', left('RestartsService'))], CLOSED),
    [undefined, undefined, 'True InUse', 'False ChangingSettings'],
  ],
  'settings that wait for the end of a pause are Current': [
    planOf([member('a', left('Live'))], { paused: true }),
    [undefined, undefined, 'True InUse', 'False ChangingSettings'],
  ],
  'settings that wait for the network are InProgress': [
    offline([member('a', left('Live'))]),
    ['True Applying', undefined, 'False Applying', 'True ChangingSettings'],
  ],
  'settings that are refused are Failed': [
    planOf([member('a', left('Refused'))]),
    [undefined, 'True SettingsRefused', 'True InUse', 'False SettingsRefused'],
  ],
};
test.each(Object.entries(groups))('of a group, %s', (_name, [made, expected]) => {
  expect(groupConditions(made)).toEqual(expected);
});

it('a group whose labels are not recorded yet is InProgress, since no Node has them', () => {
  const labelled = aGroup('web', { nodeMetadata: { domains: ['team'], labels: { team: 'web' } } });
  const [rollout] = plan(
    withGroups(aSnapshot([aManagedNode('a', { labels: { pool: 'web' } })], {}), [labelled]),
    NOW,
  ).groups;
  if (rollout === undefined) throw new Error('there is one');
  const { conditions } = groupStatusOf(labelled, { rollout, before: undefined, isWritten: true, now: NOW });
  expect(shown(conditions, 'Reconciling')).toBe('True Applying');
});

const nodes: Record<string, [string[], string[]]> = {
  'a node whose settings change is Reconciling': [
    nodeOf(planOf([member('a', { inFlight: { hash: 'x', time: ago(0) } }, 'Live')]), 'a'),
    ['Reconciling', 'ChangingSettings', 'ChangingSettings'],
  ],
  'a node whose settings wait for a window says so': [
    nodeOf(planOf([member('a', left('RestartsService'))], CLOSED), 'a'),
    ['Ready', 'OutsideMaintenanceWindow', expect.stringMatching(/^OutsideMaintenanceWindow until /u) as never],
  ],
  'a node that refuses a setting needs a user': [
    nodeOf(planOf([member('a', left('Refused'))]), 'a'),
    ['Stalled', 'HostSettingsNotApplied', 'HostSettingsNotApplied'],
  ],
  'a node that waits in a pause is Ready': [
    nodeOf(planOf([aManagedNode('a')], { paused: true }), 'a'),
    ['Ready', 'Paused', 'Paused'],
  ],
};
test.each(Object.entries(nodes))('%s', (_name, [found, expected]) => expect(found).toEqual(expected));

it('the fleet does not count as up to date while settings roll out', () => {
  const made = planOf([member('a', { inFlight: { hash: 'x', time: ago(0) } }, 'Live')]);
  const metadata = { name: 'cluster', uid: 'u', resourceVersion: '1', generation: 7 };
  const config = { metadata, spec: {} };
  const { observedGeneration, confirmedGeneration, conditions } = statusOf({
    config,
    plan: made,
    before: { confirmedGeneration: 6 },
    isWritten: true,
    now: NOW,
  });
  expect([observedGeneration, confirmedGeneration]).toEqual([7, 6]);
  expect(['Progressing', 'Reconciling'].map((type) => shown(conditions, type))).toEqual([
    'True ChangingSettings',
    'True Applying',
  ]);
});

describe('a configuration with dependents and recovery', () => {
  const stalled = (reports: Pick<Parameters<typeof statusOf>[0], 'dependents' | 'recovery'>): string | undefined => {
    const config = { metadata: { name: 'cluster', uid: 'u', resourceVersion: '1', generation: 1 }, spec: {} };
    const input = { config, plan: planOf([aManagedNode('a')]), before: undefined, isWritten: true, now: NOW };
    return shown(statusOf({ ...input, ...reports }).conditions, 'Stalled');
  };
  const isFalse = (reason: string) => ({ status: 'False', reason, message: 'because' }) as const;

  it.each([
    ['NotScaled', undefined],
    ['ScaledDown', undefined],
    ['ScaledByOthers', undefined],
    ['RecordRemoved', undefined],
    ['TargetNotFound', undefined],
    ['TargetRequestFailed', undefined],
    ['LossUnknown', undefined],
    ['TargetNotAllowed', 'True TargetNotAllowed'],
    ['TargetLosesVolumes', 'True TargetLosesVolumes'],
  ])('with %s: Stalled is %s', (reason, expected) => {
    expect(stalled({ dependents: { condition: isFalse(reason), dependents: [], clusterLostAt: undefined } })).toBe(
      expected,
    );
  });

  it.each([
    ['AsConfigured', undefined],
    ['ServiceNotWatched', undefined],
    ['PodsNotListed', undefined],
    ['EvictionsBlocked', undefined],
    ['NamespaceNotAllowed', 'True NamespaceNotAllowed'],
  ])('with %s: Stalled is %s', (reason, expected) => expect(stalled({ recovery: isFalse(reason) })).toBe(expected));
});

it('a node whose check failed before its drain is retried, and one whose check failed on the version needs a user', () => {
  const failed = { reason: 'CheckFailed', message: 'why' } as const;
  expect(healthOf(waiting({ ...failed, retryAt: NOW + MINUTE }), false)).toBe('Reconciling');
  expect(healthOf(checkFailed(OLD), false)).toBe('Stalled');
});

it('Stalled names the reasons of the nodes that need a user, the most frequent one first', () => {
  const stuck = new Map([['HostLocked', 1] as const, ['SpecWriteRejected', 2] as const]);
  const rollout = { ...planOf([]), unconfirmed: ['a', 'b', 'c'], isMoving: false, stuck };
  const { Stalled } = reconciliationOf(rollout, { generation: 2, isConfirmed: false, isWritten: true }, undefined);
  expect(Stalled?.message).toBe(
    'Generation 2 is not confirmed yet by a, b, c, of which need attention: 2 SpecWriteRejected, 1 HostLocked',
  );
});

describe('settings that wait for a slot', () => {
  const rebooting = (name: string, minutes: number): ManagedNode => {
    const spec = underWay('RebootedIntoUpdate', minutes * MINUTE);
    return aManagedNode(name, { ready: false }, { spec, status: { current_state: 'StagedAndPerformedUpdate' } });
  };
  const waiting = member('b', left('RestartsService'));
  const configOf = (made: Plan): (string | undefined)[] => {
    const config = { metadata: { name: 'cluster', uid: 'u', resourceVersion: '1', generation: 7 }, spec: {} };
    const { conditions } = statusOf({ config, plan: made, before: undefined, isWritten: true, now: NOW });
    const message = conditions?.find(({ type }) => type === 'Stalled')?.message;
    return [shown(conditions, 'Reconciling'), shown(conditions, 'Stalled'), message];
  };

  it('are InProgress while a node that updates holds it', () => {
    const made = planOf([rebooting('a', 1), waiting]);
    expect(groupConditions(made)).toEqual(['True Applying', undefined, 'False Applying', 'True ChangingSettings']);
    expect(configOf(made)).toEqual(['True Applying', undefined, undefined]);
  });

  it('are Failed while only a node that did not return holds it, since nothing continues before a user acts', () => {
    const made = planOf([rebooting('a', 300), waiting]);
    expect(groupConditions(made)).toEqual([
      undefined,
      'True NodesNeedAttention',
      'True InUse',
      'False ChangingSettings',
    ]);
    expect(configOf(made)).toEqual([
      undefined,
      'True NodesNeedAttention',
      'Generation 7 is not confirmed yet by b: As many nodes are updating as concurrency.maxUpdating allows; ' +
        'a missed a deadline or failed a check, and still holds its update slot',
    ]);
  });

  it('are Current while only a node that is not Ready, and does not update, takes the place', () => {
    const made = planOf([aManagedNode('a', { ready: false }), waiting], {
      concurrency: { maxUpdating: 2, maxUnavailable: 1 },
    });
    expect(nodeOf(made, 'b')).toContain('MaxUnavailableReached');
    expect(groupConditions(made).slice(0, 2)).toEqual([undefined, undefined]);
    expect(configOf(made)).toEqual([undefined, undefined, undefined]);
  });

  it('are Current while other nodes take the place, also if a node that did not return holds a slot elsewhere', () => {
    const settings = { kubernetes: { 'max-pods': 110 } };
    const limited = aGroup('web', { settings, concurrency: { maxUnavailable: 1 } });
    const other = member('c', IN_FORCE);
    const down = { ...other, node: other.node && { ...other.node, ready: false } };
    const nodes = [rebooting('a', 300), down, waiting];
    const made = plan(withGroups(aSnapshot(nodes, { concurrency: { maxUpdating: 3 } }), [limited]), NOW);
    expect(nodeOf(made, 'b')).toContain('MaxUnavailableReached');
    expect(configOf(made)).toEqual([undefined, undefined, undefined]);
  });

  it.each([
    ['c', 'Current while one of them is not Ready', undefined],
    ['a', 'Failed while one of them did not return', 'True NodesNeedAttention'],
  ])('of the control plane are, by %s, %s', (name, _what, stalled) => {
    const stuck = rebooting('a', 300);
    const other = name === 'a' ? stuck : aManagedNode('c', { ready: false });
    const [own, busy] = [waiting, other].map(({ node, ...one }) => {
      const labels = { ...node?.metadata.labels, 'node-role.kubernetes.io/control-plane': '' };
      return { ...one, node: node && { ...node, metadata: { ...node.metadata, labels } } };
    });
    const nodes = [own, busy, ...(name === 'a' ? [] : [stuck])].flatMap((one) => one ?? []);
    const made = plan(withGroups(aSnapshot(nodes, { concurrency: { maxUpdating: 3 } }), [web]), NOW);
    expect(nodeOf(made, 'b')).toContain('WaitingForControlPlane');
    expect(configOf(made).slice(0, 2)).toEqual([undefined, stalled]);
  });

  it('are InProgress while a node is next whose pods are being listed, also beside one that did not return', () => {
    const next = aManagedNode('c');
    const seen = (nodes: ManagedNode[], config: object): Plan => {
      const snapshot = withGroups(aSnapshot(nodes, config), [web]);
      return plan({ ...snapshot, pods: new Map([...snapshot.pods].filter(([name]) => name !== 'c')) }, NOW);
    };
    const alone = seen([next, waiting], {});
    expect(nodeOf(alone, 'b')).toContain('WaitingForCapacity');
    expect(configOf(alone)).toEqual(['True Applying', undefined, undefined]);
    const beside = seen([rebooting('a', 300), next, waiting], { concurrency: { maxUpdating: 2 } });
    expect(configOf(beside)).toEqual(['True Applying', undefined, undefined]);
  });

  it('are InProgress at first if they change meanwhile', () => {
    const spec = { settings: { leaves: [], allow: 'None' } as const, state_transition_timestamp: ago(60 * MINUTE) };
    const made = planOf([rebooting('a', 300), member('b', left('RestartsService'), 'None', { spec })]);
    expect(groupConditions(made).slice(0, 2)).toEqual(['True Applying', undefined]);
  });

  it('are InProgress while others hold or get one, too', () => {
    const twoAtOnce = { concurrency: { maxUpdating: 2 } };
    const held = planOf([rebooting('a', 300), rebooting('c', 1), waiting], twoAtOnce);
    expect(configOf(held)).toEqual(['True Applying', undefined, undefined]);
    const granted = planOf([rebooting('a', 300), waiting, member('c', left('RestartsService'))], twoAtOnce);
    expect(configOf(granted)).toEqual(['True Applying', undefined, undefined]);
  });
});

describe('a drain that waits for a pod', () => {
  const draining = (seconds: number, node: NodeParts = {}): ManagedNode => {
    const block = { pod: 'default/db-0', reason: 'DisruptionBudget', message: '', since: ago(seconds * 1000) } as const;
    const drain = { observedGeneration: 3, startTime: ago(5 * MINUTE), evicted: 0, remaining: 1, blockedBy: [block] };
    const status = { current_state: 'StagedAndPerformedUpdate', drain } as const;
    return aManagedNode('a', node, { spec: underWay('RebootedIntoUpdate'), status });
  };

  it('is not named as the cause while the Node is not Ready, since nothing repeats the drain then', () => {
    const made = plan(aSnapshot([draining(61, { ready: false })], {}), NOW);
    expect(nodeOf(made, 'a')).toEqual(['Reconciling', 'Updating', 'NodeNotReady']);
    expect(made.conditions.flat()[0]?.progressing.message).toContain(
      'The Node is not Ready; its drain last waited for the pod default/db-0 (DisruptionBudget); status.drain lists all',
    );
  });

  it('shows in Waiting For after a minute, with the pod in the message', () => {
    const made = plan(aSnapshot([draining(61)], {}), NOW);
    expect(nodeOf(made, 'a')).toEqual(['Reconciling', 'Updating', 'DisruptionBudget']);
    expect(made.conditions.flat()[0]?.progressing.message).toContain(
      'waits for the pod default/db-0 (DisruptionBudget)',
    );
  });

  it('does not show before, and is looked at again then', () => {
    const made = plan(aSnapshot([draining(59)], {}), NOW);
    expect(nodeOf(made, 'a')).toEqual(['Reconciling', 'Updating', '']);
    expect(made.wakeAt).toBe(NOW + 1000);
  });
});

it('while the pods of a node are listed for the first time, no list counts as failed', () => {
  const progressing = { type: 'Progressing', lastTransitionTime: ago(0), ...upToDate(OLD, false) };
  const snapshot = aSnapshot([aManagedNode('a', {}, { progressing })], {});
  const made = plan({ ...snapshot, pods: new Map() }, NOW);
  expect(made.lookUps).toHaveLength(1);
  expect([...made.forecast.reasons.keys()]).toEqual([]);
  expect(made.forecast.queue.map(({ reason }) => reason)).toEqual(['WaitingForCapacity']);
  const node = snapshot.managedNodes[0]?.node;
  if (node === undefined) throw new Error('there is one');
  const failed = { ...podsOf(node), seenAt: undefined, problem: 'forbidden' };
  expect([...plan({ ...snapshot, pods: new Map([['a', failed]]) }, NOW).forecast.reasons.keys()]).toEqual([
    'PodListFailed',
  ]);
});

describe('the Event HostSettingsChanged', () => {
  const messages = ({ specs }: Plan): (string | undefined)[] => specs.map(({ event }) => event?.message);

  it('names the settings that change, those that the host may set now, and says when it ends', () => {
    const asked = planOf([aManagedNode('a', { labels: { pool: 'web' } }, { status: { target_version: OLD } })]);
    expect(messages(asked)).toEqual([`The host gets other settings: ${KEY}`]);
    expect(messages(planOf([member('a', left('Live'))]))).toEqual([
      `The host may now set the settings of class Live: ${KEY}`,
    ]);
    const removed = plan(aSnapshot([member('a', IN_FORCE)], {}), NOW);
    expect(messages(removed)).toEqual([`The host gets other settings: ${KEY}`]);
  });
});
