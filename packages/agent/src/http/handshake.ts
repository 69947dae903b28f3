import type { ClientRequest } from 'node:http';
import type { Clock } from '@brupop/shared/runtime/clock';

/**
 * Destroys the request when its connection is not secure within `limitMs`. Returns whether it is:
 * nothing was sent before.
 */
export function limitHandshake(request: ClientRequest, limitMs: number, clock: Clock): () => boolean {
  let secure = false;
  request.once('socket', (socket) => {
    if (request.reusedSocket) {
      secure = true;
      return;
    }
    const cancel = clock.after(limitMs, () => request.destroy(new Error(`no TLS handshake within ${limitMs} ms`)));
    socket.once('secureConnect', () => {
      secure = true;
      cancel();
    });
    request.once('close', cancel);
  });
  return () => secure;
}
