import { KubeError } from '@brupop/shared/kube/client';
import { outcomeOf } from './eviction.ts';

const refused = (status: number, message: string, causes: object[] = [], retryAfterMs?: number): KubeError =>
  new KubeError(status, 'Reason', `POST eviction: ${status} ${message}`, {
    body: { message, details: { causes } },
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
  });

const budget = 'The disruption budget web needs 2 healthy pods and has 2 currently';

describe('a refused eviction', () => {
  it.each([
    ['no pod of that name', refused(404, 'not found')],
    ['a pod with another UID', refused(409, 'Precondition failed: UID in precondition')],
  ])('because there is %s means that the pod is gone', (_why, error) => {
    expect(outcomeOf(error)).toEqual({ kind: 'gone' });
  });

  it.each([
    [
      'a budget',
      refused(429, 'Cannot evict pod.', [{ reason: 'DisruptionBudget', message: budget }]),
      'DisruptionBudget',
    ],
    ['too many requests', refused(429, 'too many requests'), 'Throttled'],
    ['two budgets', refused(500, 'This pod has more than one PodDisruptionBudget, which'), 'MultipleDisruptionBudgets'],
    ['an error of the server', refused(500, 'etcdserver: request timed out'), 'Error'],
    ['our permissions', refused(403, 'forbidden'), 'Forbidden'],
    ['its namespace', refused(403, 'forbidden', [{ reason: 'NamespaceTerminating' }]), 'NamespaceTerminating'],
    ['a webhook', refused(400, 'admission webhook denied the request'), 'Error'],
    ['silence', new KubeError(0, 'Unreachable', 'no answer'), 'Error'],
    ['anything else', new TypeError('x is not a function'), 'Error'],
  ])('because of %s is no success', (_why, error, reason) => {
    expect(outcomeOf(error)).toMatchObject({ kind: 'blocked', block: { reason } });
  });

  it('says in the words of the API server which budget holds the pod up, and when to ask again', () => {
    const error = refused(429, 'Cannot evict pod.', [{ reason: 'DisruptionBudget', message: budget }], 10_000);
    expect(outcomeOf(error)).toEqual({
      kind: 'blocked',
      block: { reason: 'DisruptionBudget', message: `Cannot evict pod. ${budget}` },
      retryAfterMs: 10_000,
    });
  });
});
