/** What an agent reports and a kubelet writes on its own Node holds no slot for ever. */
import { UPDATE_STARTED_ANNOTATION, UPDATE_SUCCEEDED_ANNOTATION } from '@brupop/shared/api/names';
import type { ManagedNode, PodsOfNode } from '../cluster/snapshot.ts';
import {
  ago,
  aManagedNode,
  aNode,
  aSnapshot,
  cordoned,
  failure,
  MINUTE,
  NEW,
  NOW,
  podsOf,
  type ShadowParts,
  withoutShadow,
} from '../testing/objects.ts';
import { CONDITIONS } from './config-conditions.ts';
import { plan, type Plan } from './plan.ts';

const planOf = (managedNodes: readonly ManagedNode[]): Plan => plan(aSnapshot(managedNodes), NOW);
const started = ({ specs }: Plan): string[] => specs.map(({ node }) => node.metadata.name);
const STARTED = { [UPDATE_STARTED_ANNOTATION]: ago(60 * MINUTE) };
const recreated = {
  generation: 1,
  creationTimestamp: ago(MINUTE),
  spec: { state_transition_timestamp: null },
  status: null,
} as const;
const staging = {
  current_state: 'Idle',
  observedGeneration: 2,
  lastOperation: failure(undefined, { operation: 'Stage', state: 'Processing' }),
} as const;
const failedAttempt = (ms: number): ShadowParts => ({
  annotations: STARTED,
  spec: { state_transition_timestamp: ago(ms) },
});
const succeeded: ShadowParts = {
  annotations: { ...STARTED, [UPDATE_SUCCEEDED_ANNOTATION]: ago(6 * MINUTE) },
  spec: { state_transition_timestamp: ago(6 * MINUTE) },
};
const joined = (ms: number): ShadowParts => ({
  generation: 1,
  creationTimestamp: ago(ms),
  spec: { state_transition_timestamp: null },
  status: { current_version: NEW },
});
/** The process has seen how the shadow was created. */
const FORMER = { startedAt: undefined, slotUntil: NOW };
const planWith = (pods: Readonly<Record<string, PodsOfNode>>): Plan => {
  const snapshot = aSnapshot([aManagedNode('a'), aManagedNode('b')]);
  return plan({ ...snapshot, pods: new Map([...snapshot.pods, ...Object.entries(pods)]) }, NOW);
};

const starts: Record<string, [Plan, string[]]> = {
  'an agent that is idle holds none for ever, whatever its kubelet sets': [
    planOf([aManagedNode('a'), aManagedNode('b', cordoned(0), failedAttempt(60 * MINUTE))]),
    ['a'],
  ],
  'a cordon that a kubelet sets after a success holds no slot': [
    planOf([aManagedNode('a'), aManagedNode('b', cordoned(0), succeeded)]),
    ['a'],
  ],
  'nor does an agent that leaves Idle again after a success': [
    planOf([aManagedNode('a'), aManagedNode('b', cordoned(0), { ...succeeded, status: staging })]),
    ['a'],
  ],
  'a cordon on a node that was never updated holds a slot for 15 minutes, in case its shadow was recreated': [
    planOf([aManagedNode('a'), aManagedNode('b', cordoned(0), joined(14 * MINUTE))]),
    [],
  ],
  'and no longer': [planOf([aManagedNode('a'), aManagedNode('b', cordoned(0), joined(15 * MINUTE))]), ['a']],
  'it holds none if its shadow was not recreated': [
    planOf([aManagedNode('a'), { ...aManagedNode('b', cordoned(0), joined(MINUTE)), former: FORMER }]),
    ['a'],
  ],
  'a new shadow that was not recreated holds none either': [
    planOf([aManagedNode('a'), { ...aManagedNode('b', {}, recreated), former: FORMER }]),
    ['a'],
  ],
  'a cordon without a shadow holds a slot for as long as a drain and a reboot may take': [
    planOf([aManagedNode('a'), { ...withoutShadow(aManagedNode('b', cordoned(0))), missingSince: NOW - 60 * MINUTE }]),
    ['a'],
  ],
  'a node whose pods cannot be listed leaves its slot to the next': [
    planWith({ a: { ...podsOf(aNode({ name: 'a' })), seenAt: undefined, problem: '500', retryAt: NOW } }),
    ['b'],
  ],
};
test.each(Object.entries(starts))('%s', (_, [made, expected]) => expect(started(made)).toEqual(expected));

test('a Node that has annotations of the operator without an update makes the fleet Degraded', () => {
  const made = planOf([aManagedNode('a'), aManagedNode('b', cordoned(0), succeeded)]);
  expect(CONDITIONS.Degraded(made).message).toContain('annotations of the operator without an update on b');
});
