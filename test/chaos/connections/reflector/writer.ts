import { setTimeout as sleep } from 'node:timers/promises';
import type { KubernetesObject } from '../../../../packages/shared/src/api/meta.ts';
import type { Api } from '../../../framework/control-plane/api.ts';

/** A write that the API server has confirmed. */
export interface Write {
  readonly resourceVersion: number;
  /** On the monotonic clock, milliseconds. */
  readonly atMs: number;
}

/**
 * Creates, changes and deletes objects of a collection repeatedly, also while the API server does
 * not answer.
 */
export class Writer {
  /** What was created or changed, in order. */
  readonly writes: Write[] = [];
  readonly #api: Api;
  readonly #path: string;
  readonly #labels: Readonly<Record<string, string>>;
  readonly #stopping = new AbortController();
  #running: Promise<unknown> = Promise.resolve();

  constructor(api: Api, path: string, labels: Readonly<Record<string, string>>) {
    this.#api = api;
    this.#path = path;
    this.#labels = labels;
  }

  start(): this {
    this.#running = Promise.all(['a', 'b', 'c'].map((name, index) => this.#write(name, index)));
    return this;
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#running;
  }

  /** Creates, changes and deletes objects that no other writer uses. */
  async #write(prefix: string, seed: number): Promise<void> {
    for (let step = seed; !this.#stopping.signal.aborted; step += 1) {
      const name = `${prefix}-${step % 5}`;
      try {
        await this.#change(step, name);
      } catch {
        await sleep(20);
      }
      await sleep(15);
    }
  }

  async #change(step: number, name: string): Promise<void> {
    const at = `${this.#path}/${name}`;
    if (step % 7 === 6) return await this.#api.delete(at);
    const body = { metadata: { name, labels: this.#labels }, data: { step: String(step) } };
    const written = await this.#api
      .patch<KubernetesObject>(at, body)
      .catch(() => this.#api.create<KubernetesObject>(this.#path, body));
    this.writes.push({ resourceVersion: Number(written.metadata.resourceVersion), atMs: performance.now() });
    return undefined;
  }
}
