/**
 * Authenticates callers. The token is checked here first, so that a forged one costs no
 * TokenReview; then TokenReview decides.
 *
 * - Accepted: good for at most a minute, not beyond the token's expiry, and only while the watch
 *   knows the pod.
 * - Rejected by TokenReview: rejected for ten seconds without another review.
 * - A pod has a rate of reviews: with the credentials of a kubelet, root on a node gets any number of
 *   valid tokens for its agent's pod, and each would be reviewed before its node is limited.
 * - Signed by a key that the cluster does not list: forged tokens reach TokenReview as well. So
 *   these reviews have their own small semaphore, and their own rate for each pod that a token names;
 *   pods that the watch does not know share one rate. A token with a listed key never waits for them,
 *   and a valid token with an unlisted key only competes with forged tokens that name the same pod.
 * - Failures are limited per address: those that are logged here, and those that are checked at all
 *   by http/connections.ts, because each ends its connection.
 */
import { createHash } from 'node:crypto';
import type { Clock } from '@brupop/shared/runtime/clock';
import { ApiError } from '../errors.ts';
import { LruMap, RateLimit, Semaphore } from '../http/limits.ts';
import type { AgentPod, AgentPods } from './agent-pods.ts';
import { type Bound, readReview, type TokenReviewStatus } from './token-review.ts';
import type { AgentToken, TokenVerifier } from './token.ts';

export interface Identity {
  readonly node: string;
  /** Absent before Kubernetes 1.30. */
  readonly nodeUID?: string;
  readonly podName: string;
  readonly podUID: string;
  /** Epoch milliseconds. */
  readonly expiresAt: number;
}

export interface AuthenticatorOptions {
  readonly verifier: Pick<TokenVerifier, 'verify'>;
  /** Makes one TokenReview. Throws ApiError `Unavailable`. */
  readonly review: (token: string) => Promise<TokenReviewStatus>;
  readonly pods: Pick<AgentPods, 'isWatched' | 'known' | 'find'>;
  readonly namespace: string;
  readonly clock: Clock;
  readonly count: (result: AuthenticationResult) => void;
}

export type AuthenticationResult = 'Cached' | 'Reviewed' | 'Rejected' | 'Throttled' | 'Unavailable';

function resultOf(error: unknown): AuthenticationResult {
  const code = error instanceof ApiError ? error.code : undefined;
  if (code === 'TooManyRequests') return 'Throttled';
  return code === 'Unauthenticated' || code === 'Forbidden' ? 'Rejected' : 'Unavailable';
}

const ACCEPTED_MS = 60_000;
const ACCEPTED_SIZE = 20_000;
const REJECTED_MS = 10_000;
const REJECTED_SIZE = 1_000;
/** Rejected tokens of an address that are logged and get the reason. */
const FAILURE_RATE = { burst: 30, perSecond: 2, keys: 10_000 };
/** Reviews per pod. An agent needs one a minute, and one more for each new token. */
const REVIEW_RATE = { burst: 10, perSecond: 0.2, keys: 20_000 };
/** The same for tokens whose key is not listed. */
const UNLISTED_RATE = { burst: 5, perSecond: 0.2, keys: 20_000 };

export class Authenticator {
  readonly #options: AuthenticatorOptions;
  readonly #accepted = new LruMap<{ readonly identity: Identity; readonly until: number }>(ACCEPTED_SIZE);
  readonly #rejected = new LruMap<{ readonly error: ApiError; readonly until: number }>(REJECTED_SIZE);
  readonly #running = new Map<string, Promise<Identity>>();
  readonly #reviews = new Semaphore(16, 10_000);
  readonly #unlistedReviews = new Semaphore(4, 1_000);
  readonly #listed: RateLimit;
  readonly #unlisted: RateLimit;
  readonly #failures: RateLimit;

  constructor(options: AuthenticatorOptions) {
    const { clock } = options;
    this.#options = options;
    this.#listed = new RateLimit(clock, REVIEW_RATE);
    this.#unlisted = new RateLimit(clock, UNLISTED_RATE);
    this.#failures = new RateLimit(clock, FAILURE_RATE);
  }

  /**
   * Throws ApiError `Unauthenticated`, `Forbidden`, `Unavailable`, or `TooManyRequests` instead of
   * the first two when an address has had too many of them, and when too many tokens of a pod, or in
   * its name with a key that the cluster does not list, had to be reviewed.
   */
  async authenticate(request: {
    readonly authorization: string | undefined;
    readonly address: string;
    readonly node: string;
  }): Promise<Identity> {
    const { authorization, address, node } = request;
    try {
      const token = bearerToken(authorization);
      const key = createHash('sha256').update(token).digest('base64');
      const cached = this.#cached(key);
      const identity = cached ?? (await this.#verify(token, key, node));
      requireNode(identity.node, node);
      this.#options.count(cached === undefined ? 'Reviewed' : 'Cached');
      return identity;
    } catch (error) {
      this.#options.count(resultOf(error));
      const rejected = error instanceof ApiError && (error.code === 'Unauthenticated' || error.code === 'Forbidden');
      if (!rejected || this.#failures.take(address)) throw error;
      const message = `too many rejected tokens from this address; wait some seconds: ${error.message}`;
      throw new ApiError('TooManyRequests', message, { cause: error });
    }
  }

  #cached(key: string): Identity | undefined {
    const accepted = this.#accepted.get(key);
    if (accepted === undefined) return undefined;
    const { identity, until } = accepted;
    const { pods, clock } = this.#options;
    if (clock.now() < until && pods.known(identity.podName, identity.podUID) !== undefined) return identity;
    this.#accepted.delete(key);
    return undefined;
  }

  async #verify(token: string, key: string, node: string): Promise<Identity> {
    const { verifier, clock, pods } = this.#options;
    const rejected = this.#rejected.get(key);
    if (rejected !== undefined && clock.now() < rejected.until) throw rejected.error;
    const claims = await verifier.verify(token);
    requireNode(claims.nodeName ?? node, node);
    requireNode(pods.known(claims.podName, claims.podUID)?.nodeName ?? node, node);
    const known = this.#cached(key) ?? this.#running.get(key);
    if (known !== undefined) return known;
    const review = this.#startReview(token, key, claims, this.#semaphoreFor(claims));
    this.#running.set(key, review);
    return review;
  }

  /** Calls with the same token at the same time share one review. */
  async #startReview(token: string, key: string, claims: AgentToken, semaphore: Semaphore): Promise<Identity> {
    const { clock } = this.#options;
    try {
      const identity = await semaphore.run(() => this.#review(token, claims));
      this.#accepted.set(key, { identity, until: Math.min(identity.expiresAt, clock.now() + ACCEPTED_MS) });
      return identity;
    } catch (error) {
      if (error instanceof ApiError && error.code === 'Unauthenticated')
        this.#rejected.set(key, { error, until: clock.now() + REJECTED_MS });
      throw error;
    } finally {
      this.#running.delete(key);
    }
  }

  #semaphoreFor({ verified, podName, podUID }: AgentToken): Semaphore {
    if (verified && this.#listed.take(podUID)) return this.#reviews;
    if (verified) throw new ApiError('TooManyRequests', `pod ${podName}: too many different tokens; wait some seconds`);
    const isWatched = this.#options.pods.isWatched(podName, podUID);
    if (this.#unlisted.take(isWatched ? podUID : '')) return this.#unlistedReviews;
    const message = `pod ${podName}: too many tokens with a key that the cluster does not list; wait some seconds`;
    throw new ApiError('TooManyRequests', message);
  }

  async #review(token: string, claims: AgentToken): Promise<Identity> {
    const { review, namespace, pods } = this.#options;
    const bound = readReview(await review(token), namespace);
    if ((bound.podUID ?? claims.podUID) !== claims.podUID)
      throw new ApiError('Forbidden', `pod: expected UID ${claims.podUID}, found ${bound.podUID}`);
    return identityOf(claims, bound, await pods.find(claims.podName, claims.podUID));
  }
}

/** Combines claims, review and pod. Throws ApiError `Forbidden` when they contradict each other. */
export function identityOf(claims: Omit<AgentToken, 'verified'>, bound: Bound, pod: AgentPod): Identity {
  const { podName, podUID, expiresAt } = claims;
  const { nodeName: node } = pod;
  if (node === undefined) throw new ApiError('Forbidden', `pod ${podName}: expected one on a node, found none`);
  if ((bound.nodeName ?? node) !== node)
    throw new ApiError('Forbidden', `pod ${podName}: expected on node ${bound.nodeName}, found on ${node}`);
  const nodeUID = bound.nodeUID === undefined ? {} : { nodeUID: bound.nodeUID };
  return { node, ...nodeUID, podName, podUID, expiresAt };
}

/** The token of an Authorization header (RFC 6750, 2.1). Throws ApiError `Unauthenticated`. */
export function bearerToken(authorization: string | undefined): string {
  const token = /^Bearer +([A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*)$/i.exec(authorization ?? '')?.[1];
  if (token !== undefined) return token;
  const found = authorization === undefined ? 'none' : 'another text';
  throw new ApiError('Unauthenticated', `Authorization: expected "Bearer" and a signed token, found ${found}`);
}

function requireNode(found: string, node: string): void {
  if (found === node) return;
  throw new ApiError('Forbidden', `an agent acts on its own node only: it runs on ${found}, the path names ${node}`);
}
