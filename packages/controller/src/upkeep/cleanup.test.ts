import { EXCLUDED_ANNOTATION, EXCLUSION_LABEL } from '@brupop/shared/api/names';
import { pinRecords } from '@brupop/shared/testing/settings';
import type { ManagedNode } from '../cluster/snapshot.ts';
import {
  ago,
  aManagedNode,
  aShadow,
  cordoned,
  failure,
  MINUTE,
  NOW,
  type ShadowParts,
  underWay,
} from '../testing/objects.ts';
import { cleanupOf } from './cleanup.ts';
import { Moment } from '../kept/moment.ts';

const excluded = (ms: number): { annotations: Record<string, string>; labels: Record<string, string> } => ({
  annotations: { [EXCLUDED_ANNOTATION]: ago(ms) },
  labels: { [EXCLUSION_LABEL]: 'true' },
});
/** Asked its host to reboot; its spec went to Idle `ms` ago, which the agent has not confirmed. */
const rebootAsked = (ms: number, bootID = 'boot-1'): ShadowParts => ({
  spec: { state_transition_timestamp: ago(ms) },
  status: {
    current_state: 'RebootedIntoUpdate',
    lastOperation: { ...failure(undefined), operation: 'Reboot', state: 'Processing', bootID },
  },
});
const alone = (node: Parameters<typeof aManagedNode>[1], missingForMs: number): ManagedNode => ({
  ...aManagedNode('a', node),
  shadow: undefined,
  missingSince: NOW - missingForMs,
});

const cases: Record<string, [ManagedNode, string | undefined, number?]> = {
  'a managed node without anything owned by the operator needs nothing': [aManagedNode('a'), undefined],
  'an idle agent gets 30 seconds to remove a cordon': [
    aManagedNode('a', cordoned(10_000), { spec: { state_transition_timestamp: ago(MINUTE) } }),
    'Restore',
    NOW + 20_000,
  ],
  'a kubelet that keeps renewing the cordon gets no more time': [
    aManagedNode('a', cordoned(0), { spec: { state_transition_timestamp: ago(10 * MINUTE) } }),
    'Restore',
    NOW - 8.5 * MINUTE,
  ],
  'a host whose shadow was recreated gets 15 minutes, since a reboot may have been requested': [
    aManagedNode('a', cordoned(10 * MINUTE), {
      status: null,
      creationTimestamp: ago(6 * MINUTE),
      spec: { state_transition_timestamp: null },
    }),
    'Restore',
    NOW + 9 * MINUTE,
  ],
  'a host whose shadow was recreated is restored after 15 minutes': [
    aManagedNode('a', cordoned(5 * MINUTE), { spec: { state_transition_timestamp: ago(6 * MINUTE) } }),
    'Restore',
    NOW - 5 * MINUTE + 30_000,
  ],
  'the time counts from when the spec went to Idle': [
    aManagedNode('a', cordoned(60 * MINUTE), { spec: { state_transition_timestamp: ago(10_000) } }),
    'Restore',
    NOW + 20_000,
  ],
  'an annotation of a clock far ahead does not block the cleanup indefinitely': [
    aManagedNode('a', excluded(-600 * MINUTE)),
    'Restore',
    NOW - 24 * 60 * MINUTE + 30_000,
  ],
  'a node under way is left alone': [
    aManagedNode('a', cordoned(5 * MINUTE), { spec: underWay('RebootedIntoUpdate', 10 * MINUTE) }),
    undefined,
  ],
  'an agent that does not confirm Idle gets 5 minutes, and must have exited before the node is restored': [
    aManagedNode('a', cordoned(5 * MINUTE), {
      spec: { state_transition_timestamp: ago(MINUTE) },
      status: { current_state: 'ErrorReset' },
    }),
    'RestoreAfterAgentExit',
    NOW + 4 * MINUTE,
  ],
  'a host that may still go down is not restored': [
    aManagedNode('a', cordoned(5 * MINUTE), rebootAsked(6 * MINUTE)),
    'RestoreAfterAgentExit',
    NOW + 9 * MINUTE,
  ],
  'a host that went down is restored without that wait': [
    aManagedNode('a', cordoned(5 * MINUTE), rebootAsked(6 * MINUTE, 'boot-0')),
    'RestoreAfterAgentExit',
    NOW - MINUTE,
  ],
  'without a shadow nobody can tell whether the host may still go down': [
    alone(cordoned(5 * MINUTE), MINUTE),
    'Restore',
    NOW + 14 * MINUTE,
  ],
  'the annotation of a cordon that a user has removed is pruned': [
    aManagedNode('a', { ...cordoned(MINUTE), unschedulable: false }),
    'PruneAnnotations',
    NOW,
  ],
  'it stays while the node is under way: a drain takes note of that': [
    aManagedNode('a', { ...cordoned(MINUTE), unschedulable: false }, { spec: underWay('RebootedIntoUpdate') }),
    undefined,
  ],
  'so is the annotation of a load balancer label that a user has removed': [
    aManagedNode('a', { ...excluded(MINUTE), labels: {} }),
    'PruneAnnotations',
    NOW,
  ],
  'a shadow without a Node is left to garbage collection first': [
    { ...aManagedNode('a'), node: undefined },
    'DeleteShadow',
    NOW + MINUTE,
  ],
  'a shadow of an earlier Node of the same name goes': [
    { ...aManagedNode('a'), shadow: aShadow({ node: 'a', owner: 'uid-before' }) },
    'DeleteShadow',
    NOW,
  ],
  'an unmanaged node is released': [aManagedNode('a', { managed: false }), 'Unmanage', NOW],
  'an unmanaged node whose host may still go down is released when that time is over': [
    aManagedNode('a', { managed: false, ...cordoned(10 * MINUTE) }, rebootAsked(6 * MINUTE)),
    'Unmanage',
    NOW + 9 * MINUTE,
  ],
  'an unmanaged node whose host went down is released': [
    aManagedNode('a', { managed: false, ...cordoned(10 * MINUTE), bootID: 'boot-2' }, rebootAsked(6 * MINUTE)),
    'Unmanage',
    NOW,
  ],
  'an unmanaged node under way gets its spec to Idle first': [
    aManagedNode('a', { managed: false }, { spec: underWay('RebootedIntoUpdate') }),
    undefined,
  ],
  'an unmanaged node that still has our cordon is released without a shadow too': [
    alone({ managed: false, ...cordoned(60 * MINUTE) }, 15 * MINUTE),
    'Unmanage',
    NOW,
  ],
};
test.each(Object.entries(cases))('%s', (_, [managedNode, kind, dueAt]) => {
  const cleanup = cleanupOf(managedNode, new Moment(NOW));
  expect(cleanup?.kind).toBe(kind);
  expect(cleanup?.dueAt).toBe(dueAt);
});

test('a warning is recorded when a shadow is deleted while its host keeps settings of the operator', () => {
  const settings = { records: pinRecords({ versionLock: '1.25.0' }) };
  const kept = cleanupOf(aManagedNode('a', { managed: false }, { status: { settings } }), new Moment(NOW))?.kept;
  expect([kept?.reason, kept?.warning]).toEqual(['HostSettingsKept', true]);
  expect(kept?.message).toContain('settings.updates.version-lock');
  expect(kept?.message).not.toContain('may have had');
  expect(cleanupOf(aManagedNode('a', { managed: false }), new Moment(NOW))?.kept).toBeUndefined();
});

test('the warning does not claim that the operator changed a setting whose former value is not recorded', () => {
  const settings = { records: [{ key: 'settings.motd', value: 'x', owner: 'BottlerocketNodeGroup/web' }] };
  const kept = cleanupOf(aManagedNode('a', { managed: false }, { status: { settings } }), new Moment(NOW))?.kept;
  expect(kept?.message).toContain('The host may have had the same value of settings.motd before');
});
