import { setImmediate } from 'node:timers/promises';
import { messageOf } from '@brupop/shared/runtime/errors';
import type { KubeClient } from '@brupop/shared/kube/client';
import { hasStatus } from '@brupop/shared/kube/error';
import { corePath } from '@brupop/shared/kube/paths';
import type { Clock } from '@brupop/shared/runtime/clock';
import { type Pod, podName } from './pod.ts';
import { persistently } from './retry.ts';

export interface StatusWriterOptions {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly pod: Pod;
  readonly signal: AbortSignal;
  /** The API server has rejected a status for another reason than that the pod is gone. */
  readonly onError: (message: string) => void;
}

/** Writes the latest status of one pod, one write at a time. */
export class StatusWriter {
  readonly #options: StatusWriterOptions;
  #wanted: string | undefined;
  #written: string | undefined;
  #again = false;
  #busy = false;
  #writing: Promise<void> | undefined;

  constructor(options: StatusWriterOptions) {
    this.#options = options;
  }

  /** The status to write; a later one replaces one that is not yet on its way. */
  set(status: object): void {
    this.#wanted = JSON.stringify(status);
    this.#begin();
  }

  /** Writes the latest status again, because another actor has overwritten it. */
  repeat(): void {
    this.#again = true;
    this.#begin();
  }

  /** Resolves when the latest status is written, or cannot be any more. */
  async flushed(): Promise<void> {
    await this.#writing;
  }

  #begin(): void {
    if (this.#busy) return;
    this.#busy = true;
    this.#writing = this.#write();
  }

  async #write(): Promise<void> {
    while ((this.#again || this.#wanted !== this.#written) && !this.#options.signal.aborted) {
      await setImmediate(); // what changes at one moment is one write
      this.#again = false;
      const status = this.#wanted;
      await this.#patch(status ?? '');
      this.#written = status;
    }
    this.#busy = false;
  }

  /**
   * As the kubelet patches: conditions of others stay, and the UID keeps it from a later pod of the
   * same name.
   */
  async #patch(status: string): Promise<void> {
    const { client, clock, pod, signal, onError } = this.#options;
    const { namespace, name, uid } = pod.metadata;
    const path = corePath('pods', { namespace, name, subresource: 'status' });
    const body = { metadata: { uid }, status: JSON.parse(status) as unknown };
    const contentType = 'application/strategic-merge-patch+json';
    try {
      await persistently(clock, signal, () => client.request({ method: 'PATCH', path, body, contentType, signal }));
    } catch (error) {
      const isGone = hasStatus(error, 404) || hasStatus(error, 409);
      if (!signal.aborted && !isGone) onError(`${podName(pod)}: its status is refused: ${messageOf(error)}`);
    }
  }
}
