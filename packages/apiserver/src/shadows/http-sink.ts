import type { ServerResponse } from 'node:http';
import type { Sink } from './shadow-stream.ts';

/** Begins a chunked answer and returns where its lines go. The connection ends with it: the next stream may go to another replica. */
export function httpSink(response: ServerResponse): Sink {
  const headers = { 'content-type': 'application/x-ndjson', 'cache-control': 'no-store', connection: 'close' };
  response.writeHead(200, headers);
  response.flushHeaders();
  response.on('error', () => response.destroy());
  return {
    write: (line, done) => void response.write(line, (error) => (error == null ? done() : undefined)),
    end: (line) => void response.end(line),
    destroy: () => void response.destroy(),
    onClose: (listener) => {
      if (response.closed) listener();
      else response.once('close', listener);
    },
  };
}
