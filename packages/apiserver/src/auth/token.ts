/**
 * Checks a service-account token against the keys that the cluster publishes, so that a forged
 * token costs no TokenReview.
 *
 * - A token that one of these keys has signed is `verified`.
 * - A token that names a key which the key set does not list is returned as not verified:
 *   kube-apiserver may know more keys than it publishes, or another replica of it may already sign
 *   with a new one. Only a TokenReview can decide.
 * - Every other token is rejected.
 *
 * The keys are read when the process starts and again, at most every 30 s, for a key or an issuer
 * that is not known. A response without a usable key is an error, and the previous keys are kept.
 */
import { createPublicKey, type JsonWebKey } from 'node:crypto';
import {
  createRemoteJWKSet,
  customFetch,
  decodeProtectedHeader,
  errors,
  type JWK,
  type JWTPayload,
  jwtVerify,
  type JWTVerifyOptions,
  UnsecuredJWT,
} from 'jose';
import * as v from 'valibot';
import { AGENT, TOKEN_AUDIENCE } from '@brupop/shared/api/names';
import { ifReadable, object, oneOf, parse, text } from '@brupop/shared/api/schema';
import type { KubeClient } from '@brupop/shared/kube/client';
import { isTransient } from '@brupop/shared/kube/error';
import type { Clock } from '@brupop/shared/runtime/clock';
import { describe, messageOf } from '@brupop/shared/runtime/errors';
import { type Logger, RetriedProblem } from '@brupop/shared/runtime/log';
import { ApiError } from '../errors.ts';
import { TokenBucket } from '@brupop/shared/runtime/token-bucket';

export interface AgentToken {
  readonly podName: string;
  readonly podUID: string;
  /** Absent in tokens of Kubernetes before 1.30. */
  readonly nodeName?: string;
  /** Epoch milliseconds. */
  readonly expiresAt: number;
  /** False when the key is not listed, so that the signature is not checked yet. */
  readonly verified: boolean;
}

export interface TokenVerifierOptions {
  readonly client: Pick<KubeClient, 'request'>;
  readonly namespace: string;
  readonly clock: Clock;
  readonly log: Logger;
}

const CONFIGURATION_PATH = '/.well-known/openid-configuration';
const KEYS_PATH = '/openid/v1/jwks';
/** The longest token that is checked, in characters. An agent's has about 1,200. */
const MAX_LENGTH = 4096;
/** What kube-apiserver signs with: RSA keys and the curves P-256, P-384 and P-521. */
const ALGORITHMS = ['RS256', 'ES256', 'ES384', 'ES512'];
/** Seconds that the cluster's clock may be ahead, as in TokenReview. Expiry gets none. */
const LEEWAY = 60;
const MAX_ISSUERS = 3;
const FETCH_LIMIT_MS = 10_000;
const RELOADS = { burst: 1, perSecond: 1 / 30 };
/** The header of a token without signature, for a check of the claims alone. */
const UNSECURED = Buffer.from('{"alg":"none"}').toString('base64url');

export class TokenVerifier {
  readonly #options: TokenVerifierOptions;
  /** Never reloads by itself: jose has its own clock, and counts no failed attempts. */
  readonly #keys: ReturnType<typeof createRemoteJWKSet>;
  readonly #reloads: TokenBucket;
  readonly #problem: RetriedProblem;
  /** The published one first. Kubernetes accepts former ones too while the issuer is changed, and does not publish them. */
  #issuers: readonly string[] = [];
  #loadError = 'no response yet';

  constructor(options: TokenVerifierOptions) {
    this.#options = options;
    this.#problem = new RetriedProblem(options.clock);
    this.#reloads = new TokenBucket(options.clock, RELOADS);
    this.#keys = createRemoteJWKSet(new URL(KEYS_PATH, 'https://kubernetes'), {
      [customFetch]: (_url, { signal }) => this.#fetch(signal),
      cacheMaxAge: Number.POSITIVE_INFINITY,
      cooldownDuration: Number.POSITIVE_INFINITY,
      timeoutDuration: FETCH_LIMIT_MS,
    });
  }

  get loaded(): boolean {
    return this.#keys.fresh;
  }

  /** Why the latest attempt to read the keys has failed. */
  get loadError(): string {
    return this.#loadError;
  }

  /** Throws KubeError. */
  async load(): Promise<void> {
    this.#reloads.take();
    await this.#keys.reload();
  }

  /**
   * Returns the claims of an agent's token. Throws ApiError `Unauthenticated` for a token that is
   * forged, not for this service or not valid now, `Forbidden` for a token of anything but an
   * agent's pod, and `Unavailable` before the keys are loaded.
   */
  async verify(token: string): Promise<AgentToken> {
    if (!this.loaded) throw new ApiError('Unavailable', 'the keys of the cluster are not loaded yet; repeat later');
    requireForm(token);
    try {
      const checked = await this.#check(token);
      if (checked.verified || !(await this.#reload())) return checked;
    } catch (error) {
      if (!isClaim(error, 'iss') || !(await this.#reload())) throw rejection(error);
    }
    return this.#check(token).catch((error: unknown) => {
      throw rejection(error);
    });
  }

  async #check(token: string): Promise<AgentToken> {
    const { clock, namespace } = this.#options;
    const options: JWTVerifyOptions = {
      algorithms: ALGORITHMS,
      issuer: [...this.#issuers],
      audience: TOKEN_AUDIENCE,
      subject: `system:serviceaccount:${namespace}:${AGENT}`,
      requiredClaims: ['exp'],
      clockTolerance: LEEWAY,
      // oxlint-disable-next-line no-restricted-globals -- jose takes a Date object; this reads no clock
      currentDate: new Date(clock.now()),
    };
    try {
      const { payload } = await jwtVerify(token, this.#keys, options);
      return { ...agentOf(payload, namespace, clock.now()), verified: true };
    } catch (error) {
      if (!this.#isUnlisted(error, token)) throw error;
    }
    const { payload } = UnsecuredJWT.decode(`${UNSECURED}.${token.split('.')[1]}.`, options);
    return { ...agentOf(payload, namespace, clock.now()), verified: false };
  }

  /** A listed key of another type than the token's algorithm means that the token is forged. */
  #isUnlisted(error: unknown, token: string): boolean {
    if (!(error instanceof errors.JWKSNoMatchingKey || error instanceof errors.JWKSMultipleMatchingKeys)) return false;
    const { kid } = decodeProtectedHeader(token);
    const listed = this.#keys.jwks()?.keys.some((key) => key.kid === kid) ?? false;
    return kid === undefined || (typeof kid === 'string' && !listed);
  }

  /** Reads the keys again, at most every 30 s; false when there is nothing new. */
  async #reload(): Promise<boolean> {
    if (!this.#keys.reloading && !this.#reloads.take()) return false;
    return this.#keys.reload().then(
      () => true,
      () => false,
    );
  }

  /** Permitted to every service account by default (system:service-account-issuer-discovery). */
  async #fetch(signal: AbortSignal): Promise<Response> {
    const { client, log } = this.#options;
    try {
      const { issuer } = await client.request<{ issuer?: unknown }>({
        method: 'GET',
        path: CONFIGURATION_PATH,
        signal,
      });
      if (typeof issuer !== 'string' || issuer === '')
        throw new Error(`GET ${CONFIGURATION_PATH}: expected an issuer, found ${describe(issuer)}`);
      const keys = readKeys(await client.request<unknown>({ method: 'GET', path: KEYS_PATH, signal }));
      this.#problem.ended();
      log.info('read the keys of service-account tokens', { issuer, keys: keys.length });
      this.#issuers = [issuer, ...this.#issuers.filter((one) => one !== issuer)].slice(0, MAX_ISSUERS);
      return Response.json({ keys });
    } catch (error) {
      this.#loadError = messageOf(error);
      const keptKeys = this.#keys.jwks()?.keys.length ?? 0;
      const level = this.#problem.levelOf(this.#loadError, { isLasting: !isTransient(error) });
      log[level]('cannot read the keys of service-account tokens, retrying', { error: this.#loadError, keptKeys });
      throw error;
    }
  }
}

const keySet = object({ keys: v.array(v.unknown(), 'a list') });

/** Throws for a response without a key that can verify a signature; the previous keys are then kept. */
function readKeys(answer: unknown): readonly JWK[] {
  const { keys } = parse(keySet, answer, `GET ${KEYS_PATH}`);
  if (keys.some(isUsable)) return keys as readonly JWK[];
  throw new Error(
    `GET ${KEYS_PATH}: expected a key for ${ALGORITHMS.join(', ')}, found ${keys.length} keys, none usable`,
  );
}

function isUsable(key: unknown): boolean {
  const { kty, use = 'sig', alg } = (key ?? {}) as JWK;
  if ((kty !== 'RSA' && kty !== 'EC') || use !== 'sig') return false;
  if (alg !== undefined && !ALGORITHMS.includes(alg)) return false;
  try {
    return createPublicKey({ key: key as JsonWebKey, format: 'jwk' }).type === 'public';
  } catch {
    return false;
  }
}

/** The claims that jose does not know; the node is absent before Kubernetes 1.30. */
const bindingOf = (namespace: string) =>
  object({
    namespace: oneOf([namespace]),
    serviceaccount: object({ name: oneOf([AGENT]) }),
    pod: object({ name: text(253), uid: text(253) }),
    node: ifReadable(object({ name: text(253) })),
  });

/** Checks the claims that jose does not, and the expiry without leeway. */
function agentOf(payload: JWTPayload, namespace: string, now: number): Omit<AgentToken, 'verified'> {
  const { exp = Number.NaN, iat = 0 } = payload;
  if (!Number.isSafeInteger(exp) || exp * 1000 <= now) throw rejection(`it has expired or never expires: ${exp}`);
  if (iat * 1000 > now + LEEWAY * 1000) throw rejection(`it was issued in the future: ${iat}`);
  const { pod, node } = parse(bindingOf(namespace), payload['kubernetes.io'], 'kubernetes.io', forbidden);
  return { podName: pod.name, podUID: pod.uid, expiresAt: exp * 1000, ...(node && { nodeName: node.name }) };
}

/** RFC 4648, 3.5: otherwise one signature could be written in many ways, each new to the caches. */
function requireForm(token: string): void {
  if (token.length > MAX_LENGTH) throw rejection(`it is longer than ${MAX_LENGTH} characters: ${token.length}`);
  if (!token.split('.').every(isCanonical)) throw rejection('a part is not canonical base64url');
}

function isCanonical(part: string): boolean {
  return Buffer.from(part, 'base64url').toString('base64url') === part;
}

function isClaim(error: unknown, claim: string): boolean {
  return error instanceof errors.JWTClaimValidationFailed && error.claim === claim;
}

function rejection(why: unknown): ApiError {
  if (why instanceof ApiError) return why;
  if (isClaim(why, 'sub')) return forbidden('another service account');
  return new ApiError('Unauthenticated', `the token is not valid: ${typeof why === 'string' ? why : messageOf(why)}`);
}

function forbidden(why: string): ApiError {
  return new ApiError('Forbidden', `only agents are served: ${why}`);
}
