import { createPrivateKey, createPublicKey, type KeyObject, sign } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Connection } from '../control-plane/connection.ts';

export type Json = Record<string, unknown>;

/** A decoded token. */
export interface Parts {
  readonly header: Json;
  readonly claims: Json;
}

/**
 * The cluster's own key for service account tokens (P-256), with which tests sign forged tokens.
 */
export interface ClusterKey {
  readonly privateKey: KeyObject;
  readonly publicKey: KeyObject;
}

export function clusterKey({ dir }: Connection): ClusterKey {
  const privateKey = createPrivateKey(readFileSync(join(dir, 'service-accounts.key')));
  return { privateKey, publicKey: createPublicKey(privateKey) };
}

export function partsOf(token: string): Parts {
  const [header = '', claims = ''] = token.split('.').map((part) => Buffer.from(part, 'base64url').toString());
  return { header: JSON.parse(header) as Json, claims: JSON.parse(claims) as Json };
}

/** Base64url of a text, or of the JSON of a value. */
export function encode(value: unknown): string {
  return Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)).toString('base64url');
}

/** A JWS in compact form; texts for header and claims are signed as they are. */
export function signed(header: unknown, claims: unknown, key: KeyObject, hash = 'sha256'): string {
  const text = `${encode(header)}.${encode(claims)}`;
  return `${text}.${signatureOf(text, key, hash)}`;
}

export function signatureOf(text: string, key: KeyObject, hash = 'sha256'): string {
  return sign(hash, Buffer.from(text), { key, dsaEncoding: 'ieee-p1363' }).toString('base64url');
}
