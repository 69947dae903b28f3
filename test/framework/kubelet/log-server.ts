/**
 * What `kubectl logs` needs of a kubelet, for all nodes: GET /containerLogs/NAMESPACE/POD/CONTAINER over TLS on loopback.
 * kube-apiserver finds it by the address and the port in the status of the Node.
 */
import { once } from 'node:events';
import { createReadStream } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { makeServingCertificate } from '../certificates.ts';

export const KUBELET_ADDRESS = '127.0.0.1';
const FOLLOW_MS = 200;
/** What it supports of the options of a request for logs. The others would be ignored without a word. */
const OPTIONS = new Set(['follow', 'limitBytes', 'previous', 'tailLines']);

/** The folder of the logs of a pod's node, or why there is none. */
export type FindLogs = (namespace: string, pod: string) => { readonly folder: string } | { readonly problem: string };

export class LogServer {
  readonly #server: Server;

  private constructor(server: Server) {
    this.#server = server;
  }

  static async start(find: FindLogs): Promise<LogServer> {
    const { cert, key } = makeServingCertificate({ commonName: 'kubelet', ipAddresses: [KUBELET_ADDRESS] });
    const server = createServer({ cert, key }, (request, response) => {
      answer(request, response, find).catch(() => response.destroy());
    });
    await once(server.listen(0, KUBELET_ADDRESS), 'listening');
    return new LogServer(server);
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  async stop(): Promise<void> {
    this.#server.close();
    this.#server.closeAllConnections();
    await once(this.#server, 'close');
  }
}

async function answer({ url = '' }: IncomingMessage, response: ServerResponse, find: FindLogs): Promise<void> {
  const { pathname, searchParams } = new URL(url, 'https://kubelet');
  const [route, namespace = '', pod = '', container = ''] = pathname.slice(1).split('/');
  // kube-apiserver passes on the text of a response only with this status.
  const refuse = (problem: string): void => void response.writeHead(500).end(problem);
  if (route !== 'containerLogs') return refuse('the stand-in kubelet serves logs only');
  const unknown = [...searchParams.keys()].filter((name) => !OPTIONS.has(name));
  if (unknown.length > 0) return refuse(`the stand-in kubelet does not support ${unknown.join(', ')}`);
  const found = find(namespace, pod);
  if (!('folder' in found)) return refuse(found.problem);
  const files = await logFiles(found.folder, `${pod}_${container}_`);
  const path = files.at(searchParams.get('previous') === 'true' ? -2 : -1);
  if (path === undefined) return refuse(`no such log of ${pod}, container ${container}`);
  const range = await rangeOf(path, searchParams);
  response.writeHead(200, { 'content-type': 'text/plain' });
  response.flushHeaders();
  const isCurrent = (): boolean => 'folder' in find(namespace, pod);
  const follow = (): boolean => searchParams.get('follow') === 'true' && isCurrent();
  await copy({ path, ...range, response, follow });
  response.end();
}

/** One for each restart, oldest first. */
async function logFiles(folder: string, prefix: string): Promise<string[]> {
  const names = await readdir(folder).catch(() => []);
  const own = names.filter((name) => name.startsWith(prefix));
  return own.toSorted((a, b) => a.localeCompare(b, 'en', { numeric: true })).map((name) => join(folder, name));
}

async function rangeOf(path: string, options: URLSearchParams): Promise<Pick<Copy, 'start' | 'limit'>> {
  const start = await startOf(path, options.get('tailLines'));
  return { start, limit: Number(options.get('limitBytes') ?? Infinity) };
}

/** Where the last lines of a file begin, bytes. */
async function startOf(path: string, tailLines: string | null): Promise<number> {
  if (tailLines === null) return 0;
  const starts = [0];
  let offset = 0;
  for await (const chunk of createReadStream(path) as AsyncIterable<Buffer>) {
    for (let at = chunk.indexOf('\n'); at !== -1; at = chunk.indexOf('\n', at + 1)) starts.push(offset + at + 1);
    offset += chunk.length;
  }
  // The last start is the end of a file whose last line is complete.
  const lines = starts.at(-1) === offset ? starts.length - 1 : starts.length;
  return starts[Math.max(0, lines - Number(tailLines))] ?? offset;
}

interface Copy {
  readonly path: string;
  readonly start: number;
  /** Bytes. */
  readonly limit: number;
  readonly response: ServerResponse;
  /** Whether to go on. It also ends when the client closes the connection. */
  readonly follow: () => boolean;
}

async function copy({ path, start, limit, response, follow }: Copy): Promise<void> {
  let offset = start;
  for (;;) {
    // Before the size, so that the last lines are not missed.
    const goesOn = follow();
    const size = Math.min((await stat(path)).size, start + limit);
    if (response.destroyed) return;
    if (size > offset) {
      await pipeline(createReadStream(path, { start: offset, end: size - 1 }), response, { end: false });
      offset = size;
    }
    if (!goesOn || size === start + limit) return;
    await sleep(FOLLOW_MS);
  }
}
