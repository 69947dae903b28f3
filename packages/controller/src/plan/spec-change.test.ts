import {
  ago,
  aNode,
  aShadow,
  failure,
  MINUTE,
  NEW,
  NOW,
  OLD,
  POLICY,
  type ShadowParts,
  underWay,
} from '../testing/objects.ts';
import { idle, type Outcome, startSpec, type Transition } from './specs/transition.ts';
import { specChange, type SpecChange, stepSeconds, transitionOf } from './specs/spec-change.ts';
import { Moment } from '../kept/moment.ts';

const STARTED = { startedAt: ago(10 * MINUTE), from: OLD };
const AT_NOW = { policy: POLICY, now: new Moment(NOW) };

const changeOf = (parts: ShadowParts, transition: Transition): SpecChange =>
  specChange(transition, { shadow: aShadow(parts), node: aNode() });
const end = (outcome: Outcome, parts: ShadowParts = {}, because?: Transition['because']): SpecChange => {
  const shadow = { spec: underWay('RebootedIntoUpdate'), record: STARTED, ...parts };
  return changeOf(shadow, { ...idle(AT_NOW, outcome), ...(because !== undefined && { because }) });
};

describe('the versions of a transition', () => {
  it('are the running one and the new one at a start', () => {
    const started = changeOf({}, { spec: startSpec(NEW, POLICY, new Moment(NOW)), outcome: 'Started' });
    expect(transitionOf(started)).toEqual({
      from: OLD,
      to: NEW,
      state: 'StagedAndPerformedUpdate',
      outcome: 'Started',
      code: '',
    });
  });

  it('are still those after the reboot, for any leader, by what the start recorded', () => {
    const start = changeOf({}, { spec: startSpec(NEW, POLICY, new Moment(NOW)), outcome: 'Started' });
    const { record } = start;
    const rebooted = { spec: underWay('MonitoringUpdate'), record, status: { current_version: NEW } };
    expect(transitionOf(end('Succeeded', rebooted))).toMatchObject({ from: OLD, to: NEW, state: 'Idle' });
  });

  it('have no first one if no start is recorded', () => {
    expect(transitionOf(end('Succeeded', { record: {} }))).toMatchObject({ from: '', to: NEW });
  });

  it('are empty if no update is under way', () => {
    const configured = changeOf({ record: STARTED }, idle(AT_NOW, 'Configured'));
    expect(transitionOf(configured)).toMatchObject({ from: '', to: '', outcome: 'Configured' });
  });

  it('are empty instead of a text that is no version', () => {
    const shadow = { status: { current_version: 'x"} 1' } };
    expect(
      transitionOf(changeOf(shadow, { spec: startSpec(NEW, POLICY, new Moment(NOW)), outcome: 'Started' })).from,
    ).toBe('');
  });
});

const staged = { spec: underWay('StagedAndPerformedUpdate') };
const reported = (errorCode: string | undefined): ShadowParts => ({
  status: { current_state: 'ErrorReset', lastOperation: failure(errorCode as 'RolledBack') },
});

it.each<readonly [string, SpecChange, string]>([
  ['the code of a failure', end('Failed', reported('RolledBack')), 'RolledBack'],
  ['other for a code that no agent of this release reports', end('Failed', reported('x"} 1')), 'other'],
  ['none for a failure without one', end('Failed', reported(undefined)), ''],
  ['NotHealthy for a monitoring that ends', end('Cancelled', { spec: underWay('MonitoringUpdate') }), 'NotHealthy'],
  ['DeadlineExceeded for a staging that ends', end('Cancelled', staged), 'DeadlineExceeded'],
  ['why a node is deferred', end('Deferred', staged, { reason: 'Frozen', message: '' }), 'Frozen'],
  ['DrainBlocked for pods that defer a node', end('Deferred', staged), 'DrainBlocked'],
  ['VersionNotOffered for a version that is withdrawn', end('Withdrawn', staged), 'VersionNotOffered'],
  ['none for a success', end('Succeeded'), ''],
])('the code of a transition is %s', (_, change, code) => {
  expect(transitionOf(change).code).toBe(code);
});

describe('the Event', () => {
  const messageOf = ({ event }: SpecChange): string | undefined => event?.message;

  it.each([
    ['StagedAndPerformedUpdate', 'the update ends before its reboot'],
    ['RebootedIntoUpdate', 'the update ends, and its host may have rebooted'],
    ['MonitoringUpdate', 'the update ends, and its host may have rebooted'],
  ] as const)('of a node that is no longer managed says in %s: %s', (state, message) => {
    const status = { lastOperation: failure(undefined, { operation: 'Reboot' }) };
    expect(messageOf(end('Released', { spec: underWay(state), status }))).toBe(
      `The node is no longer managed: ${message}`,
    );
  });

  it('of a spec whose time is replaced does not say that the spec is Idle', () => {
    const spec = underWay('MonitoringUpdate', -60 * MINUTE);
    const change = changeOf({ spec }, { spec: { ...spec, state_transition_timestamp: ago(0) }, outcome: 'Repaired' });
    expect(messageOf(change)).toBe(
      'The spec of the shadow (MonitoringUpdate) had no time, or one that is unreadable or still to come: ' +
        'it has the present one',
    );
    expect(messageOf(end('Repaired', { spec: { state: 'ErrorReset' } }))).toBe(
      'The spec of the shadow (ErrorReset) was not written by this operator, and is Idle again',
    );
  });

  it.each([
    ['an update', STARTED, `no longer allows ${NEW}: this update is undone`],
    [
      'a rollback',
      { ...STARTED, rollback: { failed: OLD, previous: NEW, since: ago(0), isDone: false } },
      `no longer asks for the return to ${NEW}: it is undone`,
    ],
    [
      'a reboot',
      { ...STARTED, from: NEW },
      'no longer needs this reboot for the settings of its group: it is cancelled',
    ],
  ])('of %s that is superseded says what the configuration no longer wants', (_, record, message) => {
    expect(messageOf(end('Superseded', { record }))).toBe(`The configuration ${message}`);
  });
});

describe('the duration of a step', () => {
  it('is the time since its spec was written', () => {
    expect(stepSeconds(end('Succeeded', { spec: underWay('MonitoringUpdate', 5 * MINUTE) }))).toBe(300);
  });

  it.each<readonly [string, SpecChange]>([
    ['has failed', end('Failed')],
    ['has no start', end('Succeeded', { spec: { ...underWay('MonitoringUpdate'), state_transition_timestamp: null } })],
    [
      'ends before its start, by a clock that was corrected',
      end('Succeeded', { spec: underWay('MonitoringUpdate', -MINUTE) }),
    ],
    ['is no step', changeOf({}, idle(AT_NOW, 'Configured'))],
  ])('is unknown if it %s', (_, change) => {
    expect(stepSeconds(change)).toBeUndefined();
  });
});
