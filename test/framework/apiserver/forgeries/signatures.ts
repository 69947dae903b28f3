import { createHmac } from 'node:crypto';
import fc from 'fast-check';
import { encode, type Parts, partsOf, signatureOf, signed } from '../tokens.ts';
import { type Attempt, bearer, type Forgery, fresh, outcomes, type World } from './forgery.ts';

const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';

const refused = (name: string, attempts: fc.Arbitrary<Attempt>): Forgery => ({ name, attempts, ...outcomes.refused });

/** Tokens whose signature is not the cluster's for these very bytes. */
export function signatureForgeries(world: World): Forgery[] {
  const { key, strangers } = world;
  const parts = partsOf(world.victim.token);
  const tokens = fresh(parts).map(({ header, claims }) => signed(header, claims, key.privateKey));
  return [
    ...(['header', 'claims', 'signature'] as const).map((part, index) => ({
      name: `a bit flipped in the ${part}`,
      attempts: fc.tuple(tokens, fc.nat()).map(([token, at]) => flipped(token, index, at)),
      // In the header it may make the name of a key that is not listed.
      ...(part === 'header' ? outcomes.limited : outcomes.refused),
    })),
    refused(
      'a signature cut short',
      fc.tuple(tokens, fc.integer({ min: 1, max: 86 })).map(([token, cut]) => bearer(token.slice(0, -cut))),
    ),
    refused(
      'the signature of another token',
      fc.tuple(tokens, tokens).map(([one, two]) => spliced(one, two)),
    ),
    refused(
      'signed by another key of the same name',
      fresh(parts).map(({ header, claims }) => bearer(signed(header, claims, strangers.ec))),
    ),
    refused('base64url that is not canonical', fc.tuple(tokens, fc.integer({ min: 0, max: 17 })).map(loose)),
    refused('another number of parts', fc.tuple(tokens, fc.nat(5)).map(regrouped)),
  ];
}

/** Flips a bit of what the part stands for, so that the text stays base64url. */
function flipped(token: string, index: number, at: number): Attempt {
  const texts = token.split('.');
  const bytes = Buffer.from(texts[index] ?? '', 'base64url');
  const bit = at % (bytes.length * 8);
  bytes[bit >> 3] = (bytes[bit >> 3] ?? 0) ^ (1 << (bit & 7));
  texts[index] = bytes.toString('base64url');
  return bearer(texts.join('.'));
}

function spliced(one: string, two: string): Attempt {
  return bearer(`${one.slice(0, one.lastIndexOf('.'))}${two.slice(two.lastIndexOf('.'))}`);
}

/**
 * The same bytes written in another way: with the unused bits of the last character set, with
 * padding, in the alphabet of base64.
 */
function loose([token, how]: [string, number]): Attempt {
  if (how === 16) return bearer(`${token}==`);
  const signature = token.slice(token.lastIndexOf('.') + 1);
  const base64 = Buffer.from(signature, 'base64url').toString('base64');
  if (how === 17) return bearer(token.replace(signature, base64));
  const last = alphabet.indexOf(token.at(-1) ?? '');
  const other = (last & ~15) | ((last + Math.max(how, 1)) & 15);
  return bearer(`${token.slice(0, -1)}${alphabet[other === last ? last ^ 1 : other]}`);
}

/** Two, four or five parts (as an encrypted token has), empty parts, whitespace within. */
function regrouped([token, how]: [string, number]): Attempt {
  const [header = '', claims = '', signature = ''] = token.split('.');
  const jwe = encode({ alg: 'dir', enc: 'A128GCM', cty: 'JWT' });
  const texts = [
    `${header}.${claims}`,
    `${token}.${signature}`,
    `${jwe}.${header}.${claims}.${signature}.${header.slice(0, 22)}`,
    `.${claims}.${signature}`,
    `${header}..${signature}`,
    `${header}. ${claims}.${signature}`,
  ];
  return bearer(texts[how] ?? '');
}

const algorithms = [
  'ES384',
  'ES512',
  'ES256K',
  'RS256',
  'RS384',
  'RS512',
  'PS256',
  'EdDSA',
  'ed25519',
  'es256',
  'ES256 ',
  '',
  'dir',
  null,
  0,
  ['ES256'],
];

const extensions: readonly object[] = [
  { crit: ['exp'] },
  { crit: [] },
  { crit: 'b64' },
  { crit: ['b64'], b64: false },
  { crit: ['x'], x: 1 },
  { crit: ['alg'] },
];

/** Tokens whose header requests another way of verification. */
export function headerForgeries(world: World): Forgery[] {
  const { key } = world;
  const real = partsOf(world.victim.token);
  const parts = fresh(real);
  const none = fc.tuple(parts, fc.mixedCase(fc.constant('none')), fc.boolean()).map(unsigned(world));
  const symmetric = fc.tuple(parts, fc.constantFrom('HS256', 'HS384', 'HS512'), fc.nat(5)).map(mac(world));
  const withHeader =
    (more: object) =>
    ({ header, claims }: Parts): Attempt =>
      bearer(signed({ ...header, ...more }, claims, key.privateKey));
  return [
    refused('alg none', none),
    refused('a MAC with the public key', symmetric),
    refused(
      'another algorithm',
      fc.constantFrom(...algorithms).chain((alg) => parts.map(withHeader({ alg }))),
    ),
    refused('signed by an RSA key', fc.tuple(parts, fc.constantFrom('RS256', 'ES256')).map(byRsa(world))),
    refused(
      'a name that no key can have',
      fc.constantFrom<unknown>(0, {}, [real.header['kid']], true, null).chain((kid) => parts.map(withHeader({ kid }))),
    ),
    {
      name: 'the name of a key that is not listed',
      attempts: keyNames(real).chain((kid) => parts.map(withHeader({ kid }))),
      ...outcomes.limited,
    },
    refused(
      'the name of a key that is not listed, for another audience',
      keyNames(real).chain((kid) =>
        parts.map(({ header, claims }) =>
          bearer(signed({ ...header, kid }, { ...claims, aud: 'other' }, key.privateKey)),
        ),
      ),
    ),
    refused('a key of its own', fc.tuple(parts, fc.nat(4), fc.boolean()).map(ownKey(world))),
    refused(
      'critical extensions',
      fc.constantFrom(...extensions).chain((more) => parts.map(withHeader(more))),
    ),
  ];
}

type From<T extends readonly unknown[]> = (world: World) => (from: T) => Attempt;

const unsigned: From<[Parts, string, boolean]> =
  ({ key }) =>
  ([{ header, claims }, alg, keep]) => {
    const text = `${encode({ ...header, alg })}.${encode(claims)}`;
    return bearer(`${text}.${keep ? signatureOf(text, key.privateKey) : ''}`);
  };

/** Tokens that a verifier with the public key as an HMAC secret would accept. */
const mac: From<[Parts, string, number]> =
  ({ key }) =>
  ([{ header, claims }, alg, how]) => {
    const jwk = key.publicKey.export({ format: 'jwk' });
    const pem = key.publicKey.export({ type: 'spki', format: 'pem' });
    const secrets = [
      pem,
      pem.toString().trim(),
      key.publicKey.export({ type: 'spki', format: 'der' }),
      JSON.stringify(jwk),
      Buffer.from(`${jwk.x}${jwk.y}`, 'base64url'),
      '',
    ];
    const text = `${encode({ ...header, alg })}.${encode(claims)}`;
    const hmac = createHmac(alg.replace('HS', 'sha'), secrets[how] ?? '');
    return bearer(`${text}.${hmac.update(text).digest('base64url')}`);
  };

const byRsa: From<[Parts, string]> =
  ({ strangers }) =>
  ([{ header, claims }, alg]) =>
    bearer(signed({ ...header, alg }, claims, strangers.rsa));

/** Names of keys that do not exist, also such that would be paths, queries or prototypes. */
function keyNames({ header }: Parts): fc.Arbitrary<string> {
  const kid = String(header['kid']);
  const known = [
    `${kid} `,
    kid.toLowerCase(),
    kid.slice(1),
    `${kid}\u0000`,
    '../../etc/passwd',
    '/dev/null',
    '__proto__',
  ];
  const odd = ['', "' OR 1=1 --", 'http://127.0.0.1:1/jwks', 'k'.repeat(3_000)];
  return fc.oneof(fc.constantFrom(...known, ...odd), fc.uuid());
}

/** Tokens with their own key, inside or by URL, with the key ID of the cluster or without. */
const ownKey: From<[Parts, number, boolean]> =
  ({ strangers }) =>
  ([{ header, claims }, how, named]) => {
    const jwk = { ...strangers.ec.export({ format: 'jwk' }), d: undefined, kid: header['kid'] };
    const url = 'http://127.0.0.1:1/keys';
    const ways = [{ jwk }, { jku: url, jwk }, { x5u: url }, { x5c: ['MIIB'], x5t: 'AA' }, { jku: url }];
    const { kid: _, ...nameless } = header;
    return bearer(signed({ ...(named ? header : nameless), ...ways[how] }, claims, strangers.ec));
  };
