import { SHADOW } from '../test-nonsense.ts';
import { readShadow } from './read-shadow.ts';

const { status } = SHADOW;
const last = status.lastOperation;
const withStatus = (changes: object): object => ({ ...SHADOW, status: { ...status, ...changes } });

it('reads a whole shadow as it is', () => {
  expect(readShadow(SHADOW)).toEqual(SHADOW);
});

it('reads the status of an older operator, which lacks the newer fields', () => {
  const old = { current_state: 'Idle', current_version: '1.20.0', target_version: '1.21.0', crash_count: 0 };
  expect(readShadow({ ...SHADOW, status: old }).status).toEqual({ ...old, observedGeneration: 0, bootID: '' });
});

it('takes a status in which only the controller has written for none', () => {
  expect(readShadow({ ...SHADOW, status: { conditions: [] } }).status).toBeUndefined();
});

it('brings a count that a person wrote to what the apiserver takes back in a report', () => {
  expect(readShadow(withStatus({ crash_count: 10 ** 12 })).status?.crash_count).toBe(2_147_483_647);
});

it.each([
  ['in lower case', '2026-11-21t11:37:57z', '2026-11-21T11:37:57Z'],
  ['that nobody can read, which then counts from now', '2026-11-21T11:37:57,5Z', '9999-12-31T23:59:59Z'],
  ['with an offset and a fraction, as it is', '2026-11-21T11:37:57.5+01:00', '2026-11-21T11:37:57.5+01:00'],
])('reads a time %s', (_name, written, expected) => {
  const shadow = readShadow(withStatus({ lastOperation: { ...last, startTime: written } }));
  expect(shadow.status?.lastOperation?.startTime).toBe(expected);
});

it.each<readonly [string, object, RegExp]>([
  [
    'a version in the spec that is none',
    { ...SHADOW, spec: { state: 'Idle', version: 'latest' } },
    /spec.version.*"latest"/,
  ],
  [
    'a state that this release does not know',
    { ...SHADOW, spec: { state: 'Sleeping' } },
    /spec.state: expected one of/,
  ],
  [
    'a step that this release does not know',
    withStatus({ lastOperation: { ...last, operation: 'Dance' } }),
    /operation/,
  ],
  ['a generation that is no whole number', { ...SHADOW, generation: 1.5 }, /shadow.generation/],
])('refuses %s and names the field', (_name, shadow, message) => {
  expect(() => readShadow(shadow)).toThrow(message);
});
