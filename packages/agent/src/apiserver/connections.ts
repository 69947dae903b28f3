/**
 * The agent's connections to the Service of the apiserver, behind which any endpoint may answer.
 * A call uses the kept connection, or a new one. An endpoint that is not an apiserver (it has no
 * certificate of a trusted authority, or never answers) costs a call one connection of three: the
 * next one reaches another endpoint. Nothing is sent before the certificate was verified.
 */
import type { ClientRequest } from 'node:http';
import { Agent } from 'node:https';
import { checkServerIdentity, type PeerCertificate } from 'node:tls';
import type { Clock } from '@brupop/shared/runtime/clock';
import { messageOf } from '@brupop/shared/runtime/errors';
import type { Logger } from '@brupop/shared/runtime/log';

interface ConnectionsOptions {
  readonly clock: Clock;
  readonly log: Logger;
}

/** One call, on one connection after the other. */
interface Attempts<T> {
  /** Makes the request, with nothing sent yet. */
  readonly open: () => ClientRequest;
  readonly send: (request: ClientRequest) => Promise<T>;
  /** The time of the call has passed, or the agent stops. */
  readonly isOver: () => boolean;
}

/** An idle connection is kept for this time; the apiserver closes it after 60 s. */
const IDLE_MS = 4_000;
/** For TCP and TLS together, so that three connections fit into the time limit of a call. */
const HANDSHAKE_LIMIT_MS = 5_000;
/** Connections that one call opens at most. */
const MAX_CONNECTIONS = 3;

export class Connections {
  readonly #options: ConnectionsOptions;
  #kept = keptConnections();
  #logged = '';

  constructor(options: ConnectionsOptions) {
    this.#options = options;
  }

  /** For calls. */
  get kept(): Agent {
    return this.#kept;
  }

  /** For a stream, whose connection ends with it. */
  own(): Agent {
    return new Agent(TLS);
  }

  /** Makes the next call open a new connection, which may reach another replica. A call under way keeps its own. */
  leaveReplica(): void {
    for (const socket of Object.values(this.#kept.freeSockets).flat()) socket?.destroy();
    this.#kept = keptConnections();
  }

  /**
   * Sends a call again when a connection fails before the request was sent, and when the server has
   * closed a kept one: calls are idempotent. Throws the error of the last connection.
   */
  async try<T>({ open, send, isOver }: Attempts<T>): Promise<T> {
    for (let connection = 1; ; connection += 1) {
      const request = open();
      const isSecure = limitHandshake(request, this.#options.clock);
      try {
        return await send(request);
      } catch (error) {
        const isClosed = request.reusedSocket && (error as NodeJS.ErrnoException).code === 'ECONNRESET';
        if (connection === MAX_CONNECTIONS || isOver() || (isSecure() && !isClosed)) throw error;
        if (isClosed) this.leaveReplica();
        else this.#logFailure(messageOf(error));
      }
    }
  }

  /** Calls that succeed on another connection would hide an endpoint that is not an apiserver. */
  #logFailure(error: string): void {
    const level = error === this.#logged ? 'debug' : 'info';
    this.#options.log[level]('connection to the apiserver failed, trying another', { error });
    this.#logged = error;
  }
}

/**
 * Destroys the request when its connection is not secure within HANDSHAKE_LIMIT_MS. Returns whether it is:
 * nothing was sent before.
 */
function limitHandshake(request: ClientRequest, clock: Clock): () => boolean {
  let secure = false;
  request.once('socket', (socket) => {
    if (request.reusedSocket) {
      secure = true;
      return;
    }
    const cancel = clock.after(HANDSHAKE_LIMIT_MS, () =>
      request.destroy(new Error(`no TLS handshake within ${HANDSHAKE_LIMIT_MS} ms`)),
    );
    socket.once('secureConnect', () => {
      secure = true;
      cancel();
    });
    request.once('close', cancel);
  });
  return () => secure;
}

/** Without the common name, to which Node.js falls back for a certificate without DNS names (RFC 9525, 2). */
function checkAlternativeNames(name: string, certificate: PeerCertificate): Error | undefined {
  return checkServerIdentity(name, { ...certificate, subject: { ...certificate.subject, CN: '' } });
}

/** Given with a request, they would keep its connection from being used again. */
const TLS = { minVersion: 'TLSv1.3', checkServerIdentity: checkAlternativeNames, maxCachedSessions: 0 } as const;

function keptConnections(): Agent {
  return new Agent({ ...TLS, keepAlive: true, maxSockets: 2, maxFreeSockets: 1, timeout: IDLE_MS });
}
