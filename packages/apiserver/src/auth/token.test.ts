import { CompactSign, type CryptoKey, exportJWK, generateKeyPair, type JSONWebKeySet, type JWK } from 'jose';
import type { KubeClient, KubeRequest } from '@brupop/shared/kube/client';
import { recordingLogger } from '../../../../test/framework/recording-logger.ts';
import { FakeClock } from '@brupop/shared/testing/fake-clock';
import { type AgentToken, TokenVerifier } from './token.ts';

interface Pair {
  readonly alg: string;
  readonly kid: string | undefined;
  readonly privateKey: CryptoKey;
  readonly jwk: JWK;
}

async function makePair(kid: string | undefined, alg = 'ES256'): Promise<Pair> {
  const { publicKey, privateKey } = await generateKeyPair(alg, { extractable: true });
  const named = kid === undefined ? {} : { kid };
  return { alg, kid, privateKey, jwk: { ...(await exportJWK(publicKey)), ...named, alg, use: 'sig' } };
}

const issuer = 'https://issuer';
const now = 1_800_000_000_000;
const seconds = now / 1000;

const good = {
  iss: issuer,
  aud: ['brupop-apiserver'],
  sub: 'system:serviceaccount:brupop:brupop-agent',
  exp: seconds + 600,
  nbf: seconds,
  iat: seconds,
  'kubernetes.io': {
    namespace: 'brupop',
    serviceaccount: { name: 'brupop-agent', uid: 'a' },
    pod: { name: 'brupop-agent-x', uid: 'p' },
    node: { name: 'node-1', uid: 'n' },
  },
};

const agent = { podName: 'brupop-agent-x', podUID: 'p', nodeName: 'node-1', expiresAt: now + 600_000 };

const bound = (changes: object): object => ({ ...good, 'kubernetes.io': { ...good['kubernetes.io'], ...changes } });

async function signed({ alg, kid, privateKey }: Pair, claims: object | string = good, header = {}): Promise<string> {
  const text = typeof claims === 'string' ? claims : JSON.stringify(claims);
  const named = kid === undefined ? {} : { kid };
  return new CompactSign(new TextEncoder().encode(text))
    .setProtectedHeader({ alg, ...named, ...header })
    .sign(privateKey);
}

interface KeySet {
  readonly issuer: string;
  readonly jwks: JSONWebKeySet;
}

interface Cluster {
  readonly verify: (token: string) => Promise<AgentToken>;
  readonly verifier: TokenVerifier;
  readonly clock: FakeClock;
  /** What the cluster publishes is the last of these; empty: no answer. */
  readonly serve: KeySet[];
  readonly fetched: () => number;
  readonly lines: readonly string[];
}

/** A cluster that publishes the keys of these pairs, and a verifier that has not read them yet. */
function cluster(...pairs: Pair[]): Cluster {
  const clock = new FakeClock(now);
  const serve: KeySet[] = [{ issuer, jwks: { keys: pairs.map(({ jwk }) => jwk) } }];
  let fetched = 0;
  const request = async ({ path }: KubeRequest): Promise<unknown> => {
    const set = serve.at(-1);
    if (path !== '/openid/v1/jwks') fetched += 1;
    if (set === undefined) throw new Error('no answer');
    return path === '/openid/v1/jwks' ? set.jwks : { issuer: set.issuer };
  };
  const client = { request: request as KubeClient['request'] };
  const { log, lines } = recordingLogger();
  const verifier = new TokenVerifier({ client, namespace: 'brupop', clock, log });
  return { verifier, verify: (token) => verifier.verify(token), clock, serve, lines, fetched: () => fetched };
}

async function loaded(...pairs: Pair[]): Promise<Cluster> {
  const made = cluster(...pairs);
  await made.verifier.load();
  return made;
}

const failing = (code: string): unknown => expect.objectContaining({ code }) as unknown;
const rejection = failing('Unauthenticated');

describe('a token signed by a listed key', () => {
  it.each(['RS256', 'ES256', 'ES384', 'ES512'])('is verified with %s', async (alg) => {
    const pair = await makePair('one', alg);
    const { verify } = await loaded(pair);
    expect(await verify(await signed(pair))).toEqual({ ...agent, verified: true });
  });

  it.each(['RS512', 'PS256', 'EdDSA'])('is rejected with %s, which kube-apiserver does not use', async (alg) => {
    const pair = await makePair('one', alg);
    const { verify } = await loaded(pair, await makePair('two'));
    await expect(verify(await signed(pair))).rejects.toEqual(rejection);
  });

  it('may leave out the name of the key', async () => {
    const { kid: _, ...pair } = await makePair('one');
    const { verify } = await loaded({ ...pair, kid: 'one' });
    expect((await verify(await signed({ ...pair, kid: undefined }))).verified).toBe(true);
  });

  it('is not verified before the keys are loaded', async () => {
    const pair = await makePair('one');
    const { verify, verifier } = cluster(pair);
    await expect(verify(await signed(pair))).rejects.toEqual(failing('Unavailable'));
    expect(verifier.loaded).toBe(false);
  });
});

describe('a forged token', () => {
  it('is rejected when another key of the same name has signed it', async () => {
    const { verify } = await loaded(await makePair('one'));
    await expect(verify(await signed(await makePair('one')))).rejects.toEqual(rejection);
  });

  it.each(['ES384', 'RS256'])(
    'is rejected when it names a listed key with the algorithm %s of another',
    async (alg) => {
      const { verify, clock, fetched } = await loaded(await makePair('one'));
      await clock.advance(30_000);
      await expect(verify(await signed(await makePair('one', alg)))).rejects.toEqual(rejection);
      expect(fetched()).toBe(1);
    },
  );

  it.each([0, {}, ['one'], true, null])('is rejected when the name of its key is %p', async (kid) => {
    const pair = await makePair('one');
    const { verify } = await loaded(pair);
    await expect(verify(await signed(pair, good, { kid }))).rejects.toEqual(rejection);
  });

  it.each(['', '.', '..', 'a.b.c', 'eyJhbGciOiJub25lIn0.e30.', `${'A'.repeat(8193)}.a.a`])(
    'is rejected when it is the text "%.20s"',
    async (text) => {
      const { verify } = await loaded(await makePair('one'));
      await expect(verify(text)).rejects.toEqual(rejection);
    },
  );

  it('is rejected when its base64url is not canonical', async () => {
    const pair = await makePair('one');
    const { verify } = await loaded(pair);
    const token = await signed(pair);
    // The last character of a signature of 64 bytes has four unused bits.
    const next = String.fromCharCode(token.charCodeAt(token.length - 1) + 1);
    await expect(verify(token.slice(0, -1) + next)).rejects.toEqual(rejection);
    await expect(verify(`${token}=`)).rejects.toEqual(rejection);
  });
});

describe('a token whose key is not listed', () => {
  it('is left to TokenReview, with its claims not verified', async () => {
    const { verify } = await loaded(await makePair('one'));
    expect(await verify(await signed(await makePair('two', 'ES384')))).toEqual({ ...agent, verified: false });
  });

  it('is left to TokenReview also when it names no key and more than one may be meant', async () => {
    const [one, two] = [await makePair('one'), await makePair('two')];
    const { verify } = await loaded(one, two);
    expect((await verify(await signed({ ...two, kid: undefined }))).verified).toBe(false);
  });

  it('has the keys read again, at most every 30 s', async () => {
    const [first, second] = [await makePair('one'), await makePair('two')];
    const { verify, clock, serve, fetched } = await loaded(first);
    const token = await signed(second);
    serve.push({ issuer, jwks: { keys: [first.jwk, second.jwk] } });
    expect((await verify(token)).verified).toBe(false);
    expect(fetched()).toBe(1);
    await clock.advance(30_000);
    expect((await verify(token)).verified).toBe(true);
    expect((await verify(token)).verified).toBe(true);
    expect(fetched()).toBe(2);
  });

  it('shares one reading with other tokens at the same time', async () => {
    const { verify, clock, fetched } = await loaded(await makePair('one'));
    await clock.advance(30_000);
    const pair = await makePair('two');
    const tokens = await Promise.all([1, 2, 3].map((jti) => signed(pair, { ...good, jti })));
    const results = await Promise.all(tokens.map((token) => verify(token)));
    expect(results.map(({ verified }) => verified)).toEqual([false, false, false]);
    expect(fetched()).toBe(2);
  });

  it('is left to TokenReview when the keys cannot be read again, which is not tried more often then', async () => {
    const { verify, clock, serve, fetched } = await loaded(await makePair('one'));
    serve.length = 0;
    await clock.advance(30_000);
    const token = await signed(await makePair('two'));
    expect([(await verify(token)).verified, (await verify(token)).verified]).toEqual([false, false]);
    expect(fetched()).toBe(2);
  });

  it.each([
    ['an issuer', { ...good, iss: 'https://other' }, 'Unauthenticated'],
    ['a subject', { ...good, sub: 'system:serviceaccount:brupop:default' }, 'Forbidden'],
    ['an expiry', { ...good, exp: seconds }, 'Unauthenticated'],
    ['a pod', bound({ pod: undefined }), 'Forbidden'],
  ])('is rejected for %s that no agent has', async (_what, claims, code) => {
    const { verify } = await loaded(await makePair('one'));
    await expect(verify(await signed(await makePair('two'), claims))).rejects.toEqual(failing(code));
  });
});

describe('a token of another issuer', () => {
  it('is verified when the issuer of the cluster has changed, seen after 30 s', async () => {
    const pair = await makePair('one');
    const { verify, clock, serve } = await loaded(pair);
    serve.push({ issuer: 'https://new', jwks: { keys: [pair.jwk] } });
    const token = await signed(pair, { ...good, iss: 'https://new' });
    await expect(verify(token)).rejects.toEqual(rejection);
    await clock.advance(30_000);
    expect((await verify(token)).verified).toBe(true);
  });

  it('stays verified after that: kube-apiserver accepts the former issuer, and publishes the new one only', async () => {
    const pair = await makePair('one');
    const { verify, clock, serve } = await loaded(pair);
    serve.push({ issuer: 'https://new', jwks: { keys: [pair.jwk] } });
    await clock.advance(30_000);
    expect((await verify(await signed(pair, { ...good, iss: 'https://new' }))).verified).toBe(true);
    expect((await verify(await signed(pair))).verified).toBe(true);
    await expect(verify(await signed(pair, { ...good, iss: 'https://other' }))).rejects.toEqual(rejection);
  });
});

describe('the claims of a token', () => {
  let pair: Pair;
  let verify: Cluster['verify'];

  beforeAll(async () => {
    pair = await makePair('one');
    ({ verify } = await loaded(pair));
  });

  it('need not name the node, as before Kubernetes 1.30', async () => {
    const { nodeName: _, ...rest } = agent;
    expect(await verify(await signed(pair, bound({ node: undefined })))).toEqual({ ...rest, verified: true });
  });

  it('may name one audience as a text (RFC 7519)', async () => {
    expect((await verify(await signed(pair, { ...good, aud: 'brupop-apiserver' }))).podUID).toBe('p');
  });

  it('may come from a clock that is a minute ahead', async () => {
    const ahead = { ...good, nbf: seconds + 60, iat: seconds + 60 };
    expect((await verify(await signed(pair, ahead))).podUID).toBe('p');
  });

  it.each([
    ['another issuer', { ...good, iss: 'https://other' }],
    ['another audience', { ...good, aud: ['https://kubernetes.default.svc'] }],
    ['no audience', { ...good, aud: undefined }],
    ['an audience that only starts with the right one', { ...good, aud: ['brupop-apiserver.evil'] }],
    ['an expiry now', { ...good, exp: seconds }],
    ['no expiry', { ...good, exp: undefined }],
    ['an expiry that is a text', { ...good, exp: '9999999999' }],
    ['an expiry beyond any calendar', { ...good, exp: 1e300 }],
    ['an expiry that is null', { ...good, exp: Number.NaN }],
    ['a validity that starts in two minutes', { ...good, nbf: seconds + 120 }],
    ['a time of issue in two minutes', { ...good, iat: seconds + 120 }],
    ['the text null', 'null'],
    ['a text that is no JSON', 'claims'],
  ])('with %s are not valid', async (_what, claims) => {
    await expect(verify(await signed(pair, claims))).rejects.toEqual(rejection);
  });

  it.each([
    ['another subject', { ...good, sub: 'system:serviceaccount:brupop:default' }],
    ['another namespace', bound({ namespace: 'default' })],
    ['another service account', bound({ serviceaccount: { name: 'default', uid: 'a' } })],
    ['no pod', bound({ pod: undefined })],
    ['a pod without UID', bound({ pod: { name: 'x' } })],
    ['nothing bound', { ...good, 'kubernetes.io': undefined }],
  ])('with %s are not those of an agent', async (_what, claims) => {
    await expect(verify(await signed(pair, claims))).rejects.toEqual(failing('Forbidden'));
  });
});

describe('a key set without a usable key', () => {
  const broken: readonly (readonly [string, unknown])[] = [
    ['an empty list', { keys: [] }],
    ['no list', {}],
    ['null', null],
    ['a text', 'keys'],
    ['a list of nothing', { keys: [null, 1, 'x', {}] }],
    ['a key without its numbers', { keys: [{ kty: 'EC', crv: 'P-256', kid: 'two' }] }],
    ['a point that is not on the curve', { keys: [{ kty: 'EC', crv: 'P-256', kid: 'two', x: 'AAAA', y: 'AAAA' }] }],
    ['a symmetric key', { keys: [{ kty: 'oct', k: 'c2VjcmV0', kid: 'two' }] }],
    ['a key for encryption', { keys: [{ kty: 'RSA', n: 'AQAB', e: 'AQAB', use: 'enc', kid: 'two' }] }],
    ['a key for another algorithm', { keys: [{ kty: 'OKP', crv: 'Ed25519', x: 'AAAA', kid: 'two' }] }],
  ];

  it.each(broken)('does not replace the previous keys: %s', async (_what, jwks) => {
    const [one, two] = [await makePair('one'), await makePair('two')];
    const { verify, verifier, clock, serve } = await loaded(one);
    serve.push({ issuer, jwks: jwks as JSONWebKeySet });
    await clock.advance(60_000);
    expect((await verify(await signed(two))).verified).toBe(false);
    expect((await verify(await signed(one))).verified).toBe(true);
    expect(verifier.loaded).toBe(true);
  });

  it.each(broken)('does not make a verifier ready: %s', async (_what, jwks) => {
    const { verifier, serve } = cluster();
    serve.push({ issuer, jwks: jwks as JSONWebKeySet });
    await expect(verifier.load()).rejects.toThrow(/expected/);
    expect(verifier.loaded).toBe(false);
  });

  it('is logged with the number of keys that are kept, and is the reason why a verifier is not ready', async () => {
    const one = await makePair('one');
    const { verify, clock, serve, lines, verifier } = await loaded(one);
    serve.push({ issuer, jwks: { keys: [] } });
    await clock.advance(60_000);
    await verify(await signed(await makePair('two')));
    const error = expect.stringContaining('found 0 keys, none usable') as unknown;
    expect(JSON.parse(lines.at(-1) ?? '')).toMatchObject({ level: 'warn', error, keptKeys: 1 });
    expect(verifier.loadError).toEqual(error);
  });

  it('does not replace the previous issuer', async () => {
    const one = await makePair('one');
    const { verify, clock, serve } = await loaded(one);
    serve.push({ issuer: '', jwks: { keys: [one.jwk] } });
    await clock.advance(60_000);
    await expect(verify(await signed(one, { ...good, iss: 'https://other' }))).rejects.toEqual(rejection);
    expect((await verify(await signed(one))).verified).toBe(true);
  });

  it('is used if it also has a usable key', async () => {
    const [one, two] = [await makePair('one'), await makePair('two')];
    const { verify, clock, serve } = await loaded(one);
    serve.push({ issuer, jwks: { keys: [{ kty: 'oct', kid: 'x' }, two.jwk] } });
    await clock.advance(60_000);
    expect((await verify(await signed(two))).verified).toBe(true);
  });
});
