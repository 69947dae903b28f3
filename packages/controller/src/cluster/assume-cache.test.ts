import { aShadow, NOW, underWay } from '../testing/objects.ts';
import { AssumeCache } from './assume-cache.ts';
import { nodeOf } from './shadow.ts';

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

test('a written spec counts while the watch still shows the previous one', () => {
  const assumeCache = new AssumeCache();
  assumeCache.shadow(written);
  expect(assumeCache.view(cached, NOW)).toBe(written);
});

test('the watch counts once it shows that generation or a later one', () => {
  const assumeCache = new AssumeCache();
  assumeCache.shadow(written);
  const shown = aShadow({ generation: 4, spec: underWay('StagedAndPerformedUpdate'), status: { crash_count: 7 } });
  expect(assumeCache.view(shown, NOW)).toBe(shown);
  expect(assumeCache.view(cached, NOW)).toBe(cached);
});

test('a written condition counts until the watch shows it', () => {
  const assumeCache = new AssumeCache();
  assumeCache.condition(cached, { progressing: condition, health: [], group: 'ingress' }, NOW);
  expect(assumeCache.view(cached, NOW)).toMatchObject({ progressing: condition, group: 'ingress' });
  const shown = { ...aShadow({ progressing: { ...condition, lastTransitionTime: 'other' } }), group: 'ingress' };
  expect(assumeCache.view(shown, NOW)).toBe(shown);
  expect(assumeCache.view(cached, NOW).progressing).toBeUndefined();
});

test('a condition that the watch never shows is dropped after 30 seconds', () => {
  const assumeCache = new AssumeCache();
  assumeCache.condition(cached, { progressing: condition, health: [], group: 'ingress' }, NOW);
  expect(assumeCache.view(cached, NOW + 29_999).progressing).toBe(condition);
  expect(assumeCache.view(cached, NOW + 30_000).progressing).toBeUndefined();
});

test('nothing is assumed about a deleted shadow', () => {
  const assumeCache = new AssumeCache();
  assumeCache.shadow(written);
  assumeCache.condition(cached, { progressing: condition, health: [], group: 'ingress' }, NOW);
  assumeCache.drop(uid);
  expect(assumeCache.view(cached, NOW)).toBe(cached);
});

test('names the nodes of which a view may differ, once', () => {
  const assumeCache = new AssumeCache();
  assumeCache.shadow(written);
  assumeCache.condition(cached, { progressing: condition, health: [], group: 'ingress' }, NOW);
  const [name] = assumeCache.changed(NOW);
  expect(name).toBe(nodeOf(cached));
  expect(assumeCache.changed(NOW)).toEqual([]);
});

test.each<[string, (assumeCache: AssumeCache) => void]>([
  ['the watch shows the spec', (one) => one.view(written, NOW)],
  ['nothing is assumed any more', (one) => one.clear()],
])('names a node again when %s', (_, happens) => {
  const assumeCache = new AssumeCache();
  assumeCache.shadow(written);
  assumeCache.changed(NOW);
  happens(assumeCache);
  expect(assumeCache.changed(NOW)).toEqual([nodeOf(written)]);
});

test('names a node again when its condition is no longer assumed', () => {
  const assumeCache = new AssumeCache();
  assumeCache.condition(cached, { progressing: condition, health: [], group: 'ingress' }, NOW);
  assumeCache.changed(NOW);
  expect(assumeCache.changed(NOW + 29_999)).toEqual([]);
  expect(assumeCache.changed(NOW + 30_000)).toEqual([nodeOf(cached)]);
});
