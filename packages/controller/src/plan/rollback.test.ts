import { indexedBudgets } from '@brupop/shared/drain/budget-index';
import type { Budget } from '@brupop/shared/drain/budgets';
import type { DrainPod } from '@brupop/shared/drain/pods';
import { aBudget, aPod } from '@brupop/shared/testing/pods';
import { pinned } from '@brupop/shared/testing/settings';
import { RETRY_ANNOTATION, SKIP_ANNOTATION } from '@brupop/shared/api/names';
import type { ShadowStatus } from '@brupop/shared/api/shadow';
import { rfc3339 } from '@brupop/shared/runtime/clock';
import { shadowView } from '../cluster/shadow.ts';
import type { ManagedNode, Snapshot } from '../cluster/snapshot.ts';
import {
  aGroup,
  ago,
  aManagedNode,
  aNode,
  aShadow,
  aSnapshot,
  failure,
  MINUTE,
  NEW,
  type NodeParts,
  NOW,
  OLD,
  podsOf,
  type ShadowParts,
  underWay,
  withGroups,
} from '../testing/objects.ts';
import { wholePlan as plan, type WholePlan as Plan } from '../whole-plan.ts';

const AUTOMATIC = { rollout: { rollback: 'Automatic' } };
const UNHEALTHY = { conditions: ['DiskPressure'] };

/** It runs the new version, and its monitoring began `ms` ago. */
function monitored(name: string, node: NodeParts = UNHEALTHY, parts: ShadowParts = {}, ms = 60 * MINUTE): ManagedNode {
  const record = {
    startedAt: ago(ms + MINUTE),
    from: OLD,
    ...parts.record,
  };
  const status = { current_version: NEW, target_version: NEW, ...parts.status };
  return aManagedNode(name, node, { spec: underWay('MonitoringUpdate', ms), ...parts, record, status });
}

/** It is to go back to OLD. */
function pending(name: string, node: NodeParts = UNHEALTHY, status: Partial<ShadowStatus> = {}): ManagedNode {
  const record = {
    rollback: { failed: NEW, previous: OLD, since: ago(MINUTE), isDone: false },
    failed: { version: NEW, code: 'NotHealthy', at: ago(MINUTE) },
    startedAt: ago(61 * MINUTE),
  };
  const spec = { settings: pinned({ versionLock: OLD, ignoreWaves: true }) };
  return aManagedNode(name, node, {
    record,
    spec,
    status: { current_version: NEW, target_version: OLD, ...status },
  });
}

/** It went back from NEW to OLD. */
function done(name: string, annotations: ShadowParts['annotations'] = {}): ManagedNode {
  const failed = { failed: { version: NEW, code: 'NotHealthy', at: ago(MINUTE) } };
  const rollback = { rollback: { failed: NEW, previous: OLD, since: ago(MINUTE), isDone: true } };
  return aManagedNode(name, {}, { record: { ...failed, ...rollback }, annotations });
}

const accepted = (): object => ({ rollout: { rollback: 'Automatic', resume: ago(0) } });
const pinned122 = (): object => ({ ...AUTOMATIC, versions: { pin: '1.22.0' } });

const planOf = (nodes: readonly ManagedNode[], spec: object = AUTOMATIC, now = NOW): Plan =>
  plan(aSnapshot(nodes, spec, now), now);
const outcomes = ({ specs }: Plan): string[] => specs.map(({ node, outcome }) => `${node.metadata.name} ${outcome}`);
const reasonOf = (made: Plan, name: string): string | undefined =>
  made.conditions.flat().find(({ node }) => node.metadata.name === name)?.progressing.reason;

describe('a node that is not healthy in time after its update', () => {
  it('keeps its slot by default', () => {
    const made = planOf([monitored('a'), aManagedNode('b')], {});
    expect(outcomes(made)).toEqual([]);
    expect(reasonOf(made, 'a')).toBe('DeadlineExceeded');
  });

  it('goes back to its previous version if the configuration says so', () => {
    const [change] = planOf([monitored('a')]).specs;
    expect(change).toMatchObject({
      outcome: 'Reverting',
      spec: { state: 'Idle', settings: pinned({ versionLock: OLD, ignoreWaves: true }) },
      record: {
        rollback: { failed: NEW, previous: OLD, since: rfc3339(NOW), isDone: false },
        failed: { version: NEW, code: 'NotHealthy', at: rfc3339(NOW) },
      },
      event: {
        reason: 'UpdateFailed',
        warning: true,
        message: `Not healthy on ${NEW}: the Node has the condition DiskPressure. The node goes back to ${OLD}`,
      },
    });
  });

  it.each<[string, ManagedNode]>([
    ['before its deadline', monitored('a', UNHEALTHY, {}, 10 * MINUTE)],
    ['while its agent does not respond', monitored('a', UNHEALTHY, { status: { observedGeneration: 1 } })],
    ['without a record of its previous version', monitored('a', UNHEALTHY, { record: { from: '?' } })],
    ['when it is healthy again', monitored('a', { readySince: ago(0) })],
    ['when it went down after its report', monitored('a', { ready: false, readySince: ago(10 * MINUTE) })],
    [
      'when it went back already',
      monitored('a', UNHEALTHY, {
        spec: { ...underWay('MonitoringUpdate', 60 * MINUTE), version: OLD },
        record: { rollback: { failed: NEW, previous: OLD, since: ago(MINUTE), isDone: false } },
        status: { current_version: OLD },
      }),
    ],
  ])('does not go back %s', (_, node) => {
    expect(outcomes(planOf([node], { ...AUTOMATIC, monitoring: { healthyFor: '5m', timeout: '30m' } }))).toEqual([]);
  });
});

test('a node that was never Ready on the version goes back', () => {
  const node = monitored('a', { ready: false, readySince: ago(70 * MINUTE) });
  expect(outcomes(planOf([node]))).toEqual(['a Reverting']);
});

test('a failure that a user has accepted is no reason to go back later', () => {
  const rollout = { rollback: 'Automatic', resume: ago(0) };
  expect(outcomes(planOf([monitored('a')], { rollout }))).toEqual([]);
});

describe('a node that is to go back', () => {
  it('starts when its host offers the previous version, although it is unhealthy and holds the only slot', () => {
    const made = planOf([pending('a'), aManagedNode('b')]);
    expect(outcomes(made)).toEqual(['a Started']);
    expect(made.specs[0]?.spec).toMatchObject({
      version: OLD,
      settings: pinned({ versionLock: OLD, ignoreWaves: true }),
    });
    expect(reasonOf(made, 'b')).toBe('WaitingForCapacity');
  });

  it('keeps its record when it starts', () => {
    expect(planOf([pending('a')]).specs[0]?.record.rollback).toMatchObject({ isDone: false });
  });

  it('waits until its host offers the previous version', () => {
    const made = planOf([pending('a', UNHEALTHY, { target_version: NEW }), aManagedNode('b')]);
    expect(outcomes(made)).toEqual([]);
    expect(reasonOf(made, 'a')).toBe('VersionNotOffered');
  });

  it.each([
    ['a closed window', { maintenance: { windows: [{ schedule: '0 20 * * *', duration: '1h' }] } }, ['a Started']],
    ['a denied version', { versions: { deny: [OLD] } }, ['a Started']],
    ['a freeze of the version', { rollout: { ...AUTOMATIC.rollout, failureBudget: 0 } }, ['a Started']],
    ['an approval that is missing', { rollout: { ...AUTOMATIC.rollout, approval: 'Required' } }, ['a Started']],
    ['a pause', { paused: true }, []],
    ['another version that a user pins', { versions: { pin: '1.22.0' } }, ['a Configured']],
    ['a selector that leaves the node out', { nodeSelector: { matchLabels: { pool: 'other' } } }, []],
  ])('%s', (_, spec, expected) => {
    expect(outcomes(planOf([pending('a')], { ...AUTOMATIC, ...spec }))).toEqual(expected);
  });

  it('is staged and then stays when a user turns rollbacks off', () => {
    const { node, shadow } = pending('a');
    const spec = { ...underWay('StagedAndPerformedUpdate'), version: OLD };
    const staged = { ...aManagedNode('a'), node, shadow: shadow && shadowView({ ...shadow, spec }) } as ManagedNode;
    expect(outcomes(planOf([staged], {}))).toEqual(['a Superseded']);
  });

  it.each(
    [['rollback: None', {}] as const, ['resume', accepted()] as const, ['another pin', pinned122()] as const].flatMap(
      ([what, spec]) => (['Stage', 'Drain'] as const).map((operation) => [what, operation, spec] as const),
    ),
  )('is returned to service with %s, while its latest operation is %s', (_, operation, spec) => {
    expect(outcomes(planOf([underWayBack(operation)], spec))).toEqual(['a Superseded']);
  });

  it.each([{}, accepted(), pinned122()])(
    'goes on once its host may have been asked to reboot, also with %j',
    (spec) => {
      expect(outcomes(planOf([underWayBack('Activate')], spec))).toEqual([]);
    },
  );

  it('stays when a user accepts its failure, or turns rollbacks off', () => {
    expect(outcomes(planOf([pending('a')], { rollout: { rollback: 'Automatic', resume: ago(0) } }))).toEqual([
      'a Configured',
    ]);
    const off = planOf([pending('a')], {});
    expect(outcomes(off)).toEqual(['a Configured']);
    expect(off.specs[0]?.record.rollback).toBeUndefined();
  });
});

/** It goes back, and its agent performs the operation. */
function underWayBack(operation: 'Stage' | 'Drain' | 'Activate'): ManagedNode {
  const { node, shadow } = pending('a');
  if (shadow?.status === undefined) throw new Error('it has a status');
  const state = operation === 'Stage' ? 'StagedAndPerformedUpdate' : 'RebootedIntoUpdate';
  const record = { ...shadow.record, startedAt: ago(MINUTE), from: NEW };
  const lastOperation = { ...failure(undefined, { operation, version: OLD }), state: 'Processing' as const };
  const status = { ...shadow.status, current_state: 'StagedAndPerformedUpdate' as const, lastOperation };
  const spec = { ...underWay(state), version: OLD, settings: shadow.spec.settings ?? null };
  return { ...aManagedNode('a'), ...(node && { node }), shadow: shadowView({ ...shadow, record, spec, status }) };
}

/** Sends what a plan wrote, and lets the agent answer. */
function carriedOut({ node, shadow }: ManagedNode, { specs }: Plan, status: Partial<ShadowStatus> = {}): ManagedNode {
  const [change] = specs;
  if (change === undefined || shadow?.status === undefined || node === undefined)
    throw new Error('nothing was written');
  const { state } = change.spec;
  const generation = (shadow.metadata.generation ?? 0) + 1;
  const metadata = { ...shadow.metadata, generation };
  const reported = { ...shadow.status, current_state: state, observedGeneration: generation, ...status };
  const next = shadowView({ ...shadow, metadata, record: change.record, spec: change.spec, status: reported });
  return { ...aManagedNode('a'), shadow: next };
}

test('a node that goes back is drained, rebooted and healthy, and then waits for another version', () => {
  const unready = { unreadyBefore: ['shop/old'] };
  let node = monitored('a', UNHEALTHY, { record: unready });
  const outcomesSoFar: string[] = [];
  const step = (status: Partial<ShadowStatus> = {}): Plan => {
    const made = planOf([node]);
    outcomesSoFar.push(...made.specs.map(({ outcome }) => outcome));
    node = carriedOut(node, made, status);
    return made;
  };
  step({ target_version: OLD });
  step();
  step({ current_version: OLD, target_version: NEW });
  step();
  const last = step();
  step({ settings: {} });
  expect(outcomesSoFar).toEqual(['Reverting', 'Started', 'Advanced', 'Advanced', 'Reverted', 'Configured']);
  expect(last.specs[0]?.event).toMatchObject({
    reason: 'Reverted',
    message: `The node runs ${OLD} again, and is healthy`,
  });

  const after = planOf([node]);
  expect(outcomes(after)).toEqual([]);
  expect(after.failed).toMatchObject([{ name: 'a', version: NEW, code: 'NotHealthy' }]);
  expect(reasonOf(after, 'a')).toBe('Reverted');
  expect(after.conditions.flat()[0]?.progressing.message).toEqual(
    expect.stringMatching(
      /^The node failed with 1\.21\.0 \(NotHealthy, at 20\S+\), and went back to 1\.20\.0\. To retry: kubectl annotate brs /u,
    ),
  );
});

describe('a node that is to go back to a version that a user pins', () => {
  const pin = { versions: { pin: OLD } };

  it.each([
    ['turned rollbacks off', pin],
    ['accepted the failure', { ...accepted(), ...pin }],
  ])('is updated to it as any other node when the user has also %s', (_, spec) => {
    let node = pending('a', {});
    const outcomesSoFar: string[] = [];
    for (let round = 0; round < 5; round += 1) {
      const made = planOf([node], spec, NOW + round * MINUTE);
      outcomesSoFar.push(...made.specs.map(({ outcome }) => outcome));
      const hasBooted = made.specs[0]?.spec.state === 'MonitoringUpdate';
      node = carriedOut(node, made, hasBooted ? { current_version: OLD } : {});
    }
    expect(outcomesSoFar).toEqual(['Configured', 'Started', 'Advanced', 'Advanced', 'Succeeded']);
    expect(node.shadow?.record.rollback).toBeUndefined();
  });

  it('no longer does if its host has the settings of the pin already', () => {
    const node = pending('a');
    const [change] = planOf([node], { versions: { pin: OLD, ignoreWaves: true } }).specs;
    const spec = { ...node.shadow?.spec, state_transition_timestamp: ago(0) };
    expect(change).toMatchObject({ outcome: 'Configured', spec });
    expect(change?.record.rollback).toBeUndefined();
    expect(change?.event?.message).toBe(`The node no longer goes back to ${OLD}`);
  });

  it('goes back while the configuration wants it', () => {
    expect(outcomes(planOf([pending('a')], { ...AUTOMATIC, ...pin }))).toEqual(['a Started']);
  });

  it('has the rules of its new group after a rollback without success', () => {
    const { shadow } = pending('a', {}, { current_version: OLD });
    const settings = pinned({ versionLock: OLD, ignoreWaves: false });
    const ended = shadowView({
      ...(shadow ?? aShadow()),
      spec: { ...(shadow ?? aShadow()).spec, settings },
      record: { ...shadow?.record, group: 'web' },
    });
    const moved = { ...aManagedNode('a', { labels: { pool: 'db' } }), shadow: ended };
    const inGroups = (node: ManagedNode): Snapshot => withGroups(aSnapshot([node], pin), [aGroup('web'), aGroup('db')]);
    const after = { ...moved, shadow: carriedOut(moved, plan(inGroups(moved), NOW)).shadow };
    expect(after.shadow?.record.rollback?.isDone).toBe(true);
    expect(inGroups(after).managedNodes[0]?.group?.name).toBe('db');
    expect(outcomes(plan(inGroups(after), NOW))).toEqual([]);
  });
});

describe('a node that is to go back does not start', () => {
  it.each([
    ['when a user has cordoned it', { unschedulable: true }],
    ['when a user skips it', { annotations: { [SKIP_ANNOTATION]: 'true' } }],
    ['when it is being deleted', { deletionTimestamp: ago(0) }],
  ])('%s', (_, node) => {
    expect(outcomes(planOf([pending('a', node)]))).toEqual([]);
    const staged = pending('a', node);
    const spec = { ...underWay('StagedAndPerformedUpdate'), version: OLD };
    const shadow = staged.shadow && shadowView({ ...staged.shadow, spec });
    expect(outcomes(planOf([{ ...staged, shadow }]))).not.toContain('a Advanced');
  });
});

describe('a node that went back', () => {
  it('does not go back again when its agent reports the version that failed', () => {
    const node = done('a');
    const status = { ...node.shadow?.status, current_version: NEW } as ShadowStatus;
    const liar = { ...node, shadow: node.shadow && shadowView({ ...node.shadow, status }) } as ManagedNode;
    expect(outcomes(planOf([liar, aManagedNode('b')]))).toEqual(['b Started']);
  });

  it('does not hold a slot', () => {
    expect(outcomes(planOf([done('a'), aManagedNode('b')]))).toEqual(['b Started']);
  });

  it('starts an update to a later version, and then knows nothing of it', () => {
    const node = done('a');
    const later = {
      ...node,
      shadow:
        node.shadow &&
        shadowView({ ...node.shadow, status: { ...node.shadow.status, target_version: '1.22.0' } as ShadowStatus }),
    };
    const [change] = planOf([later]).specs;
    expect(change?.spec.version).toBe('1.22.0');
    expect(change?.record.rollback).toBeUndefined();
  });

  it('tries the version again on request', () => {
    expect(outcomes(planOf([done('a', { [RETRY_ANNOTATION]: NEW })]))).toEqual(['a Started']);
  });

  it('tries the version again when a user accepts the failure', () => {
    expect(outcomes(planOf([done('a')], { rollout: { rollback: 'Automatic', resume: ago(0) } }))).toEqual([
      'a Started',
    ]);
  });
});

describe('a node that goes back, and holds the only slot', () => {
  const withPods = (pod: DrainPod, budgets: readonly Budget[], spec: object, seenAt = NOW): Plan => {
    const a = pending('a');
    const snapshot = aSnapshot([a], { ...AUTOMATIC, concurrency: { maxUpdating: 1 }, ...spec });
    const pods = new Map([['a', podsOf(a.node ?? aNode(), [pod], seenAt)]]);
    return plan({ ...snapshot, pods, budgets: indexedBudgets(budgets) }, NOW);
  };

  it('is cordoned for the pods that disruption budgets hold', () => {
    const primary = aBudget('pg', { currentHealthy: 1, desiredHealthy: 1, expectedPods: 1 });
    expect(outcomes(withPods(aPod('pg-1'), [primary], {}))).toEqual(['a Started']);
  });

  it('is looked at again while something else blocks its drain', () => {
    const block = { drain: { unmanagedPods: 'Block' } };
    const bare = aPod('bare', { unmanaged: true });
    expect(reasonOf(withPods(bare, [], block), 'a')).toBe('DrainBlocked');
    const later = withPods(bare, [], block, NOW - 10 * MINUTE);
    expect(later.lookUps.map(({ metadata }) => metadata.name)).toEqual(['a']);
  });
});

it('a limit that was lowered defers an update, and not a node that goes back', () => {
  const goesBack = aManagedNode(
    'z',
    {},
    {
      spec: {
        ...underWay('StagedAndPerformedUpdate'),
        version: OLD,
        settings: pinned({ versionLock: OLD, ignoreWaves: true }),
      },
      record: { ...pending('z').shadow?.record, startedAt: ago(MINUTE), from: NEW },
      status: { current_version: NEW, target_version: OLD },
    },
  );
  const update = aManagedNode(
    'x',
    {},
    { spec: underWay('StagedAndPerformedUpdate'), record: { startedAt: ago(MINUTE) } },
  );
  const lowered = { rollout: { rollback: 'Automatic', failureBudget: 5 }, concurrency: { maxUpdating: 1 } };
  expect(outcomes(planOf([update, goesBack], lowered))).toEqual(['x Deferred', 'z Advanced']);
});
