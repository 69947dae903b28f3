import { CompactSign, type CryptoKey, exportJWK, generateKeyPair, type JWK } from 'jose';
import { createLogger } from '@brupop/shared/runtime/log';
import { FakeClock } from '@brupop/shared/testing/fake-clock';
import { type KeySet, SigningKeys } from './keys.ts';

interface Pair {
  readonly alg: string;
  readonly kid: string;
  readonly privateKey: CryptoKey;
  readonly jwk: JWK;
}

async function makePair(kid: string, alg = 'ES256'): Promise<Pair> {
  const { publicKey, privateKey } = await generateKeyPair(alg, { extractable: true });
  return { alg, kid, privateKey, jwk: { ...(await exportJWK(publicKey)), kid, alg, use: 'sig' } };
}

async function signed({ alg, kid, privateKey }: Pair, payload: object | string): Promise<string> {
  const text = typeof payload === 'string' ? payload : JSON.stringify(payload);
  return new CompactSign(new TextEncoder().encode(text)).setProtectedHeader({ alg, kid }).sign(privateKey);
}

const issuer = 'https://issuer';
const log = createLogger({ write: () => undefined });

/** Keys that the cluster serves, to be changed by a test, and how often they were asked for. */
function cluster(...pairs: Pair[]): { keys: SigningKeys; clock: FakeClock; serve: KeySet[]; fetched: () => number } {
  const clock = new FakeClock();
  const serve: KeySet[] = [{ issuer, jwks: { keys: pairs.map(({ jwk }) => jwk) } }];
  let fetched = 0;
  const fetch = async (): Promise<KeySet> => {
    fetched += 1;
    const set = serve.at(-1);
    if (set === undefined) throw new Error('no answer');
    return set;
  };
  return { keys: new SigningKeys({ fetch, clock, log }), clock, serve, fetched: () => fetched };
}

const refusal = expect.objectContaining({ code: 'Unauthenticated' }) as unknown;
const unavailable = expect.objectContaining({ code: 'Unavailable' }) as unknown;

describe('the keys of the cluster', () => {
  it.each(['ES256', 'RS256'])('verify what one of them has signed with %s', async (alg) => {
    const pair = await makePair('one', alg);
    const { keys } = cluster(pair);
    await keys.load();
    expect(await keys.verify(await signed(pair, { iss: issuer }))).toEqual({ iss: issuer });
  });

  it.each(['ES384', 'PS256'])('verify nothing signed with %s', async (alg) => {
    const pair = await makePair('one', alg);
    const { keys } = cluster(pair);
    await keys.load();
    await expect(keys.verify(await signed(pair, { iss: issuer }))).rejects.toEqual(refusal);
  });

  it('refuse a signature of another key with the same name', async () => {
    const { keys } = cluster(await makePair('one'));
    await keys.load();
    await expect(keys.verify(await signed(await makePair('one'), { iss: issuer }))).rejects.toEqual(refusal);
  });

  it('refuse a signed text that is no JSON', async () => {
    const pair = await makePair('one');
    const { keys } = cluster(pair);
    await keys.load();
    await expect(keys.verify(await signed(pair, 'no json'))).rejects.toEqual(refusal);
  });

  it.each(['', '.', '..', 'a.b.c', 'eyJhbGciOiJub25lIn0.e30.', `${'A'.repeat(8193)}.a.a`])(
    'refuse the text "%.20s"',
    async (text) => {
      const { keys } = cluster(await makePair('one'));
      await keys.load();
      await expect(keys.verify(text)).rejects.toEqual(refusal);
    },
  );

  it('are not guessed before they are loaded', async () => {
    const pair = await makePair('one');
    const { keys } = cluster(pair);
    await expect(keys.verify(await signed(pair, { iss: issuer }))).rejects.toEqual(unavailable);
    expect(keys.loaded).toBe(false);
  });

  it('are read again for a name that is not known, at most every half minute', async () => {
    const [first, second] = [await makePair('one'), await makePair('two')];
    const { keys, clock, serve, fetched } = cluster(first);
    await keys.load();
    const token = await signed(second, { iss: issuer });
    serve.push({ issuer, jwks: { keys: [first.jwk, second.jwk] } });
    await expect(keys.verify(token)).rejects.toEqual(refusal);
    expect(fetched()).toBe(1);
    await clock.advance(30_000);
    expect(await keys.verify(token)).toEqual({ iss: issuer });
    expect(await keys.verify(token)).toEqual({ iss: issuer });
    expect(fetched()).toBe(2);
  });

  it('are read once for many unknown names at the same time', async () => {
    const { keys, clock, fetched } = cluster(await makePair('one'));
    await keys.load();
    await clock.advance(30_000);
    const pair = await makePair('two');
    const tokens = await Promise.all([1, 2, 3].map((number) => signed(pair, { number })));
    const results = await Promise.allSettled(tokens.map((token) => keys.verify(token)));
    expect(results.map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected']);
    expect(fetched()).toBe(2);
  });

  it('leave a token undecided when they cannot be read again', async () => {
    const { keys, clock, serve } = cluster(await makePair('one'));
    await keys.load();
    serve.length = 0;
    await clock.advance(30_000);
    const token = await signed(await makePair('two'), { iss: issuer });
    await expect(keys.verify(token)).rejects.toEqual(unavailable);
    await expect(keys.verify(token)).rejects.toEqual(unavailable);
  });

  it('are read again when the issuer has changed', async () => {
    const pair = await makePair('one');
    const { keys, clock, serve } = cluster(pair);
    await keys.load();
    serve.push({ issuer: 'https://new', jwks: { keys: [pair.jwk] } });
    await clock.advance(30_000);
    await keys.verify(await signed(pair, { iss: 'https://new' }));
    expect(keys.issuer).toBe('https://new');
  });
});
