/** In which state a node is, by its spec, its record and the report of its agent. */
import type { Operation, ShadowState, ShadowStatus } from '@brupop/shared/api/shadow';
import { ago, aShadow, failure, NEW, OLD, type ShadowParts, underWay } from '../testing/objects.ts';
import { holdsGroup, isSettled, type NodeState, purposeOf, stateOf } from './state.ts';

const STEPS = ['StagedAndPerformedUpdate', 'RebootedIntoUpdate', 'MonitoringUpdate'] as const;
const REPORTS: readonly ShadowState[] = [...STEPS, 'Idle', 'ErrorReset'];
const OPERATIONS: readonly Operation[] = ['Stage', 'Drain', 'Activate', 'Reboot', 'Restore'];
const record = { startedAt: ago(0), from: OLD, rebootRequestedAt: ago(0) };

function report(current_state: ShadowState, operation?: Operation): Partial<ShadowStatus> {
  return operation === undefined
    ? { current_state }
    : { current_state, lastOperation: { ...failure(undefined, { operation }), state: 'Processing' } };
}

const every: readonly Partial<ShadowStatus>[] = REPORTS.flatMap((state) => [
  report(state),
  ...OPERATIONS.map((operation) => report(state, operation)),
]);

function statesOf(parts: ShadowParts): NodeState[] {
  return [...new Set(every.map((status) => stateOf(aShadow({ ...parts, status }))))].toSorted();
}

it.each([
  ['StagedAndPerformedUpdate', ['Staged', 'Staging']],
  ['RebootedIntoUpdate', ['Away', 'Draining']],
  ['MonitoringUpdate', ['Proving']],
] as const)('whatever an agent reports, a node whose spec is %s is in %j', (state, expected) => {
  expect(statesOf({ spec: underWay(state), record })).toEqual(expected);
});

it('whatever an agent reports, it can only confirm the end of an update', () => {
  expect(statesOf({ record })).toEqual(['Finishing', 'Restoring']);
  expect(statesOf({})).toEqual(['Resting', 'Unconfirmed']);
});

it('a node whose agent has never reported may have been asked to reboot if its spec calls for that', () => {
  const states = [...STEPS, 'Idle' as const].map((state) =>
    stateOf(aShadow({ spec: state === 'Idle' ? {} : underWay(state), status: null })),
  );
  expect(states).toEqual(['Staging', 'Away', 'Proving', 'Unconfirmed']);
});

it('a report about an earlier spec confirms nothing', () => {
  const status = { observedGeneration: 2 };
  expect(stateOf(aShadow({ status }))).toBe('Unconfirmed');
  expect(stateOf(aShadow({ spec: underWay('StagedAndPerformedUpdate'), status }))).toBe('Staging');
  expect(isSettled(aShadow({ record, status }))).toBe(false);
});

it('the purpose of an update is in the record', () => {
  const spec = underWay('StagedAndPerformedUpdate');
  const rollback = { failed: OLD, previous: NEW, since: ago(0), isDone: false };
  const purposes = [
    { record },
    { record: { ...record, from: NEW } },
    { record: { ...record, rollback } },
    { record: { ...record, rollback: { ...rollback, isDone: true } } },
    {},
  ].map((parts) => purposeOf(aShadow({ spec, ...parts })));
  expect(purposes).toEqual(['Update', 'Settings', 'Rollback', 'Update', 'Update']);
  expect(purposeOf(aShadow({ record }))).toBeUndefined();
});

it('the rules of the group hold until the agent has confirmed the end, and during a rollback', () => {
  const rollback = { failed: NEW, previous: OLD, since: ago(0), isDone: false };
  const shadows = [
    { spec: underWay('StagedAndPerformedUpdate') },
    { record, status: { observedGeneration: 2 } },
    { record },
    { record: { rollback } },
    {},
  ];
  expect(shadows.map((parts) => holdsGroup(aShadow(parts)))).toEqual([true, true, false, true, false]);
});
