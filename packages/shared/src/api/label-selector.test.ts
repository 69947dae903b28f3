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
  ['an unknown operator selects', true, expression('Resembles', 'app', ['x'])],
  ['labels and expressions must both match', false, { matchLabels: { app: 'web' }, ...expression('Exists', 'zone') }],
])('%s: %s', (_what, expected, selector) => {
  expect(selects(selector, labels)).toBe(expected);
});
