import { rfc3339 } from '@brupop/shared/runtime/clock';
import {
  type Case,
  type Cases,
  decided,
  error,
  failed,
  LOCKED,
  MINUTE,
  NEW,
  NOW,
  prepared,
  READY,
  record,
  refused,
  unreachable,
  stage,
  STAGED,
  staging,
  step,
  UNINITIALIZED,
  UNREADABLE,
  update,
  WALL,
  summary,
} from '../testing/objects.ts';

const cases: Cases = {
  'stage: the step is recorded before any command': [stage, 'report Idle, Stage Processing'],
  'stage: a step of an earlier spec does not count': [
    { ...staging, status: { observedGeneration: 6 } },
    'report Idle, Stage Processing',
  ],
  'stage: a refresh comes first': [staging, 'refresh'],
  'stage: a host without a refresh since its boot refreshes': [{ ...staging, update: UNINITIALIZED }, 'refresh'],
  'stage: what is offered is prepared': [{ ...staging, attempt: { refreshed: true } }, 'prepare'],
  'stage: a version that is not offered needs another refresh': [
    { ...staging, version: '1.28.0', last: step('Stage', { version: '1.28.0' }), attempt: { refreshed: true } },
    'refresh',
  ],
  'stage: chosen in Idle means a failed refresh (trap 1)': [
    { ...staging, attempt: { refreshed: true }, update: update('Idle', record('refresh', 'x', false)) },
    'refresh',
  ],
  'stage: a prepared version is complete': [
    { ...staging, update: STAGED },
    'report StagedAndPerformedUpdate, Stage Succeeded',
  ],
  'stage: a leading v makes no difference': [
    { ...staging, version: `v${NEW}`, update: STAGED },
    'report StagedAndPerformedUpdate, Stage Succeeded',
  ],
  'stage: build metadata of the version that is available makes no difference': [
    {
      ...staging,
      update: update('Available', record('refresh'), { chosenVersion: `${NEW}+x` }),
      attempt: { refreshed: true },
    },
    'prepare',
  ],
  'stage: build metadata of the prepared version makes no difference': [
    {
      ...staging,
      update: update('Staged', record('prepare', `Starting update to ${NEW}+x\n`), {
        staged: { version: `${NEW}+x`, nextToBoot: false },
      }),
    },
    'report StagedAndPerformedUpdate, Stage Succeeded',
  ],
  'stage: a version that is running is complete': [
    { ...staging, running: NEW },
    'report StagedAndPerformedUpdate, Stage Succeeded',
  ],
  'stage: success is reported once': [
    {
      ...stage,
      update: STAGED,
      last: step('Stage', { state: 'Succeeded' }),
      status: { current_state: 'StagedAndPerformedUpdate' },
    },
    'wait',
  ],
  'stage: an image staged before a reboot is lost and staged again (trap 5)': [
    {
      ...stage,
      update: UNINITIALIZED,
      last: step('Stage', { state: 'Succeeded', boot: 'boot-1' }),
      status: { current_state: 'StagedAndPerformedUpdate' },
    },
    'report Idle, Stage Processing',
  ],
  'stage: Staged after a failed prepare may be empty (trap 2)': [
    { ...staging, update: update('Staged', record('prepare', 'x', false)), attempt: { refreshed: true } },
    'prepare',
  ],
  'stage: Staged after a prepare that wrote nothing is not complete': [
    { ...staging, update: update('Staged', record('prepare', 'No update required\n')) },
    'refresh',
  ],
  'stage: Staged after a prepare that wrote another version is not complete (trap 3)': [
    { ...staging, update: update('Staged', record('prepare', 'Starting update to 1.28.0\n')) },
    'refresh',
  ],
  'stage: a version that only starts like the requested one is another': [
    { ...staging, update: update('Staged', record('prepare', `Starting update to ${NEW}1\n`)) },
    'refresh',
  ],
  'stage: another version staged than chosen is not complete (trap 4)': [
    { ...staging, update: update('Staged', prepared, { staged: { version: '1.26.5', nextToBoot: false } }) },
    'refresh',
  ],
  'stage: Staged after a refresh cannot be verified': [
    { ...staging, update: update('Staged', record('refresh')), attempt: { refreshed: true } },
    'prepare',
  ],
  'stage: an activation left by an earlier attempt is undone first': [{ ...staging, update: READY }, 'deactivate'],
  'stage: waits for a running command': [{ ...staging, update: LOCKED }, 'wait'],
  'stage: a lock that is never released fails the step': [
    { ...staging, update: LOCKED, tracker: { hostLockedSince: NOW - 21 * MINUTE } },
    'report ErrorReset, Stage Failed HostBusy',
  ],
  'stage: an error is retried a few times': [
    {
      ...staging,
      attempt: { error: error('RefreshFailed'), counts: { RefreshFailed: 4 }, notBefore: NOW + 1 },
    },
    'wait',
  ],
  'stage: an error that was retried too often fails the step': [
    { ...staging, attempt: { error: error('RefreshFailed'), counts: { RefreshFailed: 5 } } },
    'report ErrorReset, Stage Failed RefreshFailed',
  ],
  'stage: a version that the host no longer offers ends the attempt after one refresh': [
    {
      ...staging,
      attempt: { error: error('VersionNotOffered'), counts: { VersionNotOffered: 1 }, notBefore: NOW + 1 },
    },
    'report ErrorReset, Stage Failed VersionNotOffered',
  ],
  'stage: an error that no retry solves fails the step at once (trap 10)': [
    { ...staging, update: UNINITIALIZED, attempt: { error: error('HostUnsupported'), counts: { HostUnsupported: 1 } } },
    'report ErrorReset, Stage Failed HostUnsupported',
  ],
  'stage: an unreadable status fails the step when it lasts (trap 11)': [
    { ...staging, update: UNREADABLE, tracker: { hostUnusableSince: NOW - MINUTE } },
    'report ErrorReset, Stage Failed HostStatusUnreadable',
  ],
  'stage: its time limit counts from the start of the recorded step': [
    { ...staging, last: step('Stage', { agoMs: 46 * MINUTE }) },
    'report ErrorReset, Stage Failed StepTimedOut',
  ],
  'stage: its time limit is that of the spec': [
    { ...staging, timeoutSeconds: 7200, last: step('Stage', { agoMs: 46 * MINUTE }) },
    'refresh',
  ],
  'stage: its time limit may be shorter than usual': [
    { ...staging, timeoutSeconds: 60, last: step('Stage', { agoMs: 2 * MINUTE }) },
    'report ErrorReset, Stage Failed StepTimedOut',
  ],
  'stage: its time limit also applies while the host is unreachable': [
    { ...staging, timeoutSeconds: 60, last: step('Stage', { agoMs: 2 * MINUTE }), host: unreachable },
    'report ErrorReset, Stage Failed StepTimedOut',
  ],
  'stage: a prepare with a long limit may hold the lock for long': [
    { ...staging, timeoutSeconds: 7200, update: LOCKED, tracker: { hostLockedSince: NOW - 21 * MINUTE } },
    'wait',
  ],
  'stage: waits for an unreachable host': [
    { ...staging, host: refused, tracker: { hostUnreachableSince: NOW - 20_000, hostRefusedSince: NOW - 20_000 } },
    'wait',
  ],
  'stage: a host that is unreachable for too long fails the step': [
    { ...staging, host: unreachable, tracker: { hostUnreachableSince: NOW - 6 * MINUTE } },
    'report ErrorReset, Stage Failed HostUnreachable',
  ],
  'stage: a failed attempt undoes its activation': [
    { ...stage, update: READY, last: failed('ActivateFailed'), status: { current_state: 'ErrorReset' } },
    'deactivate',
  ],
  'stage: a failed attempt restores the Node': [
    { ...stage, last: failed('PrepareFailed'), status: { current_state: 'ErrorReset' } },
    'restore',
  ],
  'stage: a failed attempt remains failed': [
    { ...stage, last: failed('PrepareFailed'), status: { current_state: 'ErrorReset' }, attempt: { restored: true } },
    'wait',
  ],
  'stage: a failure of an earlier spec does not count': [
    { ...stage, last: failed('PrepareFailed'), status: { current_state: 'ErrorReset', observedGeneration: 6 } },
    'report Idle, Stage Processing',
  ],
  'stage: a spec without a version is ignored': [{ ...stage, version: null }, 'wait'],
};

it.each(Object.entries(cases))('%s', (_name, [given, expected]) => {
  expect(summary(decided(given))).toBe(expected);
});

it('counts a failure once and reports its time', () => {
  const given: Case = {
    ...staging,
    status: { crash_count: 2 },
    attempt: { error: error('PrepareFailed'), counts: { PrepareFailed: 3 } },
  };
  const action = decided(given);
  expect(action).toMatchObject({
    status: { crash_count: 3, state_transition_failure_timestamp: rfc3339(WALL), lastOperation: { message: 'why' } },
  });
});
