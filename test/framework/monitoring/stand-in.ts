/** A Prometheus and an Alertmanager at one address, which answer as recorded. */
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type Transcript, TRANSCRIPTS } from './transcripts.ts';

export class StandInMonitoring {
  /** How many requests it got. */
  requests = 0;
  /** Names of the transcripts. */
  query = 'up == bool 1';
  alerts = 'severity="info"';
  readonly #server: Server;
  #port = 0;

  constructor() {
    this.#server = createServer(({ url = '' }, response) => {
      this.requests += 1;
      const isQuery = url.startsWith('/api/v1/query?');
      const { status, body } = transcript(isQuery ? 'queries' : 'alerts', isQuery ? this.query : this.alerts);
      response.writeHead(status, { 'content-type': 'application/json' }).end(body);
    });
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  /** On the same port again after a stop. */
  async start(): Promise<void> {
    await new Promise<void>((done) => this.#server.listen(this.#port, '127.0.0.1', done));
    this.#port = (this.#server.address() as AddressInfo).port;
  }

  /** Refuses connections from now on. */
  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((done) => this.#server.close(done));
  }
}

/** What the real program answered to this query or filter. */
export function transcript(of: 'queries' | 'alerts', wanted: string): Transcript {
  const found = TRANSCRIPTS[of].find(({ name }) => name === wanted);
  if (found === undefined) throw new Error(`nothing was recorded for ${wanted}`);
  return found;
}
