/** What happens to the fleet of property tests between two plans, drawn at random. */
import fc from 'fast-check';
import { ABORT_ANNOTATION, RETRY_ANNOTATION, UPDATE_NOW_ANNOTATION } from '@brupop/shared/api/names';
import { NEW, OLD } from './objects.ts';

/** `started`: the agent has recorded that it takes the step. */
export type Report = 'started' | 'reached' | 'failed' | 'stale';

/** What the world does between two plans. */
export type Happening =
  | { readonly kind: 'report'; readonly node: number; readonly how: Report }
  | { readonly kind: 'health'; readonly node: number; readonly ready: boolean }
  | { readonly kind: 'cordon'; readonly node: number; readonly unschedulable: boolean }
  | { readonly kind: 'offer'; readonly node: number; readonly version: string }
  /** A user annotates the shadow. */
  | { readonly kind: 'ask'; readonly node: number; readonly request: Readonly<Record<string, string>> }
  | { readonly kind: 'lose'; readonly node: number }
  | { readonly kind: 'ensure'; readonly node: number }
  | { readonly kind: 'config'; readonly spec: unknown }
  | { readonly kind: 'hold'; readonly nodes: readonly number[] }
  | { readonly kind: 'time'; readonly minutes: number };

export const NODES = 6;
const node = fc.nat(NODES - 1);
/** What users write into the configuration. */
export const spec: fc.Arbitrary<unknown> = fc.oneof(
  fc.record({ paused: fc.boolean(), pauseMode: fc.constantFrom('Finish', 'Interrupt') }),
  fc.record({ concurrency: fc.record({ maxUpdating: fc.constantFrom(1, 2, 4, '20%', '50%', '0%', 'many', -1) }) }),
  fc.record({
    concurrency: fc.record(
      {
        maxUpdating: fc.constantFrom(3, 6, '100%'),
        maxUnavailable: fc.constantFrom(1, 2, '34%', '50%'),
        maxPerZone: fc.constantFrom(1, 2),
        maxZones: fc.constantFrom(1, 2),
      },
      { requiredKeys: ['maxUpdating'] },
    ),
    versions: fc.record(
      {
        pin: fc.constantFrom(OLD, NEW, '1.22.0'),
        deny: fc.subarray([NEW, '1.22.0']),
        minimumAge: fc.constantFrom('0m', '30m'),
      },
      { requiredKeys: [] },
    ),
    maintenance: fc.record(
      { windows: fc.constantFrom([], [{ schedule: '0 */2 * * *', duration: '1h' }]), margin: fc.constant('0m') },
      { requiredKeys: [] },
    ),
  }),
  fc.record({
    rollout: fc.record(
      {
        rollback: fc.constantFrom('None', 'Automatic'),
        canary: fc.record({ nodes: fc.constantFrom(1, 2, '50%', '100%') }),
        soak: fc.constantFrom('0s', '30m'),
        approval: fc.constantFrom('NotRequired', 'Required'),
        approvedVersion: fc.constantFrom(NEW, '1.22.0'),
      },
      { requiredKeys: [] },
    ),
  }),
  fc.constant(undefined),
);
const report = fc.record({
  kind: fc.constant('report' as const),
  node,
  how: fc.constantFrom<Report>('started', 'reached', 'reached', 'reached', 'failed', 'stale'),
});
const request = fc.constantFrom(
  { [UPDATE_NOW_ANNOTATION]: NEW },
  { [UPDATE_NOW_ANNOTATION]: '1.22.0' },
  { [UPDATE_NOW_ANNOTATION]: 'soon' },
  { [ABORT_ANNOTATION]: 'true' },
  { [ABORT_ANNOTATION]: '' },
  { [RETRY_ANNOTATION]: NEW },
);
const happening = (maxMinutes: number, back: number): fc.Arbitrary<Happening> =>
  fc.oneof(
    { weight: 8, arbitrary: report },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('ask' as const), node, request }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('lose' as const), node }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('ensure' as const), node }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('health' as const), node, ready: fc.boolean() }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('cordon' as const), node, unschedulable: fc.boolean() }) },
    {
      weight: 1,
      arbitrary: fc.record({
        kind: fc.constant('offer' as const),
        node,
        version: fc.constantFrom('1.20.0', NEW, '1.22.0'),
      }),
    },
    { weight: 2, arbitrary: fc.record({ kind: fc.constant('config' as const), spec }) },
    { weight: 2, arbitrary: fc.record({ kind: fc.constant('hold' as const), nodes: fc.array(node) }) },
    {
      weight: 1,
      arbitrary: fc.record({
        kind: fc.constant('time' as const),
        minutes: fc.integer({ min: -back, max: maxMinutes }),
      }),
    },
  );
/**
 * What happens, at most `maxMinutes` apart.
 * @param back - by how many minutes the clock may be set back
 */
export const story = (maxMinutes: number, back = 0): fc.Arbitrary<Happening[]> =>
  fc.array(happening(maxMinutes, back), { minLength: 10, maxLength: 120 });

const ofBadRelease = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      kind: fc.constant('report' as const),
      node,
      how: fc.constantFrom<Report>('started', 'reached', 'reached', 'failed'),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('lose' as const), node }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('ensure' as const), node }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('config' as const), spec }) },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constant('time' as const), minutes: fc.integer({ min: 1, max: 600 }) }),
  },
);
/** What happens when hosts do not boot a version. */
export const badRelease: fc.Arbitrary<Happening[]> = fc.array(ofBadRelease, { minLength: 60, maxLength: 200 });

const reports = (nodes: readonly number[], how: Report): Happening[] =>
  nodes.map((one) => ({ kind: 'report', node: one, how }));
const EVERY_NODE = Array.from({ length: NODES }, (_, i) => i);
/** All nodes stage a version, and two or more do not boot it, so that it is frozen. */
export const freeze: fc.Arbitrary<Happening[]> = fc
  .subarray(EVERY_NODE, { minLength: 2 })
  .map((failing) => [
    { kind: 'config', spec: { concurrency: { maxUpdating: '100%' } } },
    ...reports(EVERY_NODE, 'reached'),
    ...reports(failing, 'failed'),
  ]);

const ofUnhealthyRelease = fc.oneof(
  {
    weight: 12,
    arbitrary: fc.record({
      kind: fc.constant('report' as const),
      node,
      how: fc.constantFrom<Report>('reached', 'reached', 'reached', 'reached', 'reached', 'started', 'failed'),
    }),
  },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('health' as const), node, ready: fc.boolean() }) },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant('offer' as const), node, version: fc.constant(NEW) }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('time' as const), minutes: fc.integer({ min: 1, max: 40 }) }) },
);
/** What happens when nodes are not healthy on a version, and go back from it. */
export const unhealthyRelease: fc.Arbitrary<Happening[]> = fc
  .tuple(fc.constantFrom(1, 2), fc.array(ofUnhealthyRelease, { minLength: 200, maxLength: 400 }))
  .map(([maxUpdating, events]): Happening[] => [
    {
      kind: 'config',
      spec: { concurrency: { maxUpdating }, rollout: { rollback: 'Automatic', failureBudget: '100%' } },
    },
    ...events,
  ]);

const ofReleases = fc.oneof(
  {
    weight: 60,
    arbitrary: fc.record({ kind: fc.constant('report' as const), node, how: fc.constant<Report>('reached') }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant('report' as const),
      node,
      how: fc.constantFrom<Report>('started', 'started', 'started', 'started', 'started', 'failed'),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('health' as const), node, ready: fc.constant(false) }) },
  { weight: 8, arbitrary: fc.record({ kind: fc.constant('health' as const), node, ready: fc.constant(true) }) },
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant('offer' as const),
      node,
      version: fc.constantFrom(NEW, '1.22.0', '1.23.0', '1.24.0'),
    }),
  },
  { weight: 20, arbitrary: fc.record({ kind: fc.constant('time' as const), minutes: fc.integer({ min: 1, max: 6 }) }) },
);
/** What happens while one release follows another, and most updates succeed. */
export const releases: fc.Arbitrary<Happening[]> = fc.array(ofReleases, { minLength: 200, maxLength: 400 });
