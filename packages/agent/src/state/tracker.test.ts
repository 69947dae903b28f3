import type { LastOperation } from '@brupop/shared/api/shadow';
import { AVAILABLE, LOCKED, NEW, NOW, OLD, READY, refused, step, UNREADABLE, WALL } from '../testing/objects.ts';
import type { HostView, Observation } from './observe.ts';
import { Tracker } from './tracker.ts';

const later: LastOperation = { ...step('Reboot'), startTime: '2027-01-15T09:00:00Z' };

/** What a process knows about the reboot call after it has reported `next` over `before`. */
function reported(next: LastOperation, before: LastOperation, tracker = new Tracker(NOW, 1, () => 0.5)) {
  const facts = { current_version: OLD, target_version: NEW, crash_count: 0, observedGeneration: 1, bootID: 'boot-2' };
  const status = { current_state: 'StagedAndPerformedUpdate', ...facts } as const;
  const spec = { state: 'RebootedIntoUpdate', version: NEW } as const;
  const seen: Observation = {
    shadow: { uid: 'uid', generation: 1, spec, status: { ...status, lastOperation: before } },
    specAgeMs: 0,
    apiUnreachableMs: 0,
    wallMs: WALL,
    startedMs: NOW,
    nowMs: NOW,
    bootID: 'boot-2',
    uptimeMs: 0,
    host: { kind: 'unreachable', refused: true, message: '' },
  };
  tracker.succeeded({ do: 'report', status: { ...status, lastOperation: next }, reason: '' }, undefined, seen);
  return { tracker, seen };
}

it("treats its own new Reboot step as not requested yet, also when the step's limit restarts", () => {
  const { tracker } = reported(step('Reboot'), step('Activate'));
  expect(tracker.reboots.unasked).toBe(step('Reboot').startTime);
  reported(later, step('Reboot'), tracker);
  expect(tracker.reboots.unasked).toBe(later.startTime);
});

it('treats a Reboot step that an earlier process started as possibly requested', () => {
  expect(reported(later, step('Reboot')).tracker.reboots.unasked).toBeUndefined();
});

it('treats the Reboot step as requested once the host has accepted the call', () => {
  const { tracker, seen } = reported(step('Reboot'), step('Activate'));
  tracker.succeeded({ do: 'reboot', reason: '' }, undefined, seen);
  expect(tracker.reboots.unasked).toBeUndefined();
  expect(tracker.reboots.asked).toEqual({ atMs: NOW, bootID: 'boot-2' });
});

it('treats the Reboot step as requested after a call with an unknown result', () => {
  const { tracker, seen } = reported(step('Reboot'), step('Activate'));
  tracker.failed({ do: 'reboot', reason: '' }, new Error('lost'), seen);
  expect(tracker.reboots.unasked).toBeUndefined();
});

it('counts a possible reboot of an earlier process from its first observation, and another one again', () => {
  const { tracker, seen } = reported(later, step('Reboot'));
  tracker.observe(seen);
  tracker.observe({ ...seen, nowMs: NOW + 5 });
  expect(tracker.reboots.pending?.sinceMs).toBe(NOW);
  const { shadow } = reported(step('Reboot'), later).seen;
  tracker.observe({ ...seen, nowMs: NOW + 9, shadow });
  expect(tracker.reboots.pending?.sinceMs).toBe(NOW + 9);
  tracker.observe({ ...seen, bootID: 'boot-3' });
  expect(tracker.reboots.pending).toBeUndefined();
});

/** The observation of an activated host without a status. */
function activatedOffRecord(seen: Observation): Observation {
  const { status: _none, ...bare } = seen.shadow ?? { uid: '', generation: 0, spec: { state: 'Idle' } };
  return { ...seen, shadow: bare, host: { kind: 'answered', version: OLD, update: { kind: 'status', status: READY } } };
}

it('treats an activated host without a record as one that may reboot', () => {
  const { tracker, seen } = reported(later, step('Reboot'));
  tracker.observe(activatedOffRecord(seen));
  expect(tracker.reboots.pending).toEqual({ name: 'not on record', sinceMs: NOW });
});

it('treats a host that this process has activated as not rebooting until it requests the reboot', () => {
  const { tracker, seen } = reported(step('Activate'), step('Drain'));
  tracker.succeeded(
    { do: 'command', command: 'activate', before: undefined, version: NEW, reason: '' },
    undefined,
    seen,
  );
  tracker.observe(activatedOffRecord(seen));
  expect(tracker.reboots.pending).toBeUndefined();
  tracker.failed({ do: 'reboot', reason: '' }, new Error('lost'), seen);
  tracker.observe(activatedOffRecord(seen));
  expect(tracker.reboots.pending).toEqual({ name: 'not on record', sinceMs: NOW });
});

/** The observation of a shadow without a status. */
function offRecord(seen: Observation, host: HostView, nowMs = NOW): Observation {
  return { ...activatedOffRecord(seen), host, nowMs };
}

const locked: HostView = { kind: 'answered', version: OLD, update: LOCKED };
const available: HostView = { kind: 'answered', version: OLD, update: { kind: 'status', status: AVAILABLE } };

it.each(Object.entries({ unreachable: refused, locked, unreadable: { ...locked, update: UNREADABLE } }))(
  'treats a host that is %s without a record as one that may reboot, until its status rules that out',
  (_name, host) => {
    const { tracker, seen } = reported(later, step('Reboot'));
    tracker.observe(offRecord(seen, host));
    tracker.observe(offRecord(seen, host, NOW + 60_000));
    expect(tracker.reboots.pending).toEqual({ name: 'not on record', sinceMs: NOW });
    tracker.observe(offRecord(seen, available, NOW + 60_001));
    tracker.observe(offRecord(seen, host, NOW + 60_002));
    expect(tracker.reboots.pending).toBeUndefined();
  },
);

it('keeps that when the shadow has a status again, until the next boot', () => {
  const { tracker, seen } = reported(step('Restore'), step('Restore'));
  tracker.observe(offRecord(seen, refused));
  const { shadow } = reported(step('Restore'), step('Restore')).seen;
  tracker.observe({ ...seen, shadow, nowMs: NOW + 1 });
  expect(tracker.reboots.pending).toEqual({ name: 'not on record', sinceMs: NOW });
  tracker.observe({ ...seen, shadow, bootID: 'boot-3' });
  expect(tracker.reboots.pending).toBeUndefined();
});
