import { createPrivateKey, X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { messageOf } from '@brupop/shared/runtime/errors';
import type { Clock } from '@brupop/shared/runtime/clock';
import type { Logger } from '@brupop/shared/runtime/log';
import type { Metrics } from '../metrics.ts';

/** PEM texts of a usable serving certificate. */
export interface ServingCertificate {
  readonly cert: string;
  readonly key: string;
  /** Epoch milliseconds. */
  readonly expiresAt: number;
}

export interface TlsFilesOptions {
  readonly certFile: string;
  readonly keyFile: string;
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics: Pick<Metrics, 'certificateExpiry' | 'certificateErrors'>;
}

const RELOAD_MS = 30_000;

/** The serving certificate, read again every 30 s: kubelets replace the files in place. */
export class TlsFiles {
  readonly #options: TlsFilesOptions;
  #current: ServingCertificate | undefined;

  constructor(options: TlsFilesOptions) {
    this.#options = options;
  }

  /** Reads the files. Throws Error when they are missing or cannot be used. */
  async load(): Promise<ServingCertificate> {
    const { certFile, keyFile, metrics } = this.#options;
    const [cert, key] = await Promise.all([readFile(certFile, 'utf8'), readFile(keyFile, 'utf8')]);
    if (this.#current?.cert === cert && this.#current.key === key) return this.#current;
    this.#current = this.#checked(cert, key);
    metrics.certificateExpiry.set(this.#current.expiresAt / 1000);
    return this.#current;
  }

  /** Throws Error when certificate and key do not belong together or have expired. */
  #checked(cert: string, key: string): ServingCertificate {
    const { certFile, keyFile, clock } = this.#options;
    try {
      const certificate = new X509Certificate(cert);
      const expiresAt = certificate.validToDate.getTime();
      if (!certificate.checkPrivateKey(createPrivateKey(key)))
        throw new Error('the key is not that of the certificate');
      if (expiresAt <= clock.now()) throw new Error(`the certificate expired on ${certificate.validTo}`);
      return { cert, key, expiresAt };
    } catch (error) {
      throw new Error(`${certFile} and ${keyFile} cannot be used: ${messageOf(error)}`, { cause: error });
    }
  }

  /** Calls `use` with each new pair until `signal` aborts. A pair that cannot be used is logged. */
  async watch(use: (pair: ServingCertificate) => void, signal: AbortSignal): Promise<void> {
    const { clock, log, metrics, certFile } = this.#options;
    for (;;) {
      await clock.sleep(RELOAD_MS, signal).catch(() => undefined);
      if (signal.aborted) return;
      const before = this.#current;
      try {
        const pair = await this.load();
        if (pair === before) continue;
        use(pair);
        log.info('using a new serving certificate', { file: certFile });
      } catch (error) {
        metrics.certificateErrors.inc();
        log.error('cannot use the TLS files; the previous certificate stays', { error: messageOf(error) });
      }
    }
  }
}
