/** Failures that the agent no longer reports, since another attempt has taken their place. */
import { RETRY_ANNOTATION } from '@brupop/shared/api/names';
import { ago, aManagedNode, aSnapshot, failure, MINUTE, NEW, NOW, underWay } from '../testing/objects.ts';
import { wholePlan as plan, type WholePlan as Plan } from '../whole-plan.ts';

const HOUR = 60 * MINUTE;

it.each([
  ['it', NEW],
  ['another version', '1.20.5'],
])(
  'a version that a node did not boot stays so after a user wrote a spec with %s, whose attempt fails otherwise',
  (_what, version) => {
    const failed = { version: NEW, code: 'RolledBack', at: ago(HOUR) };
    const reportOf = (current_state: 'ErrorReset' | 'Idle') => ({
      current_state,
      crash_count: 2,
      lastOperation: failure('StagedImageLost', { operation: 'Drain', version }),
    });
    const edited = aManagedNode(
      'a',
      {},
      {
        spec: { ...underWay('RebootedIntoUpdate'), version },
        record: { startedAt: ago(2 * HOUR), failed, unsuccessful: 1 },
        status: reportOf('ErrorReset'),
      },
    );
    const [change] = plan(aSnapshot([edited]), NOW).specs;
    expect([change?.outcome, change?.record.failed]).toEqual(['Failed', { ...failed, isHidden: true }]);
    const later = NOW + 24 * HOUR;
    const atRest = aManagedNode('a', {}, { record: change?.record ?? {}, status: reportOf('Idle') });
    const made = plan(aSnapshot([atRest], {}, later), later);
    expect([made.specs.length, made.conditions.flat()[0]?.progressing.reason]).toEqual([0, 'ManualRetryRequired']);
  },
);

it('a version that a node did not boot stays so after an attempt with another version that was withdrawn', () => {
  const failed = { version: '1.20.5', code: 'RolledBack', at: ago(HOUR) };
  const [change] = plan(aSnapshot([aManagedNode('a', {}, { record: { failed, unsuccessful: 1 } })]), NOW).specs;
  expect([change?.outcome, change?.record.failed]).toEqual(['Started', { ...failed, isHidden: true }]);
  const later = NOW + 24 * HOUR;
  const status = { target_version: failed.version, crash_count: 1, lastOperation: failure('StagedImageLost') };
  const offered = (annotations = {}): Plan => {
    const node = aManagedNode('a', {}, { record: { ...change?.record, unsuccessful: 2 }, status, annotations });
    return plan(aSnapshot([node], {}, later), later);
  };
  expect([offered().specs.length, offered().conditions.flat()[0]?.progressing.reason]).toEqual([
    0,
    'ManualRetryRequired',
  ]);
  const retried = offered({ [RETRY_ANNOTATION]: failed.version }).specs[0];
  expect([retried?.outcome, retried?.record.failed]).toEqual(['Started', { ...failed, isHidden: undefined }]);
});
