import { type LabelSelector, selects } from './label-selector.ts';

const labels = { app: 'web', tier: 'front' };
const expression = (operator: string, key: string, values?: string[]): LabelSelector => ({
  matchExpressions: [{ key, operator, ...(values === undefined ? {} : { values }) }],
});

test.each<[string, boolean, LabelSelector | null | undefined]>([
  ['no selector selects nothing', false, undefined],
  ['a null selector selects nothing', false, null],
  ['an empty selector selects everything', true, {}],
  ['labels that are there select', true, { matchLabels: { app: 'web', tier: 'front' } }],
  ['one label that differs is enough to leave out', false, { matchLabels: { app: 'web', tier: 'back' } }],
  ['In with the value', true, expression('In', 'app', ['api', 'web'])],
  ['In without the value', false, expression('In', 'app', ['api'])],
  ['In of a label that is not there', false, expression('In', 'zone', ['a'])],
  ['NotIn with the value', false, expression('NotIn', 'app', ['web'])],
  ['NotIn of a label that is not there', true, expression('NotIn', 'zone', ['a'])],
  ['Exists', true, expression('Exists', 'app')],
  ['Exists of a label that is not there', false, expression('Exists', 'zone')],
  ['DoesNotExist', false, expression('DoesNotExist', 'app')],
  ['DoesNotExist of a label that is not there', true, expression('DoesNotExist', 'zone')],
  [
    'Exists of a label that is not there, with the name of what every object has',
    false,
    expression('Exists', 'constructor'),
  ],
  ['DoesNotExist of such a label', true, expression('DoesNotExist', 'constructor')],
  ['an unknown operator selects', true, expression('Resembles', 'app', ['x'])],
  ['labels and expressions must both match', false, { matchLabels: { app: 'web' }, ...expression('Exists', 'zone') }],
])('%s: %s', (_what, expected, selector) => {
  expect(selects(selector, labels)).toBe(expected);
});

test('a list of values is read once, however many labels are compared with it', () => {
  let reads = 0;
  const many = Array.from({ length: 100 }, (_, i) => `v${i}`);
  const counted = new Proxy(many, {
    get: (target, name, receiver) => {
      if (typeof name === 'string' && /^\d+$/u.test(name)) reads += 1;
      return Reflect.get(target, name, receiver) as unknown;
    },
  });
  for (const operator of ['In', 'NotIn'])
    for (let i = 0; i < 1_000; i += 1) selects(expression(operator, 'app', counted), { app: `v${i}` });
  expect(reads).toBeLessThanOrEqual(200);
  expect(selects(expression('In', 'app', many), { app: 'v99' })).toBe(true);
  expect(selects(expression('NotIn', 'app', many), { app: 'v99' })).toBe(false);
  expect(selects(expression('In', 'app', many), { app: 'v100' })).toBe(false);
});
