import { setTimeout as sleep } from 'node:timers/promises';
import { type ClusterAccess, createKubeClient, type KubeClient } from '../../../../packages/shared/src/kube/client.ts';
import { LeaderElection } from '../../../../packages/shared/src/kube/leader-election.ts';
import type { KubernetesObject } from '../../../../packages/shared/src/api/meta.ts';
import { systemClock } from '../../../../packages/shared/src/runtime/clock.ts';
import { recordingLogger } from '../../../framework/recording-logger.ts';

export interface LeaseCandidateOptions {
  readonly access: ClusterAccess;
  readonly namespace: string;
  /** Name of the Lease, and label of all objects that its leaders write. */
  readonly lease: string;
  readonly identity: string;
  readonly limits?: {
    readonly leaseDurationMs: number;
    readonly renewDeadlineMs: number;
    readonly retryPeriodMs: number;
  };
  /** Between two writes, milliseconds. */
  readonly pauseMs: number;
  /**
   * Writes its terms into this one object instead, each time with the resourceVersion that it read,
   * as the controller writes specs.
   */
  readonly conditional?: boolean;
}

interface Ledger extends KubernetesObject {
  readonly data: { readonly terms: string };
}

/**
 * A candidate that writes objects while it is the leader, each named after its term, through the
 * fenced client.
 */
export class LeaseCandidate {
  readonly identity: string;
  readonly election: LeaderElection;
  readonly lines: readonly string[];
  /** When it became leader, by term, on the monotonic clock. */
  readonly ledAt: number[] = [];
  readonly #options: LeaseCandidateOptions;
  readonly #client: KubeClient;
  readonly #stopping = new AbortController();
  readonly #running: Promise<void>;
  #ledger: Ledger | undefined;

  private constructor(options: LeaseCandidateOptions, client: KubeClient, election: LeaderElection, lines: string[]) {
    this.identity = options.identity;
    this.#options = options;
    this.#client = client;
    this.election = election;
    this.lines = lines;
    this.#running = election.run(this.#stopping.signal, (leading) => this.#writeWhileLeader(leading));
  }

  static async start(options: LeaseCandidateOptions): Promise<LeaseCandidate> {
    const { access, namespace, lease, identity, limits } = options;
    const { log, lines } = recordingLogger();
    const client = await createKubeClient({ userAgent: identity, clock: systemClock, log, access });
    const common = { client, clock: systemClock, log, namespace, name: lease, identity };
    return new LeaseCandidate(options, client, new LeaderElection({ ...common, ...limits }), lines);
  }

  get isLeader(): boolean {
    return this.election.isLeading();
  }

  /** Stops it gracefully. Safe to call twice. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#running;
    await this.#client.close();
  }

  async #writeWhileLeader(leading: AbortSignal): Promise<void> {
    const { namespace, lease, identity, pauseMs, conditional = false } = this.#options;
    const term = this.ledAt.push(performance.now());
    const client = this.#client.fenced(() => this.election.isLeading());
    const path = `/api/v1/namespaces/${namespace}/configmaps`;
    for (let write = 0; !leading.aborted; write += 1) {
      const metadata = { name: `${lease}-${identity}-${term}-${write}`, labels: { lease, identity } };
      const body = { metadata, data: { term: `${identity}-${term}` } };
      const written = conditional
        ? this.#amend(client, `${path}/${lease}`, `${identity}-${term}`, leading)
        : client.request({ method: 'POST', path, body, signal: leading, timeoutMs: 2_000 });
      await written.catch(() => sleep(20));
      if (pauseMs > 0) await sleep(pauseMs);
    }
  }

  async #amend(client: KubeClient, path: string, term: string, signal: AbortSignal): Promise<void> {
    this.#ledger ??= await client.request<Ledger>({ method: 'GET', path, signal });
    const { metadata, data } = this.#ledger;
    this.#ledger = undefined;
    const terms = data.terms.endsWith(term) ? data.terms : `${data.terms} ${term}`;
    const body = {
      metadata: { resourceVersion: metadata.resourceVersion },
      data: { terms, at: String(performance.now()) },
    };
    this.#ledger = await client.mergePatch<Ledger>(path, body, { signal });
  }
}
