/**
 * A page on loopback that draws the dashboards of the chart from the answers of a real Prometheus. No package registry has
 * Grafana, so this shows what the queries return; Grafana itself draws the same files.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { basename, join } from 'node:path';
import { DASHBOARDS } from '../../test/framework/monitoring/dashboards.ts';

const LIMIT_MS = 30_000;
const UPLOT = join(import.meta.dirname, '../../node_modules/uplot/dist');

const FILES: Readonly<Record<string, () => [type: string, text: string]>> = {
  '/': () => ['text/html', readFileSync(join(import.meta.dirname, 'page.html'), 'utf8')],
  '/uplot.js': () => ['text/javascript', readFileSync(join(UPLOT, 'uPlot.iife.min.js'), 'utf8')],
  '/uplot.css': () => ['text/css', readFileSync(join(UPLOT, 'uPlot.min.css'), 'utf8')],
  '/dashboards.json': () => ['application/json', JSON.stringify(dashboards())],
};

/** By the names of their files. */
function dashboards(): Record<string, unknown> {
  const files = readdirSync(DASHBOARDS).map((file): [string, unknown] => [
    basename(file, '.json'),
    JSON.parse(readFileSync(join(DASHBOARDS, file), 'utf8')),
  ]);
  return Object.fromEntries(files);
}

interface Page {
  readonly url: string;
  stop(): Promise<void>;
}

export async function servePage(prometheusUrl: string): Promise<Page> {
  const server = createServer((request, response) => {
    const { pathname, search } = new URL(request.url ?? '/', 'http://127.0.0.1');
    const file = FILES[pathname];
    if (file !== undefined) send(response, 200, ...file());
    else if (pathname.startsWith('/api/v1/query')) void ask(`${prometheusUrl}${pathname}${search}`, response);
    else send(response, 404, 'text/plain', `expected one of ${Object.keys(FILES).join(', ')}, found ${pathname}`);
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  const stop = async (): Promise<void> => {
    server.closeAllConnections();
    await new Promise((done) => server.close(done));
  };
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, stop };
}

async function ask(url: string, response: ServerResponse): Promise<void> {
  try {
    const answer = await fetch(url, { signal: AbortSignal.timeout(LIMIT_MS) });
    send(response, answer.status, 'application/json', await answer.text());
  } catch (error) {
    send(response, 502, 'text/plain', `Prometheus does not answer: ${String(error)}`);
  }
}

function send(response: ServerResponse, status: number, type: string, text: string): void {
  response.writeHead(status, { 'content-type': `${type}; charset=utf-8` }).end(text);
}
