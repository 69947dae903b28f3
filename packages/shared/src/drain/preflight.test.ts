import { DRAIN_DEFAULTS, type DrainSettings } from '../api/config-spec.ts';
import { aBudget, aPod } from '../testing/pods.ts';
import { indexedBudgets } from './budget-index.ts';
import { type Budget, isHeld, slimBudget } from './budgets.ts';
import type { DrainPod } from './pods.ts';
import { preflight, type PreflightFacts } from './preflight.ts';

interface Case {
  readonly pod?: Partial<DrainPod>;
  readonly budgets?: readonly Budget[];
  readonly settings?: Partial<DrainSettings>;
  readonly facts?: Partial<PreflightFacts>;
}

const NOW = Date.parse('2026-01-02T03:04:05Z');
const MINUTE = 60_000;
const FACTS: PreflightFacts = { now: NOW, podGracePeriodMs: 10 * MINUTE, mayForce: true };

const UNLABELLED: Partial<DrainPod> = { isLabelled: false, metadata: { ...aPod('x').metadata, labels: {} } };

const cases: Record<string, [Case, string | undefined]> = {
  'a pod without a budget may go': [{}, undefined],
  'a budget that allows nothing although all its pods are healthy': [{ budgets: [aBudget('b')] }, 'DisruptionBudget'],
  'one that allows something': [{ budgets: [aBudget('b', { disruptionsAllowed: 1 })] }, undefined],
  'one whose pods are not all healthy may allow something soon': [
    { budgets: [aBudget('b', { currentHealthy: 2 })] },
    undefined,
  ],
  'one that has just let a pod go': [{ budgets: [aBudget('b', { hasDisruptedPods: true })] }, undefined],
  'one that cannot be counted allows nothing': [
    { budgets: [aBudget('b', { counted: false, failure: 'found no controllers' })] },
    'DisruptionBudget',
  ],
  'one that was not counted yet': [{ budgets: [aBudget('b', { counted: false })] }, undefined],
  'one of another namespace': [
    { budgets: [aBudget('b', { metadata: { ...aBudget('b').metadata, namespace: 'other' } })] },
    undefined,
  ],
  'one for other pods': [{ budgets: [aBudget('b', { selector: { matchLabels: { app: 'other' } } })] }, undefined],
  'one without a selector is for none': [{ budgets: [aBudget('b', { selector: null })] }, undefined],
  'two budgets, which the eviction API rejects': [
    { budgets: [aBudget('b', { disruptionsAllowed: 1 }), aBudget('c', { disruptionsAllowed: 1 })] },
    'MultipleDisruptionBudgets',
  ],
  'a pod with too many labels to be kept may be covered by each budget of its namespace': [
    { pod: UNLABELLED, budgets: [aBudget('b', { selector: { matchLabels: { app: 'x' } } })] },
    'DisruptionBudget',
  ],
  'such a pod may go where no budget selects anything': [
    { pod: UNLABELLED, budgets: [aBudget('b', { selector: null })] },
    undefined,
  ],
  'a pod that has never run needs no budget': [{ pod: { pending: true }, budgets: [aBudget('b')] }, undefined],
  'nor does one that is finished': [{ pod: { finished: true }, budgets: [aBudget('b')] }, undefined],
  'nor one on its way out': [
    { pod: aPod('x', { goneBy: '2026-01-02T03:04:05Z' }), budgets: [aBudget('b'), aBudget('c')] },
    undefined,
  ],
  'a budget may allow to evict a pod that is not ready': [
    { pod: { ready: false }, budgets: [aBudget('b', { evictsUnready: true, desiredHealthy: 4 })] },
    undefined,
  ],
  'and by any that has enough healthy ones': [{ pod: { ready: false }, budgets: [aBudget('b')] }, undefined],
  'but by no other': [{ pod: { ready: false }, budgets: [aBudget('b', { desiredHealthy: 4 })] }, 'DisruptionBudget'],
  'a pod that is not evicted does not count': [{ pod: { daemonSet: 'apps/logs' }, budgets: [aBudget('b')] }, undefined],
  'emptyDir where that is blocked': [
    { pod: { emptyDir: true }, settings: { emptyDirPods: 'Block' } },
    'BlockedByPolicy',
  ],
  'emptyDir otherwise': [{ pod: { emptyDir: true } }, undefined],
  'a pod without a controller where that is blocked': [
    { pod: { unmanaged: true }, settings: { unmanagedPods: 'Block' } },
    'BlockedByPolicy',
  ],
  'a pod without a controller otherwise': [{ pod: { unmanaged: true } }, undefined],
  'a finished pod has nothing to lose': [
    { pod: { unmanaged: true, finished: true }, settings: { unmanagedPods: 'Block' } },
    undefined,
  ],
};

const blocksOf = ({ pod = {}, budgets = [], settings = {}, facts = {} }: Case): ReturnType<typeof preflight> =>
  preflight([aPod('x', pod)], indexedBudgets(budgets), { ...DRAIN_DEFAULTS, ...settings }, { ...FACTS, ...facts });

test.each(Object.entries(cases))('%s', (_what, [given, expected]) => {
  expect(blocksOf(given).map(({ reason }) => reason)).toEqual(expected === undefined ? [] : [expected]);
});

describe('a drain with Force', () => {
  const force = { onTimeout: 'Force' } as const;
  const two = [aBudget('b'), aBudget('c')];

  it('is not blocked by budgets, which rule until its time limit only', () => {
    for (const budgets of [[aBudget('b')], two, [aBudget('b', { failure: 'found no controllers' })]])
      expect(blocksOf({ budgets, settings: force })).toEqual([]);
  });

  it('is blocked without the right to delete pods, and says what to do', () => {
    for (const budgets of [[aBudget('b')], two]) {
      const [block] = blocksOf({
        budgets,
        settings: { ...force, blockedBudgets: 'TryLast' },
        facts: { mayForce: false },
      });
      expect(block?.message).toContain('set drain.allowForce=true in the values of the chart');
      expect(block?.mayOpen).toBe(false);
    }
  });

  it('is blocked by what it does not delete', () => {
    const [block] = blocksOf({ pod: { emptyDir: true }, settings: { ...force, emptyDirPods: 'Block' } });
    expect(block?.reason).toBe('BlockedByPolicy');
  });
});

const HOUR = 60 * MINUTE;
const goneIn = (ms: number) => aPod('x', { goneBy: new Date(NOW + ms).toISOString() });
const timeoutMs = 30 * MINUTE;
/** Whether a drain with Abort is blocked, and one with Force. */
const ends: Record<string, [Partial<DrainPod>, { maxGracePeriodMs?: number }, [abort: boolean, force: boolean]]> = {
  'a grace period as long as the drain': [{ graceSeconds: 1800 }, {}, [false, false]],
  'a longer one': [{ graceSeconds: 1801 }, {}, [true, false]],
  'one that the drain shortens': [{ graceSeconds: 43_200 }, { maxGracePeriodMs: 10 * MINUTE }, [false, false]],
  'one that it does not shorten enough': [{ graceSeconds: 43_200 }, { maxGracePeriodMs: HOUR }, [true, false]],
  'one that is longer than a forced drain': [{ graceSeconds: 43_200 }, {}, [true, true]],
  'that of a finished pod': [{ graceSeconds: 43_200, finished: true }, {}, [false, false]],
  'that of a pod of a DaemonSet': [{ graceSeconds: 43_200, daemonSet: 'apps/logs' }, {}, [false, false]],
  'a pod that ends within the drain': [goneIn(timeoutMs), {}, [false, false]],
  'a pod that ends later': [goneIn(timeoutMs + 1_000), {}, [true, false]],
  'a pod that ends after a forced drain': [goneIn(3 * HOUR), {}, [true, true]],
  'a pod that was to end a moment ago': [goneIn(-MINUTE), {}, [false, false]],
  'a pod that was to end long ago': [goneIn(-10 * MINUTE), {}, [true, false]],
};

test.each(Object.entries(ends))('%s', (_what, [pod, limits, [abort, force]]) => {
  const isBlocked = (onTimeout: DrainSettings['onTimeout']): boolean =>
    blocksOf({ pod, settings: { timeoutMs, onTimeout, ...limits } }).some(({ mayOpen }) => !mayOpen);
  expect([isBlocked('Abort'), isBlocked('Force')]).toEqual([abort, force]);
});

test('a pod that does not end in time is named with what is known and what to do', () => {
  const said = (pod: Partial<DrainPod>, settings: Partial<DrainSettings> = {}): string | undefined =>
    blocksOf({ pod, settings: { timeoutMs: MINUTE, ...settings } })[0]?.message;
  expect(said({ graceSeconds: 43_200 })).toBe(
    'has a grace period of 12h, longer than a drain may take (spec.drain.timeout 1m): raise spec.drain.timeout, or set spec.drain.maxGracePeriod to less',
  );
  expect(said({ graceSeconds: 43_200 }, { maxGracePeriodMs: 2 * HOUR })).toContain(
    '12h, limited to spec.drain.maxGracePeriod 2h, longer',
  );
  expect(said(aPod('x', { goneBy: '2026-01-02T14:38:00Z' }))).toContain(
    'is terminating until 2026-01-02T14:38:00Z, longer',
  );
  expect(said(aPod('x', { goneBy: '2026-01-01T00:00:00Z', finalizers: ['example.com/lock'] }))).toBe(
    'was to end at 2026-01-01T00:00:00Z: finalizers hold it: example.com/lock',
  );
});

describe('a budget that unhealthy pods hold at 0', () => {
  const since = (ms: number) =>
    aBudget('web', { currentHealthy: 1, desiredHealthy: 1, expectedPods: 2, closedSince: NOW - ms });

  it('is waited for in a drain, and blocks it after podGracePeriod', () => {
    expect(blocksOf({ budgets: [since(10 * MINUTE - 1)] })).toEqual([]);
    const [block] = blocksOf({ budgets: [since(10 * MINUTE)], settings: { blockedBudgets: 'TryLast' } });
    expect(block?.message).toBe(
      'is protected by its disruption budget web, which allows no disruption since 2026-01-02T02:54:05Z: 1 of its 2 pods are healthy, and it requires 1',
    );
    // No cordon makes a pod healthy.
    expect(block?.mayOpen).toBe(false);
  });

  it('says that the pod itself is not Ready', () => {
    const budget = { ...since(10 * MINUTE), currentHealthy: 0, expectedPods: 1 };
    expect(blocksOf({ pod: { ready: false }, budgets: [budget] })[0]?.message).toContain('; this pod is not Ready');
  });
});

test('the cordon of the node may open one budget with a number of pods, and no other', () => {
  const mayOpen = (budgets: readonly Budget[], settings: Partial<DrainSettings> = {}): boolean | undefined =>
    blocksOf({ budgets, settings: { blockedBudgets: 'TryLast', ...settings } })[0]?.mayOpen;
  const single = { currentHealthy: 1, desiredHealthy: 1, expectedPods: 1 };
  expect(mayOpen([aBudget('b', single)])).toBe(true);
  expect(mayOpen([aBudget('b', single)], { blockedBudgets: 'Wait' })).toBe(false);
  expect(mayOpen([aBudget('b', { ...single, neverAllows: true })])).toBe(false);
  expect(mayOpen([aBudget('b', { ...single, failure: 'found no controllers' })])).toBe(false);
  expect(mayOpen([aBudget('b'), aBudget('c')])).toBe(false);
});

test.each([
  [{ maxUnavailable: 0 }, true],
  [{ maxUnavailable: '0%' }, true],
  [{ maxUnavailable: '00%' }, true],
  [{ minAvailable: '100%' }, true],
  [{ minAvailable: '0100%' }, true],
  [{ maxUnavailable: 1 }, false],
  [{ maxUnavailable: '1%' }, false],
  [{ minAvailable: '99%' }, false],
  [{ minAvailable: 1 }, false],
  [{ minAvailable: 100 }, false],
  [{}, false],
])('a budget with %j never allows a disruption: %s', (spec, expected) => {
  expect(slimBudget({ metadata: aBudget('b').metadata, spec }).neverAllows).toBe(expected);
});

test('budgets hold a pod while they refuse its eviction for any reason', () => {
  const pod = aPod('x');
  const unhealthy = aBudget('b', { currentHealthy: 0, desiredHealthy: 1, expectedPods: 1 });
  expect(
    [[unhealthy], [aBudget('b', { counted: false })], [aBudget('b'), aBudget('c')]].map((all) => isHeld(pod, all)),
  ).toEqual([true, true, true]);
  expect([[], [aBudget('b', { disruptionsAllowed: 1 })]].map((all) => isHeld(pod, all))).toEqual([false, false]);
  expect(isHeld(goneIn(MINUTE), [unhealthy])).toBe(false);
});

test('a budget without pods that are counted is not said to have healthy ones', () => {
  const [block] = blocksOf({ budgets: [aBudget('b', { currentHealthy: 0, desiredHealthy: 0, expectedPods: 0 })] });
  expect(block?.message).toBe(
    'is protected by its disruption budget b, which allows no disruption, and its controller has counted no pods for it',
  );
});

test('names what blocks a pod, with the setting or the budget to change', () => {
  const [byBudget] = preflight([aPod('x')], indexedBudgets([aBudget('web')]), DRAIN_DEFAULTS, FACTS);
  expect(byBudget).toMatchObject({
    pod: 'apps/x',
    reason: 'DisruptionBudget',
    message:
      'is protected by its disruption budget web, which allows no disruption although all 3 of its pods are healthy',
    podDisruptionBudgets: ['web'],
  });
  const [byTwo] = preflight([aPod('x')], indexedBudgets([aBudget('web'), aBudget('front')]), DRAIN_DEFAULTS, FACTS);
  expect(byTwo?.podDisruptionBudgets).toEqual(['front', 'web']);
  const [byPolicy] = blocksOf({ pod: { emptyDir: true }, settings: { emptyDirPods: 'Block' } });
  // A group may have set it.
  expect(byPolicy?.message).toBe('has an emptyDir volume, and spec.drain.emptyDirPods is Block');
});

test('a budget of the API is cut to what evictions are decided by', () => {
  const metadata = { name: 'b', namespace: 'apps', uid: 'b', resourceVersion: '1', generation: 2 };
  const spec = {
    selector: { matchLabels: { app: 'x' } },
    unhealthyPodEvictionPolicy: 'AlwaysAllow',
    maxUnavailable: 0,
  };
  const status = {
    observedGeneration: 2,
    disruptionsAllowed: 1,
    currentHealthy: 3,
    desiredHealthy: 2,
    expectedPods: 3,
  };
  expect(slimBudget({ metadata, spec, status })).toEqual({
    metadata,
    selector: spec.selector,
    isLarge: false,
    weight: 1,
    counted: true,
    disruptionsAllowed: 1,
    currentHealthy: 3,
    desiredHealthy: 2,
    expectedPods: 3,
    hasDisruptedPods: false,
    failure: undefined,
    evictsUnready: true,
    neverAllows: true,
    closedSince: undefined,
  });
  expect(slimBudget({ metadata, spec }).counted).toBe(false);
});

test('reads evictions under way and a failure of its controller from a budget', () => {
  const metadata = { name: 'b', namespace: 'apps', uid: 'b', resourceVersion: '1', generation: 1 };
  const disruptedPods = { 'web-1': '2026-01-02T03:04:05Z' };
  expect(slimBudget({ metadata, status: { disruptedPods } }).hasDisruptedPods).toBe(true);
  const lastTransitionTime = '2026-01-02T03:04:05Z';
  const failed = { status: 'False', reason: 'SyncFailed', message: 'no controllers', lastTransitionTime };
  const conditions = [{ type: 'DisruptionAllowed', ...failed }];
  expect(slimBudget({ metadata, status: { conditions } }).closedSince).toBe(Date.parse(lastTransitionTime));
  expect(slimBudget({ metadata, status: { conditions } }).failure).toBe('no controllers');
});

/** 2,000 values make more than 4 KiB. */
const HUGE = {
  matchExpressions: [{ key: 'app', operator: 'In', values: Array.from({ length: 2_000 }, (_, i) => `value-${i}`) }],
};
const raw = (name: string, spec: object): unknown => ({
  metadata: { name, namespace: 'apps', uid: name, resourceVersion: '1', generation: 1 },
  spec,
  status: { observedGeneration: 1, disruptionsAllowed: 1, currentHealthy: 2, desiredHealthy: 1, expectedPods: 2 },
});

test('a selector that is too large is not kept, and its budget blocks the pods of its namespace only, with its name', () => {
  const budget = slimBudget(raw('huge', { selector: HUGE }));
  expect(budget).toMatchObject({ selector: {}, isLarge: true });
  const blocksOf = (namespace: string): string[] => {
    const pod = aPod('x', { metadata: { ...aPod('x').metadata, namespace } });
    return preflight([pod], indexedBudgets([budget]), DRAIN_DEFAULTS, FACTS).map(({ message }) => message);
  };
  expect(blocksOf('apps')).toEqual([
    expect.stringContaining('budget huge, which cannot be read: its selector is too large'),
  ]);
  expect(blocksOf('other')).toEqual([]);
  expect(isHeld(aPod('x'), [budget])).toBe(false);
});

test('a budget with a selector of some labels is kept whole', () => {
  const selector = { matchLabels: { app: 'web', tier: 'front' } };
  expect(slimBudget(raw('small', { selector }))).toMatchObject({ selector, isLarge: false });
});

test('of many budgets for one pod the names of ten are shown', () => {
  const budgets = indexedBudgets(Array.from({ length: 50 }, (_, i) => aBudget(`b-${i}`)));
  const [block] = preflight([aPod('x')], budgets, DRAIN_DEFAULTS, FACTS);
  expect(block?.podDisruptionBudgets).toHaveLength(10);
});
