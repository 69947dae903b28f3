/**
 * The credentials of requests. A file with a token is read again before each of them; a program that prints credentials
 * runs again when they expire, or when the API server has refused them. Each new credential gets connections of its own,
 * since a connection has the certificate that it was opened with. A token of OpenID Connect is used until it expires:
 * what renews it has to store the next refresh token in the kubeconfig, as kubectl does.
 */
import { readFileSync } from 'node:fs';
import { Agent, type RequestOptions } from 'node:https';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { KubeConfig } from '@kubernetes/client-node/dist/config.js';
import type { Clock } from '@brupop/shared/runtime/clock';
import { processEnv } from '@brupop/shared/runtime/env';
import { messageOf } from '@brupop/shared/runtime/errors';
import { UsageError } from './errors.ts';
import { type Credential, type ExecOptions, runExec } from './exec.ts';
import type { Access, AuthProvider, ExecConfig } from './kubeconfig.ts';
import { proxyOf } from './proxy.ts';

/** So that a credential does not expire on its way. */
const MARGIN_MS = 10_000;

interface Current {
  /** The user, as JSON. */
  readonly of: string;
  readonly config: KubeConfig;
  agent: RequestOptions['agent'];
}

export interface CredentialsOptions extends ExecOptions {
  readonly clock: Pick<Clock, 'now'>;
}

/** Undefined before Node.js 24.5, whose agents know no proxies either: the library has its own. */
const setTrusted = setDefaultCACertificates as typeof setDefaultCACertificates | undefined;

/** As kubectl does, without an authority in the kubeconfig: by default Node.js trusts only those that it has itself. */
function trustThisMachine({ server, ...cluster }: Access['cluster']): void {
  const hasOwn = cluster['certificate-authority'] ?? cluster['certificate-authority-data'];
  if (hasOwn !== undefined || cluster['insecure-skip-tls-verify'] === true || server.startsWith('http:')) return;
  setTrusted?.([...getCACertificates('default'), ...getCACertificates('system')]);
}

function base64(pem: string): string {
  return Buffer.from(pem).toString('base64');
}

/** Throws UsageError when it is missing, or expires now. One whose expiry cannot be read is left to the API server. */
function idTokenOf({ config }: AuthProvider, now: number): string {
  const token = config?.['id-token'] ?? '';
  if (token !== '' && expiryOf(token) - MARGIN_MS > now) return token;
  throw new UsageError(
    'the id-token of the auth-provider oidc is missing or has expired: run another command of kubectl, such as ' +
      '"kubectl auth whoami", which renews it in the kubeconfig, and then this one again',
  );
}

/** Of a JSON Web Token, epoch milliseconds. */
function expiryOf(token: string): number {
  try {
    const { exp } = JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString()) as { exp?: unknown };
    return typeof exp === 'number' ? exp * 1000 : Infinity;
  } catch {
    return Infinity;
  }
}

export class Credentials {
  readonly #access: Access;
  readonly #options: CredentialsOptions;
  readonly #proxy: string | undefined;
  #credential: Promise<Credential> | undefined;
  #runs = 0;
  #config: Current | undefined;

  /** Throws UsageError for a proxy that is no URL. */
  constructor(access: Access, options: CredentialsOptions) {
    this.#access = access;
    this.#options = options;
    this.#proxy = proxyOf(access.cluster, processEnv());
    trustThisMachine(access.cluster);
  }

  /** True when a request that was refused may succeed with new credentials. */
  get canRenew(): boolean {
    const { exec, tokenFile } = this.#access.user;
    return exec != null || tokenFile !== undefined;
  }

  /** How often the program has run: which of its credentials a request gets now. */
  get runs(): number {
    return this.#runs;
  }

  /** The next request gets new credentials, unless there are newer ones already: others may have been refused as well. */
  discard(runs: number): void {
    if (runs === this.#runs) this.#credential = undefined;
  }

  /** Adds what authenticates a request. Throws UsageError when there are no credentials. */
  async apply(options: RequestOptions): Promise<RequestOptions> {
    try {
      const current = this.#current(await this.#user());
      this.#config = current;
      await current.config.applyToHTTPSOptions(options);
      current.agent ??= this.#agentOf(options);
      const headers = Object.assign({}, options.headers, this.#impersonation());
      return { ...options, agent: current.agent, headers };
    } catch (error) {
      throw new UsageError(`context ${this.#access.context}: no credentials: ${messageOf(error)}`);
    }
  }

  #current(user: object): Current {
    const of = JSON.stringify(user);
    return this.#config?.of === of ? this.#config : { of, config: this.#configOf(user), agent: undefined };
  }

  /** The user of the kubeconfig, with the token or the certificate that it has now. */
  async #user(): Promise<object> {
    const { exec, tokenFile, ...user } = this.#access.user;
    if (tokenFile !== undefined) return { ...user, token: readFileSync(tokenFile, 'utf8').trim() };
    const { 'auth-provider': provider, ...others } = user;
    if (provider?.name === 'oidc') return { ...others, token: idTokenOf(provider, this.#options.clock.now()) };
    if (exec == null) return user;
    const { token, certificate, key } = await this.#unexpired();
    return {
      ...user,
      ...(token !== undefined && { token }),
      ...(certificate !== undefined && { 'client-certificate-data': base64(certificate) }),
      ...(key !== undefined && { 'client-key-data': base64(key) }),
    };
  }

  /** Requests that are sent at the same time run the program once. */
  async #unexpired(): Promise<Credential> {
    const { cluster, user } = this.#access;
    const before = this.#runs;
    const known = await this.#credential;
    if (known?.expiresAt !== undefined && known.expiresAt - MARGIN_MS <= this.#options.clock.now())
      this.discard(before);
    this.#credential ??= this.#run(user.exec ?? {}, cluster);
    const runs = this.#runs;
    try {
      return await this.#credential;
    } catch (error) {
      this.discard(runs);
      throw error;
    }
  }

  async #run(exec: ExecConfig, cluster: Access['cluster']): Promise<Credential> {
    this.#runs += 1;
    return await runExec(exec, cluster, this.#options);
  }

  #configOf(user: object): KubeConfig {
    const config = new KubeConfig();
    const { cluster, context: name } = this.#access;
    // Without TLS there is nothing to skip, and the library refuses such a server otherwise.
    const plain = cluster.server.startsWith('http:') && { 'insecure-skip-tls-verify': true };
    const given = { ...cluster, ...plain, 'proxy-url': this.#tunnel === undefined ? this.#proxy : undefined };
    config.loadFromString(
      JSON.stringify({
        clusters: [{ name, cluster: given }],
        users: [{ name, user }],
        contexts: [{ name, context: { cluster: name, user: name } }],
        'current-context': name,
      }),
    );
    return config;
  }

  /** An HTTP proxy before a server with TLS. The library would ask it for IPv6 addresses without their brackets. */
  get #tunnel(): string | undefined {
    const isTls = new URL(this.#access.cluster.server).protocol === 'https:';
    return setTrusted !== undefined && isTls && this.#proxy?.startsWith('http') === true ? this.#proxy : undefined;
  }

  #agentOf(options: RequestOptions): RequestOptions['agent'] {
    const tunnel = this.#tunnel;
    if (tunnel === undefined) return options.agent;
    const { ca, cert, key, passphrase, servername, rejectUnauthorized } = options;
    const tls = { ca, cert, key, passphrase, servername };
    const strict = rejectUnauthorized === undefined ? {} : { rejectUnauthorized };
    return new Agent({ ...tls, ...strict, proxyEnv: { HTTPS_PROXY: tunnel } });
  }

  /** The library sends the name only. */
  #impersonation(): RequestOptions['headers'] {
    const { 'as-groups': groups, 'as-uid': uid, 'as-user-extra': extra = {} } = this.#access.user;
    const extras = Object.entries(extra).map(([key, values]) => [
      `Impersonate-Extra-${encodeURIComponent(key)}`,
      [...values],
    ]);
    return {
      ...(groups !== undefined && { 'Impersonate-Group': [...groups] }),
      ...(uid !== undefined && { 'Impersonate-Uid': uid }),
      ...(Object.fromEntries(extras) as Record<string, string[]>),
    };
  }
}
