import fc from 'fast-check';
import { specFields } from '../../../../test/framework/configs/fields.ts';
import { specWith } from '../../../../test/framework/configs/spec-with.ts';
import { DEFAULT_SPEC, readConfigSpec, withDefaults } from './config-spec.ts';
import { formatDuration, parseDuration } from './spec-schema.ts';

test('a duration is read as it is written', () => {
  fc.assert(
    fc.property(fc.nat(9_999 * 3_600), (seconds) => {
      expect(parseDuration(formatDuration(seconds * 1000))).toBe(seconds * 1000);
    }),
  );
});

test.each([
  ['90s', 90_000],
  ['1h30m', 5_400_000],
  ['1h0m5s', 3_605_000],
  ['0s', 0],
  ['', undefined],
  ['90', undefined],
  ['1.5h', undefined],
  ['30m1h', undefined],
  ['-1s', undefined],
  [' 1s', undefined],
])('the duration %j is %s ms', (text, ms) => expect(parseDuration(text)).toBe(ms));

test('the defaults of this release are read without a problem, and are what an empty spec means', () => {
  expect(readConfigSpec(DEFAULT_SPEC).problems).toEqual([]);
  expect(withDefaults({ paused: null, drain: { timeout: '1h', onTimeout: null } })).toEqual({
    ...DEFAULT_SPEC,
    drain: { ...(DEFAULT_SPEC['drain'] as object), timeout: '1h' },
  });
});

/** What JSON can hold, by its type. */
const values = {
  boolean: fc.boolean(),
  string: fc.string(),
  number: fc.oneof(fc.integer(), fc.double({ noNaN: true })),
  array: fc.array(fc.oneof(fc.integer(), fc.string()), { minLength: 1, maxLength: 3 }),
  object: fc.dictionary(fc.stringMatching(/^[a-z]{1,5}$/u), fc.integer(), { minKeys: 1, maxKeys: 3 }),
};
const TAKES: Readonly<Record<string, readonly string[]>> = {
  duration: ['string'],
  integer: ['number'],
  'integer,string': ['string', 'number'],
};

test.each(specFields)('$field: a value of another type is named, and nothing else is lost', ({ field, type }) => {
  const takes = TAKES[type] ?? [type];
  const others = Object.entries(values).filter(([name]) => !takes.includes(name));
  const wrong = fc.oneof(...others.map(([, value]) => value as fc.Arbitrary<unknown>));
  fc.assert(
    fc.property(wrong, (value) => {
      const { value: read, problems } = readConfigSpec({
        ...specWith(field, value),
        pauseReason: field === 'pauseReason' ? value : 'x',
      });
      expect(problems[0]).toMatch(/: expected .+, found /su);
      expect(problems[0]).toContain(`spec.${field}`);
      expect(read.pauseReason).toBe(field === 'pauseReason' ? undefined : 'x');
      expect(read.order).toBe('Name');
    }),
    { numRuns: 20 },
  );
});

test('any JSON at all is read as some spec', () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      const { value: read } = readConfigSpec(value);
      expect(read.drain.timeoutMs).toBeGreaterThan(0);
    }),
  );
});
