/**
 * Which connections are accepted, and which requests of a connection.
 *
 * - A remote address has a number of connections at a time, and a budget of connections that fail.
 *   Each new connection is charged to it before the TLS handshake, and gets the charge back with
 *   its first call that is admitted: authenticated and within the rate of its node. A rejected call
 *   that was not admitted ends its connection (error-handler.ts), so the budget limits handshakes,
 *   requests that cannot be parsed, and rejected tokens.
 * - Addresses from which no call was admitted yet share one more budget, because a node may have
 *   many addresses. An address from which an agent has called never waits for it.
 * - A connection has one request at a time. What arrives before the answer is not read, and the
 *   connection is closed after the answer.
 *
 * server.ts calls `limit` once; app.ts calls `admit` for each admitted call.
 */
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import type { Server } from 'node:https';
import type { Socket } from 'node:net';
import type { Clock } from '@brupop/shared/runtime/clock';
import type { Metrics } from '../metrics.ts';
import { LruMap, TokenBucket } from './limits.ts';

export interface ConnectionsOptions {
  /** Connections at a time; more are closed at once. */
  readonly maxConnections: number;
  /** The same for each remote address. */
  readonly maxConnectionsPerAddress: number;
  readonly clock: Clock;
  readonly metrics: Pick<Metrics, 'rejectedConnections'>;
}

/** Addresses that are remembered. One that was forgotten has a full budget, and is new again. */
const ADDRESSES = 20_000;
/**
 * Connections without an admitted call, of one address. The burst is `maxConnectionsPerAddress`
 * where that is more, because many agents share an address there.
 */
const FAILURES = { burst: 32, perSecond: 0.25 };
/** Connections without an admitted call, of all new addresses together. */
const NEW_ADDRESSES = { burst: 256, perSecond: 32 };

interface Address {
  open: number;
  /** An agent has called from it. */
  known: boolean;
  readonly failures: TokenBucket;
}

type Refusal = 'address' | 'failures' | 'new';

export class Connections {
  readonly #options: ConnectionsOptions;
  readonly #addresses = new LruMap<Address>(ADDRESSES);
  readonly #newAddresses: TokenBucket;
  /** What `admit` calls, by the connection's remote address and port. */
  readonly #open = new Map<string, () => void>();

  constructor(options: ConnectionsOptions) {
    this.#options = options;
    this.#newAddresses = new TokenBucket(options.clock, NEW_ADDRESSES);
  }

  /** Closes connections over the limits before their TLS handshake. */
  limit(server: Server): void {
    const { maxConnections, metrics } = this.#options;
    server.maxConnections = maxConnections;
    server.on('drop', () => metrics.rejectedConnections.inc({ limit: 'total' }));
    server.on('connection', (socket: Socket) => {
      const { remoteAddress } = socket;
      // A client that has closed the connection already has no address.
      if (remoteAddress === undefined) return;
      const refusal = this.#accept(socket, remoteAddress);
      if (refusal === undefined) return;
      metrics.rejectedConnections.inc({ limit: refusal });
      socket.destroy();
    });
  }

  /** Records that a call on this connection was authenticated and within the rate of its node. */
  admit(socket: Socket): void {
    this.#open.get(nameOf(socket))?.();
  }

  #accept(socket: Socket, remoteAddress: string): Refusal | undefined {
    const address = this.#addressOf(remoteAddress);
    if (address.open >= this.#options.maxConnectionsPerAddress) return 'address';
    if (!address.failures.take()) return 'failures';
    const isNew = !address.known;
    if (isNew && !this.#newAddresses.take()) {
      address.failures.giveBack();
      return 'new';
    }
    const name = nameOf(socket);
    let charged = true;
    this.#open.set(name, () => {
      address.known = true;
      if (!charged) return;
      charged = false;
      address.failures.giveBack();
      if (isNew) this.#newAddresses.giveBack();
    });
    address.open += 1;
    socket.once('close', () => {
      address.open -= 1;
      this.#open.delete(name);
    });
    return undefined;
  }

  #addressOf(remoteAddress: string): Address {
    const found = this.#addresses.get(remoteAddress);
    if (found !== undefined) return found;
    const { clock, maxConnectionsPerAddress } = this.#options;
    const burst = Math.max(FAILURES.burst, maxConnectionsPerAddress);
    const perSecond = FAILURES.perSecond * (burst / FAILURES.burst);
    const failures = new TokenBucket(clock, { burst, perSecond });
    const address = { open: 0, known: false, failures };
    this.#addresses.set(remoteAddress, address);
    return address;
  }
}

function nameOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}

/** What Node's parser of a connection calls with each request that it finds; 2 ends the parsing. */
interface Parser {
  onIncoming: ((...request: unknown[]) => number) | null;
}

/**
 * Passes on one request of a connection at a time. With a second one, and with a body in chunks,
 * the connection is read no further, and closed after the answer to the first.
 *
 * Node's parser would go through all that is received already, thousands of requests at 30 µs each,
 * and make a response for each. So it is stopped at the second one.
 */
export function oneAtATime(listener: RequestListener): RequestListener {
  const busy = new WeakSet<Socket>();
  return (request: IncomingMessage, response: ServerResponse) => {
    const socket: Socket & { readonly parser?: Parser | null } = request.socket;
    const { parser } = socket;
    if (parser == null || busy.has(socket)) {
      socket.destroy();
      return;
    }
    busy.add(socket);
    // A chunk may be one byte, and each costs as much as a large one. Node drops them then.
    if (request.headers['transfer-encoding'] !== undefined) {
      socket.pause();
      Object.assign(request, { _dumped: true });
    }
    const { onIncoming } = parser;
    const stop = (): number => {
      socket.pause();
      return 2;
    };
    parser.onIncoming = stop;
    response.once('close', () => {
      busy.delete(socket);
      // The parser may serve another connection by now.
      if (parser.onIncoming === stop) parser.onIncoming = onIncoming;
      if (socket.isPaused()) socket.destroySoon();
    });
    listener(request, response);
  };
}
