import { RECORD_ANNOTATION } from '@brupop/shared/api/names';
import type { BottlerocketShadow } from '@brupop/shared/api/shadow';
import {
  aManagedNode,
  ago,
  aSnapshot,
  failure,
  MINUTE,
  NEW,
  NOW,
  OLD,
  underWay,
} from '../../../controller/src/testing/objects.ts';
import { wholePlan } from '../../../controller/src/whole-plan.ts';
import { nodeRow } from './node.ts';

const at = '2026-11-28T11:00:00Z';

function shadow(
  [status, reason]: readonly ['True' | 'False', string],
  more: object = {},
  { record = {}, isStalled = false } = {},
): BottlerocketShadow {
  const condition = { message: 'm', lastTransitionTime: at };
  return {
    metadata: {
      name: 'brs-a',
      uid: 'a',
      resourceVersion: '1',
      annotations: { [RECORD_ANNOTATION]: JSON.stringify(record) },
    },
    spec: { state: 'Idle' },
    status: {
      current_state: 'Idle',
      crash_count: 0,
      observedGeneration: 1,
      bootID: 'b',
      current_version: '1.20.0',
      target_version: '1.21.0',
      conditions: [
        { ...condition, type: 'Progressing', status, reason },
        ...(isStalled ? [{ ...condition, type: 'Stalled', status: 'True' as const, reason }] : []),
      ],
      ...more,
    },
  };
}

const outdated = {
  crash_count: 1,
  lastOperation: {
    operation: 'Stage',
    state: 'Failed',
    version: '1.20.5',
    bootID: 'b',
    startTime: at,
    lastUpdateTime: at,
    errorCode: 'VersionNotOffered',
  },
};

it.each<[string, BottlerocketShadow, string]>([
  ['past its deadline', shadow(['False', 'DeadlineExceeded'], { waitingFor: 'DeadlineExceeded' }), 'Failed'],
  ['on whose version a check failed', shadow(['False', 'CheckFailed'], { waitingFor: 'CheckFailed' }), 'Failed'],
  [
    'on which a check failed before the drain',
    shadow(['False', 'CheckFailed'], { waitingFor: 'CheckFailed until 12:00Z' }),
    'Waiting',
  ],
  ['whose attempt failed', shadow(['False', 'Backoff'], { crash_count: 1 }), 'Failed'],
  [
    'whose controller has recorded attempts without success',
    shadow(['False', 'ManualRetryRequired'], {}, { record: { unsuccessful: 3 } }),
    'Failed',
  ],
  ['whose host offers another version than the one that failed', shadow(['False', 'Paused'], outdated), 'Waiting'],
  ['with a silent agent', shadow(['False', 'AgentNotResponding'], {}, { isStalled: true }), 'Waiting'],
  ['that is lost', shadow(['True', 'Updating'], { waitingFor: 'NodeLost' }, { isStalled: true }), 'Updating'],
])('a node %s has the phase by which the controller counts it', (_, found, phase) => {
  expect(nodeRow(found).phase).toBe(phase);
});

it('a node is stalled if its condition says so, whatever its phase', () => {
  expect(nodeRow(shadow(['True', 'Updating'], {}, { isStalled: true })).stalled).toBe(true);
  expect(nodeRow(shadow(['False', 'Backoff'], { crash_count: 1 })).stalled).toBe(false);
});

const rebooting = failure(undefined, { operation: 'Reboot', state: 'Processing' });

it.each([
  [
    'past its deadline',
    {
      spec: underWay('RebootedIntoUpdate', 30 * 60 * MINUTE),
      status: { current_state: 'StagedAndPerformedUpdate', lastOperation: rebooting },
    },
  ],
  [
    'on whose version the Job of a check failed',
    {
      status: { current_version: NEW, target_version: NEW },
      record: {
        failed: { version: NEW, code: 'CheckFailed', at: ago(MINUTE) },
        jobs: { 'After/check/smoke': 'Failed' },
      },
    },
  ],
] as const)('a node %s has failed, as in the plan of the controller', (_, parts) => {
  const { counts, conditions } = wholePlan(aSnapshot([aManagedNode('a', {}, parts)]), NOW);
  const { status = 'False', reason = '', waitingFor = '' } = conditions.flat()[0]?.progressing ?? {};
  expect(counts).toMatchObject({ failed: 1, waiting: 0, updating: 0 });
  expect(nodeRow(shadow([status, reason], { waitingFor })).phase).toBe('Failed');
});

const [running, failed] = [{ current_version: OLD, target_version: OLD }, { unsuccessful: 1 }];
const late = { state: 'Idle', state_transition_timestamp: ago(60 * MINUTE) } as const;

it.each<[string, Parameters<typeof aManagedNode>[2] & object]>([
  [
    'cannot check for updates',
    { status: { ...running, lastOperation: failure('UpdateCheckFailed', { version: OLD }) } },
  ],
  ['has a locked host', { status: { ...running, settings: { hostLock: OLD } } }],
  ['lacks settings', { status: { ...running, settings: { message: 'm' } } }],
  [
    'has a silent agent',
    { generation: 2, spec: late, status: { ...running, target_version: NEW, observedGeneration: 1 } },
  ],
])('a node that %s waits despite a failed attempt, as in the plan of the controller', (_, parts) => {
  const { counts, conditions } = wholePlan(aSnapshot([aManagedNode('a', {}, { ...parts, record: failed })]), NOW);
  const { status = 'False', reason = '' } = conditions.flat()[0]?.progressing ?? {};
  expect(counts).toMatchObject({ failed: 0, waiting: 1, upToDate: 0 });
  expect(nodeRow(shadow([status, reason], {}, { record: failed })).phase).toBe('Waiting');
});
