import fc from 'fast-check';
import { encode, type Json, type Parts, partsOf, signatureOf, signed } from '../tokens.ts';
import {
  type Attempt,
  bearer,
  boundOf,
  type Forgery,
  fresh,
  outcomes,
  signedClaims,
  withBound,
  type World,
} from './forgery.ts';

type Change = (claims: Json) => Json;

const seconds = (): number => Math.floor(Date.now() / 1000);
const set = (name: string, values: fc.Arbitrary<unknown>): fc.Arbitrary<Change> =>
  values.map((value) => (claims) => ({ ...claims, [name]: value }));
const without: unknown = undefined;

/** Tokens that the cluster has signed, but for another audience or another time. */
export function untimelyForgeries(world: World): Forgery[] {
  const parts = partsOf(world.victim.token);
  const refused = (name: string, changes: fc.Arbitrary<Change>): Forgery => ({
    name,
    attempts: signedClaims(parts, changes, world.key.privateKey),
    ...outcomes.refused,
  });
  const issuer = String(parts.claims['iss']);
  const ago = fc.integer({ min: 0, max: 10 ** 9 });
  const odd = fc.constantFrom<unknown>(
    without,
    null,
    '',
    true,
    {},
    [],
    '9999999999',
    [9_999_999_999],
    -1,
    0,
    'NaN',
    1e300,
    2 ** 60,
  );
  const ahead = fc.integer({ min: 90, max: 10 ** 8 });
  return [
    refused(
      'expired',
      ago.map((time) => (claims) => ({ ...claims, exp: seconds() - time })),
    ),
    refused('an expiry that is no time', set('exp', odd)),
    refused(
      'not yet valid',
      ahead.map((time) => (claims) => ({ ...claims, nbf: seconds() + time })),
    ),
    refused(
      'issued in times to come',
      ahead.map((time) => (claims) => ({ ...claims, iat: seconds() + time })),
    ),
    refused('a beginning that is no time', set('nbf', fc.constantFrom<unknown>(null, '', '0', {}, [], true, 1e300))),
    refused('another issuer', set('iss', fc.oneof(fc.constantFrom<unknown>(...others(issuer)), fc.webUrl()))),
    refused('another audience', set('aud', audiences(issuer))),
  ];
}

function others(issuer: string): unknown[] {
  return [
    without,
    null,
    '',
    [issuer],
    `${issuer}/`,
    ` ${issuer}`,
    issuer.toUpperCase(),
    issuer.slice(0, -1),
    `${issuer}.evil`,
  ];
}

function audiences(issuer: string): fc.Arbitrary<unknown> {
  const near = ['brupop-apiserver ', 'brupop-apiserve', 'brupop-apiserver.evil', 'Brupop-Apiserver', '*', '', issuer];
  const texts = fc.oneof(fc.constantFrom(...near), fc.webUrl());
  const odd = fc.constantFrom<unknown>(
    without,
    null,
    {},
    0,
    [['brupop-apiserver']],
    { 0: 'brupop-apiserver' },
    'brupop-apiserver,x',
  );
  return fc.oneof(texts, fc.array(texts, { maxLength: 5 }), odd);
}

/** Tokens that the cluster has signed for another caller. */
export function otherIdentities(world: World): Forgery[] {
  const { key, namespace, other, victim } = world;
  const parts = partsOf(victim.token);
  const forbidden = (name: string, changes: fc.Arbitrary<Change>, from = parts): Forgery => ({
    name,
    attempts: signedClaims(from, changes, key.privateKey),
    ...outcomes.forbidden,
  });
  const otherNode = fc.stringMatching(/^[a-z][a-z0-9]{0,20}$/u);
  return [
    forbidden(
      'another service account',
      accountNames().map((name) => (claims) => account(claims, namespace, name)),
    ),
    forbidden(
      'another namespace',
      fc
        .constantFrom('default', 'kube-system', `${namespace}x`, namespace.toUpperCase(), '')
        .map((name) => (claims) => withBound(withSubject(claims, name, 'brupop-agent'), { namespace: name })),
    ),
    forbidden(
      'another subject',
      fc.constantFrom<unknown>(...subjects(namespace)).map((sub) => (claims) => ({ ...claims, sub })),
    ),
    forbidden(
      'no pod',
      fc.constantFrom<unknown>(...noPods(victim.pod)).map((pod) => (claims) => withBound(claims, { pod })),
    ),
    forbidden('nothing bound', set('kubernetes.io', fc.constantFrom<unknown>(without, null, {}, [], 'x', 0))),
    {
      name: 'the node of another agent in the path',
      attempts: fc
        .tuple(fresh(parts), fc.oneof(fc.constant(other.node), otherNode))
        .map(([{ header, claims }, node]) => ({ ...bearer(signed(header, claims, key.privateKey)), node })),
      ...outcomes.forbidden,
    },
    forbidden(
      'a pod that runs on another node than the token says',
      fc.constant<Change>((claims) => withBound(claims, { node: boundOf(parts.claims)['node'] })),
      partsOf(other.token),
    ),
  ];
}

function accountNames(): fc.Arbitrary<unknown> {
  return fc.oneof(
    fc.constantFrom<unknown>(
      'default',
      'brupop-apiserver',
      'brupop-controller',
      'brupop-agent ',
      'Brupop-Agent',
      '',
      null,
      0,
      ['brupop-agent'],
    ),
    fc.stringMatching(/^[a-z]{1,12}$/u),
  );
}

function withSubject(claims: Json, namespace: string, name: unknown): Json {
  return { ...claims, sub: `system:serviceaccount:${namespace}:${String(name)}` };
}

function account(claims: Json, namespace: string, name: unknown): Json {
  const serviceaccount = { ...(boundOf(claims)['serviceaccount'] as Json), name };
  return withBound(withSubject(claims, namespace, name), { serviceaccount });
}

function subjects(namespace: string): unknown[] {
  const right = `system:serviceaccount:${namespace}:brupop-agent`;
  return [
    without,
    null,
    '',
    `${right} `,
    `${right}:x`,
    [right],
    'system:node:x',
    `system:serviceaccount:${namespace}:default`,
  ];
}

function noPods(pod: string): unknown[] {
  return [without, null, {}, [], pod, { name: pod }, { uid: 'x' }, { name: pod, uid: null }, { name: 1, uid: 1 }];
}

/** Invalid tokens that only the Kubernetes API can detect. */
export function reviewedForgeries(world: World): Forgery[] {
  const { key, victim, gone, replaced } = world;
  const parts = partsOf(victim.token);
  const reviewed = (name: string, changes: fc.Arbitrary<Change>, from = parts): Forgery => ({
    name,
    attempts: signedClaims(from, changes, key.privateKey),
    ...outcomes.reviewedByPod,
  });
  const same = fc.constant<Change>((claims) => claims);
  const { serviceaccount, pod } = boundOf(parts.claims) as { serviceaccount: Json; pod: Json };
  return [
    reviewed('of a deleted pod', same, partsOf(gone.token)),
    reviewed('of a deleted pod whose name another has', same, partsOf(replaced.token)),
    {
      ...reviewed(
        'of a pod that never was',
        fc.uuid().map((uid) => (claims) => withBound(claims, { pod: { ...pod, uid } })),
      ),
      ...outcomes.reviewed,
    },
    reviewed(
      'of an earlier service account of that name',
      fc.uuid().map((uid) => (claims) => withBound(claims, { serviceaccount: { ...serviceaccount, uid } })),
    ),
    {
      name: 'names that come twice',
      attempts: fc.tuple(fresh(parts), fc.boolean()).map(([one, inHeader]) => twice(world, one, inHeader)),
      ...outcomes.reviewedByPod,
    },
  ];
}

/** The second of two counts for one reader and the first for another. */
function twice({ key }: World, { header, claims }: Parts, inHeader: boolean): Attempt {
  const [headerText, claimsText] = [JSON.stringify(header), JSON.stringify(claims)];
  const text = inHeader
    ? `${encode(headerText.replace('{', '{"alg":"none",'))}.${encode(claimsText)}`
    : `${encode(headerText)}.${encode(claimsText.replace('{', '{"sub":"system:admin",'))}`;
  return bearer(`${text}.${signatureOf(text, key.privateKey)}`);
}

/** Texts that the cluster has signed and that are no claims. */
export function signedTexts({ key, victim }: World): Forgery {
  const { header } = partsOf(victim.token);
  const inner = fc.constantFrom(
    '',
    'null',
    '[]',
    '"x"',
    '0',
    '{',
    '{"iss":',
    victim.token,
    JSON.stringify(victim.token),
  );
  const texts = fc.oneof(inner, fc.string({ unit: 'binary' }), fc.json());
  return {
    name: 'a signed text that is no claims',
    attempts: texts.map((text) => bearer(signed(header, text, key.privateKey))),
    ...outcomes.refused,
  };
}

/** Tokens that the Kubernetes API accepts although no kubelet gets such a token. */
export function oddButGood({ key, other }: World): [string, string][] {
  const { header, claims } = partsOf(other.token);
  const { kid: _, ...nameless } = header;
  const sign = (changes: object, head: object = header): string =>
    signed(head, { ...claims, ...changes }, key.privateKey);
  return [
    ['as the cluster signs it', sign({ jti: 'x' })],
    ['for one audience as a text', sign({ aud: 'brupop-apiserver' })],
    ['for others too', sign({ aud: ['https://elsewhere', 'brupop-apiserver'] })],
    ['valid in half a minute', sign({ nbf: seconds() + 30 })],
    ['without the name of its key', sign({}, nameless)],
    ['with a header that is never read', sign({}, { ...header, jku: 'http://127.0.0.1:1/keys' })],
  ];
}
