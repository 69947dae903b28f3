/**
 * The certificates of the authorities that the agent trusts, read again at most every 5 s, when a
 * connection is opened: a kubelet replaces the file while the process runs.
 *
 * A bundle that cannot be read in full never replaces one that was; it is logged once. Connections
 * that are open are not affected by a new bundle.
 */
import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { Clock } from '@brupop/shared/runtime/clock';
import { messageOf } from '@brupop/shared/runtime/errors';
import type { Logger } from '@brupop/shared/runtime/log';

interface AuthoritiesOptions {
  /** A bundle of PEM certificates. */
  readonly file: string;
  readonly clock: Clock;
  readonly log: Logger;
}

const CHECK_MS = 5_000;
const BEGIN = '-----BEGIN CERTIFICATE-----';
const BLOCK = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

export class Authorities {
  readonly #options: AuthoritiesOptions;
  #bundle: string | undefined;
  #checkedAt = -Infinity;
  #problem = '';

  constructor(options: AuthoritiesOptions) {
    this.#options = options;
  }

  /** Returns the bundle to verify a new connection with. Throws Error until there is one. */
  bundle(): string {
    const now = this.#options.clock.monotonic();
    if (this.#bundle === undefined || now - this.#checkedAt >= CHECK_MS) {
      this.#checkedAt = now;
      this.#bundle = this.#read();
    }
    return this.#bundle;
  }

  #read(): string {
    const { file, log } = this.#options;
    const former = this.#bundle;
    try {
      const text = readFileSync(file, 'utf8');
      if (text !== former) {
        const certificates = certificatesOf(text).length;
        if (former !== undefined) log.info('using new authorities for the apiserver', { file, certificates });
      }
      this.#problem = '';
      return text;
    } catch (error) {
      if (former === undefined) throw new Error(`${file} cannot be used`, { cause: error });
      const problem = messageOf(error);
      if (problem !== this.#problem)
        log.warn('cannot use the new authorities for the apiserver; the previous ones stay', { file, error: problem });
      this.#problem = problem;
      return former;
    }
  }
}

/** Throws Error when the text has no certificate, or one that cannot be read. */
function certificatesOf(text: string): X509Certificate[] {
  const blocks = text.match(BLOCK) ?? [];
  const starts = text.split(BEGIN).length - 1;
  if (starts === 0) throw new Error('expected PEM certificates, found none');
  if (starts > blocks.length) throw new Error(`expected ${starts} PEM certificates, found the end of ${blocks.length}`);
  return blocks.map((block, index) => {
    try {
      return new X509Certificate(block);
    } catch (error) {
      throw new Error(`certificate ${index + 1} of ${starts}`, { cause: error });
    }
  });
}
