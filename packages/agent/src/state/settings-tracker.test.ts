import { VERSION_LOCK } from '@brupop/shared/api/settings';
import type { SettingsStatus } from '@brupop/shared/api/shadow';
import { rfc3339 } from '@brupop/shared/runtime/clock';
import { pinRecords, updaterLeaves } from '@brupop/shared/testing/settings';
import { AVAILABLE, BOOT, NEW, NOW, OLD, WALL } from '../testing/objects.ts';
import type { Observation, SettingsReading } from './observe.ts';
import { SettingsTracker } from './settings-tracker.ts';

const recorded: SettingsStatus = { records: pinRecords({ versionLock: NEW }) };
const inFlight = { ...recorded, inFlight: { hash: '0123456789abcdef', time: rfc3339(WALL) } };
const CHANGES = updaterLeaves({ versionLock: NEW });
const UNDO = new Map([['settings.motd', '"before"']]);

interface Seen {
  readonly bootID?: string;
  readonly status?: SettingsStatus;
  readonly settings?: SettingsReading;
  readonly specAgeMs?: number;
  readonly nowMs?: number;
}

function seen({ settings, status: known, nowMs = NOW, specAgeMs = 0, bootID = BOOT }: Seen): Observation {
  const facts = { current_version: OLD, target_version: NEW, crash_count: 0, observedGeneration: 7, bootID };
  const status = { current_state: 'Idle', ...facts, ...(known !== undefined && { settings: known }) } as const;
  const reading = settings === undefined ? {} : { settings };
  return {
    shadow: { uid: 'uid', generation: 7, spec: { state: 'Idle' }, status },
    specAgeMs,
    apiUnreachableMs: 0,
    wallMs: WALL,
    startedMs: nowMs,
    nowMs,
    bootID: BOOT,
    uptimeMs: 0,
    host: { kind: 'answered', version: OLD, update: { kind: 'status', status: AVAILABLE }, ...reading },
  };
}

function tracker(): SettingsTracker {
  return new SettingsTracker(() => 0.5);
}

it.each<readonly [string, Seen, boolean]>([
  ['nothing is on record', {}, true],
  ['nothing is in flight', { status: recorded }, true],
  ['the host has booted since', { status: inFlight, bootID: 'boot-1' }, true],
  ['a change is in flight', { status: inFlight }, false],
])('derives at its start whether the recorded settings were applied: %s', (_name, given, expected) => {
  const made = tracker();
  made.observe(seen(given));
  expect(made.applied).toBe(expected);
});

it('derives the settings of an earlier process only once', () => {
  const made = tracker();
  made.observe(seen({ status: inFlight }));
  made.changed(NOW, CHANGES, new Map());
  made.observe(seen({ status: inFlight }));
  expect(made.applied).toBe(true);
});

/** A spec with other settings. */
const OTHER = {
  spec: { state: 'Idle', settings: { leaves: [{ key: 'settings.motd', value: '1', owner: 'x' }], allow: 'Live' } },
} as const;

it('counts only a refresh that started 1.5 s after the change', () => {
  const made = tracker();
  made.changed(NOW, CHANGES, new Map());
  made.refreshSucceeded(NOW + 1499);
  expect(made.refreshed).toBe(false);
  made.refreshSucceeded(NOW + 1500);
  expect(made.refreshed).toBe(true);
});

it('discards a refresh from before another spec, a change, or a change with an unknown result', () => {
  for (const since of ['begin', 'changed', 'failed'] as const) {
    const made = tracker();
    made.refreshSucceeded(NOW);
    if (since === 'begin') made.begin(NOW, OTHER);
    if (since === 'changed') made.changed(NOW, CHANGES, new Map());
    if (since === 'failed') made.changeFailed(NOW, 'lost');
    expect(made.refreshed).toBe(false);
  }
});

it('stores again what failed, and after a refresh that contradicts the lock only the settings of the updater', () => {
  const made = tracker();
  made.refreshFailed(NOW, 'no network', false);
  expect(made).toMatchObject({ applied: true, isOfferContradicted: false });
  made.refreshFailed(NOW, 'it offers another version', true);
  expect(made).toMatchObject({ applied: true, isOfferContradicted: true });
  expect(made.isApplied(NOW)).toBe(false);
  made.changed(NOW, CHANGES, new Map());
  expect(made).toMatchObject({ applied: true, isOfferContradicted: false });
  made.changeFailed(NOW, 'no answer');
  expect(made.applied).toBe(false);
});

it('counts failures with pauses that grow to 5 min, until a refresh succeeds after a change', () => {
  const made = tracker();
  const pauses = Array.from({ length: 12 }, () => {
    made.changeFailed(NOW, 'refused');
    return made.notBefore - NOW;
  });
  expect(made).toMatchObject({ tries: 12, error: 'refused' });
  expect(pauses[0]).toBeLessThanOrEqual(2_000);
  expect(Math.max(...pauses)).toBeLessThanOrEqual(5 * 60_000);
  expect(pauses.at(-1)).toBeGreaterThan(60_000);
  made.refreshSucceeded(NOW + 10 * 60_000);
  expect(made.tries).toBe(12);
  made.changed(NOW + 10 * 60_000, CHANGES, new Map());
  made.refreshSucceeded(NOW + 11 * 60_000);
  expect(made).toMatchObject({ tries: 0, error: undefined, notBefore: 0 });
});

it('counts unreadable settings once per pause, however often they are observed', () => {
  const made = tracker();
  const failed = { kind: 'failed', message: 'GET /settings: 500' } as const;
  for (let look = 0; look < 10; look += 1) made.observe(seen({ settings: failed }));
  expect(made).toMatchObject({ tries: 1, error: 'GET /settings: 500' });
  made.observe(seen({ settings: failed, nowMs: made.notBefore }));
  expect(made.tries).toBe(2);
});

it('counts it as a failure when the host answers with another value than was stored', () => {
  const made = tracker();
  made.changed(NOW, CHANGES, new Map());
  const read = (lock: string): SettingsReading => ({
    kind: 'read',
    keys: [VERSION_LOCK],
    settings: updaterLeaves({ versionLock: lock }),
  });
  made.observe(seen({ settings: read(`v${NEW}`) }));
  expect(made).toMatchObject({ applied: true, tries: 0 });
  made.changed(NOW, CHANGES, new Map());
  made.observe(seen({ settings: read(OLD) }));
  const error = `${VERSION_LOCK}: the host has accepted the value, but reports another one`;
  expect(made).toMatchObject({ applied: false, tries: 1, error });
});

it('keeps the former values until the apiserver was heard from after the change, and then discards them', () => {
  const made = tracker();
  made.changed(NOW, CHANGES, UNDO);
  made.observe(seen({ nowMs: NOW + 60_000, specAgeMs: 60_000 }));
  expect(made.undo).toEqual(UNDO);
  made.observe(seen({ nowMs: NOW + 60_000, specAgeMs: 1_000 }));
  expect(made.undo.size).toBe(0);
});

it('asks for the former value when the host reports another one than was stored, and keeps it until then', () => {
  const made = tracker();
  const motd = { kind: 'read', keys: ['settings.motd'], settings: new Map([['settings.motd', '"cut"']]) } as const;
  made.changed(NOW, new Map([['settings.motd', '"longer"']]), UNDO);
  made.observe(seen({ settings: motd }));
  made.observe(seen({ settings: motd, nowMs: NOW + 60_000 }));
  const error = 'settings.motd: the host has accepted the value, but reports another one';
  expect(made).toMatchObject({ mustRevert: true, isReverted: false, undo: UNDO, tries: 1, error });
  made.revert(NOW + 60_000, 'cut off');
  expect(made).toMatchObject({ mustRevert: false, isReverted: true, notBefore: Infinity });
  expect(made.error).toBe(`${error}, so the former values were set again`);
});

it('does not try again for this spec when the host reports another value, and had none before', () => {
  const made = tracker();
  made.changed(NOW, new Map([['settings.motd', '"longer"']]), new Map());
  made.observe(seen({ settings: { kind: 'read', keys: ['settings.motd'], settings: new Map() } }));
  expect(made).toMatchObject({ mustRevert: false, isReverted: true, notBefore: Infinity });
});

it('does not store anything again when only the class of a change could not be found', () => {
  const made = tracker();
  made.refreshSucceeded(NOW);
  made.classifyFailed(NOW, 'GET /services: 500');
  expect(made).toMatchObject({ applied: true, refreshed: true, tries: 1, error: 'GET /services: 500' });
});

it('puts back once for each spec', () => {
  const made = tracker();
  made.changed(NOW, CHANGES, UNDO);
  made.revert(NOW, 'why');
  made.refreshSucceeded(NOW + 60_000);
  const error = 'why, so the former values were set again';
  expect(made).toMatchObject({ isReverted: true, error, notBefore: Infinity, undo: new Map() });
  made.begin(NOW, OTHER);
  expect(made).toMatchObject({ isReverted: false, error: undefined, notBefore: 0 });
});
