import { isDeepStrictEqual } from 'node:util';
import type { BrupopConfig, BrupopConfigStatus } from '@brupop/shared/api/brupop-config';
import { CONFIG_KIND, CONFIG_NAME, CONFIG_PLURAL, CONFIG_VERSION, CONTROLLER, GROUP } from '@brupop/shared/api/names';
import { crPath } from '@brupop/shared/kube/paths';
import { statusOf } from '../plan/config-conditions.ts';
import type { Plan } from '../plan/plan.ts';
import type { ApplyContext } from './writer.ts';

/** Pause between two writes; the latest status is always written. */
const MIN_GAP_MS = 1_000;
const WATCH_LIMIT_MS = 30_000;
const KEY = 'config_status';
const PATH = crPath(CONFIG_PLURAL, { version: CONFIG_VERSION, name: CONFIG_NAME, subresource: 'status' });

export class ConfigStatus {
  readonly #context: ApplyContext;
  #written: { readonly uid: string; readonly status: BrupopConfigStatus } | undefined;
  #writtenAt = -Infinity;

  constructor(context: ApplyContext) {
    this.#context = context;
  }

  /** Returns after how many milliseconds there is more to write, or undefined. */
  async write(config: BrupopConfig, plan: Plan, isInEffect: boolean): Promise<number | undefined> {
    const { clock, writer } = this.#context;
    const { uid } = config.metadata;
    const before = this.#isFresh(uid) ? this.#written?.status : config.status;
    const status = statusOf({ config, plan, before, isInEffect, now: clock.now() });
    if (isDeepStrictEqual(status, before) || !writer.canWrite(KEY)) return undefined;
    const waitMs = this.#writtenAt + MIN_GAP_MS - clock.monotonic();
    if (waitMs > 0) return waitMs;
    this.#writtenAt = clock.monotonic();
    await writer.attempt('config_status', KEY, () => this.#apply(uid, status));
    return undefined;
  }

  /** Later the cache counts, since another actor may have edited the status. */
  #isFresh(uid: string): boolean {
    return this.#written?.uid === uid && this.#context.clock.monotonic() - this.#writtenAt < WATCH_LIMIT_MS;
  }

  async #apply(uid: string, status: BrupopConfigStatus): Promise<void> {
    const { client, signal } = this.#context;
    const body = {
      apiVersion: `${GROUP}/${CONFIG_VERSION}`,
      kind: CONFIG_KIND,
      metadata: { name: CONFIG_NAME, uid },
      status,
    };
    await client.apply(PATH, body, { fieldManager: CONTROLLER, signal });
    this.#written = { uid, status };
  }
}
