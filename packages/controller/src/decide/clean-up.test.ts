import { CORDONED_ANNOTATION, EXCLUDED_ANNOTATION } from '@brupop/shared/constants';
import { cleanUpOf } from './clean-up.ts';
import type { Member } from '../cluster/snapshot.ts';
import { MINUTE, NOW, aMember, aShadow, ago, underWay } from '../test-objects.ts';

const cordoned = (ms: number): { annotations: Record<string, string> } => ({
  annotations: { [CORDONED_ANNOTATION]: ago(ms) },
});
const alone = (node: Parameters<typeof aMember>[1], missingForMs: number): Member => ({
  ...aMember('a', node),
  shadow: undefined,
  missingSince: NOW - missingForMs,
});

const cases: Record<string, [Member, string | undefined, number?]> = {
  'a managed node without anything of ours needs nothing': [aMember('a'), undefined],
  'an agent at rest gets 30 seconds to take back a cordon': [aMember('a', cordoned(10_000)), 'Restore', NOW + 20_000],
  'after that it is done here': [aMember('a', cordoned(5 * MINUTE)), 'Restore', NOW - 5 * MINUTE + 30_000],
  'the time counts from when the spec went to Idle': [
    aMember('a', cordoned(60 * MINUTE), { spec: { state_transition_timestamp: ago(10_000) } }),
    'Restore',
    NOW + 20_000,
  ],
  'a mark of a clock far ahead does not hold it up for ever': [
    aMember('a', { annotations: { [EXCLUDED_ANNOTATION]: ago(-600 * MINUTE) } }),
    'Restore',
    NOW - 24 * 60 * MINUTE + 30_000,
  ],
  'a node under way is left alone': [
    aMember('a', cordoned(5 * MINUTE), { spec: underWay('RebootedIntoUpdate', 10 * MINUTE) }),
    undefined,
  ],
  'a node whose agent has not confirmed Idle is left alone': [
    aMember('a', cordoned(5 * MINUTE), { status: { current_state: 'RebootedIntoUpdate' } }),
    undefined,
  ],
  'a node whose shadow is gone is restored': [alone(cordoned(5 * MINUTE), 10_000), 'Restore', NOW + 20_000],
  'a shadow without a Node is left to garbage collection first': [
    { ...aMember('a'), node: undefined },
    'DeleteShadow',
    NOW + MINUTE,
  ],
  'a shadow of an earlier Node of the same name goes': [
    { ...aMember('a'), shadow: aShadow({ node: 'a', owner: 'uid-before' }) },
    'DeleteShadow',
    NOW,
  ],
  'an unmanaged node is released': [aMember('a', { managed: false }), 'Release', NOW],
  'an unmanaged node under way gets its spec to Idle first': [
    aMember('a', { managed: false }, { spec: underWay('RebootedIntoUpdate') }),
    undefined,
  ],
  'an unmanaged node that still has our cordon is released without a shadow too': [
    alone({ managed: false, ...cordoned(0) }, 0),
    'Release',
    NOW,
  ],
};
test.each(Object.entries(cases))('%s', (_, [member, kind, dueAt]) => {
  const cleanUp = cleanUpOf(member, NOW);
  expect(cleanUp?.kind).toBe(kind);
  expect(cleanUp?.dueAt).toBe(dueAt);
});
