import { readHistory } from '@brupop/shared/api/history';
import { RECORD_ANNOTATION } from '@brupop/shared/api/names';
import { readRecord, recordText } from '@brupop/shared/api/record';
import { annotationsOf } from '../apply/shadows.ts';
import { ago, aNode, aShadow, MINUTE, NEW, NOW, OLD, POLICY, underWay } from '../testing/objects.ts';
import { Moment } from '../kept/moment.ts';
import { specChange } from './specs/spec-change.ts';
import { idle } from './specs/transition.ts';

const end = { policy: POLICY, now: new Moment(NOW) };
const record = { startedAt: ago(20 * MINUTE), from: OLD };

/** The annotations of a shadow whose update ends the given number of times. */
function annotationsAfter(updates: number): Record<string, string> {
  const annotations: Record<string, string> = {};
  let kept = {};
  for (let left = updates; left > 0; left -= 1) {
    const shadow = aShadow({ spec: underWay('MonitoringUpdate', 5 * MINUTE), record: { ...record, ...kept } });
    const change = specChange(idle(end, 'Succeeded'), { shadow, node: aNode() });
    for (const [key, value] of Object.entries(annotationsOf(change))) if (value !== null) annotations[key] = value;
    kept = { history: readRecord({ annotations }).history };
  }
  return annotations;
}

it('an update that ends is kept with how long its steps took', () => {
  const annotations = annotationsAfter(1);
  expect(readHistory({ annotations })).toMatchObject([
    { start: ago(20 * MINUTE), end: ago(0), from: OLD, to: NEW, outcome: 'Succeeded', attempt: 1 },
  ]);
  expect(readHistory({ annotations })[0]?.seconds).toEqual({ MonitoringUpdate: 300 });
});

it('of thirty updates the latest ten are kept', () => {
  const annotations = annotationsAfter(30);
  expect(Object.keys(annotations)).toHaveLength(11);
  expect(JSON.stringify(annotations).length).toBeLessThan(5000);
});

it('a number that a user has edited begins with 0 again, and does not make the record unreadable', () => {
  const annotations = { [RECORD_ANNOTATION]: `{"from":"${OLD}","history":{"count":"many"}}` };
  expect(readRecord({ annotations })).toEqual({ from: OLD, history: { count: 0, seconds: {} } });
  expect(recordText(readRecord({ annotations }))).toContain('"count":0');
});
