import { compactVerify, createLocalJWKSet, errors, type JSONWebKeySet } from 'jose';
import { messageOf } from '@brupop/shared/runtime/errors';
import type { KubeClient } from '@brupop/shared/kube/client';
import type { Clock } from '@brupop/shared/runtime/clock';
import type { Logger } from '@brupop/shared/runtime/log';
import { ApiError } from '../errors.ts';

/** What signed tokens are checked with. */
export interface KeySet {
  readonly issuer: string;
  readonly jwks: JSONWebKeySet;
}

/** Longest token looked at, in characters. An agent's is about 1,200. */
export const MAX_TOKEN_LENGTH = 8192;
/** Keys are read again at most this often, however many tokens with unknown keys come. */
const REFETCH_INTERVAL_MS = 30_000;
const ALGORITHMS = ['RS256', 'ES256'];

interface Known {
  readonly issuer: string;
  readonly resolve: ReturnType<typeof createLocalJWKSet>;
}

/** The cluster's keys for service-account tokens, read once and again only when a token names a key or an issuer that is not known. */
export class SigningKeys {
  readonly #fetch: () => Promise<KeySet>;
  readonly #clock: Clock;
  readonly #log: Logger;
  #known: Known | undefined;
  #fetchedAt: number | undefined;
  #fetching: Promise<void> | undefined;
  #failed = false;

  constructor(options: { fetch: () => Promise<KeySet>; clock: Clock; log: Logger }) {
    this.#fetch = options.fetch;
    this.#clock = options.clock;
    this.#log = options.log;
  }

  get loaded(): boolean {
    return this.#known !== undefined;
  }

  /** The issuer of the cluster. Throws Failure `Unavailable` before the keys are loaded. */
  get issuer(): string {
    return this.#require().issuer;
  }

  /** Reads the keys. Throws what the fetch throws. */
  async load(): Promise<void> {
    this.#fetchedAt = this.#clock.monotonic();
    this.#failed = true;
    const { issuer, jwks } = await this.#fetch();
    this.#known = { issuer, resolve: createLocalJWKSet(jwks) };
    this.#failed = false;
  }

  /**
   * Returns the payload of a token that one of the cluster's keys has signed. Throws Failure `Unauthenticated` for any other text and
   * `Unavailable` when the keys cannot be read.
   */
  async verify(token: string): Promise<unknown> {
    if (token.length > MAX_TOKEN_LENGTH)
      throw refused(`it is longer than ${MAX_TOKEN_LENGTH} characters: ${token.length}`);
    if (!token.split('.').every(isCanonical)) throw refused('a part is not base64url as its bytes are written');
    const payload = await this.#verify(token);
    if (issuerOf(payload) !== this.issuer) await this.#refresh();
    return payload;
  }

  async #verify(token: string): Promise<unknown> {
    try {
      return await payloadOf(token, this.#require());
    } catch (error) {
      if (!(error instanceof errors.JWKSNoMatchingKey)) throw asRefusal(error);
    }
    await this.#refresh();
    try {
      return await payloadOf(token, this.#require());
    } catch (error) {
      throw asRefusal(error);
    }
  }

  /** Reads the keys again unless that was done a moment ago. Throws Failure `Unavailable` when the latest attempt has failed. */
  async #refresh(): Promise<void> {
    const recent = this.#fetchedAt !== undefined && this.#clock.monotonic() - this.#fetchedAt < REFETCH_INTERVAL_MS;
    if (!recent) this.#fetching ??= this.#reload();
    await this.#fetching;
    if (this.#failed) throw new ApiError('Unavailable', 'the keys of the cluster cannot be read; repeat later');
  }

  async #reload(): Promise<void> {
    try {
      await this.load();
      this.#log.info('read the keys of service-account tokens again', { issuer: this.issuer });
    } catch (error) {
      this.#log.warn('cannot read the keys of service-account tokens again', { error: messageOf(error) });
    } finally {
      this.#fetching = undefined;
    }
  }

  #require(): Known {
    if (this.#known === undefined)
      throw new ApiError('Unavailable', 'the keys of the cluster are not loaded yet; repeat later');
    return this.#known;
  }
}

async function payloadOf(token: string, known: Known): Promise<unknown> {
  const { payload } = await compactVerify(token, known.resolve, { algorithms: ALGORITHMS });
  return JSON.parse(new TextDecoder().decode(payload)) as unknown;
}

/** RFC 4648, 3.5: else one signature could be written in many ways, each a token that is new to every cache. */
function isCanonical(part: string): boolean {
  return Buffer.from(part, 'base64url').toString('base64url') === part;
}

function issuerOf(payload: unknown): unknown {
  return typeof payload === 'object' && payload !== null ? (payload as { iss?: unknown }).iss : undefined;
}

function asRefusal(error: unknown): ApiError {
  return error instanceof ApiError ? error : refused(messageOf(error));
}

function refused(why: string): ApiError {
  return new ApiError('Unauthenticated', `the token is not one of this cluster: ${why}`);
}

/** Reads issuer and keys from the Kubernetes API, which every service account may by default (system:service-account-issuer-discovery). */
export async function fetchKeys(client: KubeClient): Promise<KeySet> {
  const configuration = '/.well-known/openid-configuration';
  const { issuer } = await client.request<{ issuer?: unknown }>({ method: 'GET', path: configuration });
  if (typeof issuer !== 'string') throw new Error(`GET ${configuration}: expected an issuer, found none`);
  const jwks = await client.request<JSONWebKeySet>({ method: 'GET', path: '/openid/v1/jwks' });
  return { issuer, jwks };
}
