import { caught } from '../../../../test/framework/caught.ts';
import { checkClaims } from './claims.ts';

const now = 1_800_000_000_000;
const context = { issuer: 'https://issuer', namespace: 'brupop', now };
const seconds = now / 1000;

const good = {
  iss: 'https://issuer',
  aud: ['brupop-apiserver'],
  sub: 'system:serviceaccount:brupop:brupop-agent',
  exp: seconds + 600,
  nbf: seconds,
  'kubernetes.io': {
    namespace: 'brupop',
    serviceaccount: { name: 'brupop-agent', uid: 'a' },
    pod: { name: 'brupop-agent-x', uid: 'p' },
    node: { name: 'node-1', uid: 'n' },
  },
};

const bound = (changes: object): object => ({ ...good, 'kubernetes.io': { ...good['kubernetes.io'], ...changes } });

describe('the claims of a token', () => {
  it('tell the pod, the node and the expiry', () => {
    expect(checkClaims(good, context)).toEqual({
      podName: 'brupop-agent-x',
      podUID: 'p',
      nodeName: 'node-1',
      expiresAt: now + 600_000,
    });
  });

  it('need not tell the node, as before Kubernetes 1.30', () => {
    expect(checkClaims(bound({ node: undefined }), context).nodeName).toBeUndefined();
  });

  it('may be for one audience as a text (RFC 7519)', () => {
    expect(checkClaims({ ...good, aud: 'brupop-apiserver' }, context).podUID).toBe('p');
  });

  it.each([
    ['another issuer', { ...good, iss: 'https://other' }],
    ['another audience', { ...good, aud: ['https://kubernetes.default.svc'] }],
    ['no audience', { ...good, aud: undefined }],
    ['an audience that only begins like ours', { ...good, aud: ['brupop-apiserver.evil'] }],
    ['an expiry now', { ...good, exp: seconds }],
    ['no expiry', { ...good, exp: undefined }],
    ['an expiry that is no number', { ...good, exp: '9999999999' }],
    ['an expiry far beyond any calendar', { ...good, exp: 1e300 }],
    ['an expiry that is not a number', { ...good, exp: Number.NaN }],
    ['a validity that begins in two minutes', { ...good, nbf: seconds + 120 }],
    ['a time of issue in two minutes', { ...good, iat: seconds + 120 }],
    ['nothing', null],
    ['a text', 'claims'],
  ])('with %s are not valid', (_what, payload) => {
    expect(caught(() => checkClaims(payload, context))).toMatchObject({ code: 'Unauthenticated' });
  });

  it.each([
    ['another subject', { ...good, sub: 'system:serviceaccount:brupop:default' }],
    ['another namespace', bound({ namespace: 'default' })],
    ['another service account', bound({ serviceaccount: { name: 'default', uid: 'a' } })],
    ['no pod', bound({ pod: undefined })],
    ['a pod without UID', bound({ pod: { name: 'x' } })],
    ['nothing bound', { ...good, 'kubernetes.io': undefined }],
  ])('with %s are nobody that is served', (_what, payload) => {
    expect(caught(() => checkClaims(payload, context))).toMatchObject({ code: 'Forbidden' });
  });
});
