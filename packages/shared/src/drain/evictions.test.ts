import { KubeError } from '../kube/client.ts';
import { outcomeOf } from './evictions.ts';

const rejected = (status: number, message: string, causes: object[] = [], retryAfterMs?: number): KubeError =>
  new KubeError(status, 'Reason', `POST eviction: ${status} ${message}`, {
    body: { message, details: { causes } },
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
  });

const budget = 'The disruption budget web needs 2 healthy pods and has 2 currently';

describe('a rejected eviction', () => {
  it.each([
    ['no pod of that name', rejected(404, 'not found')],
    ['a pod with another UID', rejected(409, 'Precondition failed: UID in precondition: a, UID in object meta: b')],
    ['a pod with another UID', rejected(409, 'the UID in the precondition (a) does not match the UID in record (b)')],
  ])('because there is %s means that the pod is gone', (_why, error) => {
    expect(outcomeOf(error)).toEqual({ kind: 'gone' });
  });

  it.each([
    [
      'a budget',
      rejected(429, 'Cannot evict pod.', [{ reason: 'DisruptionBudget', message: budget }]),
      'DisruptionBudget',
    ],
    ['too many requests', rejected(429, 'too many requests'), 'Throttled'],
    [
      'two budgets',
      rejected(500, 'This pod has more than one PodDisruptionBudget, which'),
      'MultipleDisruptionBudgets',
    ],
    ['an error of the server', rejected(500, 'etcdserver: request timed out'), 'Error'],
    ['missing permissions', rejected(403, 'forbidden'), 'Forbidden'],
    ['its namespace', rejected(403, 'forbidden', [{ reason: 'NamespaceTerminating' }]), 'NamespaceTerminating'],
    ['a webhook', rejected(400, 'admission webhook "a.b" denied the request: later'), 'Forbidden'],
    [
      'a webhook that says Conflict',
      rejected(409, 'admission webhook "a.b" denied the request: UID precondition'),
      'Forbidden',
    ],
    ['a webhook that says NotFound', rejected(404, 'admission webhook "a.b" denied the request: later'), 'Forbidden'],
    [
      'a policy that says NotFound',
      rejected(404, "pods \"x\" is forbidden: ValidatingAdmissionPolicy 'a' with binding 'b' denied request: later"),
      'Forbidden',
    ],
    ['another conflict', rejected(409, 'the object has been modified'), 'Error'],
    [
      'a conflict of a pod with such a name',
      rejected(409, 'pods "squid-0": the ResourceVersion in the precondition (1) does not match the ResourceVersion'),
      'Error',
    ],
    ['a webhook that does not answer', rejected(500, 'Internal error occurred: failed calling webhook "a.b"'), 'Error'],
    ['no response', new KubeError(0, 'Unreachable', 'no answer'), 'Error'],
    ['anything else', new TypeError('x is not a function'), 'Error'],
  ])('because of %s is blocked', (_why, error, reason) => {
    expect(outcomeOf(error)).toMatchObject({ kind: 'blocked', block: { reason } });
  });

  it('may have happened without a response, but not if it was not sent', () => {
    expect(outcomeOf(new KubeError(0, 'Unreachable', 'no answer'))).toMatchObject({ isUnknown: true });
    expect(outcomeOf(new KubeError(0, 'Fenced', 'leadership was lost'))).not.toHaveProperty('isUnknown');
  });

  it('names the budget as kube-apiserver does, and when to retry', () => {
    const error = rejected(429, 'Cannot evict pod.', [{ reason: 'DisruptionBudget', message: budget }], 10_000);
    expect(outcomeOf(error)).toEqual({
      kind: 'blocked',
      block: { reason: 'DisruptionBudget', message: `Cannot evict pod. ${budget}` },
      retryAfterMs: 10_000,
    });
  });

  it('does not repeat a cause that the message has', () => {
    const cause = 'failed calling webhook "a.b": connection refused';
    const error = rejected(500, `Internal error occurred: ${cause}`, [{ message: cause }]);
    expect(outcomeOf(error)).toMatchObject({ block: { message: `Internal error occurred: ${cause}` } });
  });
});
