import type { BottlerocketShadow } from '@brupop/shared/api/shadow';
import { freezeText, type Freezing, pauseText, type Pausing } from './pause.ts';

const shadow = {
  metadata: { name: 'brs-a', uid: 'a', resourceVersion: '1' },
  spec: { state: 'Idle' },
  status: { group: 'web' },
} as BottlerocketShadow;

const pausing = (fleet: object, ...groups: readonly (readonly [string, object])[]): Pausing => ({
  config: { spec: fleet },
  groups: groups.map(([name, spec]) => ({ metadata: { name }, spec }) as Pausing['groups'][number]),
});

test.each<[string, Pausing, string]>([
  ['nothing without a configuration', { config: undefined, groups: [] }, ''],
  ['nothing when nothing is paused', pausing({ paused: false, pauseReason: 'old' }, ['web', {}]), ''],
  ['nothing of another group', pausing({}, ['db', { paused: true }]), ''],
  [
    'the fleet with its reason',
    pausing({ paused: true, pauseReason: 'freeze' }),
    ' a waits, since the fleet is paused (freeze), until "kubectl brupop resume".',
  ],
  [
    'the group of the node, without a reason',
    pausing({}, ['web', { paused: true }]),
    ' a waits, since the group web is paused, until "kubectl brupop resume --group web".',
  ],
  [
    'both',
    pausing({ paused: true }, ['web', { paused: true, pauseReason: 'release' }]),
    ' a waits, since the fleet is paused, and the group web is paused (release), until "kubectl brupop resume" and ' +
      '"kubectl brupop resume --group web".',
  ],
])('of pauses, a request names %s', (_, pauses, text) => {
  expect(pauseText(pauses, shadow)).toBe(text);
});

const frozen = (...versions: readonly string[]): object => ({
  status: { frozenVersions: versions.map((version) => ({ version, since: '2026-11-22T10:00:00Z' })) },
});

const freezing = (fleet: object, ...groups: readonly (readonly [string, object])[]): Freezing => ({
  config: fleet,
  groups: groups.map(([name, group]) => ({ metadata: { name }, ...group }) as Freezing['groups'][number]),
});

test.each<[string, Freezing, string]>([
  ['nothing of a fleet without a report', freezing({}, ['web', {}]), ''],
  ['nothing of another version or group', freezing(frozen('1.20.5'), ['db', frozen('1.21.0')]), ''],
  [
    'the fleet',
    freezing(frozen('1.21.0'), ['web', frozen('1.21.0')]),
    ' a waits, since 1.21.0 is frozen, until "kubectl brupop resume --failures".',
  ],
  [
    'the group of the node',
    freezing({}, ['web', frozen('1.21.0')]),
    ' a waits, since 1.21.0 is frozen for the group web, until "kubectl brupop resume --failures --group web".',
  ],
])('of freezes, a request names %s', (_, freezes, text) => {
  expect(freezeText(freezes, shadow, '1.21.0')).toBe(text);
});
