import { fullShadow } from '../../../../test/framework/example-shadow.ts';
import { readShadow } from './shadow.ts';
import { answers, isSettled } from './state.ts';

const raw = (state: string, status?: object): unknown => ({
  metadata: { name: 'brs-a', uid: 'u', resourceVersion: '1', generation: 5, managedFields: [] },
  spec: { state },
  ...(status !== undefined && { status }),
});

const statuses: Record<string, [unknown, boolean]> = {
  'a status of this generation answers the spec': [raw('Idle', { current_state: 'Idle', observedGeneration: 5 }), true],
  'a status of an earlier generation does not': [raw('Idle', { current_state: 'Idle', observedGeneration: 4 }), false],
  'a status of the Rust operator answers when it names the same state': [raw('Idle', { current_state: 'Idle' }), true],
  'a status of the Rust operator does not answer while it names another state': [
    raw('StagedAndPerformedUpdate', { current_state: 'Idle' }),
    false,
  ],
  'a failure that the Rust operator reports answers any spec': [
    raw('StagedAndPerformedUpdate', { current_state: 'ErrorReset' }),
    true,
  ],
  'nothing answers before an agent has reported': [raw('Idle'), false],
  'a status with only the Progressing condition does not answer': [raw('Idle', { conditions: [] }), false],
};
test.each(Object.entries(statuses))('%s', (_, [object, expected]) =>
  expect(answers(readShadow(object))).toBe(expected),
);

test('a shadow of the Rust operator is settled when spec and status are Idle', () => {
  expect(isSettled(readShadow(raw('Idle', { current_state: 'Idle' })))).toBe(true);
});

test('an unknown state in the spec is rejected with what was expected', () => {
  expect(() => readShadow(raw('Sleeping'))).toThrow(/brs-a: spec.state: expected one of Idle, .* found "Sleeping"/);
});

test('a shadow without a spec is rejected with what is missing', () => {
  const bare = { metadata: { name: 'brs-a' } };
  expect(() => readShadow(bare)).toThrow('brs-a: spec: expected an object, found nothing');
});

test('the Progressing condition is kept before an agent has reported', () => {
  const condition = { type: 'Progressing', status: 'False', reason: 'AgentNotResponding', message: 'm' };
  expect(readShadow(raw('Idle', { conditions: [condition] })).progressing).toEqual(condition);
});

test('the spec is read with every field of its settings, so that a write of it is known again', () => {
  const { spec } = fullShadow;
  expect(readShadow(fullShadow).spec.settings).toEqual(spec.settings);
});
