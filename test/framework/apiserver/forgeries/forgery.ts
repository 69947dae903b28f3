import type { KeyObject } from 'node:crypto';
import fc from 'fast-check';
import type { Agent } from '../cluster.ts';
import { type ClusterKey, type Json, type Parts, signed } from '../tokens.ts';

/** One call that must be rejected. */
export interface Attempt {
  /** Header lines, each with its line end. */
  readonly headers: string;
  /** The node that the path names; default the victim's. */
  readonly node?: string;
  /** Appended to the path. */
  readonly query?: string;
}

/** A kind of forgery: its variants, and the expected result of each. */
export interface Forgery {
  readonly name: string;
  readonly attempts: fc.Arbitrary<Attempt>;
  readonly status: number;
  readonly code: string;
  /** TokenReviews that each costs. */
  readonly reviews: number;
  /**
   * Only a TokenReview can detect them, so each costs at most one. Over a rate per pod the response
   * is 429.
   */
  readonly limited?: boolean;
}

/** What forgers know and possess. */
export interface World {
  readonly namespace: string;
  /** A live agent's token, and that of one on another node. */
  readonly victim: Agent;
  readonly other: Agent;
  /** Deleted pods on the victim's node; the second was recreated under its name. */
  readonly gone: Agent;
  readonly replaced: Agent;
  readonly key: ClusterKey;
  /** Keys that the cluster does not know. */
  readonly strangers: { readonly ec: KeyObject; readonly rsa: KeyObject };
}

const refused = { status: 401, code: 'Unauthenticated', reviews: 0 };
const forbidden = { status: 403, code: 'Forbidden', reviews: 0 };

export const outcomes = {
  refused,
  forbidden,
  reviewed: { ...refused, reviews: 1, limited: false },
  reviewedByPod: { ...refused, reviews: 1, limited: true },
  limited: { ...refused, limited: true },
};

export function bearer(token: string): Attempt {
  return { headers: `authorization: Bearer ${token}\r\n` };
}

/** The parts of a real token with an ID of its own, so that no two are the same text. */
export function fresh({ header, claims }: Parts): fc.Arbitrary<Parts> {
  return fc.uuid().map((jti) => ({ header, claims: { ...claims, jti } }));
}

/** Tokens that the cluster itself has signed, with changed claims. */
export function signedClaims(
  parts: Parts,
  changes: fc.Arbitrary<(claims: Json) => Json>,
  key: KeyObject,
): fc.Arbitrary<Attempt> {
  return fc
    .tuple(fresh(parts), changes)
    .map(([{ header, claims }, change]) => bearer(signed(header, change(claims), key)));
}

/** The claims about the pod and so on. */
export function boundOf(claims: Json): Json {
  return claims['kubernetes.io'] as Json;
}

export function withBound(claims: Json, changes: Json): Json {
  return { ...claims, 'kubernetes.io': { ...boundOf(claims), ...changes } };
}
