import fc from 'fast-check';
import { invalidSpecs } from '../../../../test/framework/configs/invalid-configs.ts';
import { anyValidSpec, validSpecs } from '../../../../test/framework/configs/valid-configs.ts';
import { aSnapshot } from '../testing/objects.ts';
import { readPolicy } from './policy.ts';

const problemOf = (spec: unknown): string | undefined => readPolicy(aSnapshot([], spec).config).problem;

// test/integration/chart/brupop-config-invalid.test.ts shows that the API server refuses and accepts the same specs.
describe('the controller, should the definition of another release let it in, follows no configuration against the rule that', () => {
  const refused = Object.entries(invalidSpecs).filter(([, { taken }]) => taken === undefined);
  test.each(refused)('%s', (_, { spec, field }) => {
    const problem = problemOf(spec);
    expect(problem).toContain(field);
    expect(problem).toMatch(/: expected .+, found /u);
  });
});

describe('the controller goes on in spite of the rule that', () => {
  const taken = Object.entries(invalidSpecs).filter(([, one]) => one.taken !== undefined);
  test.each(taken.map(([rule, { spec, taken }]) => [rule, taken, spec] as const))('%s, since %s', (_, _why, spec) => {
    expect(problemOf(spec)).toBeUndefined();
  });
});

describe('the controller finds no problem where', () => {
  test.each(Object.entries(validSpecs))('%s', (_, spec) => expect(problemOf(spec)).toBeUndefined());
});

test('the controller finds no problem in any spec that the schema takes', () => {
  fc.assert(
    fc.property(anyValidSpec, (spec) => expect(problemOf(spec)).toBeUndefined()),
    { numRuns: 50 },
  );
});

/** What the schema cannot tell, and takes. */
const onlyHere: Record<string, [string, string | readonly string[], RegExp]> = {
  'a schedule that comes on no day': ['0 2 30 2 *', [], /schedule: expected a date that exists, found "0 2 30 2 \*"/u],
  'a schedule that comes on none of its days': [
    '0 2 * * SAT',
    ['Sun'],
    /days: expected a day on which "0 2 \* \* SAT" starts/u,
  ],
  'a range from a name to a number that goes down': ['0 2 * * FRI-1', [], /From value is larger than to value/u],
};
test.each(Object.entries(onlyHere))(
  '%s is a problem that only the controller finds',
  (_, [schedule, days, problem]) => {
    expect(problemOf({ maintenance: { windows: [{ schedule, duration: '4h', days }] } })).toMatch(problem);
  },
);
