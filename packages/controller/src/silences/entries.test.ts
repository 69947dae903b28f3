import { MINUTE } from '../testing/objects.ts';
import { silenceSettings } from '../testing/silences.ts';
import { Entries, MAX_ENTRIES, type Wanted } from './entries.ts';
import { silencesOf } from './wanted.ts';

const SETTINGS = silenceSettings();
const wanted = (node: string, isWanted = true): Wanted[] =>
  silencesOf(node, SETTINGS).map((silence) => ({ node, silence, isWanted }));
const next = (entries: Entries): unknown[] => {
  const { node, isWanted, dueAt, endsAt } = entries.next() ?? {};
  return [node, isWanted, dueAt, endsAt];
};

test('a silence is due at once, after 15 minutes, and when it is not wanted any more', () => {
  const entries = new Entries();
  entries.want(wanted('a'), SETTINGS, 0);
  const entry = entries.next();
  expect(next(entries)).toEqual(['a', true, 0, 25 * MINUTE]);
  if (entry === undefined) return;
  entries.starts(entry, 10);
  entries.wasSet(entry, SETTINGS, 20);
  expect(next(entries)).toEqual(['a', true, 20 + 15 * MINUTE, 10 + 25 * MINUTE]);
  entries.want(wanted('a'), SETTINGS, 30);
  expect(next(entries)).toEqual(['a', true, 20 + 15 * MINUTE, 10 + 25 * MINUTE]);
  entries.want([], SETTINGS, 40);
  expect(next(entries)).toEqual(['a', false, 40, 10 + 25 * MINUTE]);
  entries.forgetEnded(9 + 25 * MINUTE);
  expect(entries.size).toBe(1);
  entries.forgetEnded(10 + 25 * MINUTE);
  expect(entries.size).toBe(0);
});

test('what is due first comes first, whatever its name', () => {
  const entries = new Entries();
  entries.want(wanted('b'), SETTINGS, 1);
  entries.want([...wanted('a'), ...wanted('b')], SETTINGS, 2);
  expect(next(entries).slice(0, 3)).toEqual(['b', true, 1]);
});

test('what was not wanted when it was set is due', () => {
  const entries = new Entries();
  entries.want(wanted('a'), SETTINGS, 0);
  const entry = entries.next();
  entries.want([], undefined, 5);
  if (entry !== undefined) entries.wasSet(entry, SETTINGS, 6);
  expect(next(entries).slice(0, 3)).toEqual(['a', false, 5]);
});

test('what is wanted again when it was ended is kept, and due after a pause', () => {
  const entries = new Entries();
  entries.want(wanted('a', false), SETTINGS, 0);
  const entry = entries.next();
  entries.want(wanted('a'), SETTINGS, 5);
  if (entry !== undefined) entries.wasEnded(entry, 1, 6);
  expect(next(entries).slice(0, 3)).toEqual(['a', true, 6 + 5 * MINUTE]);
});

test('what is wanted after its end is due after a pause, and forgotten if it is not wanted any more', () => {
  const entries = new Entries();
  entries.want(wanted('a', false), SETTINGS, 0);
  const entry = entries.next();
  if (entry !== undefined) entries.wasEnded(entry, 1, 6);
  entries.want(wanted('a'), SETTINGS, 7);
  expect(next(entries).slice(0, 3)).toEqual(['a', true, 6 + 5 * MINUTE]);
  entries.want([], SETTINGS, 8);
  expect(entries.size).toBe(0);
  entries.want(wanted('a'), SETTINGS, 9);
  expect(next(entries).slice(0, 3)).toEqual(['a', true, 6 + 5 * MINUTE]);
  entries.want([], SETTINGS, 10);
  entries.forgetEnded(6 + 5 * MINUTE);
  entries.want(wanted('a'), SETTINGS, 7 + 5 * MINUTE);
  expect(next(entries).slice(0, 3)).toEqual(['a', true, 7 + 5 * MINUTE]);
});

test('a node that leaves again more than five minutes after its silence was made is silenced at once', () => {
  const entries = new Entries();
  entries.want(wanted('a'), SETTINGS, 0);
  const entry = entries.next();
  if (entry === undefined) throw new Error('there is one');
  entries.starts(entry, 1);
  entries.wasSet(entry, SETTINGS, 2);
  entries.want([], SETTINGS, 4 * MINUTE);
  entries.wasEnded(entry, 1, 4 * MINUTE);
  entries.want(wanted('a'), SETTINGS, 5 * MINUTE);
  expect(next(entries).slice(0, 3)).toEqual(['a', true, 1 + 5 * MINUTE]);
  entries.want([], SETTINGS, 6 * MINUTE);
  entries.want(wanted('a'), SETTINGS, 7 * MINUTE);
  expect(next(entries).slice(0, 3)).toEqual(['a', true, 7 * MINUTE]);
});

test('a node of which a former leader has left no silence is silenced at once when it reboots', () => {
  const entries = new Entries();
  entries.want(wanted('a', false), SETTINGS, 0);
  const entry = entries.next();
  if (entry !== undefined) entries.wasEnded(entry, 0, 6);
  entries.want(wanted('a'), SETTINGS, 7);
  expect(next(entries).slice(0, 3)).toEqual(['a', true, 7]);
});

test('what a former leader may have left never ends what is wanted', () => {
  const entries = new Entries();
  entries.want(wanted('a'), SETTINGS, 0);
  entries.want([...wanted('a'), ...wanted('b', false)], SETTINGS, 5);
  expect([entries.size, ...next(entries).slice(0, 3)]).toEqual([2, 'a', true, 0]);
});

test('what is to be ended is ended with the latest settings, at once', () => {
  const entries = new Entries();
  const others = silenceSettings({ addresses: ['https://other.example.com'] });
  entries.want(wanted('a'), SETTINGS, 0);
  entries.want([], SETTINGS, 5);
  entries.want([], undefined, 6);
  expect([entries.next()?.settings, ...next(entries).slice(0, 3)]).toEqual([SETTINGS, 'a', false, 5]);
  entries.want([], others, 7);
  expect([entries.next()?.settings, ...next(entries).slice(0, 3)]).toEqual([others, 'a', false, 7]);
});

test('there is room for 500', () => {
  const entries = new Entries();
  const all = Array.from({ length: MAX_ENTRIES + 3 }, (_, index) => wanted(`n${index}`)).flat();
  expect([entries.want(all, SETTINGS, 0), entries.size]).toEqual([3, 500]);
  expect(entries.want(all.slice(3), SETTINGS, 0)).toBe(3);
  entries.forgetEnded(25 * MINUTE);
  expect(entries.want(all.slice(3), SETTINGS, 0)).toBe(0);
});
