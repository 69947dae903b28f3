import { editsOf } from './edits.ts';
import { historyAnnotations, historyKey, MAX_UPDATES, readHistory } from './history.ts';
import { readRecord } from './record.ts';

const update = {
  start: '2026-11-22T10:00:00Z',
  end: '2026-11-22T10:09:00Z',
  from: '1.20.0',
  to: '1.21.0',
  outcome: 'Succeeded',
  attempt: 1,
  seconds: { StagedAndPerformedUpdate: 60 },
};

it('the eleventh update replaces the first', () => {
  expect(historyKey(10)).toBe(historyKey(0));
});

it('is read with the latest first', () => {
  const later = { ...update, start: '2026-11-23T10:00:00Z' };
  const annotations = { [historyKey(0)]: JSON.stringify(update), [historyKey(1)]: JSON.stringify(later) };
  expect(readHistory({ annotations })).toEqual([later, update]);
});

it.each(['', 'no JSON', '[]', 'null', '{"start":"never"}', JSON.stringify({ ...update, code: 'x'.repeat(2000) })])(
  'an update that reads %j is left out',
  (edited) => {
    const annotations = { [historyKey(0)]: edited, [historyKey(1)]: JSON.stringify(update) };
    expect(readHistory({ annotations })).toEqual([update]);
  },
);

it('continues the ring on another shadow after the latest update', () => {
  const updates = Array.from({ length: 12 }, (_, i) => ({ ...update, start: `2026-11-${29 - i}T10:00:00Z` }));
  for (const count of [1, 3, MAX_UPDATES, 12]) {
    const kept = updates.slice(0, Math.min(count, MAX_UPDATES));
    const annotations = historyAnnotations(updates.slice(0, count));
    expect(readHistory({ annotations })).toEqual(kept);
    const next = historyKey(readRecord({ annotations }).history?.count ?? 0);
    const replaced = annotations[next];
    expect(replaced === undefined ? undefined : JSON.parse(replaced)).toEqual(kept[MAX_UPDATES - 1]);
  }
  expect(historyAnnotations([])).toEqual({});
});

it('names the field managers of a spec, not those of the status', () => {
  const time = '2026-11-22T10:00:00Z';
  const fieldsV1 = { 'f:spec': { '.': {}, 'f:paused': {}, 'f:rollout': { 'f:approvedVersion': {} } } };
  const managedFields = [
    { manager: 'kubectl-edit', operation: 'Update', time, fieldsV1 },
    { manager: 'brupop-controller', operation: 'Apply', time, subresource: 'status', fieldsV1: { 'f:status': {} } },
    'no object',
  ];
  expect(editsOf({ managedFields })).toEqual([
    { manager: 'kubectl-edit', time, fields: ['paused', 'rollout.approvedVersion'] },
  ]);
  expect(editsOf({ managedFields: 'edited' })).toEqual([]);
});
