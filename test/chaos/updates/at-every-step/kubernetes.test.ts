import { jest } from '@jest/globals';
import { type Cases, runCases } from '../../../framework/faults/at-every-step.ts';

jest.setTimeout(1_200_000);

const cases: Cases = {
  'kube-apiserver is killed': [{ kind: 'killed', who: { program: 'kube-apiserver' }, forMs: 1_000 }],
  'kube-apiserver is frozen': [{ kind: 'frozen', who: { program: 'kube-apiserver' }, forMs: 6_000 }],
  'etcd is killed': [{ kind: 'killed', who: { program: 'etcd' }, forMs: 1_000 }],
  'evictions are rejected with 403': [{ kind: 'evictions forbidden', forMs: 2_000 }],
};

test('nodes at every step of their update are updated although Kubernetes fails', async () => {
  const { chosen, passed } = await runCases(cases, { mayFail: false });
  expect(passed).toEqual(chosen);
});
