import { aShadow, NOW, underWay } from '../testing/objects.ts';
import { Assumptions } from './assume-cache.ts';

const condition = {
  type: 'Progressing',
  status: 'True',
  reason: 'Updating',
  message: 'm',
  lastTransitionTime: 't',
} as const;
const cached = aShadow({ generation: 3 });
const written = aShadow({ generation: 4, spec: underWay('StagedAndPerformedUpdate') });
const uid = cached.metadata.uid;

test('a spec that was written counts although the watch still shows the one before', () => {
  const assumptions = new Assumptions();
  assumptions.shadow(written);
  expect(assumptions.view(cached, NOW)).toBe(written);
});

test('once the watch shows that generation or a later one, the watch counts', () => {
  const assumptions = new Assumptions();
  assumptions.shadow(written);
  const shown = aShadow({ generation: 4, spec: underWay('StagedAndPerformedUpdate'), status: { crash_count: 7 } });
  expect(assumptions.view(shown, NOW)).toBe(shown);
  expect(assumptions.view(cached, NOW)).toBe(cached);
});

test('a condition that was written counts until the watch shows it', () => {
  const assumptions = new Assumptions();
  assumptions.condition(uid, condition, NOW);
  expect(assumptions.view(cached, NOW).progressing).toBe(condition);
  const shown = aShadow({ progressing: { ...condition, lastTransitionTime: 'other' } });
  expect(assumptions.view(shown, NOW)).toBe(shown);
  expect(assumptions.view(cached, NOW).progressing).toBeUndefined();
});

test('a condition that the watch never shows is given up after 30 seconds', () => {
  const assumptions = new Assumptions();
  assumptions.condition(uid, condition, NOW);
  expect(assumptions.view(cached, NOW + 29_999).progressing).toBe(condition);
  expect(assumptions.view(cached, NOW + 30_000).progressing).toBeUndefined();
});

test('nothing is assumed of a shadow that is gone', () => {
  const assumptions = new Assumptions();
  assumptions.shadow(written);
  assumptions.condition(uid, condition, NOW);
  assumptions.drop(uid);
  expect(assumptions.view(cached, NOW)).toBe(cached);
});
