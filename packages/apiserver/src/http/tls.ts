/**
 * The serving certificate of this replica, read again every 10 s because a kubelet replaces the
 * files while the process runs.
 *
 *     files ─> read both of one moment ─> check the pair ─> new connections get it
 *
 * A pair that cannot be used never replaces one that was used: it is logged once, counted at each
 * attempt with its reason, and the former one stays. Before the first usable pair, and when the one
 * in use has expired, the replica is not ready (`problem`). main.ts calls `untilUsable`, then
 * `watch`.
 */
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { createSecureContext } from 'node:tls';
import { messageOf } from '@brupop/shared/runtime/errors';
import { type Clock, rfc3339 } from '@brupop/shared/runtime/clock';
import type { Logger } from '@brupop/shared/runtime/log';
import type { Metrics } from '../metrics.ts';

/** PEM texts. */
export interface KeyPair {
  readonly cert: string;
  readonly key: string;
}

/** One that can be used. */
export interface ServingCertificate extends KeyPair {
  /** Epoch milliseconds. */
  readonly expiresAt: number;
  /** The name of the authority. */
  readonly issuer: string;
}

export interface TlsFilesOptions {
  readonly certFile: string;
  readonly keyFile: string;
  /** DNS name that agents expect. */
  readonly serverName: string;
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics: Pick<Metrics, 'certificateExpiry' | 'certificateErrors'>;
}

type Reason = 'Unreadable' | 'Invalid' | 'KeyMismatch' | 'WrongName' | 'NotYetValid' | 'Expired';

class CertificateError extends Error {
  override readonly name = 'CertificateError';
  readonly reason: Reason;

  constructor(reason: Reason, message: string, options?: ErrorOptions) {
    super(message, options);
    this.reason = reason;
  }
}

type Expiry = Pick<ServingCertificate, 'expiresAt' | 'issuer'>;

class ExpiredError extends CertificateError {
  readonly expiry: Expiry;

  constructor(expiry: Expiry) {
    super('Expired', `the certificate expired at ${rfc3339(expiry.expiresAt)}`);
    this.expiry = expiry;
  }
}

const RELOAD_MS = 10_000;
/** Reads until both files are of one moment; a volume changes about once a minute at most. */
const READS = 3;

export class TlsFiles {
  readonly #options: TlsFilesOptions;
  #current: ServingCertificate | undefined;
  /** Why the files cannot be used, as last logged; empty when they can. */
  #problem = '';

  constructor(options: TlsFilesOptions) {
    this.#options = options;
  }

  /** Why agents cannot connect to this replica, or undefined. */
  problem(): string | undefined {
    if (this.#current === undefined) return this.#problem === '' ? 'the TLS files are not read yet' : this.#problem;
    const { expiresAt } = this.#current;
    return expiresAt <= this.#options.clock.now() ? `the certificate expired at ${rfc3339(expiresAt)}` : undefined;
  }

  /** Reads the files until they can be used. Returns undefined when `signal` aborts first. */
  async untilUsable(signal: AbortSignal): Promise<ServingCertificate | undefined> {
    const { clock } = this.#options;
    while (!signal.aborted) {
      await this.#load(() => undefined);
      if (this.#current !== undefined) return this.#current;
      await clock.sleep(RELOAD_MS, signal).catch(() => undefined);
    }
    return undefined;
  }

  /** Calls `use` with each new pair until `signal` aborts. */
  async watch(use: (pair: ServingCertificate) => void, signal: AbortSignal): Promise<void> {
    const { clock } = this.#options;
    for (;;) {
      await clock.sleep(RELOAD_MS, signal).catch(() => undefined);
      if (signal.aborted) return;
      await this.#load(use);
    }
  }

  async #load(use: (pair: ServingCertificate) => void): Promise<void> {
    const { certFile, keyFile, log, metrics } = this.#options;
    try {
      const { cert, key } = await this.#read();
      if (this.#current?.cert !== cert || this.#current.key !== key) {
        const pair = this.#checked(cert, key);
        use(pair);
        this.#current = pair;
        this.#showExpiry(pair);
        log.info('using the serving certificate of the files', { file: certFile, notAfter: rfc3339(pair.expiresAt) });
      }
      this.#problem = '';
    } catch (error) {
      const reason = error instanceof CertificateError ? error.reason : 'Invalid';
      const problem = `${certFile} and ${keyFile} cannot be used: ${messageOf(error)}`;
      metrics.certificateErrors.inc({ reason });
      // A replica that starts with it would have no value, and the alert about it would end.
      if (this.#current === undefined && error instanceof ExpiredError) this.#showExpiry(error.expiry);
      const kept = this.#current === undefined ? 'no agent can connect' : 'the previous certificate stays';
      if (problem !== this.#problem) log.error(`cannot use the TLS files; ${kept}`, { reason, error: problem });
      this.#problem = problem;
    }
  }

  #showExpiry({ issuer, expiresAt }: Expiry): void {
    const { certificateExpiry } = this.#options.metrics;
    certificateExpiry.reset();
    certificateExpiry.set({ issuer }, expiresAt / 1000);
  }

  /** A kubelet replaces both files at one moment, which may be between two reads. */
  async #read(): Promise<{ readonly cert: string; readonly key: string }> {
    const { certFile, keyFile } = this.#options;
    const failures: unknown[] = [];
    for (let read = 1; read <= READS; read += 1) {
      try {
        const cert = await readFile(certFile, 'utf8');
        const key = await readFile(keyFile, 'utf8');
        if ((await readFile(certFile, 'utf8')) === cert) return { cert, key };
      } catch (error) {
        failures.push(error);
      }
    }
    throw new CertificateError('Unreadable', messageOf(failures.at(-1) ?? 'they change again and again'));
  }

  #checked(cert: string, key: string): ServingCertificate {
    const { serverName, clock } = this.#options;
    const certificate = parsed(cert, 'no certificate', () => new X509Certificate(cert));
    const privateKey = parsed(key, 'no private key', () => createPrivateKey(key));
    if (!certificate.checkPrivateKey(privateKey))
      throw new CertificateError('KeyMismatch', 'the key is not that of the certificate');
    if (certificate.checkHost(serverName, { subject: 'never' }) === undefined) {
      const found = certificate.subjectAltName ?? 'no alternative name';
      throw new CertificateError('WrongName', `expected a certificate for DNS:${serverName}, found ${found}`);
    }
    const [startsAt, expiresAt] = [certificate.validFromDate.getTime(), certificate.validToDate.getTime()];
    const issuer = certificate.issuer.split('\n').join(', ');
    if (expiresAt <= clock.now()) throw new ExpiredError({ expiresAt, issuer });
    if (startsAt > clock.now())
      throw new CertificateError('NotYetValid', `the certificate is not valid before ${rfc3339(startsAt)}`);
    // The other certificates of the chain, and whether OpenSSL's security level allows the key.
    parsed(cert, 'OpenSSL refuses the pair', () => createSecureContext({ cert, key }));
    return { cert, key, expiresAt, issuer };
  }
}

/** Throws CertificateError `Invalid` when `parse` throws; an empty file is named as such. */
function parsed<T>(text: string, what: string, parse: () => T): T {
  try {
    return parse();
  } catch (error) {
    if (text.trim() === '') throw new CertificateError('Invalid', `${what}: the file is empty`);
    throw new CertificateError('Invalid', what, { cause: error });
  }
}
