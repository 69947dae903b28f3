import { CONNECTED } from '../cluster/connectivity.ts';
import type { ManagedNode } from '../cluster/snapshot.ts';
import { ago, aManagedNode, aSnapshot, MINUTE, NOW } from '../testing/objects.ts';
import { aRebootingNode, silenceSettings } from '../testing/silences.ts';
import { wholePlan } from '../whole-plan.ts';
import { hasAlertmanager, silencesOf, whereabouts } from './wanted.ts';

function whereIs(node: ManagedNode): string | undefined {
  const snapshot = aSnapshot([node], {});
  return whereabouts(wholePlan(snapshot, NOW), snapshot.managedNodes).get(node.name);
}

const cases: Record<string, [node: ManagedNode, expected: string | undefined]> = {
  'that was drained and reboots is away': [aRebootingNode('a'), 'Away'],
  'whose kubelet is silent meanwhile is away': [aRebootingNode('a', { node: { ready: false } }), 'Away'],
  'at rest is not': [aManagedNode('a'), undefined],
  'that is being drained is not': [aRebootingNode('a', { operation: { operation: 'Drain' } }), undefined],
  'whose drain for this spec is not recorded is not': [aRebootingNode('a', { drainedFor: 2 }), 'Returned'],
  'whose drain did not succeed is not': [aRebootingNode('a', { drain: 'TimedOut' }), 'Returned'],
  'that has booted and is restored has returned': [
    aRebootingNode('a', { operation: { operation: 'Restore' } }),
    'Returned',
  ],
  'whose reboot has failed has returned': [aRebootingNode('a', { operation: { state: 'Failed' } }), 'Returned'],
  'that announced the reboot into another version is not': [
    aRebootingNode('a', { operation: { version: '1.0.0' } }),
    'Returned',
  ],
  'that is watched after its reboot has returned': [aRebootingNode('a', { state: 'MonitoringUpdate' }), 'Returned'],
  'that is cleaned up has returned': [aRebootingNode('a', { state: 'Idle' }), 'Returned'],
  'beyond the deadline of its reboot is stuck': [aRebootingNode('a', { sinceMs: 24 * 60 * MINUTE }), 'Returned'],
  'that is not managed any more is not': [aRebootingNode('a', { node: { managed: false } }), 'Returned'],
  'that has another Node than its shadow is not': [aRebootingNode('a', { node: { uid: 'other' } }), 'Returned'],
  'whose Node is gone is not': [{ ...aRebootingNode('a'), node: undefined }, 'Returned'],
};
test.each(Object.entries(cases))('a node %s', (_, [node, expected]) => {
  expect(whereIs(node)).toBe(expected);
});

test('a node beyond the deadline of its reboot is not away either when a user accepts that', () => {
  const progressing = { type: 'Progressing', status: 'False', lastTransitionTime: ago(MINUTE), message: '' } as const;
  const { shadow, ...rest } = aRebootingNode('a', { sinceMs: 24 * 60 * MINUTE });
  if (shadow === undefined) throw new Error('the node has a shadow');
  const node = { ...rest, shadow: { ...shadow, progressing: { ...progressing, reason: 'DeadlineExceeded' } } };
  const snapshot = aSnapshot([node], { rollout: { resume: ago(MINUTE) } });
  const made = wholePlan(snapshot, NOW);
  expect(made.stuckNodes).toEqual([]);
  expect([...whereabouts(made, snapshot.managedNodes)]).toEqual([['a', 'Returned']]);
});

test('a node that is lost, or cut off with others, is not away', () => {
  const node = aRebootingNode('a');
  const none = { stuckNodes: [], lost: [], connectivity: CONNECTED };
  const event = {} as never;
  expect([...whereabouts(none, [node])]).toEqual([['a', 'Away']]);
  expect([...whereabouts({ ...none, lost: [{ name: 'a', message: '', event }] }, [node])]).toEqual([['a', 'Returned']]);
  expect([...whereabouts({ ...none, stuckNodes: ['a'] }, [node])]).toEqual([['a', 'Returned']]);
  const connectivity = { ...CONNECTED, lost: true };
  expect([...whereabouts({ ...none, connectivity }, [node])]).toEqual([['a', 'Returned']]);
});

test('each label has a silence of its own, with all matchers', () => {
  const silences = silencesOf(
    'a',
    silenceSettings({
      labels: [{ name: 'node' }, { name: 'nodename' }],
      matchers: [
        { name: 'cluster', operator: 'Equals', value: 'prod' },
        { name: 'severity', operator: 'NotEquals', value: 'info' },
        { name: 'job', operator: 'Matches', value: 'kube-.+' },
        { name: 'team', operator: 'NotMatches', value: 'db|web' },
      ],
    }),
  );
  const rest = [
    { name: 'cluster', value: 'prod', isRegex: false, isEqual: true },
    { name: 'severity', value: 'info', isRegex: false, isEqual: false },
    { name: 'job', value: 'kube-.+', isRegex: true, isEqual: true },
    { name: 'team', value: 'db|web', isRegex: true, isEqual: false },
  ];
  expect(silences.map(({ matchers }) => matchers)).toEqual([
    [{ name: 'node', value: 'a', isRegex: false, isEqual: true }, ...rest],
    [{ name: 'nodename', value: 'a', isRegex: false, isEqual: true }, ...rest],
  ]);
});

test('the defaults have no Alertmanager, and the label node', () => {
  const { silences } = aSnapshot([], {}).policy;
  expect([hasAlertmanager(silences), silencesOf('a', silences)[0]?.matchers[0]]).toEqual([
    false,
    { name: 'node', value: 'a', isRegex: false, isEqual: true },
  ]);
  expect([{ addresses: ['x'] }, { secretName: 'x' }].map((one) => hasAlertmanager({ ...silences, ...one }))).toEqual([
    true,
    true,
  ]);
});
