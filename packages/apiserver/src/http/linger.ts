/**
 * The close of a connection on which the client may still be sending.
 *
 * The kernel resets a connection that is closed with unread bytes, and one that receives bytes after it was closed. A
 * client whose write fails then may never read the response. So what comes after the response is read and dropped:
 *
 *     response sent, half closed ─> the client closes its half, 1 s, or 64 pieces ─> closed
 */
import type { Socket } from 'node:net';
import type { Clock } from '@brupop/shared/runtime/clock';

const LINGER_MS = 1_000;
/** A piece is a TLS record, of at most 16 KiB; each costs time, however small it is. */
const MAX_PIECES = 64;

/** Sends `text` and closes the connection, so that the client can read that and what was sent before. */
export function closeGently(socket: Socket, clock: Clock, text = ''): void {
  if (!socket.writable) {
    socket.destroySoon();
    return;
  }
  const cancel = clock.after(LINGER_MS, () => socket.destroy());
  let pieces = 0;
  // No parser sees what comes now.
  socket.removeAllListeners('data').on('data', () => {
    pieces += 1;
    if (pieces > MAX_PIECES) socket.destroy();
  });
  socket.once('end', () => socket.destroySoon()).once('close', cancel);
  socket.end(text);
  socket.resume();
}
