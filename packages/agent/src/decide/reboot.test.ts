import type { AgentStatus, LastOperation } from '@brupop/shared/api/shadow';
import { rfc3339 } from '@brupop/shared/runtime/clock';
import {
  AVAILABLE,
  BOOT,
  type Case,
  type Cases,
  decided,
  error,
  failed,
  LOCKED,
  MINUTE,
  NEW,
  NOW,
  READY,
  record,
  STAGED,
  step,
  UNINITIALIZED,
  update,
  WALL,
  summary,
} from '../testing/objects.ts';

const reboot = {
  spec: 'RebootedIntoUpdate',
  update: STAGED,
  status: { current_state: 'StagedAndPerformedUpdate' },
} as const;
const empty = { excludedUntil: 0, drainedAt: NOW - 1000 };

const REBOOTING = step('Reboot');
/** No host was asked to reboot in the step yet. */

/** A Reboot step by the time since its start and since its latest reboot request. */
function asked(beganMs: number, askedMs: number): LastOperation {
  return { ...step('Reboot', { agoMs: beganMs }), lastUpdateTime: rfc3339(WALL - askedMs) };
}

const OLDER = '1.25.0';
const wayBack = step('Reboot', { boot: 'boot-1', version: OLDER });

const held = {
  done: false,
  evicted: 0,
  remaining: 1,
  blockedBy: [
    { pod: 'shop/web-1', reason: 'DisruptionBudget', message: 'the budget web needs 3 healthy pods and has 3' },
  ],
} as const;

const NOT_ACTIVATED = update('Staged', record('activate', 'Metadata error', false));
function notActivated(times: number): NonNullable<Case['attempt']> {
  return { ...empty, error: error('ActivateFailed'), counts: { ActivateFailed: times } };
}

const FAILED_ONCE: LastOperation = { ...step('Activate'), message: 'the update is not activated yet: why' };

const cases: Cases = {
  'reboot: the drain is recorded before anything is evicted': [
    { ...reboot, last: step('Stage', { state: 'Succeeded' }) },
    'report StagedAndPerformedUpdate, Drain Processing',
  ],
  'reboot: the node is excluded from load balancers first': [{ ...reboot, last: step('Drain') }, 'exclude'],
  'reboot: nothing is evicted before load balancers have removed the node': [
    { ...reboot, last: step('Drain'), attempt: { excludedUntil: NOW + 1 } },
    'wait',
  ],
  'reboot: a long wait for load balancers is reported': [
    { ...reboot, last: step('Drain'), attempt: { excludedUntil: NOW + MINUTE } },
    'report StagedAndPerformedUpdate, Drain Processing',
  ],
  'reboot: a long wait for load balancers is reported once': [
    { ...reboot, last: { ...step('Drain'), message: 'said' }, attempt: { excludedUntil: NOW + MINUTE } },
    'wait',
  ],
  'reboot: then the node is drained': [{ ...reboot, last: step('Drain'), attempt: { excludedUntil: NOW } }, 'drain'],
  'reboot: passes are paced': [
    { ...reboot, last: step('Drain'), attempt: { excludedUntil: NOW, drainNotBefore: NOW + 1 } },
    'wait',
  ],
  'reboot: status.drain has what a drain waits for': [
    { ...reboot, last: step('Drain'), attempt: { excludedUntil: NOW, drain: held, drainNotBefore: NOW + 1 } },
    'wait',
  ],
  'reboot: a drain that the apiserver has ended has failed': [
    {
      ...reboot,
      last: step('Drain'),
      attempt: { excludedUntil: NOW, drain: { ...held, failure: { code: 'CordonRemoved', message: 'no' } } },
    },
    'report ErrorReset, Drain Failed CordonRemoved',
  ],
  'reboot: a drain may take as long as the apiserver reports': [
    { ...reboot, last: step('Drain', { agoMs: 31 * MINUTE }), attempt: { excludedUntil: NOW, drainEndsAt: NOW + 1 } },
    'drain',
  ],
  'reboot: passes of an apiserver that reports no limit continue for half an hour': [
    { ...reboot, last: step('Drain', { agoMs: 31 * MINUTE }), attempt: { excludedUntil: NOW, drain: held } },
    'report ErrorReset, Drain Failed DrainTimedOut',
  ],
  'reboot: passes of an apiserver that reports no limit fail after half an hour': [
    { ...reboot, last: step('Drain'), attempt: { excludedUntil: NOW, drainEndsAt: NOW - 2 * MINUTE - 1 } },
    'report ErrorReset, Drain Failed DrainTimedOut',
  ],
  'reboot: a drain without a pass has a time limit': [
    {
      ...reboot,
      last: step('Drain'),
      attempt: { excludedUntil: NOW, drainError: { message: '403', sinceMs: NOW - 31 * MINUTE } },
    },
    'report ErrorReset, Drain Failed DrainTimedOut',
  ],
  'reboot: a drain ends after a day at the latest, load balancers included': [
    { ...reboot, last: step('Drain', { agoMs: 29 * 60 * MINUTE }) },
    'report ErrorReset, Drain Failed DrainTimedOut',
  ],
  'reboot: the activation is recorded before it is run': [
    { ...reboot, last: step('Drain'), attempt: empty },
    'report StagedAndPerformedUpdate, Activate Processing',
  ],
  'reboot: a drained node is activated': [{ ...reboot, last: step('Activate'), attempt: empty }, 'activate'],
  'reboot: an old drain is repeated before the activation': [
    { ...reboot, last: step('Activate'), attempt: { excludedUntil: 0, drainedAt: NOW - 6000 } },
    'drain',
  ],
  'reboot: an old drain is repeated before the reboot': [
    { ...reboot, update: READY, last: step('Reboot'), attempt: { excludedUntil: 0, drainedAt: NOW - 6000 } },
    'drain',
  ],
  'reboot: the reboot is recorded before it is requested': [
    { ...reboot, update: READY, last: step('Activate'), attempt: empty },
    'report StagedAndPerformedUpdate, Reboot Processing',
  ],
  'reboot: an activated host is rebooted': [
    { ...reboot, update: READY, last: step('Reboot'), attempt: empty },
    'reboot',
  ],
  'reboot: a new process drains before it reboots': [
    { ...reboot, update: READY, last: step('Reboot'), attempt: { excludedUntil: 0 } },
    'drain',
  ],
  'reboot: no reboot without a stream that confirms the spec': [
    { ...reboot, update: READY, last: step('Reboot'), attempt: empty, specAgeMs: Infinity },
    'wait',
  ],
  'reboot: never while a command runs': [{ ...reboot, update: LOCKED, last: step('Reboot'), attempt: empty }, 'wait'],
  'reboot: waits for a requested reboot': [
    {
      ...reboot,
      update: READY,
      last: step('Reboot'),
      attempt: empty,
      tracker: { reboots: { asked: { atMs: NOW - 5.5 * MINUTE, bootID: BOOT }, pending: undefined } },
    },
    'wait',
  ],
  'reboot: a reboot that does not come is requested again': [
    {
      ...reboot,
      update: READY,
      last: step('Reboot', { agoMs: 6 * MINUTE }),
      attempt: empty,
      tracker: { reboots: { asked: { atMs: NOW - 6 * MINUTE, bootID: BOOT }, pending: undefined } },
    },
    'report StagedAndPerformedUpdate, Reboot Processing',
  ],
  'reboot: that request was recorded just before': [
    { ...reboot, update: READY, last: asked(6 * MINUTE, MINUTE), attempt: empty },
    'reboot',
  ],
  'reboot: none is requested that could come after the step has failed': [
    { ...reboot, update: READY, last: asked(8.5 * MINUTE, 0), attempt: empty },
    'wait',
  ],
  'reboot: when the clock was set back since it started, its limit counts from now': [
    { ...reboot, last: step('Drain', { agoMs: -6 * MINUTE }), attempt: empty },
    'report StagedAndPerformedUpdate, Drain Processing',
  ],
  'reboot: a clock that is a little behind changes nothing': [
    { ...reboot, last: step('Drain', { agoMs: -4 * MINUTE }), attempt: { excludedUntil: 0 } },
    'drain',
  ],
  'reboot: a host that never goes down fails the step': [
    { ...reboot, update: READY, last: step('Reboot', { agoMs: 16 * MINUTE }), attempt: empty },
    'report ErrorReset, Reboot Failed RebootTimedOut',
  ],
  'reboot: its time limit is that of the spec': [
    { ...reboot, timeoutSeconds: 3600, update: READY, last: asked(16 * MINUTE, 0), attempt: empty },
    'reboot',
  ],
  'reboot: it is requested also within a short limit': [
    { ...reboot, timeoutSeconds: 60, update: READY, last: REBOOTING, attempt: empty },
    'reboot',
  ],
  'reboot: a short limit fails the step as soon as no reboot can come any more': [
    { ...reboot, timeoutSeconds: 60, update: READY, last: step('Reboot', { agoMs: 9 * MINUTE }), attempt: empty },
    'report ErrorReset, Reboot Failed RebootTimedOut',
  ],
  'reboot: an older version is reached like any other': [
    { ...reboot, version: OLDER, running: OLDER, last: wayBack, update: UNINITIALIZED, attempt: { restored: true } },
    'report RebootedIntoUpdate, Restore Succeeded',
  ],
  'reboot: an older version that does not boot has rolled back': [
    { ...reboot, version: OLDER, last: wayBack, update: UNINITIALIZED },
    'report ErrorReset, Reboot Failed RolledBack',
  ],
  'reboot: an inhibitor that remains fails the step': [
    {
      ...reboot,
      update: READY,
      last: REBOOTING,
      attempt: { ...empty, error: error('RebootRefused'), counts: { RebootRefused: 5 } },
    },
    'report ErrorReset, Reboot Failed RebootRefused',
  ],
  'reboot: a failed activation is recorded, once': [
    { ...reboot, update: NOT_ACTIVATED, last: step('Activate'), attempt: notActivated(1) },
    'report StagedAndPerformedUpdate, Activate Processing',
  ],
  'reboot: and repeated': [
    { ...reboot, update: NOT_ACTIVATED, last: FAILED_ONCE, attempt: notActivated(6) },
    'activate',
  ],
  'reboot: and fails the step in the end': [
    { ...reboot, update: NOT_ACTIVATED, last: step('Activate'), attempt: notActivated(7) },
    'report ErrorReset, Activate Failed ActivateFailed',
  ],
  'reboot: what another actor has staged after a failed activation is not activated': [
    {
      ...reboot,
      update: update('Staged', record('prepare', 'Starting update to 1.28.0')),
      last: step('Activate'),
      attempt: notActivated(1),
    },
    'report ErrorReset, Activate Failed StagedImageLost',
  ],
  'reboot: an activation of another actor that has failed hides what is staged': [
    { ...reboot, update: NOT_ACTIVATED, last: step('Drain'), attempt: empty },
    'report ErrorReset, Drain Failed StagedImageLost',
  ],
  'reboot: a new process repeats an activation that has failed': [
    { ...reboot, update: NOT_ACTIVATED, last: step('Activate'), attempt: empty },
    'activate',
  ],
  'reboot: a new process repeats it within the time limit of the step': [
    { ...reboot, update: NOT_ACTIVATED, last: step('Activate', { agoMs: 11 * MINUTE }), attempt: empty },
    'report ErrorReset, Activate Failed StepTimedOut',
  ],
  'reboot: nothing is evicted for an image that is not staged': [
    { ...reboot, update: AVAILABLE, last: step('Stage', { state: 'Succeeded' }) },
    'report ErrorReset, Drain Failed StagedImageLost',
  ],
  'reboot: an image whose prepare a refresh hides is written again before it is activated': [
    { ...reboot, update: update('Staged', record('refresh')), last: step('Drain'), attempt: empty },
    'prepare',
  ],
  'reboot: and nothing is written before the step is on record': [
    { ...reboot, update: update('Staged', record('refresh')), last: step('Stage', { state: 'Succeeded' }) },
    'report StagedAndPerformedUpdate, Drain Processing',
  ],
  'reboot: an image that is lost during the drain is not activated': [
    { ...reboot, update: update('Staged', record('deactivate')), last: step('Drain'), attempt: empty },
    'report ErrorReset, Drain Failed StagedImageLost',
  ],
  'reboot: an activation by another actor is not trusted': [
    { ...reboot, update: READY, last: step('Drain'), attempt: empty },
    'report ErrorReset, Drain Failed StagedImageLost',
  ],
  'reboot: an activation of another version is not booted': [
    {
      ...reboot,
      update: update('Ready', record('activate'), { staged: { version: '1.28.0', nextToBoot: true } }),
      last: REBOOTING,
      attempt: empty,
    },
    'report ErrorReset, Reboot Failed StagedImageLost',
  ],
  'reboot: a reboot before the activation loses the image (trap 5)': [
    { ...reboot, update: UNINITIALIZED, last: step('Drain', { boot: 'boot-1' }) },
    'report ErrorReset, Drain Failed StagedImageLost',
  ],
  'reboot: the old version after the reboot is a rollback (trap 8)': [
    { ...reboot, update: UNINITIALIZED, last: step('Reboot', { boot: 'boot-1' }) },
    'report ErrorReset, Reboot Failed RolledBack',
  ],
  'reboot: the old version after an activation is a rollback too (trap 7)': [
    { ...reboot, update: UNINITIALIZED, last: step('Activate', { boot: 'boot-1' }) },
    'report ErrorReset, Activate Failed RolledBack',
  ],
  'reboot: the old version is no rollback when the activation had failed': [
    { ...reboot, update: UNINITIALIZED, last: { ...FAILED_ONCE, bootID: 'boot-1' } },
    'report ErrorReset, Activate Failed StagedImageLost',
  ],
  'reboot: any third version after the reboot fails with WrongVersionBooted': [
    { ...reboot, update: UNINITIALIZED, running: '1.28.0', last: step('Reboot', { boot: 'boot-1' }) },
    'report ErrorReset, Reboot Failed WrongVersionBooted',
  ],
  'reboot: the new version restores the Node first': [
    { ...reboot, update: UNINITIALIZED, running: NEW, last: step('Reboot', { boot: 'boot-1' }) },
    'restore',
  ],
  'reboot: then it is reached': [
    {
      ...reboot,
      update: UNINITIALIZED,
      running: NEW,
      last: step('Reboot', { boot: 'boot-1' }),
      attempt: { restored: true },
    },
    'report RebootedIntoUpdate, Restore Succeeded',
  ],
  'reboot: success is reported once': [
    {
      ...reboot,
      update: UNINITIALIZED,
      running: NEW,
      last: step('Restore', { state: 'Succeeded' }),
      status: { current_state: 'RebootedIntoUpdate', current_version: NEW },
    },
    'wait',
  ],
  'reboot: a failed attempt does not start again': [
    { ...reboot, last: failed('DrainTimedOut'), status: { current_state: 'ErrorReset' }, attempt: { restored: true } },
    'wait',
  ],
};

it.each(Object.entries(cases))('%s', (_name, [given, expected]) => {
  expect(summary(decided(given))).toBe(expected);
});

it('resets the failure count only when the new version runs', () => {
  const given: Case = {
    ...reboot,
    running: NEW,
    update: UNINITIALIZED,
    status: { crash_count: 2, state_transition_failure_timestamp: rfc3339(0) },
    attempt: { restored: true },
  };
  const expected = {
    crash_count: 0,
    state_transition_failure_timestamp: null,
    current_version: NEW,
    target_version: NEW,
  };
  expect(decided(given)).toMatchObject({ status: expected });
});

it('counts the limit of a step from now when the clock was set back, and keeps the boot in which it started', () => {
  const given: Case = { ...reboot, last: step('Drain', { agoMs: -60 * MINUTE }), attempt: empty };
  const time = rfc3339(WALL);
  expect(decided(given)).toMatchObject({
    status: { lastOperation: { startTime: time, lastUpdateTime: time, bootID: BOOT } },
  });
});

describe('that no drain pass runs', () => {
  const given = (agoMs: number, message?: string, reportedAgoMs = Infinity): Case => ({
    ...reboot,
    last: { ...step('Drain'), ...(message === undefined ? {} : { message }) },
    attempt: {
      excludedUntil: 0,
      drainError: { message: 'POST drain: 429', sinceMs: NOW - agoMs },
      reportedMs: NOW - reportedAgoMs,
    },
  });
  const shown = { status: { lastOperation: { operation: 'Drain', message: 'no drain for now: POST drain: 429' } } };

  it('is reported only when that lasts', () => {
    expect(summary(decided(given(9000)))).toBe('drain');
    expect(decided(given(10_000))).toMatchObject(shown);
  });

  it('is reported again when the cause has changed, once a minute', () => {
    expect(summary(decided(given(MINUTE, 'no drain for now: POST drain: 503', 59_000)))).toBe('drain');
    expect(decided(given(MINUTE, 'no drain for now: POST drain: 503', MINUTE))).toMatchObject(shown);
    expect(summary(decided(given(MINUTE, 'no drain for now: POST drain: 429', MINUTE)))).toBe('drain');
  });

  it('is taken back when one has run', () => {
    const before = given(MINUTE, 'no drain for now: POST drain: 429', MINUTE);
    const { status } = decided({ ...before, attempt: { excludedUntil: 0 } }) as { status: AgentStatus };
    expect(status.lastOperation).toEqual(step('Drain'));
    expect(summary(decided({ ...before, attempt: {} }))).toBe('exclude');
  });
});
