import type { BrupopConfigStatus } from '@brupop/shared/api/brupop-config';
import { SKIP_ANNOTATION } from '@brupop/shared/api/names';
import { rfc3339 } from '@brupop/shared/runtime/clock';
import {
  ago,
  aManagedNode,
  aSnapshot,
  failure,
  MINUTE,
  NEW,
  type NodeParts,
  NOW,
  type ShadowParts,
} from '../../testing/objects.ts';
import type { ProgressingCondition } from '../condition.ts';
import { wholePlan as plan } from '../../whole-plan.ts';

interface Case {
  readonly node?: NodeParts;
  readonly shadow?: ShadowParts;
  readonly status?: BrupopConfigStatus;
}

/** Why the only node of a fleet waits; undefined: it starts its update. */
function waitOf(spec: object, { node, shadow, status }: Case = {}): ProgressingCondition | undefined {
  const snapshot = aSnapshot([aManagedNode('a', node, shadow)], spec);
  const config = snapshot.config && { ...snapshot.config, ...(status !== undefined && { status }) };
  const { specs, conditions } = plan({ ...snapshot, config }, NOW);
  return specs.some(({ outcome }) => outcome === 'Started') ? undefined : conditions.flat()[0]?.progressing;
}

// NOW is Friday 2027-01-15 08:00 UTC.
const window = (schedule: string, duration: string): object => ({ maintenance: { windows: [{ schedule, duration }] } });
const took = (seconds: number): Case => ({ shadow: { record: { updateSeconds: seconds } } });
const blackout = { from: ago(MINUTE), to: ago(-60 * MINUTE), reason: 'sale' };
const offered = (ageMs: number): Case => ({
  status: { versions: [{ version: NEW, running: 0, offered: 1, firstOfferedTime: rfc3339(NOW - ageMs) }] },
});
const failedTimes = (count: number): Case => ({
  shadow: {
    record: { attempts: { version: NEW, count: count } },
    spec: { state_transition_timestamp: ago(60 * MINUTE) },
    status: { crash_count: count, lastOperation: failure('PrepareFailed') },
  },
});

const cases: Record<string, [ProgressingCondition | undefined, string | undefined]> = {
  'a window that is open for long enough lets nodes start': [waitOf(window('0 7 * * *', '4h')), undefined],
  'outside of windows nodes wait until the next': [
    waitOf(window('0 9 * * *', '4h')),
    'OutsideMaintenanceWindow until 2027-01-15T09:00:00Z',
  ],
  'a window that closes too soon is not entered': [
    waitOf(window('0 7 * * *', '90m')),
    'OutsideMaintenanceWindow until 2027-01-16T07:00:00Z',
  ],
  'a window is entered when updates are expected to be fast enough': [
    waitOf({ maintenance: { windows: [{ schedule: '0 7 * * *', duration: '90m' }], updateEstimate: '1m' } }),
    undefined,
  ],
  'the margin is part of the time that an update needs': [
    waitOf({ maintenance: { windows: [{ schedule: '0 7 * * *', duration: '90m' }], margin: '30m' } }, took(60)),
    'OutsideMaintenanceWindow until 2027-01-16T07:00:00Z',
  ],
  'a node that took long itself needs more time than others': [
    waitOf(window('0 7 * * *', '4h'), took(3 * 3_600)),
    'OutsideMaintenanceWindow until 2027-01-16T07:00:00Z',
  ],
  'windows that are all too short are said to be so': [waitOf(window('0 7 * * *', '30m')), 'WindowTooShort'],
  'windows follow the time zone': [
    waitOf({ maintenance: { timeZone: 'Asia/Kolkata', windows: [{ schedule: '0 13 * * *', duration: '2h' }] } }),
    undefined,
  ],
  'weekdays restrict the schedule': [
    waitOf({ maintenance: { windows: [{ schedule: '0 7 * * *', duration: '4h', days: ['Sat'] }] } }),
    'OutsideMaintenanceWindow until 2027-01-16T07:00:00Z',
  ],
  'a blackout keeps nodes waiting without windows': [
    waitOf({ maintenance: { blackouts: [blackout] } }),
    'Blackout until 2027-01-15T09:00:00Z',
  ],
  'a version that is old enough is started': [
    waitOf({ versions: { minimumAge: '1h' } }, offered(60 * MINUTE)),
    undefined,
  ],
  'a version that is too young is waited for': [
    waitOf({ versions: { minimumAge: '2h' } }, offered(60 * MINUTE)),
    'MinimumAgeNotReached until 2027-01-15T09:00:00Z',
  ],
  'a version that nobody has seen yet is new': [
    waitOf({ versions: { minimumAge: '2h' } }),
    'MinimumAgeNotReached until 2027-01-15T10:00:00Z',
  ],
  'nobody can tell how old a version is that was first seen in the future': [
    waitOf({ versions: { minimumAge: '2h' } }, offered(-600 * MINUTE)),
    'MinimumAgeNotReached',
  ],
  'a node that is to be skipped waits': [
    waitOf({}, { node: { annotations: { [SKIP_ANNOTATION]: 'true' } } }),
    'Skipped',
  ],
  'whatever the annotation says but false counts': [
    waitOf({}, { node: { annotations: { [SKIP_ANNOTATION]: 'flase' } } }),
    'Skipped',
  ],
  'a node that is not to be skipped starts': [
    waitOf({}, { node: { annotations: { [SKIP_ANNOTATION]: 'false' } } }),
    undefined,
  ],
  'a node that is not selected waits': [waitOf({ nodeSelector: { matchLabels: { pool: 'web' } } }), 'NotSelected'],
  'a node that is selected starts': [
    waitOf({ nodeSelector: { matchLabels: { pool: 'web' } } }, { node: { labels: { pool: 'web' } } }),
    undefined,
  ],
  'ten failures with one version are enough': [waitOf({}, failedTimes(10)), 'ManualRetryRequired'],
  'the configuration can limit the failures with one version': [
    waitOf({ retry: { attempts: 2 } }, failedTimes(2)),
    'ManualRetryRequired',
  ],
  'the waits between attempts are as the configuration says': [
    waitOf({ retry: { backoff: '2h', maxBackoff: '2h' } }, failedTimes(3)),
    `Backoff until ${ago(-60 * MINUTE)}`,
  ],
};
test.each(Object.entries(cases))('%s', (_, [progressing, waitingFor]) =>
  expect(progressing?.waitingFor).toBe(waitingFor),
);

test('a version that only one of several agents reports does not age', () => {
  const versions = [{ version: '9.9.9', running: 0, offered: 1, firstOfferedTime: ago(100 * 60 * MINUTE) }];
  const liar = aManagedNode('a', {}, { status: { target_version: '9.9.9' } });
  const snapshot = aSnapshot([liar, aManagedNode('b', {}, { status: { current_version: NEW, target_version: NEW } })], {
    versions: { minimumAge: '1h' },
  });
  const { specs, conditions } = plan(
    { ...snapshot, config: snapshot.config && { ...snapshot.config, status: { versions } } },
    NOW,
  );
  expect(specs).toEqual([]);
  expect(conditions.flat()[0]?.progressing).toMatchObject({
    reason: 'MinimumAgeNotReached',
    message:
      'Fewer than two selected nodes run 9.9.9 or are offered it, so spec.versions.minimumAge does not start yet',
  });
});

test('the age of a version starts when a second node is offered it', () => {
  const snapshot = aSnapshot([aManagedNode('a'), aManagedNode('b')], { versions: { minimumAge: '2h' } });
  const { conditions } = plan(snapshot, NOW);
  expect(conditions.flat()[0]?.progressing.waitingFor).toBe('MinimumAgeNotReached until 2027-01-15T10:00:00Z');
});

test('failures with another version do not count', () => {
  const record = { attempts: { version: '1.20.5', count: 10 } };
  expect(waitOf({}, { shadow: { ...failedTimes(10).shadow, record } })).toMatchObject({ reason: 'Backoff' });
});

test('the reason of a blackout is passed on', () => {
  expect(waitOf({ maintenance: { blackouts: [blackout] } })?.message).toBe(
    'No node starts an update during this blackout: sale; updates may start at 2027-01-15T09:00:00Z',
  );
});

describe('with fewer than three measured nodes', () => {
  // The window of two hours has opened an hour ago; an update is expected to take 30 minutes, with a margin of 15.
  const startsBeside = (seconds: readonly number[], schedule: string): boolean => {
    const measured = seconds.map((one, i) =>
      aManagedNode(`m${i}`, {}, { ...took(one).shadow, status: { current_version: NEW } }),
    );
    const maintenance = { windows: [{ schedule, duration: '2h' }], updateEstimate: '30m', margin: '15m' };
    const { specs } = plan(aSnapshot([aManagedNode('a'), ...measured], { maintenance }), NOW);
    return specs.some(({ node, outcome }) => node.metadata.name === 'a' && outcome === 'Started');
  };
  const SLOW = 3 * 60 * 60;
  const FAST = 4;

  it.each([[[SLOW]], [[SLOW, SLOW]]])('slow updates %j do not close the window for others', (seconds) => {
    expect(startsBeside(seconds, '0 7 * * *')).toBe(true);
  });

  it.each([[[FAST]], [[FAST, FAST]]])(
    'fast updates %j do not let other nodes start just before the window closes',
    (seconds) => {
      expect(startsBeside(seconds, '20 6 * * *')).toBe(false);
    },
  );
});
