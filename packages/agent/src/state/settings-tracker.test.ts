import type { HostSettingsStatus, ShadowState } from '@brupop/shared/api/shadow';
import { AVAILABLE, BOOT, NEW, NOW, OLD, WALL } from '../testing/objects.ts';
import type { Observation, SettingsReading } from './observe.ts';
import { SettingsTracker } from './settings-tracker.ts';

const recorded: HostSettingsStatus = { versionLock: { value: NEW, before: 'latest' } };

interface Seen {
  readonly state?: ShadowState;
  readonly observedGeneration?: number;
  readonly bootID?: string;
  readonly hostSettings?: HostSettingsStatus;
  readonly settings?: SettingsReading;
  readonly nowMs?: number;
}

function seen({ state = 'Idle', settings, nowMs = NOW, ...more }: Seen): Observation {
  const facts = { current_version: OLD, target_version: NEW, crash_count: 0, observedGeneration: 7, bootID: BOOT };
  const status = { current_state: 'Idle', ...facts, ...more } as const;
  const reading = settings === undefined ? {} : { settings };
  return {
    shadow: { uid: 'uid', generation: 7, spec: { state }, status },
    specAgeMs: 0,
    apiUnreachableMs: 0,
    wallMs: WALL,
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
  ['the spec was answered', { hostSettings: recorded }, true],
  ['the host has booted since', { hostSettings: recorded, observedGeneration: 6, bootID: 'boot-1' }, true],
  ['the spec was not answered', { hostSettings: recorded, observedGeneration: 6 }, false],
  ['the spec was answered without them', { hostSettings: { ...recorded, message: 'why' } }, false],
  ['a version is being staged', { hostSettings: recorded, state: 'StagedAndPerformedUpdate' }, false],
])('derives at its start whether the recorded settings were applied: %s', (_name, given, expected) => {
  const made = tracker();
  made.observe(seen(given));
  expect(made.applied).toBe(expected);
});

it('derives the settings of an earlier process only once', () => {
  const made = tracker();
  made.observe(seen({ hostSettings: recorded, observedGeneration: 6 }));
  made.changed(NOW);
  made.observe(seen({ hostSettings: recorded, observedGeneration: 6 }));
  expect(made.applied).toBe(true);
});

it('counts only a refresh that started 1.5 s after the change', () => {
  const made = tracker();
  made.changed(NOW);
  made.refreshSucceeded(NOW + 1499);
  expect(made.refreshed).toBe(false);
  made.refreshSucceeded(NOW + 1500);
  expect(made.refreshed).toBe(true);
});

it('discards a refresh from before another spec, a change, or a change with an unknown result', () => {
  for (const since of ['begin', 'changed', 'failed'] as const) {
    const made = tracker();
    made.refreshSucceeded(NOW);
    if (since === 'begin') made.begin(NOW);
    if (since === 'changed') made.changed(NOW);
    if (since === 'failed') made.changeFailed(NOW, 'lost');
    expect(made.refreshed).toBe(false);
  }
});

it('stores again what failed and what a refresh contradicts, but not after every failed refresh', () => {
  const made = tracker();
  made.refreshFailed(NOW, 'no network', false);
  expect(made.applied).toBe(true);
  made.refreshFailed(NOW, 'it offers another version', true);
  expect(made.applied).toBe(false);
  made.changed(NOW);
  expect(made.applied).toBe(true);
  made.changeFailed(NOW, 'no answer');
  expect(made.applied).toBe(false);
});

it('counts failures with pauses that grow to 5 min, until a refresh succeeds', () => {
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
