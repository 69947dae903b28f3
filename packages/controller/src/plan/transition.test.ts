import { CORDONED_ANNOTATION } from '@brupop/shared/api/names';
import type { DrainStatus, Operation } from '@brupop/shared/api/shadow';
import { NO_PODS_LISTED } from '../cluster/all-pods.ts';
import type { UpdatePolicy } from '../policy/policy.ts';
import {
  ago,
  aNode,
  aShadow,
  aSnapshot,
  DRAINABLE,
  failure,
  MINUTE,
  NEW,
  NO_CHECKS_KNOWN,
  type NodeParts,
  NOW,
  OLD,
  POLICY,
  type ShadowParts,
  underWay,
} from '../testing/objects.ts';
import type { Drainable } from './facts/drainability.ts';
import { Checks } from './facts/query-checks.ts';
import { Quorums } from './facts/quorums.ts';
import { Workloads } from './facts/workloads.ts';
import type { Blocked } from './facts/reasons.ts';
import { type Transition, transition } from './specs/transition.ts';
import { Moment } from '../kept/moment.ts';

const healthyFor = (healthyForMs: number): UpdatePolicy['monitoring'] => ({ ...POLICY.monitoring, healthyForMs });

const next = (
  shadow: ShadowParts,
  node: NodeParts = {},
  more: Partial<UpdatePolicy & Drainable & { blockedBy: Blocked }> = {},
): Transition | undefined =>
  transition({
    name: 'node-a',
    missingSince: NOW,
    ownNamespace: 'brupop',
    shadow: aShadow(shadow),
    node: aNode(node),
    group: undefined,
    policy: { ...POLICY, ...more },
    rules: { ...POLICY, ...more },
    drain: () => ({ ...DRAINABLE, ...more }),
    blockedBy: more.blockedBy,
    checks: new Checks(NO_CHECKS_KNOWN, NOW),
    settings: undefined,
    workloads: new Workloads(NO_PODS_LISTED, [], NOW),
    quorums: new Quorums(aSnapshot([]), [], NOW),
    now: new Moment(NOW),
  });

const HELD = 'shop/web is held';
const draining = (operation: Operation): ShadowParts => ({
  spec: underWay('RebootedIntoUpdate'),
  status: {
    current_state: 'StagedAndPerformedUpdate',
    lastOperation: { ...failure('DrainTimedOut'), operation, state: 'Processing' },
  },
});
/** The first pass of the drain was `ms` ago. */
const drainStarted = (ms: number): DrainStatus => ({
  observedGeneration: 3,
  startTime: ago(ms),
  evicted: 0,
  remaining: 1,
});
/** Told to reboot `sinceMs` ago, with this drain. */
const drainedFor = (ms: number, drain: DrainStatus): ShadowParts => ({
  spec: underWay('RebootedIntoUpdate', ms),
  status: { ...draining('Drain').status, drain },
});
/** The release of 1.21.1 came after its start. */
const outdated: ShadowParts = {
  spec: underWay('StagedAndPerformedUpdate'),
  status: {
    current_state: 'ErrorReset',
    crash_count: 1,
    target_version: '1.21.1',
    lastOperation: failure('VersionNotOffered'),
  },
};
const monitored: ShadowParts = { spec: underWay('MonitoringUpdate'), status: { current_version: NEW } };

const steps: Record<string, [Transition | undefined, string | undefined, string?]> = {
  'a node at rest stays': [next({}), undefined],
  'a staged node is asked to reboot': [
    next({ spec: underWay('StagedAndPerformedUpdate') }),
    'RebootedIntoUpdate',
    'Advanced',
  ],
  'a staged node whose pods were not just seen stays': [
    next({ spec: underWay('StagedAndPerformedUpdate') }, {}, { fresh: false }),
    undefined,
  ],
  'a staged node that cannot be drained releases its slot': [
    next({ spec: underWay('StagedAndPerformedUpdate') }, {}, { block: HELD, recheckAt: NOW + 1 }),
    'Idle',
    'Deferred',
  ],
  'a pause that interrupts undoes a node that stages': [
    next({ spec: underWay('StagedAndPerformedUpdate'), status: { current_state: 'Idle' } }, {}, { interrupt: true }),
    'Idle',
    'Interrupted',
  ],
  'a pause that interrupts undoes a node that is being drained': [
    next({ ...draining('Drain') }, {}, { interrupt: true }),
    'Idle',
    'Interrupted',
  ],
  'a pause that interrupts undoes a node that is being activated': [
    next(draining('Activate'), {}, { interrupt: true }),
    'Idle',
    'Interrupted',
  ],
  'a pause that interrupts does not undo a node that may have been requested to reboot': [
    next(draining('Reboot'), {}, { interrupt: true }),
    undefined,
  ],
  'a pause that interrupts does not undo a node that has booted': [
    next(
      { ...draining('Drain'), status: { current_state: 'StagedAndPerformedUpdate', current_version: NEW } },
      {},
      { interrupt: true },
    ),
    undefined,
  ],
  'a pause that interrupts does not undo a node that is monitored': [
    next(monitored, {}, { interrupt: true, monitoring: healthyFor(2 * MINUTE) }),
    undefined,
  ],
  'a node that is still staging stays': [
    next({ spec: underWay('StagedAndPerformedUpdate'), status: { current_state: 'Idle' } }),
    undefined,
  ],
  'a report about an earlier generation of the spec counts for nothing': [
    next({ spec: underWay('StagedAndPerformedUpdate'), generation: 4, status: { observedGeneration: 3 } }),
    undefined,
  ],
  'a rebooted node is monitored': [next({ spec: underWay('RebootedIntoUpdate') }), 'MonitoringUpdate', 'Advanced'],
  'a healthy node has succeeded': [next(monitored), 'Idle', 'Succeeded'],
  'a reported failure ends the attempt': [
    next({ spec: underWay('RebootedIntoUpdate'), status: { current_state: 'ErrorReset' } }),
    'Idle',
    'Failed',
  ],
  'a staging whose version the host no longer offers ends without a failure': [next(outdated), 'Idle', 'Withdrawn'],
  'a staging ends without a failure when the host no longer offers any version': [
    next({ ...outdated, status: { ...outdated.status, target_version: OLD } }),
    'Idle',
    'Withdrawn',
  ],
  'a staging whose version is offered but cannot be found is a failure': [
    next({ ...outdated, status: { ...outdated.status, target_version: NEW } }),
    'Idle',
    'Failed',
  ],
  'a second staging whose version the host no longer offers is a failure before a success': [
    next({ ...outdated, record: { withdrawn: 1 } }),
    'Idle',
    'Failed',
  ],
  'a node that is not Ready stays under observation': [next(monitored, { ready: false }), undefined],
  'a node that has booted again unreported stays under observation': [next(monitored, { bootID: 'boot-2' }), undefined],
  'a node whose boot ID the kubelet has not reported is judged without it': [
    next(monitored, { bootID: '' }),
    'Idle',
    'Succeeded',
  ],
  'a node with our cordon stays under observation': [
    next(monitored, { annotations: { [CORDONED_ANNOTATION]: ago(0) } }),
    undefined,
  ],
  'a node on another version stays under observation': [
    next({ ...monitored, status: { current_version: OLD } }),
    undefined,
  ],
  'a node is observed for the monitoring time': [
    next(monitored, {}, { monitoring: healthyFor(2 * MINUTE) }),
    undefined,
  ],
  'a node that was Ready only lately is observed longer': [
    next(
      { ...monitored, spec: underWay('MonitoringUpdate', 5 * MINUTE) },
      { readySince: ago(MINUTE) },
      { monitoring: healthyFor(2 * MINUTE) },
    ),
    undefined,
  ],
  'a node that was healthy for the monitoring time has succeeded': [
    next({ ...monitored, spec: underWay('MonitoringUpdate', 2 * MINUTE) }, {}, { monitoring: healthyFor(2 * MINUTE) }),
    'Idle',
    'Succeeded',
  ],
  'staging without a result is cancelled at its deadline': [
    next({ spec: underWay('StagedAndPerformedUpdate', 50 * MINUTE), status: { current_state: 'Idle' } }),
    'Idle',
    'Cancelled',
  ],
  'staging that is reported at its deadline counts': [
    next({ spec: underWay('StagedAndPerformedUpdate', 50 * MINUTE) }),
    'RebootedIntoUpdate',
    'Advanced',
  ],
  'a node that fell back to another version is not observed indefinitely': [
    next({ spec: underWay('MonitoringUpdate', 30 * MINUTE), status: { current_version: OLD } }),
    'Idle',
    'Cancelled',
  ],
  'a node that keeps the operator’s cordon is not observed indefinitely': [
    next(
      { ...monitored, spec: underWay('MonitoringUpdate', 30 * MINUTE) },
      { annotations: { [CORDONED_ANNOTATION]: ago(0) } },
    ),
    'Idle',
    'Cancelled',
  ],
  'the observation of another version ends no sooner than its deadline': [
    next(
      { spec: underWay('MonitoringUpdate', 30 * MINUTE), status: { current_version: OLD } },
      {},
      { monitoring: healthyFor(MINUTE) },
    ),
    undefined,
  ],
  'a node that is not Ready past the deadline may still recover': [
    next({ spec: underWay('MonitoringUpdate', 600 * MINUTE), status: { current_version: OLD } }, { ready: false }),
    undefined,
  ],
  'a node whose agent has not reported since the boot may run the version after all': [
    next({ spec: underWay('MonitoringUpdate', 600 * MINUTE), status: { current_version: OLD } }, { bootID: 'boot-2' }),
    undefined,
  ],
  'an end that nobody confirms and whose time cannot be right gets a new date': [
    next({ spec: { state_transition_timestamp: ago(-60 * MINUTE) }, status: { observedGeneration: 1 } }),
    'Idle',
    'Repaired',
  ],
  'the spec of a new shadow has no time and needs none': [
    next({ spec: { state_transition_timestamp: null }, status: null }),
    undefined,
  ],
  'a drain that has not started at its deadline is cancelled': [
    next({ ...draining('Stage'), spec: underWay('RebootedIntoUpdate', 60 * MINUTE) }),
    'Idle',
    'Cancelled',
  ],
  'a drain without a result is cancelled at its deadline': [
    next({ ...draining('Drain'), spec: underWay('RebootedIntoUpdate', 60 * MINUTE) }),
    'Idle',
    'Cancelled',
  ],
  'a drain that started late has its time from then on': [
    next(drainedFor(90 * MINUTE, drainStarted(40 * MINUTE))),
    undefined,
  ],
  'a drain that started late is cancelled at its own deadline': [
    next(drainedFor(110 * MINUTE, drainStarted(60 * MINUTE))),
    'Idle',
    'Cancelled',
  ],
  'a drain that starts after its deadline gets no more time': [
    next(drainedFor(90 * MINUTE, drainStarted(20 * MINUTE))),
    'Idle',
    'Cancelled',
  ],
  'the drain of an earlier update gives no time': [
    next(drainedFor(90 * MINUTE, { ...drainStarted(40 * MINUTE), observedGeneration: 2 })),
    'Idle',
    'Cancelled',
  ],
  'a drain with a start time in the future gives no time': [
    next(drainedFor(90 * MINUTE, drainStarted(-60 * MINUTE))),
    'Idle',
    'Cancelled',
  ],
  'a reboot past its deadline stays, since the host may come back': [
    next({ ...draining('Reboot'), spec: underWay('RebootedIntoUpdate', 600 * MINUTE) }),
    undefined,
  ],
  'an activation past its deadline stays, since the host may still reboot': [
    next({ ...draining('Activate'), spec: underWay('RebootedIntoUpdate', 600 * MINUTE) }),
    undefined,
  ],
  'a node whose progress is unknown stays past its deadline': [
    next({ spec: underWay('RebootedIntoUpdate', 600 * MINUTE), status: null }),
    undefined,
  ],
  'ErrorReset of an older operator means Idle': [next({ spec: underWay('ErrorReset') }), 'Idle', 'Repaired'],
  'an update to no version ends': [
    next({ spec: { ...underWay('RebootedIntoUpdate'), version: null } }),
    'Idle',
    'Repaired',
  ],
  'an unreadable start time is replaced, so that the deadline holds': [
    next({ spec: { ...underWay('RebootedIntoUpdate'), state_transition_timestamp: 'soon' } }),
    'RebootedIntoUpdate',
    'Repaired',
  ],
  'a start time in the far future is replaced': [
    next({ spec: underWay('RebootedIntoUpdate', -60 * MINUTE) }),
    'RebootedIntoUpdate',
    'Repaired',
  ],
};
test.each(Object.entries(steps))('%s', (_, [change, state, outcome]) => {
  expect(change?.spec.state).toBe(state);
  expect(change?.outcome).toBe(outcome);
});

test('each transition is dated, and the version stays until Idle', () => {
  const advanced = next({ spec: underWay('StagedAndPerformedUpdate') });
  expect(advanced?.spec).toEqual({
    state: 'RebootedIntoUpdate',
    version: NEW,
    state_transition_timestamp: ago(0),
    timeoutSeconds: 900,
  });
  expect(next(monitored)?.spec).toEqual({
    state: 'Idle',
    version: null,
    state_transition_timestamp: ago(0),
    timeoutSeconds: null,
    settings: null,
  });
});

describe('while the clock of the controller is wrong', () => {
  const HOUR = 60 * MINUTE;
  const wrong = { isClockWrong: true, isSuspended: true, deadlinesFrom: NOW } as const;
  const unconfirmed = { state: 'Idle', version: null, state_transition_timestamp: ago(-HOUR) } as const;

  it.each<readonly [string, ShadowParts, Transition['outcome']]>([
    [
      'a spec that another leader has dated later keeps its time',
      { spec: underWay('MonitoringUpdate', -HOUR), status: { current_version: NEW } },
      'Repaired',
    ],
    ['so does an Idle that is not confirmed', { spec: unconfirmed, status: { observedGeneration: 2 } }, 'Repaired'],
    [
      'a drain whose time seems to be over goes on',
      { ...draining('Drain'), spec: underWay('RebootedIntoUpdate', 9 * HOUR) },
      'Cancelled',
    ],
    [
      'a staging goes on',
      { spec: underWay('StagedAndPerformedUpdate', 9 * HOUR), status: { current_state: 'Idle' } },
      'Cancelled',
    ],
    [
      'the monitoring of a node that has returned does not begin, since its time would be wrong',
      { spec: underWay('RebootedIntoUpdate'), status: { current_state: 'RebootedIntoUpdate', current_version: NEW } },
      'Advanced',
    ],
  ])('%s', (_, parts, otherwise) => {
    expect(next(parts)?.outcome).toBe(otherwise);
    expect(next(parts, {}, wrong)).toBeUndefined();
  });
});
