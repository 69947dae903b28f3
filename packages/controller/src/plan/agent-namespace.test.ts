import { aManagedNode, aSnapshot, NOW } from '../testing/objects.ts';
import { wholePlan as plan } from '../whole-plan.ts';

test('the command for an agent that never reported names the namespace of the agents', () => {
  const snapshot = { ...aSnapshot([aManagedNode('a', {}, { status: null })]), ownNamespace: 'agents' };
  const [condition] = plan(snapshot, NOW).conditions.flat();
  expect(condition?.progressing.message).toContain('kubectl get pods -n agents -o wide');
});
