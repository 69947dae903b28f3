import { createHash } from 'node:crypto';
import type { Clock } from '@brupop/shared/runtime/clock';
import { ApiError } from '../errors.ts';
import { LruMap } from '../http/lru.ts';
import type { RateLimit } from '../http/rate-limit.ts';
import { Semaphore } from '../http/semaphore.ts';
import type { AgentPod, AgentPods } from './agent-pods.ts';
import { type AgentClaims, checkClaims } from './claims.ts';
import type { SigningKeys } from './keys.ts';
import { type Bound, judgeReview, type TokenReviewStatus } from './token-review.ts';

/** An agent whose token was accepted. */
export interface Identity {
  readonly node: string;
  /** Absent before Kubernetes 1.30. */
  readonly nodeUID?: string;
  readonly podName: string;
  readonly podUID: string;
  /** Expiry of the token, epoch milliseconds. */
  readonly expiresAt: number;
}

export interface Credentials {
  /** The Authorization header. */
  readonly authorization: string | undefined;
  /** The caller's address, for the limit on failures. */
  readonly address: string;
  /** The node that the path names. */
  readonly node: string;
}

export interface AuthenticatorOptions {
  readonly keys: Pick<SigningKeys, 'verify' | 'issuer'>;
  /** One TokenReview. Throws Failure `Unavailable`. */
  readonly review: (token: string) => Promise<TokenReviewStatus>;
  readonly pods: Pick<AgentPods, 'known' | 'find'>;
  /** Failures per address. */
  readonly failures: RateLimit;
  readonly namespace: string;
  readonly clock: Clock;
}

const ACCEPTED_MS = 60_000;
const ACCEPTED_SIZE = 20_000;
const REFUSED_MS = 10_000;
const REFUSED_SIZE = 1_000;
const REVIEWS_AT_A_TIME = 16;
const REVIEWS_WAITING = 10_000;

interface Refused {
  readonly failure: ApiError;
  readonly until: number;
}

interface Accepted {
  readonly identity: Identity;
  readonly until: number;
}

/**
 * Tells who calls. A token is judged here first, by signature and claims, so that garbage costs no TokenReview; then the Kubernetes API
 * decides. An accepted one is good for up to a minute, while its pod exists; a refused one is refused for a few seconds.
 */
export class Authenticator {
  readonly #options: AuthenticatorOptions;
  readonly #accepted = new LruMap<Accepted>(ACCEPTED_SIZE);
  readonly #refused = new LruMap<Refused>(REFUSED_SIZE);
  readonly #running = new Map<string, Promise<Identity>>();
  readonly #semaphore = new Semaphore(REVIEWS_AT_A_TIME, REVIEWS_WAITING);

  constructor(options: AuthenticatorOptions) {
    this.#options = options;
  }

  /**
   * Throws Failure `Unauthenticated`, `Forbidden` or `Unavailable`, and `TooManyRequests` instead of the first two when an address has had
   * too many of them. That keeps the log short. It never turns away a token that is good: agents may share their address with others, and
   * to look at a token costs less than the connection that brings it.
   */
  async authenticate(credentials: Credentials): Promise<Identity> {
    try {
      return requireNode(await this.#identify(credentials), credentials.node);
    } catch (error) {
      if (!isRefusal(error) || this.#options.failures.take(credentials.address)) throw error;
      const message = `too many refused tokens from this address; wait some seconds: ${error.message}`;
      throw new ApiError('TooManyRequests', message, { cause: error });
    }
  }

  async #identify({ authorization, node }: Credentials): Promise<Identity> {
    const token = bearerToken(authorization);
    const key = createHash('sha256').update(token).digest('base64');
    return this.#known(key) ?? (await this.#judge(token, key, node));
  }

  /** A cached identity counts only while the watch knows its pod. */
  #known(key: string): Identity | undefined {
    const accepted = this.#accepted.get(key);
    if (accepted === undefined) return undefined;
    const { identity, until } = accepted;
    const { pods, clock } = this.#options;
    if (clock.now() < until && pods.known(identity.podName, identity.podUID) !== undefined) return identity;
    this.#accepted.delete(key);
    return undefined;
  }

  async #judge(token: string, key: string, node: string): Promise<Identity> {
    const { keys, namespace, clock, pods } = this.#options;
    const refused = this.#refused.get(key);
    if (refused !== undefined && clock.now() < refused.until) throw refused.failure;
    const payload = await keys.verify(token);
    const claims = checkClaims(payload, { issuer: keys.issuer, namespace, now: clock.now() });
    const runsOn = pods.known(claims.podName, claims.podUID)?.nodeName ?? node;
    for (const found of [claims.nodeName ?? node, runsOn]) if (found !== node) throw otherNode(found, node);
    return this.#reviewOnce(token, key, claims);
  }

  /** Calls with the same token at the same time share one review. */
  async #reviewOnce(token: string, key: string, claims: AgentClaims): Promise<Identity> {
    const known = this.#known(key);
    if (known !== undefined) return known;
    const running = this.#running.get(key) ?? this.#startReview(token, key, claims);
    this.#running.set(key, running);
    return running;
  }

  async #startReview(token: string, key: string, claims: AgentClaims): Promise<Identity> {
    try {
      const identity = await this.#semaphore.run(() => this.#review(token, claims));
      const until = Math.min(identity.expiresAt, this.#options.clock.now() + ACCEPTED_MS);
      this.#accepted.set(key, { identity, until });
      return identity;
    } catch (error) {
      if (error instanceof ApiError && error.code === 'Unauthenticated')
        this.#refused.set(key, { failure: error, until: this.#options.clock.now() + REFUSED_MS });
      throw error;
    } finally {
      this.#running.delete(key);
    }
  }

  async #review(token: string, claims: AgentClaims): Promise<Identity> {
    const { review, namespace, pods } = this.#options;
    const bound = judgeReview(await review(token), namespace);
    if ((bound.podUID ?? claims.podUID) !== claims.podUID)
      throw new ApiError('Forbidden', `pod: expected UID ${claims.podUID}, found ${bound.podUID}`);
    return identityOf(claims, bound, await pods.find(claims.podName, claims.podUID));
  }
}

/** Puts together what claims, review and pod say. Throws Failure `Forbidden` when they contradict each other. */
export function identityOf(claims: AgentClaims, bound: Bound, pod: AgentPod): Identity {
  const { podName, podUID, expiresAt } = claims;
  const { nodeName: node } = pod;
  if (node === undefined) throw new ApiError('Forbidden', `pod ${podName}: expected one on a node, found none`);
  if ((bound.nodeName ?? node) !== node)
    throw new ApiError('Forbidden', `pod ${podName}: expected on node ${bound.nodeName}, found on ${node}`);
  const nodeUID = bound.nodeUID === undefined ? {} : { nodeUID: bound.nodeUID };
  return { node, ...nodeUID, podName, podUID, expiresAt };
}

/** The token of an Authorization header (RFC 6750, 2.1). Throws Failure `Unauthenticated`. */
export function bearerToken(authorization: string | undefined): string {
  const token = /^Bearer +([A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*)$/i.exec(authorization ?? '')?.[1];
  if (token !== undefined) return token;
  const found = authorization === undefined ? 'none' : 'another text';
  throw new ApiError('Unauthenticated', `Authorization: expected "Bearer" and a signed token, found ${found}`);
}

function requireNode(identity: Identity, node: string): Identity {
  if (identity.node !== node) throw otherNode(identity.node, node);
  return identity;
}

function otherNode(found: string, node: string): ApiError {
  return new ApiError('Forbidden', `an agent acts on its own node only: it runs on ${found}, the path names ${node}`);
}

function isRefusal(error: unknown): error is ApiError {
  return error instanceof ApiError && (error.code === 'Unauthenticated' || error.code === 'Forbidden');
}
