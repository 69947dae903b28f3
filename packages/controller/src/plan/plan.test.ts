import { ZONE_LABEL } from '@brupop/shared/api/names';
import type { Operation } from '@brupop/shared/api/shadow';
import type { ManagedNode, Snapshot } from '../cluster/snapshot.ts';
import {
  ago,
  aManagedNode,
  aSnapshot,
  cordoned,
  failure,
  MINUTE,
  NEW,
  type NodeParts,
  NOW,
  type ShadowParts,
  underWay,
  withoutShadow,
} from '../testing/objects.ts';
import { CONDITIONS } from '../report/config-conditions.ts';
import { wholePlan as plan, type WholePlan as Plan } from '../whole-plan.ts';

const planOf = (managedNodes: readonly ManagedNode[], config?: unknown): Plan =>
  plan(aSnapshot(managedNodes, config), NOW);
const started = ({ specs }: Plan): string[] =>
  specs.filter(({ outcome }) => outcome === 'Started').map(({ node }) => node.metadata.name);
const reasonOf = ({ conditions }: Plan, name: string): string | undefined =>
  conditions.flat().find(({ node }) => node.metadata.name === name)?.progressing.reason;
const limit = (maxUpdating: unknown): unknown => ({ concurrency: { maxUpdating } });

const upToDate = { status: { current_version: NEW } };
const stuckReboot = { spec: underWay('RebootedIntoUpdate', 61 * MINUTE), status: { current_state: 'Idle' } } as const;
const drainedLate: ShadowParts = {
  spec: underWay('RebootedIntoUpdate', 61 * MINUTE),
  status: {
    current_state: 'StagedAndPerformedUpdate',
    lastOperation: failure(undefined, { operation: 'Drain', state: 'Processing' }),
    drain: { observedGeneration: 3, startTime: ago(20 * MINUTE), evicted: 0, remaining: 1 },
  },
};
const drainedTooLate: ShadowParts = {
  ...drainedLate,
  status: { ...drainedLate.status, drain: { observedGeneration: 3, startTime: ago(0), evicted: 0, remaining: 1 } },
};
const rebooting = { spec: underWay('RebootedIntoUpdate'), status: { current_state: 'Idle' } } as const;

/** Its spec has called for a drain and a reboot. */
const REBOOTED = {
  startedAt: ago(90 * MINUTE),
  rebootRequestedAt: ago(60 * MINUTE),
};
const recreated = {
  generation: 1,
  creationTimestamp: ago(10 * MINUTE),
  spec: { state_transition_timestamp: null },
  status: null,
} as const;
const unconfirmed = (ms: number): ShadowParts => ({
  record: REBOOTED,
  spec: { state_transition_timestamp: ago(ms) },
  status: { current_state: 'ErrorReset' },
});
/** Cancelled an hour ago in this step, which its agent does not confirm. */
const cancelled = (operation: Operation): ShadowParts => ({
  record: REBOOTED,
  spec: { state_transition_timestamp: ago(60 * MINUTE) },
  status: {
    current_state: operation === 'Stage' ? 'Idle' : 'StagedAndPerformedUpdate',
    observedGeneration: 2,
    lastOperation: failure(undefined, { operation, state: 'Processing' }),
  },
});
const failedAttempt = (ms: number): ShadowParts => ({
  record: REBOOTED,
  spec: { state_transition_timestamp: ago(ms) },
});
const rebootAsked = (ms: number): ShadowParts => ({
  record: REBOOTED,
  spec: { state_transition_timestamp: ago(ms) },
  status: {
    current_state: 'RebootedIntoUpdate',
    lastOperation: { ...failure(undefined), operation: 'Reboot', state: 'Processing' },
  },
});

const starts: Record<string, [Plan, string[]]> = {
  'one of two nodes starts by default': [planOf([aManagedNode('b'), aManagedNode('a')]), ['a']],
  'as many start as the limit allows': [
    planOf(
      ['a', 'b', 'c'].map((name) => aManagedNode(name)),
      limit(2),
    ),
    ['a', 'b'],
  ],
  'a percentage counts the managed nodes, those up to date too': [
    planOf([...['a', 'b', 'c'].map((name) => aManagedNode(name)), aManagedNode('d', {}, upToDate)], limit('50%')),
    ['a', 'b'],
  ],
  'nodes that are not managed do not count into a percentage': [
    planOf(
      [aManagedNode('a'), aManagedNode('b'), ...['c', 'd'].map((name) => aManagedNode(name, { managed: false }))],
      limit('50%'),
    ),
    ['a'],
  ],
  'a node under way holds a slot': [planOf([aManagedNode('a'), aManagedNode('b', {}, rebooting)]), []],
  'a node that is not confirmed to be at rest after a reboot was requested holds a slot': [
    planOf([aManagedNode('a'), aManagedNode('b', {}, unconfirmed(MINUTE))]),
    [],
  ],
  'the slot of a node that is not confirmed to be at rest after a requested reboot ends after 5 minutes': [
    planOf([
      aManagedNode('a'),
      aManagedNode(
        'b',
        {},
        { spec: { state_transition_timestamp: ago(5 * MINUTE) }, status: { observedGeneration: 1 } },
      ),
    ]),
    ['a'],
  ],
  'a cordoned node whose shadow is lost holds a slot': [
    planOf([aManagedNode('a'), withoutShadow(aManagedNode('b', cordoned(10 * MINUTE)))]),
    [],
  ],
  'a cordoned node whose shadow was recreated holds a slot': [
    planOf([aManagedNode('a'), aManagedNode('b', cordoned(10 * MINUTE), recreated)]),
    [],
  ],
  'a new shadow whose agent has not reported holds no slot': [
    planOf([aManagedNode('a'), aManagedNode('b', {}, { ...recreated, creationTimestamp: ago(MINUTE) })]),
    ['a'],
  ],
  'a node that is not confirmed holds a slot as long as it is cordoned by the operator': [
    planOf([aManagedNode('a'), aManagedNode('b', cordoned(30 * MINUTE), unconfirmed(6 * MINUTE))]),
    [],
  ],
  'a node that the operator cordoned holds its slot past every deadline': [
    planOf([aManagedNode('a'), aManagedNode('b', cordoned(600 * MINUTE), unconfirmed(600 * MINUTE))]),
    [],
  ],
  'a node whose update was cancelled before its first drain pass holds its slot until its agent confirms that': [
    planOf([aManagedNode('a'), aManagedNode('b', {}, cancelled('Stage'))]),
    [],
  ],
  'a node whose drain was cancelled holds its slot until it is restored': [
    planOf([aManagedNode('a'), aManagedNode('b', cordoned(600 * MINUTE), cancelled('Drain'))]),
    [],
  ],
  'a node that was restored after its drain was cancelled holds no slot': [
    planOf([aManagedNode('a'), aManagedNode('b', {}, cancelled('Drain'))]),
    ['a'],
  ],
  'a node whose shadow is deleted after its staging was cancelled holds no slot': [
    planOf([aManagedNode('a'), withoutShadow(aManagedNode('b', {}, cancelled('Stage')))]),
    ['a'],
  ],
  'a node whose agent took no step of the update that was cancelled holds no slot': [
    planOf([
      aManagedNode('a'),
      aManagedNode(
        'b',
        {},
        {
          record: { unsuccessful: 1 },
          spec: { state_transition_timestamp: ago(6 * MINUTE) },
          status: { observedGeneration: 1 },
        },
      ),
    ]),
    ['a'],
  ],
  'a node at rest that is still cordoned by the operator holds a slot': [
    planOf([aManagedNode('a'), aManagedNode('b', cordoned(MINUTE), failedAttempt(MINUTE))]),
    [],
  ],
  'an end that nobody confirms and that is dated in the future holds a slot': [
    planOf([aManagedNode('a'), aManagedNode('b', {}, unconfirmed(-60 * MINUTE))]),
    [],
  ],
  'a host that may still reboot for the operator holds a slot, whichever actor has cordoned it': [
    planOf([aManagedNode('a'), aManagedNode('b', { unschedulable: true }, rebootAsked(14 * MINUTE))]),
    [],
  ],
  'a host that may still reboot for the operator holds a slot also without the label': [
    planOf([
      aManagedNode('a'),
      aManagedNode('b', { managed: false, ...cordoned(20 * MINUTE) }, rebootAsked(14 * MINUTE)),
    ]),
    [],
  ],
  'a node whose attempt was cancelled goes behind nodes that did not fail': [
    planOf([aManagedNode('a', {}, { record: { unsuccessful: 1 } }), aManagedNode('b')]),
    ['b'],
  ],
  'nothing starts while a watch is stale': [
    plan({ ...aSnapshot([aManagedNode('a')]), watchLags: [{ resource: 'nodes', ms: 120_000 }] }, NOW),
    [],
  ],
  'a pause between two bookmarks is not stale': [
    plan({ ...aSnapshot([aManagedNode('a')]), watchLags: [{ resource: 'nodes', ms: 119_000 }] }, NOW),
    ['a'],
  ],
  'a node past its deadline holds its slot': [planOf([aManagedNode('a'), aManagedNode('b', {}, stuckReboot)]), []],
  'a node past its deadline holds one slot': [
    planOf([aManagedNode('a'), aManagedNode('b', {}, stuckReboot), aManagedNode('c')], limit(2)),
    ['a'],
  ],
  'a node whose drain began late keeps its slot for as long as that may take': [
    planOf([aManagedNode('a'), aManagedNode('b', {}, drainedLate)]),
    [],
  ],
  'a node whose drain began too late holds a slot while the Node has the cordon of the operator': [
    planOf([aManagedNode('a'), aManagedNode('b', cordoned(MINUTE), drainedTooLate)]),
    [],
  ],
  'a released node under way keeps its slot until it is confirmed': [
    planOf([aManagedNode('a'), aManagedNode('b', { managed: false }, rebooting)]),
    [],
  ],
  'a node that failed before goes behind nodes that did not': [
    planOf([
      aManagedNode(
        'a',
        {},
        { status: { crash_count: 1, lastOperation: failure('RolledBack', { version: '1.20.1' }) } },
      ),
      aManagedNode('b'),
    ]),
    ['b'],
  ],
  'the node of the controller comes last': [planOf([aManagedNode('own'), aManagedNode('z')]), ['z']],
  'the node of the controller is updated too': [planOf([aManagedNode('own')]), ['own']],
  'a blocked node leaves its slot to the next': [
    planOf([aManagedNode('a', { ready: false }), aManagedNode('b')]),
    ['b'],
  ],
  'a node whose spec is rejected leaves its slot to the next': [
    planOf([{ ...aManagedNode('a'), writeRejection: 'denied' }, aManagedNode('b')]),
    ['b'],
  ],
  'a node without a shadow does not start': [planOf([{ ...aManagedNode('a'), shadow: undefined }]), []],
  'the shadow of an earlier Node does not start': [planOf([aManagedNode('a', {}, { owner: 'uid-before' })]), []],
  'nothing starts in a pause': [planOf([aManagedNode('a')], { paused: true }), []],
  'nothing starts with an invalid configuration': [planOf([aManagedNode('a')], limit('0%')), []],
};
test.each(Object.entries(starts))('%s', (_, [made, expected]) => expect(started(made)).toEqual(expected));

const reasons: Record<string, [Plan, string | undefined]> = {
  'a node that starts is Updating': [planOf([aManagedNode('a')]), 'Updating'],
  'a node on the offered version is UpToDate': [planOf([aManagedNode('a', {}, upToDate)]), 'UpToDate'],
  'a node on the offered version is UpToDate in a pause too': [
    planOf([aManagedNode('a', {}, upToDate)], { paused: true }),
    'UpToDate',
  ],
  'a node under way is Updating in a pause too': [
    planOf([aManagedNode('a', {}, rebooting)], { paused: true }),
    'Updating',
  ],
  'a node past its deadline shows DeadlineExceeded': [planOf([aManagedNode('a', {}, stuckReboot)]), 'DeadlineExceeded'],
  'a late node that goes on is Updating': [
    planOf([aManagedNode('a', {}, { spec: underWay('RebootedIntoUpdate', 90 * MINUTE) })]),
    'Updating',
  ],
  'a node whose staging is cancelled shows DeadlineExceeded': [
    planOf([aManagedNode('a', {}, { ...stuckReboot, spec: underWay('StagedAndPerformedUpdate', 51 * MINUTE) })]),
    'DeadlineExceeded',
  ],
  'a node that has just ended keeps what it said': [
    planOf([
      aManagedNode('a', {}, { spec: { state_transition_timestamp: ago(0) }, status: { observedGeneration: 2 } }),
    ]),
    undefined,
  ],
  'an agent that does not respond is named after 5 minutes': [
    planOf([aManagedNode('a', {}, { status: { observedGeneration: 2 } })]),
    'AgentNotResponding',
  ],
  'an agent that has not reported yet is named at once': [
    planOf([aManagedNode('a', {}, { status: null, creationTimestamp: ago(0) })]),
    'AgentNotConnected',
  ],
  'an agent that never reported is named': [planOf([aManagedNode('a', {}, { status: null })]), 'AgentNotConnected'],
};
test.each(Object.entries(reasons))('%s', (_, [made, expected]) => expect(reasonOf(made, 'a')).toBe(expected));

test.each([null, { observedGeneration: 2 }])(
  'a node whose agent does not report (status %p) says what to do when the Node was created again',
  (status) => {
    const { conditions } = planOf([aManagedNode('a', {}, { status })]);
    expect(conditions.flat()[0]?.progressing.message).toMatch(/created again .*: delete the pod$/);
  },
);

test('what waits for the whole fleet says the same on every node, so that a step of one rewrites no other', () => {
  const before = planOf([aManagedNode('a'), aManagedNode('b'), aManagedNode('c')]);
  const after = planOf([aManagedNode('a', {}, rebooting), aManagedNode('b'), aManagedNode('c')]);
  const messages = [...before.conditions, ...after.conditions]
    .flat()
    .filter(({ progressing }) => progressing.reason === 'WaitingForCapacity')
    .map(({ progressing }) => progressing.message);
  expect(messages).toHaveLength(4);
  expect(new Set(messages).size).toBe(1);
});

describe('nodes that hold a slot past a deadline', () => {
  const nodes = (...stuck: string[]): ManagedNode[] => [
    ...stuck.map((name) => aManagedNode(name, {}, stuckReboot)),
    aManagedNode('z'),
  ];
  const said = (managedNodes: readonly ManagedNode[], concurrency: object = { maxUpdating: 1 }): string | undefined =>
    planOf(managedNodes, { concurrency, rollout: { failureBudget: '100%' } })
      .conditions.flat()
      .find(({ node }) => node.metadata.name === 'z')?.progressing.message;

  it('are named by the nodes that wait', () => {
    expect(said(nodes('a'))).toBe(
      'As many nodes are updating as concurrency.maxUpdating allows; a missed a deadline or failed a check, and still holds its update slot',
    );
    expect(said(nodes('b', 'a'))).toContain(
      '; a, b missed a deadline or failed a check, and still hold their update slots',
    );
    expect(said(nodes('e', 'd', 'c', 'b', 'a'))).toContain(
      '; a, b, c and others missed a deadline or failed a check, and still hold',
    );
  });

  it('are named for every limit', () => {
    expect(said(nodes('a'), { maxUpdating: 2, maxUnavailable: 1 })).toContain(
      '; a missed a deadline or failed a check, and still holds its update slot',
    );
    expect(said(nodes('a'), { maxUpdating: 2, maxPerZone: 1 })).toContain(
      '; a missed a deadline or failed a check, and still holds its update slot',
    );
    const inZone = aManagedNode('a', { labels: { [ZONE_LABEL]: 'x' } }, stuckReboot);
    expect(said([inZone, aManagedNode('z')], { maxUpdating: 2, maxZones: 1 })).toContain(
      '; a missed a deadline or failed a check, and still holds its update slot',
    );
  });

  it('make the fleet Degraded, and nobody can tell when it is complete', () => {
    const made = planOf(nodes('a'), limit(1));
    expect(CONDITIONS.Degraded(made)).toMatchObject({ reason: 'NodesNeedAttention' });
    expect([made.forecast.completionTime, made.forecast.queue[0]?.expectedTime]).toEqual([undefined, undefined]);
  });

  it('make the fleet Degraded also when they are not managed any more', () => {
    const made = planOf([aManagedNode('a', { managed: false }, stuckReboot), aManagedNode('z')], limit(1));
    expect(CONDITIONS.Degraded(made).message).toContain(
      'a missed a deadline or failed a check, and still holds its update slot',
    );
  });
});

test('the condition of a node under way stays the same over all its steps', () => {
  const states = ['StagedAndPerformedUpdate', 'RebootedIntoUpdate', 'MonitoringUpdate'] as const;
  const messages = states.map((state) => {
    const shadow = { spec: underWay(state), status: { current_state: 'Idle' } } as const;
    return planOf([aManagedNode('a', {}, shadow)]).conditions.flat()[0]?.progressing.message;
  });
  expect(messages[0]).toContain(NEW);
  expect(new Set(messages).size).toBe(1);
});

test('every managed node is counted once', () => {
  const failing = { spec: { state_transition_timestamp: ago(0) }, status: { crash_count: 1 } };
  const managedNodes = [
    aManagedNode('candidate'),
    aManagedNode('waits'),
    aManagedNode('done', {}, upToDate),
    aManagedNode('reboots', {}, rebooting),
    aManagedNode('stuck', {}, stuckReboot),
    aManagedNode('failed', {}, failing),
    aManagedNode('unmanaged', { managed: false }),
    { ...aManagedNode('new'), shadow: undefined },
  ];
  expect(planOf(managedNodes, limit(3)).counts).toEqual({
    managed: 7,
    upToDate: 1,
    updating: 2,
    waiting: 2,
    failed: 2,
  });
});

const wakes: Record<string, [Plan, number | undefined]> = {
  'with nothing to come there is no time to plan again': [planOf([aManagedNode('a', {}, upToDate)]), undefined],
  'a step under way is looked at again at its deadline': [
    planOf([aManagedNode('a', {}, rebooting)]),
    NOW + 59 * MINUTE,
  ],
  'a node that the operator cordoned is looked at again when it counts as stuck': [
    planOf([withoutShadow({ ...aManagedNode('a', cordoned(20 * MINUTE)), missingSince: NOW - 30 * MINUTE })]),
    NOW + 30 * MINUTE,
  ],
  'a watch is checked when it may have become stale': [
    plan({ ...aSnapshot([]), watchLags: [{ resource: 'nodes', ms: 50_000 }] }, NOW),
    NOW + 70_000,
  ],
  'a stale watch is checked again soon, since its recovery changes nothing else': [
    plan({ ...aSnapshot([]), watchLags: [{ resource: 'nodes', ms: 500_000 }] }, NOW),
    NOW + 10_000,
  ],
  'a backoff ends in time': [
    planOf([aManagedNode('a', {}, { spec: { state_transition_timestamp: ago(MINUTE) }, status: { crash_count: 1 } })]),
    NOW + 4 * MINUTE,
  ],
};
test.each(Object.entries(wakes))('%s', (_, [made, expected]) => expect(made.wakeAt).toBe(expected));

test('while a watch is stale, nodes past their drain continue and staged nodes stay staged', () => {
  const staged = aManagedNode('a', {}, { spec: underWay('StagedAndPerformedUpdate') });
  const rebooted = aManagedNode('b', {}, { spec: underWay('RebootedIntoUpdate'), status: { current_version: NEW } });
  const made = plan({ ...aSnapshot([staged, rebooted]), watchLags: [{ resource: 'nodes', ms: 500_000 }] }, NOW);
  expect([made.stale, made.specs.map(({ outcome, node }) => [node.metadata.name, outcome])]).toEqual([
    ['nodes'],
    [['b', 'Advanced']],
  ]);
});

test('a monitoring that cannot succeed says why when it is cancelled', () => {
  const made = planOf([aManagedNode('a', {}, { spec: underWay('MonitoringUpdate', 30 * MINUTE) })]);
  expect(made.specs.map(({ outcome, spec }) => [outcome, spec.state])).toEqual([['Cancelled', 'Idle']]);
  expect(made.conditions.flat()[0]?.progressing).toMatchObject({
    reason: 'DeadlineExceeded',
    message: 'The node is not healthy after its update to 1.21.0: the node runs 1.20.0 instead of 1.21.0',
  });
});

test.each([
  ['is healthy again', {}, '. It is healthy now, and the update succeeds after spec.monitoring.healthyFor'],
  ['has no report for it', { observedGeneration: 1 }, ', and its agent has not confirmed the step'],
])('a monitoring past its deadline whose node %s does not call the node unhealthy', (_, reported, expected) => {
  const status = { current_version: NEW, ...reported };
  const recovered = { spec: underWay('MonitoringUpdate', 60 * MINUTE), status };
  const made = planOf([aManagedNode('a', { readySince: ago(0) }, recovered)], { monitoring: { healthyFor: '5m' } });
  expect(made.specs).toEqual([]);
  expect(made.conditions.flat()[0]?.progressing).toMatchObject({
    reason: 'DeadlineExceeded',
    message: `The node was not healthy in time after its update to 1.21.0${expected}`,
  });
});

test('a cancelled drain says so in the same write', () => {
  const status = { current_state: 'StagedAndPerformedUpdate', lastOperation: failure('DrainTimedOut') } as const;
  const made = planOf([aManagedNode('a', {}, { spec: underWay('RebootedIntoUpdate', 60 * MINUTE), status })]);
  const because = {
    reason: 'DeadlineExceeded',
    message: "The drain for 1.21.0 had no result within 60 minutes and was cancelled; look at the agent's log",
  };
  expect(made.specs).toMatchObject([{ outcome: 'Cancelled', spec: { state: 'Idle' }, because }]);
  expect(made.conditions.flat()).toMatchObject([{ progressing: because, event: undefined }]);
});

test('a reboot without a result says what the agent cannot do', () => {
  const message = 'the Node cannot be restored for now: PATCH /api/v1/nodes/a: 403';
  const lastOperation = failure(undefined, { operation: 'Reboot', state: 'Processing', message });
  const made = planOf([aManagedNode('a', {}, { ...stuckReboot, status: { ...stuckReboot.status, lastOperation } })]);
  const said = expect.stringContaining(`comes back. The agent's latest message: ${message}`) as string;
  expect(made.conditions.flat()).toMatchObject([{ progressing: { reason: 'DeadlineExceeded', message: said } }]);
});

test('an update whose next spec is rejected says so', () => {
  const staged = aManagedNode('a', {}, { spec: underWay('StagedAndPerformedUpdate') });
  expect(planOf([{ ...staged, writeRejection: 'denied' }]).conditions.flat()).toMatchObject([
    { progressing: { reason: 'SpecWriteRejected' } },
  ]);
});

test('a node that is no longer managed is asked to stop, and is not released in the same plan', () => {
  const made = planOf([aManagedNode('a', { managed: false }, rebooting)]);
  expect(made.specs.map(({ outcome, spec }) => [outcome, spec.state])).toEqual([['Released', 'Idle']]);
  expect(made.cleanups).toEqual([]);
});

describe('the plan', () => {
  const alone = (parts: NodeParts = {}): ManagedNode => ({ ...aManagedNode('a', parts), shadow: undefined });
  const created = (managedNode: ManagedNode, more: Partial<Snapshot> = {}): string[] =>
    plan({ ...aSnapshot([managedNode, aManagedNode('b')]), ...more }, NOW).newNodes.map(
      ({ metadata }) => metadata.name,
    );
  const stale = { watchLags: [{ resource: 'nodes', ms: 10 * MINUTE }] };
  const cases: Record<string, [string[], string[]]> = {
    'creates the shadow of a managed node without one': [created(alone()), ['a']],
    'creates no shadow for an unmanaged node': [created(alone({ managed: false })), []],
    'creates no shadow for a Node that is being deleted': [created(alone({ deletionTimestamp: ago(0) })), []],
    'creates no shadow while the shadow of an earlier Node exists': [
      created(aManagedNode('a', {}, { owner: 'uid-before' })),
      [],
    ],
    'creates no shadow while a watch is stale': [created(alone(), stale), []],
  };
  it.each(Object.entries(cases))('%s', (_, [found, expected]) => expect(found).toEqual(expected));
});

test('a node whose agent never reported needs attention after 5 minutes, and not before', () => {
  const attention = (ms: number): number =>
    planOf([
      aManagedNode('a', {}, { status: null, creationTimestamp: ago(ms), spec: { state_transition_timestamp: null } }),
    ]).forecast.needAttention.size;
  expect([attention(4 * MINUTE), attention(5 * MINUTE)]).toEqual([0, 1]);
});
