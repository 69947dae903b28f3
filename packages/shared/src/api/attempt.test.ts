import { type Attempted, currentAttempt } from './attempt.ts';

const attempt = '2026-11-25T10:00:00Z';

it.each<readonly [string, Omit<Attempted, 'attempt'>, string | undefined]>([
  ['before the agent has confirmed its first step', { spec: { state: 'StagedAndPerformedUpdate' } }, attempt],
  ['while the update is undone', { spec: { state: 'Idle' }, status: { current_state: 'ErrorReset' } }, attempt],
  ['at rest', { spec: { state: 'Idle' }, status: { current_state: 'Idle' } }, undefined],
  ['without a report', { spec: { state: 'Idle' } }, undefined],
])('the attempt of a node %s', (_, shadow, found) => {
  expect(currentAttempt({ ...shadow, attempt })).toBe(found);
});
