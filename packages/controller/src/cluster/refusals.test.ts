import { KubeError } from '@brupop/shared/kube/error';
import { isRefusal, latestRefusal, readRefusal, type Refusal } from './refusals.ts';

const SECOND = 1_000;
const START = Date.parse('2027-01-15T08:00:00Z');

/** An Event of the controller of Jobs, said from `from` to `to` seconds. */
function said(message: string, from = 0, to = from): Refusal {
  const at = (seconds: number): string => new Date(START + seconds * SECOND).toISOString();
  const refusal = readRefusal({ message, firstTimestamp: at(from), lastTimestamp: at(to), eventTime: null });
  if (refusal === undefined) throw new Error('expected a refusal');
  return refusal;
}

const POD_SECURITY = 'Error creating: pods "a-x" is forbidden: violates PodSecurity "restricted:latest"';
const POLICY =
  "Error creating: pods \"a-x\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: " +
  'a timeout is required';
const MISSING_ACCOUNT =
  'Error creating: pods "brupop-timeout-x" is forbidden: error looking up service account a/b: ' +
  'serviceaccount "b" not found';
const QUOTA =
  'Error creating: pods "a-x" is forbidden: exceeded quota: q, requested: pods=1, used: pods=4, limited: pods=4';
const WEBHOOK =
  'Error creating: Internal error occurred: failed calling webhook "a.b": Post "https://a.b": connect: connection refused';

describe('pods of a Job that cannot be created', () => {
  it.each([
    ['Pod Security', POD_SECURITY],
    ['a webhook that denies', 'Error creating: admission webhook "a.b" denied the request: no'],
    ['a policy that speaks of a timeout', POLICY],
    ['Pod Security, for the Job of a check named timeout', POD_SECURITY.replace('"a-x"', '"brupop-timeout-x"')],
    ['a missing account of such a Job', MISSING_ACCOUNT],
    ['the schema', 'Error creating: Pod "a-x" is invalid: spec.containers[0].image: Required value'],
    [
      'the schema, with a word on a timeout',
      'Error creating: Pod "a-x" is invalid: spec.activeDeadlineSeconds: Invalid value: 0: the timeout must be positive',
    ],
    [
      'a missing account that is named timeout',
      'Error creating: pods "a-x" is forbidden: error looking up service account checks/timeout-checker: serviceaccount "timeout-checker" not found',
    ],
  ])('are refused for good by %s, said once', (_, message) =>
    expect(latestRefusal([said(message)])).toEqual({ message, isLasting: true }),
  );

  it.each([
    ['a webhook that does not answer', WEBHOOK],
    [
      'a lookup that timed out',
      'Error creating: pods "a-x" is forbidden: error looking up service account a/b: net/http: request canceled (Client.Timeout exceeded while awaiting headers)',
    ],
    ['a time limit', 'Error creating: Timeout: request did not complete within requested timeout'],
    ['a server that starts', 'Error creating: pods "a-x" is forbidden: not yet ready to handle request'],
    ['an unknown error', 'Error creating: etcdserver: leader changed'],
  ])('are not refused for good by %s, however long it is said', (_, message) =>
    expect(latestRefusal([said(message, 0, 3_600)])).toEqual({ message, isLasting: false }),
  );

  it('are refused for good by a quota that is still exceeded after a minute', () => {
    expect(latestRefusal([said(QUOTA)])).toMatchObject({ isLasting: false });
    expect(latestRefusal([said(QUOTA, 0, 59)])).toMatchObject({ isLasting: false });
    expect(latestRefusal([said(QUOTA, 0, 60)])).toMatchObject({ isLasting: true });
    expect(latestRefusal([said(QUOTA, 0, 3), said(QUOTA, 7, 63)])).toMatchObject({ isLasting: true });
  });

  it('have the reason that was said last', () => {
    expect(latestRefusal([said(POD_SECURITY, 5), said(WEBHOOK, 0, 9)])).toEqual({ message: WEBHOOK, isLasting: false });
    expect(latestRefusal([])).toBeUndefined();
    expect(readRefusal({})).toBeUndefined();
  });

  it('by a quota without times are not refused for good', () => {
    expect(latestRefusal([{ message: QUOTA, firstAt: 0, lastAt: START }])).toMatchObject({ isLasting: false });
  });
});

it.each([
  [400, 'admission webhook "a.b" denied the request', true],
  [403, 'jobs.batch "a" is forbidden: exceeded quota: q', true],
  [422, 'Job.batch "a" is invalid', true],
  [403, 'jobs.batch "a" is forbidden: not yet ready to handle request', false],
  [409, 'the object has been modified', false],
  [429, 'too many requests', false],
  [500, 'Internal error occurred: failed calling webhook "a.b"', false],
  [504, 'Timeout', false],
  [0, 'connect ECONNREFUSED', false],
])('a Job that is answered with %s (%s) is refused: %s', (status, message, expected) => {
  expect(isRefusal(new KubeError(status, 'R', message))).toBe(expected);
});

it('an error that is none of Kubernetes refuses no Job', () => expect(isRefusal(new Error('403'))).toBe(false));
