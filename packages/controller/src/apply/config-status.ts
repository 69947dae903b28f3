import { isDeepStrictEqual } from 'node:util';
import type { BrupopConfig, BrupopConfigStatus } from '@brupop/shared/api/brupop-config';
import { CONFIG_KIND, CONFIG_NAME, CONFIG_PLURAL, CONFIG_VERSION, CONTROLLER, GROUP } from '@brupop/shared/api/names';
import type { KubeClient } from '@brupop/shared/kube/client';
import { crPath } from '@brupop/shared/kube/paths';
import type { Clock } from '@brupop/shared/runtime/clock';
import { statusOf } from '../plan/config-conditions.ts';
import type { Plan } from '../plan/plan.ts';
import type { Writer } from './writer.ts';

export interface ConfigStatusOptions {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly writes: Writer;
}

/** Writes are at least so far apart; the last state is always written. */
const MIN_GAP_MS = 1_000;
/** The watch has shown a write by then. */
const WATCH_LIMIT_MS = 30_000;
const KEY = 'config_status';

/** Keeps the status of the BrupopConfig, if there is one. */
export class ConfigStatus {
  readonly #options: ConfigStatusOptions;
  #written: { readonly uid: string; readonly status: BrupopConfigStatus } | undefined;
  #writtenAt = -Infinity;

  constructor(options: ConfigStatusOptions) {
    this.#options = options;
  }

  /** Forgets what was written: called when the lead is taken. */
  clear(): void {
    this.#written = undefined;
  }

  /**
   * Writes what has changed. Answers the milliseconds after which it has more to write, or undefined.
   * @param isInEffect - all that the configuration asks for is written
   */
  async publish(
    config: BrupopConfig | undefined,
    plan: Plan,
    isInEffect: boolean,
    signal: AbortSignal,
  ): Promise<number | undefined> {
    if (config === undefined) return undefined;
    const { clock, writes } = this.#options;
    const { uid } = config.metadata;
    const before = this.#isFresh(uid) ? this.#written?.status : config.status;
    const status = statusOf({ config, plan, before, isInEffect, now: clock.now() });
    if (isDeepStrictEqual(status, before) || !writes.canWrite(KEY)) return undefined;
    const blocked = this.#writtenAt + MIN_GAP_MS - clock.monotonic();
    if (blocked > 0) return blocked;
    this.#writtenAt = clock.monotonic();
    await writes.attempt('config_status', KEY, signal, () => this.#apply(uid, status, signal));
    return undefined;
  }

  /** Until the watch has shown what was written; after that what it shows counts, since somebody may have edited it. */
  #isFresh(uid: string): boolean {
    return this.#written?.uid === uid && this.#options.clock.monotonic() - this.#writtenAt < WATCH_LIMIT_MS;
  }

  async #apply(uid: string, status: BrupopConfigStatus, signal: AbortSignal): Promise<void> {
    const place = { version: CONFIG_VERSION, name: CONFIG_NAME, subresource: 'status' };
    const body = {
      apiVersion: `${GROUP}/${CONFIG_VERSION}`,
      kind: CONFIG_KIND,
      metadata: { name: CONFIG_NAME, uid },
      status,
    };
    const options = { fieldManager: CONTROLLER, force: true, signal };
    await this.#options.client.apply(crPath(CONFIG_PLURAL, place), body, options);
    this.#written = { uid, status };
  }
}
