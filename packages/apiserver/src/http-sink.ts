import type { ServerResponse } from 'node:http';

import type { Sink } from './shadow-stream.ts';

/** Begins a chunked answer and returns where its lines go. */
export function httpSink(response: ServerResponse): Sink {
  response.writeHead(200, { 'content-type': 'application/x-ndjson', 'cache-control': 'no-store' });
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
