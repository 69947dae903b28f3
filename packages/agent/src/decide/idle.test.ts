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
  OLD,
  READY,
  record,
  STAGED,
  step,
  UNINITIALIZED,
  UNREADABLE,
  unreachable,
  update,
  summary,
} from '../testing/objects.ts';

function silentFor(minutes: number): NonNullable<Case['tracker']> {
  return { hostHasAnswered: true, hostUnreachableSince: NOW - minutes * MINUTE };
}

const cases: Cases = {
  'idle: each process restores the Node once': [{}, 'restore'],
  'idle: a new shadow gets its first status': [{ bare: true, attempt: { restored: true } }, 'report Idle'],
  'idle: nothing is written when nothing changed': [{ attempt: { restored: true } }, 'wait'],
  'idle: the host checks for updates when the interval is over': [
    { attempt: { restored: true }, tracker: { checkDueMs: NOW } },
    'refresh',
  ],
  'idle: no command starts while another one runs': [
    { attempt: { restored: true }, tracker: { checkDueMs: NOW }, update: LOCKED },
    'wait',
  ],
  'idle: an activation is undone': [{ update: READY }, 'deactivate'],
  'idle: an activation that cannot be undone yet does not delay the rest': [
    { update: READY, attempt: { deactivationFailed: true, notBefore: NOW + 1 } },
    'restore',
  ],
  'idle: an unfinished update is first reported as being undone': [
    { last: step('Activate'), update: READY },
    'report Idle, Restore Processing',
  ],
  "idle: undoing remains in progress while the host's lock is held": [
    { last: step('Restore'), attempt: { restored: true }, update: LOCKED },
    'wait',
  ],
  'idle: the Restore step succeeds when the attempt is undone': [
    { last: step('Restore'), attempt: { restored: true } },
    'report Idle, Restore Succeeded',
  ],
  'idle: a failure stays on record': [{ last: failed('RolledBack'), attempt: { restored: true } }, 'wait'],
  'idle: a failed state goes back to Idle and keeps the record': [
    { last: failed('PrepareFailed'), status: { current_state: 'ErrorReset' }, attempt: { restored: true } },
    'report Idle, Stage Failed PrepareFailed',
  ],
  'idle: ErrorReset in a spec, from an older operator, means Idle': [
    { spec: 'ErrorReset', attempt: { restored: true } },
    'wait',
  ],
  'idle: a host without in-place updates is reported': [
    { update: UNINITIALIZED, attempt: { restored: true }, tracker: { checkError: error('HostUnsupported') } },
    'report Idle, Stage Failed HostUnsupported',
  ],
  'idle: a reported problem is not reported again': [
    {
      update: UNINITIALIZED,
      attempt: { restored: true },
      tracker: { checkError: error('HostUnsupported') },
      last: failed('HostUnsupported'),
    },
    'wait',
  ],
  'idle: a problem of the host does not hide a rollback': [
    { attempt: { restored: true }, tracker: { checkError: error('HostUnsupported') }, last: failed('RolledBack') },
    'wait',
  ],
  'idle: a refresh that failed is no problem of the host': [
    { attempt: { restored: true }, tracker: { checkError: error('RefreshFailed') } },
    'wait',
  ],
  'idle: checks that have failed for an hour are a problem': [
    {
      attempt: { restored: true },
      tracker: { checkError: error('RefreshFailed'), checkFailingSince: NOW - 60 * MINUTE },
    },
    'report Idle, Stage Failed UpdateCheckFailed',
  ],
  'idle: failing checks are not reported again': [
    {
      attempt: { restored: true },
      tracker: { checkError: error('RefreshFailed'), checkFailingSince: NOW - 90 * MINUTE },
      last: failed('UpdateCheckFailed'),
    },
    'wait',
  ],
  'idle: failing checks do not hide the failure of an update': [
    {
      attempt: { restored: true },
      tracker: { checkError: error('RefreshFailed'), checkFailingSince: NOW - 90 * MINUTE },
      last: failed('RolledBack'),
    },
    'wait',
  ],
  'idle: a lock that is held for long is a problem': [
    { update: LOCKED, attempt: { restored: true }, tracker: { hostLockedSince: NOW - 21 * MINUTE } },
    'report Idle, Stage Failed UpdateCheckFailed',
  ],
  'idle: an unreadable status is reported only when it lasts': [
    { update: UNREADABLE, attempt: { restored: true }, tracker: { hostUnusableSince: NOW - 1000 } },
    'wait',
  ],
  'idle: an unreadable status that lasts is reported': [
    { update: UNREADABLE, attempt: { restored: true }, tracker: { hostUnusableSince: NOW - MINUTE } },
    'report Idle, Stage Failed HostStatusUnreadable',
  ],
  'idle: a host that does not answer for a while is waited for': [
    { host: unreachable, attempt: { restored: true }, tracker: silentFor(59) },
    'wait',
  ],
  'idle: one that does not answer for an hour is reported': [
    { host: unreachable, attempt: { restored: true }, tracker: silentFor(60) },
    'report Idle, Stage Failed UpdateCheckFailed',
  ],
  'idle: so is one that no process of the agent has reached': [
    { host: unreachable, attempt: { restored: true }, tracker: { ...silentFor(5), hostHasAnswered: false } },
    'report Idle, Stage Failed UpdateCheckFailed',
  ],
  'idle: which hides no failed update': [
    { host: unreachable, attempt: { restored: true }, tracker: silentFor(60), last: failed('RolledBack') },
    'wait',
  ],
  'idle: a rollback is detected although the spec went back to Idle': [
    { last: step('Reboot', { boot: 'boot-1' }), update: UNINITIALIZED },
    'report ErrorReset, Reboot Failed RolledBack',
  ],
  'idle: an activation that was undone before a reboot is no rollback': [
    { last: step('Restore', { boot: 'boot-1' }), update: UNINITIALIZED },
    'restore',
  ],
};

it.each(Object.entries(cases))('%s', (_name, [given, expected]) => {
  expect(summary(decided(given))).toBe(expected);
});

const targets: Cases = {
  'what a good refresh chose': [{}, NEW],
  'the running version when a good refresh found nothing': [
    { update: update('Idle', record('refresh'), { chosenVersion: undefined }) },
    OLD,
  ],
  'the known version when a refresh failed': [
    { update: update('Idle', record('refresh', 'x', false)), status: { target_version: '1.26.9' } },
    '1.26.9',
  ],
  'the known version before the first refresh since the boot': [
    { update: UNINITIALIZED, status: { target_version: '1.26.9' } },
    '1.26.9',
  ],
  'the known version while a command runs': [{ update: LOCKED, status: { target_version: '1.26.9' } }, '1.26.9'],
  'the running version when another one ran before': [
    { update: UNINITIALIZED, running: '1.29.0', status: { target_version: NEW } },
    '1.29.0',
  ],
  'what is chosen after a prepare': [{ update: STAGED, status: { target_version: '1.26.9' } }, NEW],
};

it.each(Object.entries(targets))('the target is %s', (_name, [given, expected]) => {
  const failing: Case = { ...given, status: { ...given.status, bootID: 'boot-1' }, attempt: { restored: true } };
  const action = decided(failing);
  expect(action).toMatchObject({ do: 'report', status: { target_version: expected } });
});

it('reports the offered version, not the running one, with a problem of the host', () => {
  const given: Case = { attempt: { restored: true }, tracker: { checkError: error('HostUnsupported') } };
  expect(decided(given)).toMatchObject({ status: { lastOperation: { version: NEW } } });
});

describe('an activation that cannot be undone', () => {
  const observe = 'the update is still activated, any reboot boots it: why';
  const pausing = { restored: true, deactivationFailed: true, notBefore: NOW + 1, error: error('ActivateFailed') };
  const said = (last: Case['last'], update: Case['update'] = READY): unknown => {
    const action = decided({ update, attempt: pausing, ...(last === undefined ? {} : { last }) });
    return action.do === 'report' ? action.status.lastOperation : action.do;
  };

  it('keeps the Restore step in progress and is reported in it', () => {
    expect(said(step('Restore'))).toEqual({ ...step('Restore'), message: observe });
  });

  it('is reported also when no step was in progress', () => {
    expect(said(undefined)).toEqual({ ...step('Restore'), message: observe });
    expect(said(step('Stage', { state: 'Succeeded' }))).toEqual({ ...step('Restore'), message: observe });
  });

  it('is reported beside a recorded failure, until it is undone', () => {
    const record = failed('RebootTimedOut');
    const named = { ...record, message: `x; ${observe}` };
    expect(said(record)).toEqual(named);
    expect(said(named, STAGED)).toEqual(record);
  });

  it("is reported once, and remains reported while the host's state is unknown", () => {
    const named = { ...step('Restore'), message: observe };
    expect(said(named)).toBe('wait');
    expect(said(named, LOCKED)).toBe('wait');
  });
});
