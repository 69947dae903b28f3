import fc from 'fast-check';
import { RECORD_ANNOTATION } from './names.ts';
import { type NodeRecord, readRecord, recordText } from './record.ts';

const at = '2026-11-22T10:00:00Z';
const read = (text: string): NodeRecord => readRecord({ annotations: { [RECORD_ANNOTATION]: text } });
const short = fc.string({ unit: 'grapheme-ascii', maxLength: 40 });
const time = fc.constantFrom(at, '2026-11-23T00:00:00Z');
const count = fc.nat({ max: 1_000 });
const records: fc.Arbitrary<NodeRecord> = fc.record(
  {
    startedAt: time,
    from: short,
    group: short,
    unreadyBefore: fc.array(short, { maxLength: 50 }),
    members: fc.array(fc.record({ quorum: short, pod: short }), { maxLength: 20 }),
    jobs: fc.dictionary(fc.constantFrom('from', 'to', 'Before/check/smoke'), short, { noNullPrototype: true }),
    succeeded: fc.record({ version: short, at: time }),
    failed: fc.record({ version: short, code: short, at: time }),
    asked: fc.record({ version: short, at: time }),
    rollback: fc.record({ failed: short, previous: short, since: time, isDone: fc.boolean() }),
    unsuccessful: count,
    attempts: fc.record({ version: short, count }),
    blockedDrains: fc.record({ count, at: time }),
    settingsFailed: fc.record({ hash: short, at: time }),
    settingsProved: fc.array(fc.tuple(fc.string(), fc.string()), { maxLength: 5 }),
  },
  { requiredKeys: [] },
);

it('is read as it was written', () => {
  const property = fc.property(records, (record) => {
    const text = recordText(record);
    expect(text === null ? {} : read(text)).toEqual(record);
  });
  fc.assert(property, { numRuns: 300 });
  expect.hasAssertions();
});

it('is no annotation when there is nothing to remember', () => {
  expect([recordText({}), recordText({ from: undefined })]).toEqual([null, null]);
  expect(readRecord({})).toEqual({});
});

it.each<[string, string, NodeRecord]>([
  ['no JSON', '{"from":', { isUnreadable: true }],
  ['no object', '["1.20.0"]', { isUnreadable: true }],
  ['null', 'null', { isUnreadable: true }],
  ['a field of another type', `{"from":"1.20.0","unsuccessful":"many"}`, { from: '1.20.0', isUnreadable: true }],
  ['a time that is none', `{"startedAt":"yesterday"}`, { isUnreadable: true }],
  ['a field of another release', `{"from":"1.20.0","later":{"at":1}}`, { from: '1.20.0' }],
])('that a user has edited to %s', (_, text, expected) => {
  expect(read(text)).toEqual(expected);
});
