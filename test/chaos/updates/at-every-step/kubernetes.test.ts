import { jest } from '@jest/globals';
import { type Cases, comeThroughChosen } from '../../../framework/faults/at-every-step.ts';

jest.setTimeout(1_200_000);

const cases: Cases = {
  'kube-apiserver is killed': [{ kind: 'killed', who: { program: 'kube-apiserver' }, forMs: 1_000 }],
  'kube-apiserver is frozen': [{ kind: 'frozen', who: { program: 'kube-apiserver' }, forMs: 6_000 }],
  'etcd is killed': [{ kind: 'killed', who: { program: 'etcd' }, forMs: 1_000 }],
  'evictions are refused with 403': [{ kind: 'evictions forbidden', forMs: 2_000 }],
};

test('nodes at every step of their update are updated all the same when Kubernetes fails', async () => {
  const { chosen, through } = await comeThroughChosen(cases, { mayFail: false });
  expect(through).toEqual(chosen);
});
