/**
 * Which connections are accepted, before their TLS handshake.
 *
 * Each connection is charged to a budget. The charge is returned with the first admitted call, which is
 * authenticated and within the rate of its node. A rejected call that was not admitted closes its
 * connection (error-handler.ts), so budgets limit handshakes, requests that cannot be parsed, and
 * rejected tokens. A connection that is closed for its overhead (overhead.ts) is charged whatever was
 * admitted on it. The budget is, in this order:
 *
 * 1. For the address of an agent's pod: the budget of the node on which the pod runs. A false address
 *    that a kubelet reports for that pod uses the same budget.
 * 2. For another address from which an agent has called, one of the latest two of its node: a budget
 *    of its own.
 * 3. For any other address: a budget of its own, and the budgets of its network and of all such
 *    addresses, because a node may have many addresses.
 *
 * The first two do not depend on the third. When the budget of its node is used up, an address is
 * treated as if it were not one of an agent. So a kubelet that reports the address of another agent,
 * or an address that many share, takes nothing from them. A budget is forgotten only
 * long after it is full again.
 *
 * server.ts calls `limit` once; app.ts calls `admit` for each admitted call; overhead.ts calls
 * `transportOf` and `expel`; server.ts calls `closeAll` at the end.
 */
import type { DropArgument, Server, Socket } from 'node:net';
import type { Clock } from '@brupop/shared/runtime/clock';
import type { Rate } from '@brupop/shared/runtime/token-bucket';
import type { Logger } from '@brupop/shared/runtime/log';
import type { Metrics } from '../metrics.ts';
import { CallerAddresses, networkOf, plainAddress } from './addresses.ts';
import { LruMap, RateLimit } from './limits.ts';

export interface ConnectionsOptions {
  /** Open connections; more are closed at once. */
  readonly maxConnections: number;
  /** The same for each remote address. */
  readonly maxConnectionsPerAddress: number;
  readonly agents: {
    /** The nodes of the agents' pods with this address, as one key. */
    nodesAt(address: string): string | undefined;
  };
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics: Pick<Metrics, 'rejectedConnections'>;
}

/** The number of budgets that are stored. */
const KEYS = 20_000;
/**
 * Connections of a node or an address without an admitted call. The burst is at least
 * `maxConnectionsPerAddress`, because many agents may share an address.
 */
const FAILURES = { burst: 32, perSecond: 0.25 };
/** The same for the other addresses of one network, and for all of them. */
const NETWORK = { burst: 64, perSecond: 8, keys: KEYS };
const OTHERS = { burst: 256, perSecond: 32, keys: 1 };
/** Log lines about closed connections, for one address and for all. */
const LINE_MS = 60_000;
const LINES = { burst: 20, perSecond: 1 / 6, keys: 1 };

type Limit = 'address' | 'failures' | 'new' | 'total';

/** Why connections are closed, and the chart value that sets the limit. */
const REASONS: Readonly<Record<Limit, string>> = {
  address: 'too many at once from one address (apiserver.maxConnectionsPerAddress)',
  failures: 'too many without an accepted call from one address (apiserver.maxConnectionsPerAddress)',
  new: 'too many without an accepted call from addresses from which no agent has called',
  total: 'too many at once (apiserver.maxConnections)',
};

interface Charge {
  readonly budget: RateLimit;
  readonly key: string;
  readonly limit: Limit;
}

interface Accepted {
  /** Below TLS. */
  readonly transport: Socket;
  /** Those that were not returned. */
  readonly charges: Charge[];
}

export class Connections {
  readonly #options: ConnectionsOptions;
  readonly #callers = new CallerAddresses(KEYS);
  readonly #failures: RateLimit;
  readonly #networks: RateLimit;
  readonly #others: RateLimit;
  /** Open connections by address. */
  readonly #open = new Map<string, number>();
  /** By their remote address and port. */
  readonly #accepted = new Map<string, Accepted>();
  readonly #closed = new LruMap<{ count: number; readonly loggedAt: number }>(1_000);
  readonly #lines: RateLimit;

  constructor(options: ConnectionsOptions) {
    const { clock, maxConnectionsPerAddress } = options;
    this.#options = options;
    this.#failures = new RateLimit(clock, { ...scaled(maxConnectionsPerAddress), keys: KEYS });
    this.#networks = new RateLimit(clock, NETWORK);
    this.#others = new RateLimit(clock, OTHERS);
    this.#lines = new RateLimit(clock, LINES);
  }

  /** Replaces the server's own listener, which starts the TLS handshake. */
  limit(server: Server): void {
    server.maxConnections = this.#options.maxConnections;
    server.on('drop', (dropped?: DropArgument) => this.#recordClosed('total', dropped?.remoteAddress ?? ''));
    const listeners = server.listeners('connection');
    server.removeAllListeners('connection');
    server.on('connection', (socket: Socket) => {
      const limit = this.#accept(socket);
      if (limit === undefined) for (const listener of listeners) listener.call(server, socket);
      else socket.destroy();
    });
  }

  /** Records that a call of this node on this connection was authenticated and within its rate. */
  admit(socket: Socket, node: string): void {
    if (socket.remoteAddress === undefined) return;
    this.#callers.add(plainAddress(socket.remoteAddress), node);
    const charges = this.#accepted.get(nameOf(socket))?.charges.splice(0) ?? [];
    for (const { budget, key } of charges) budget.refund(key);
  }

  /** The TCP connection of a TLS connection; undefined when it is closed. */
  transportOf(socket: Socket): Socket | undefined {
    return this.#accepted.get(nameOf(socket))?.transport;
  }

  /** Closes a connection, and charges it again if its charge was returned. */
  expel(socket: Socket, why: string): void {
    const { remoteAddress } = socket;
    if (remoteAddress === undefined) return;
    const address = plainAddress(remoteAddress);
    this.#options.log.info('closing a connection', { address, error: why });
    if (this.#accepted.get(nameOf(socket))?.charges.length === 0) this.#charge(address);
    socket.destroy();
  }

  /** Closes those without a TLS handshake as well, which the server does not know. */
  closeAll(): void {
    for (const { transport } of this.#accepted.values()) transport.destroy();
  }

  #accept(socket: Socket): Limit | undefined {
    // A client that has closed the connection already has no address.
    if (socket.remoteAddress === undefined) return 'address';
    const address = plainAddress(socket.remoteAddress);
    const open = this.#open.get(address) ?? 0;
    const charged = open < this.#options.maxConnectionsPerAddress ? this.#charge(address) : 'address';
    if (typeof charged === 'string') {
      this.#recordClosed(charged, charged === 'new' ? networkOf(address) : address);
      return charged;
    }
    const name = nameOf(socket);
    this.#open.set(address, open + 1);
    this.#accepted.set(name, { transport: socket, charges: charged });
    socket.once('close', () => {
      const left = (this.#open.get(address) ?? 0) - 1;
      if (left > 0) this.#open.set(address, left);
      else this.#open.delete(address);
      this.#accepted.delete(name);
    });
    return undefined;
  }

  /** Returns what was charged, or the limit that is reached. */
  #charge(address: string): Charge[] | Limit {
    const nodes = this.#options.agents.nodesAt(address);
    const ofNode: Charge = { budget: this.#failures, key: `node ${nodes}`, limit: 'failures' };
    if (nodes !== undefined && takeAll([ofNode]) === undefined) return [ofNode];
    const own: Charge = { budget: this.#failures, key: address, limit: 'failures' };
    const ofNetwork: Charge = { budget: this.#networks, key: networkOf(address), limit: 'new' };
    const ofOthers: Charge = { budget: this.#others, key: '', limit: 'new' };
    const charges = this.#callers.has(address) ? [own] : [ofOthers, ofNetwork, own];
    return takeAll(charges) ?? charges;
  }

  /** Logs the first closed connection of an address, and then one line per minute with their number. */
  #recordClosed(limit: Limit, address: string): void {
    const { clock, log, metrics } = this.#options;
    metrics.rejectedConnections.inc({ limit });
    const key = `${limit} ${address}`;
    const now = clock.monotonic();
    const closed = this.#closed.get(key) ?? { count: 0, loggedAt: -Infinity };
    closed.count += 1;
    this.#closed.set(key, closed);
    if (now - closed.loggedAt < LINE_MS || !this.#lines.take('')) return;
    log.warn(`closing connections: ${REASONS[limit]}`, { address, limit, count: closed.count });
    this.#closed.set(key, { count: 0, loggedAt: now });
  }
}

/** Takes one of each budget, or of none; returns the limit that was reached. */
function takeAll(charges: readonly Charge[]): Limit | undefined {
  for (const [index, { budget, key, limit }] of charges.entries()) {
    if (budget.take(key)) continue;
    for (const taken of charges.slice(0, index)) taken.budget.refund(taken.key);
    return limit;
  }
  return undefined;
}

/** A larger budget is full again after the same time. */
function scaled(connections: number): Rate {
  const burst = Math.max(FAILURES.burst, connections);
  return { burst, perSecond: FAILURES.perSecond * (burst / FAILURES.burst) };
}

function nameOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}
