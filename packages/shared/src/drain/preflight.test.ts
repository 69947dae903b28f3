import { DRAIN_DEFAULTS, type DrainSettings } from '../api/config-spec.ts';
import { aBudget, aPod } from '../testing/pods.ts';
import { indexedBudgets } from './budget-index.ts';
import { type Budget, slimBudget } from './budgets.ts';
import type { DrainPod } from './pods.ts';
import { preflight } from './preflight.ts';

interface Case {
  readonly pod?: Partial<DrainPod>;
  readonly budgets?: readonly Budget[];
  readonly settings?: Partial<DrainSettings>;
}

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

test.each(Object.entries(cases))('%s', (_what, [{ pod = {}, budgets = [], settings = {} }, expected]) => {
  const found = preflight([aPod('x', pod)], indexedBudgets(budgets), { ...DRAIN_DEFAULTS, ...settings });
  expect(found.map(({ reason }) => reason)).toEqual(expected === undefined ? [] : [expected]);
});

test('names what blocks a pod, with the setting or the budget to change', () => {
  const [byBudget] = preflight([aPod('x')], indexedBudgets([aBudget('web')]), DRAIN_DEFAULTS);
  expect(byBudget).toEqual({
    pod: 'apps/x',
    reason: 'DisruptionBudget',
    message: 'its disruption budget web allows no disruption although all 3 of its pods are healthy',
    podDisruptionBudgets: ['web'],
  });
  const [byTwo] = preflight([aPod('x')], indexedBudgets([aBudget('web'), aBudget('front')]), DRAIN_DEFAULTS);
  expect(byTwo?.podDisruptionBudgets).toEqual(['front', 'web']);
  const [byPolicy] = preflight([aPod('x', { emptyDir: true })], new Map(), {
    ...DRAIN_DEFAULTS,
    emptyDirPods: 'Block',
  });
  expect(byPolicy?.message).toContain('spec.drain.emptyDirPods');
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
    counted: true,
    disruptionsAllowed: 1,
    currentHealthy: 3,
    desiredHealthy: 2,
    expectedPods: 3,
    hasDisruptedPods: false,
    failure: undefined,
    evictsUnready: true,
  });
  expect(slimBudget({ metadata, spec }).counted).toBe(false);
});

test('reads evictions under way and a failure of its controller from a budget', () => {
  const metadata = { name: 'b', namespace: 'apps', uid: 'b', resourceVersion: '1', generation: 1 };
  const disruptedPods = { 'web-1': '2026-01-02T03:04:05Z' };
  expect(slimBudget({ metadata, status: { disruptedPods } }).hasDisruptedPods).toBe(true);
  const conditions = [{ type: 'DisruptionAllowed', status: 'False', reason: 'SyncFailed', message: 'no controllers' }];
  expect(slimBudget({ metadata, status: { conditions } }).failure).toBe('no controllers');
});
