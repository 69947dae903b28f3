import type { BrupopConfigStatus } from '@brupop/shared/api/brupop-config';
import type { ManagedNode } from '../cluster/snapshot.ts';
import { aGroup, ago, aManagedNode, aSnapshot, MINUTE, NEW, NOW, withGroups } from '../testing/objects.ts';
import { CONDITIONS } from './config-conditions.ts';
import { statusOf } from './config-status.ts';
import { wholePlan as plan, type WholePlan as Plan } from '../whole-plan.ts';

const HOUR = 60 * MINUTE;
type Counted = NonNullable<BrupopConfigStatus['progress']>;

interface Seen {
  readonly made: Plan;
  /** As it is written. */
  readonly progress: Counted | undefined;
}

function seen(nodes: readonly ManagedNode[], spec: object, before?: Counted, parts: object = {}): Seen {
  const snapshot = { ...aSnapshot(nodes, { rollout: { progressDeadline: '2h' }, ...spec }), ...parts };
  const status = before && { progress: before };
  const config = snapshot.config && { ...snapshot.config, ...(status !== undefined && { status }) };
  if (config === undefined) throw new Error('the snapshot has a configuration');
  const made = plan({ ...snapshot, config }, NOW);
  const { progress } = statusOf({ config, plan: made, before: status, isWritten: true, now: NOW });
  return { made, progress };
}

const succeeded = (ms: number): ManagedNode =>
  aManagedNode(
    'done',
    {},
    {
      record: { succeeded: { version: NEW, at: ago(ms) } },
      status: { current_version: NEW, target_version: NEW },
    },
  );
/** It waits, although the configuration lets it start. */
const down = aManagedNode('down', { ready: false });
const counted = (sinceMs: number, countedSeconds = 0): Counted => ({
  lastProgressTime: ago(24 * HOUR),
  countedSeconds,
  countedFrom: ago(sinceMs),
});

test('a fleet that is up to date has no rollout', () => {
  expect(seen([succeeded(HOUR)], {}, counted(HOUR)).progress).toBeUndefined();
});

test('a rollout begins to count when a node needs an update', () => {
  const { made, progress } = seen([down], {});
  expect(progress).toEqual({ lastProgressTime: ago(0), countedSeconds: 0, countedFrom: ago(0) });
  expect(made.progress?.deadline).toBe(NOW + 2 * HOUR);
  expect(made.wakeAt).toBeLessThanOrEqual(NOW + 2 * HOUR);
});

test('a rollout without progress for longer than its deadline is late, and says so', () => {
  const { made } = seen([down], {}, counted(2 * HOUR));
  expect(made.progress?.isLate).toBe(true);
  expect(CONDITIONS.Degraded(made)).toEqual({
    status: 'True',
    reason: 'ProgressDeadlineExceeded',
    message:
      'No node has succeeded since 2027-01-14T08:00:00Z, which is longer than spec.rollout.progressDeadline allows; ' +
      '1 waiting: NodeNotReady',
  });
});

test('a rollout is not late just before its deadline', () => {
  expect(seen([down], {}, counted(2 * HOUR - 1000)).made.progress?.isLate).toBe(false);
});

test('a node that succeeds starts the count again', () => {
  const { progress } = seen([down, succeeded(10 * MINUTE)], {}, counted(2 * HOUR, 3600));
  expect(progress).toEqual({ lastProgressTime: ago(10 * MINUTE), countedSeconds: 0, countedFrom: ago(10 * MINUTE) });
});

describe.each([
  ['a pause', { paused: true }],
  ['a closed window', { maintenance: { windows: [{ schedule: '0 20 * * *', duration: '1h' }] } }],
  ['a blackout', { maintenance: { blackouts: [{ from: ago(MINUTE), to: ago(-HOUR) }] } }],
  ['an approval that is missing', { rollout: { progressDeadline: '2h', approval: 'Required' } }],
])('%s', (_, spec) => {
  const waiting = aManagedNode('a');

  it('stops the count', () => {
    const { made, progress } = seen([waiting], spec, counted(HOUR, 60));
    expect(progress).toEqual({ lastProgressTime: ago(24 * HOUR), countedSeconds: 3660 });
    expect(made.progress?.isLate).toBe(false);
  });

  it('does not change what was counted', () => {
    const { progress } = seen([waiting], spec, { lastProgressTime: ago(24 * HOUR), countedSeconds: 3660 });
    expect(progress).toEqual({ lastProgressTime: ago(24 * HOUR), countedSeconds: 3660 });
  });

  it('is followed by the rest of the time', () => {
    const { made, progress } = seen([down], {}, { lastProgressTime: ago(24 * HOUR), countedSeconds: 3660 });
    expect(progress).toEqual({ lastProgressTime: ago(24 * HOUR), countedSeconds: 3660, countedFrom: ago(0) });
    expect(made.progress?.deadline).toBe(NOW + 59 * MINUTE);
  });
});

test.each([
  ['ahead of', 24 * HOUR],
  ['behind', -HOUR],
])('a clock %s that of the Kubernetes API stops the count, and changes nothing of it', (_, clockSkewMs) => {
  const lastProgressTime = ago(clockSkewMs + 30 * MINUTE);
  const before = { lastProgressTime, countedSeconds: 60, countedFrom: ago(clockSkewMs + 10 * MINUTE) };
  const { made, progress } = seen([down], {}, before, { clockSkewMs });
  expect(progress).toEqual({ lastProgressTime, countedSeconds: 660 });
  expect(made.progress?.isLate).toBe(false);
});

describe('a late rollout remains late without a success', () => {
  const late = { lastProgressTime: ago(24 * HOUR), countedSeconds: 7_200 };
  const unconfirmed = (reason: string, ms: number, record = {}): ManagedNode =>
    aManagedNode(
      'b',
      {},
      {
        record,
        generation: 4,
        spec: { state_transition_timestamp: ago(ms) },
        status: { observedGeneration: 3 },
        progressing: { type: 'Progressing', status: 'False', reason, message: '', lastTransitionTime: ago(HOUR) },
      },
    );
  const isLate = (node: ManagedNode, spec: object = {}): unknown => {
    const { made, progress } = seen([succeeded(30 * HOUR), node], spec, late);
    return [made.progress?.isLate, progress];
  };

  it('while the last node, which failed past its deadline, has not confirmed the end', () => {
    const record = { startedAt: ago(5 * HOUR), rebootRequestedAt: ago(4 * HOUR) };
    expect(isLate(unconfirmed('DeadlineExceeded', 1_000, record))).toEqual([true, late]);
  });

  it('while the hosts of the nodes that wait get other settings', () => {
    expect(isLate(aManagedNode('b'), { versions: { ignoreWaves: true } })).toEqual([true, late]);
    expect(isLate(unconfirmed('NodeNotReady', 1_000))).toEqual([true, late]);
  });

  it('but not when their agents are silent for longer', () => {
    expect(isLate(unconfirmed('NodeNotReady', 2 * HOUR))).toEqual([undefined, undefined]);
  });
});

describe('nodes that wait for canaries', () => {
  const pool = (name: string, of: string, parts: object = {}): ManagedNode =>
    aManagedNode(name, { labels: { pool: of }, ...parts });
  const planOf = (nodes: readonly ManagedNode[], groupSpec: object, others: object = {}): Plan => {
    const canary = { nodeSelector: { matchLabels: { pool: 'first' } } };
    const snapshot = aSnapshot(nodes, { rollout: { progressDeadline: '2h', canary } });
    return plan(withGroups(snapshot, [aGroup('first', groupSpec), aGroup('other', others)]), NOW);
  };
  const counts = (nodes: readonly ManagedNode[], groupSpec: object): boolean =>
    planOf(nodes, groupSpec).progress?.deadline !== undefined;
  const nodes = [pool('a', 'first'), pool('b', 'other'), pool('c', 'other')];
  const rollout = { progressDeadline: '4h' };
  const closed = { maintenance: { windows: [{ schedule: '0 20 * * *', duration: '1h' }] } };

  test.each([
    ['the windows', closed],
    ['a pause', { paused: true }],
    ['the windows, with a deadline of its own,', { ...closed, rollout }],
  ])('do not count while %s of the group of the canaries let none start', (_, spec) => {
    expect(counts(nodes, spec)).toBe(false);
  });

  test('do not count for a deadline of their group either', () => {
    const countsForGroup = (canaries: readonly ManagedNode[], groupSpec: object): unknown[] =>
      planOf([...canaries, ...nodes.slice(1)], groupSpec, { rollout })
        .groups.filter(({ group }) => group.name === 'other')
        .map(({ progress }) => progress?.deadline !== undefined);
    expect(countsForGroup(nodes.slice(0, 1), closed)).toEqual([false]);
    expect(countsForGroup([pool('a', 'first', { ready: false })], {})).toEqual([true]);
    expect(countsForGroup([], closed)).toEqual([true]);
  });

  test('count while others that are no canaries may not start', () => {
    const paused = { nodeSelector: { matchLabels: { pool: 'other' } }, paused: true };
    expect(counts([...nodes.slice(1), pool('d', 'third')], paused)).toBe(true);
  });

  test('count while the canaries may start, and while there is none', () => {
    expect(counts([pool('a', 'first', { ready: false }), ...nodes.slice(1)], {})).toBe(true);
    expect(counts(nodes.slice(1), {})).toBe(true);
  });
});

test('by default a rollout is late after a day', () => {
  expect(seen([down], { rollout: {} }, counted(23 * HOUR)).made.progress?.isLate).toBe(false);
  expect(seen([down], { rollout: {} }, counted(24 * HOUR)).made.progress?.isLate).toBe(true);
});

test('nodes that a user leaves out are no rollout', () => {
  const cordoned = aManagedNode('b', { unschedulable: true });
  expect(seen([aManagedNode('a'), cordoned], { versions: { deny: [NEW] } }, counted(HOUR)).progress).toBeUndefined();
});

test('time in which the canaries soak counts, and the limit is as much later', () => {
  const rollout = { progressDeadline: '2h', soak: '1h', canary: { nodes: 1 } };
  const since = { ...counted(2 * HOUR + 30 * MINUTE), lastProgressTime: ago(3 * HOUR) };
  const { made } = seen([succeeded(4 * HOUR), aManagedNode('a')], { rollout }, since);
  expect(made.conditions.flat().some(({ progressing }) => progressing.reason === 'Soaking')).toBe(true);
  expect(made.progress).toMatchObject({ isLate: false, deadline: NOW + 30 * MINUTE });
});

test('a success in the future is of a clock that was wrong, and changes nothing', () => {
  const { progress } = seen([down, succeeded(-HOUR)], {}, counted(HOUR));
  expect(progress).toEqual(counted(HOUR));
});
