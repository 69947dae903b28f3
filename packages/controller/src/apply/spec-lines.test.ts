import { idle, type Outcome, startSpec, type Transition } from '../plan/specs/transition.ts';
import { specChange } from '../plan/specs/spec-change.ts';
import { ago, aNode, aShadow, failure, MINUTE, NEW, NOW, OLD, POLICY, underWay } from '../testing/objects.ts';
import { lineOf } from './spec-lines.ts';
import { Moment } from '../kept/moment.ts';

const START = ago(10 * MINUTE);
const STARTED = { startedAt: START, from: OLD };

function endOf(outcome: Outcome, because?: Transition['because']): ReturnType<typeof lineOf> {
  const status = { current_state: 'ErrorReset', current_version: OLD, lastOperation: failure('RolledBack') } as const;
  const shadow = aShadow({ spec: underWay('RebootedIntoUpdate'), record: STARTED, status });
  const transition = { ...idle({ policy: POLICY, now: new Moment(NOW) }, outcome), ...(because && { because }) };
  return lineOf(specChange(transition, { shadow, node: aNode() }));
}

const because = (reason: 'CheckFailed' | 'HostSettingsNotApplied'): Transition['because'] => ({
  reason,
  message: 'why',
});

it.each<readonly [Outcome, string, Transition['because']]>([
  ['Failed', 'RolledBack', undefined],
  ['Cancelled', 'DeadlineExceeded', undefined],
  ['CheckFailed', 'CheckFailed', because('CheckFailed')],
  ['Reverting', 'CheckFailed', because('CheckFailed')],
  ['SettingsFailed', 'HostSettingsNotApplied', because('HostSettingsNotApplied')],
])('%s is a warning with the versions, the code %s and the attempt', (outcome, code, why) => {
  const { level, fields } = endOf(outcome, why);
  expect([level, fields]).toEqual(['warn', expect.objectContaining({ from: OLD, to: NEW, code, attempt: START })]);
});

it('names the attempt that a start begins, not the one before', () => {
  const shadow = aShadow({ record: STARTED });
  const change = specChange(
    { spec: startSpec(NEW, POLICY, new Moment(NOW)), outcome: 'Started' },
    { shadow, node: aNode() },
  );
  const { level, fields } = lineOf(change);
  expect([level, fields]).toEqual(['info', expect.objectContaining({ from: OLD, to: NEW, attempt: ago(0) })]);
});

it('names no attempt when a node at rest gets other settings', () => {
  const change = specChange(idle({ policy: POLICY, now: new Moment(NOW) }, 'Configured'), {
    shadow: aShadow({ record: STARTED }),
    node: aNode(),
  });
  expect(lineOf(change).fields['attempt']).toBeUndefined();
});
