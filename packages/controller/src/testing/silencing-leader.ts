/** A leader that silences alerts, from its start to its stop, for tests. */
import { Registry } from 'prom-client';
import type { Clock } from '@brupop/shared/runtime/clock';
import { recordingLogger } from '../../../../test/framework/recording-logger.ts';
import type { ManagedNode } from '../cluster/snapshot.ts';
import { createMetrics } from '../metrics.ts';
import { Silencer } from '../silences/silencer.ts';
import { wholePlan } from '../whole-plan.ts';
import { aSnapshot, NOW } from './objects.ts';

export class SilencingLeader {
  readonly lines: string[];
  readonly silencer: Silencer;
  /** Of the Secret; undefined: it does not exist. */
  data: Readonly<Record<string, string>> | undefined;
  reports = 0;
  readonly #registry = new Registry();
  readonly #stop = new AbortController();
  readonly #ended: Promise<void>;

  constructor(clock: Clock) {
    const { log, lines } = recordingLogger();
    this.lines = lines;
    this.silencer = new Silencer({
      client: { find: async () => this.#secret() as never },
      clock,
      log,
      metrics: createMetrics(this.#registry),
      namespace: 'brupop',
      secrets: ['am'],
      proxies: { http: '', https: '', no: '' },
      isLeading: () => true,
      onReport: () => (this.reports += 1),
    });
    this.#ended = this.silencer.run(this.#stop.signal);
  }

  /** @param silences - of the spec */
  observe(nodes: readonly ManagedNode[], silences: object): void {
    const snapshot = aSnapshot(nodes, { silences });
    this.silencer.observe(wholePlan(snapshot, NOW), snapshot);
  }

  get condition() {
    const { report } = this.silencer;
    return typeof report === 'object' ? report : undefined;
  }

  async metrics(): Promise<string> {
    return await this.#registry.metrics();
  }

  async stop(): Promise<void> {
    this.#stop.abort(new Error('lost leadership'));
    await this.#ended;
  }

  #secret(): object | undefined {
    if (this.data === undefined) return undefined;
    const entries = Object.entries(this.data);
    return { data: Object.fromEntries(entries.map(([key, text]) => [key, Buffer.from(text).toString('base64')])) };
  }
}
