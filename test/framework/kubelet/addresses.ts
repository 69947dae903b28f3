import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type Server } from 'node:net';

const CLAIM_PORT = 19_998;
const ATTEMPTS = 100;
const PER_BLOCK = 250;

/**
 * The loopback address that a pod IP (10.R.x.y, as the API shows it) stands for here: 127.R.x.y.
 */
export function localAddress(podIP: string): string {
  return podIP.replace(/^10\./, '127.');
}

/**
 * Hands out pod IPs 10.R.x.y. R is claimed for this process on this machine by a listener on
 * 127.R.0.1 that is held until `release`, so that fleets at the same time do not share addresses. R
 * is from 2 to 63: what lies above belongs to nodes, Services and KWOK's pods.
 */
export class PodAddresses {
  readonly #range: number;
  readonly #claim: Server;
  #given = 0;

  private constructor(range: number, claim: Server) {
    this.#range = range;
    this.#claim = claim;
  }

  /** Throws when no range is free. */
  static async claim(): Promise<PodAddresses> {
    for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
      const range = 2 + randomInt(62);
      const claim = await listener(`127.${range}.0.1`);
      if (claim !== undefined) return new PodAddresses(range, claim);
    }
    throw new Error(`no free range of pod IPs from 10.2 to 10.63 in ${ATTEMPTS} attempts; do old test runs hold them?`);
  }

  /** Returns the next pod IP. An IP is reused after about 60,000 others. */
  next(): string {
    const index = this.#given++ % (PER_BLOCK * PER_BLOCK);
    return `10.${this.#range}.${1 + Math.floor(index / PER_BLOCK)}.${1 + (index % PER_BLOCK)}`;
  }

  async release(): Promise<void> {
    this.#claim.close();
    await once(this.#claim, 'close');
  }
}

async function listener(host: string): Promise<Server | undefined> {
  const server = createServer((socket) => socket.destroy());
  try {
    server.listen({ host, port: CLAIM_PORT, exclusive: true });
    await once(server, 'listening');
    server.unref();
    return server;
  } catch {
    return undefined;
  }
}
