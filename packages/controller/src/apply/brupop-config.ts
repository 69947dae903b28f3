import { isDeepStrictEqual } from 'node:util';
import type { BrupopConfig, BrupopConfigStatus } from '@brupop/shared/api/brupop-config';
import { CONFIG_NAME, CONFIG_OBJECT, CONTROLLER } from '@brupop/shared/api/names';
import { configPath } from '@brupop/shared/kube/paths';
import { RELEASE } from '@brupop/shared/runtime/build';
import { KEPT_PAUSED } from '../cluster/policies.ts';
import { statusOf } from '../report/config-status.ts';
import type { WholePlan } from '../report/report.ts';
import type { UpdatePolicy } from '../policy/policy.ts';
import { recordChanges } from './config-events.ts';
import type { ApplyContext } from './writer.ts';

/** Pause between two writes; the latest status is always written. */
const MIN_GAP_MS = 1_000;
const WATCH_LIMIT_MS = 30_000;
/** Leaves a user the time to create one with the chart, and after a deletion (`kubectl replace --force`). */
const CREATE_AFTER_MS = 10_000;
const STATUS_KEY = 'config_status';
const CREATE_KEY = 'config_create';
const COLLECTION = configPath();
const STATUS = configPath({ name: CONFIG_NAME, subresource: 'status' });

export class ConfigWriter {
  readonly #context: ApplyContext;
  /** On the monotonic clock, milliseconds. */
  #missingSince: number | undefined;
  /** As it was written or read. */
  #known: { readonly uid: string; readonly status: BrupopConfigStatus } | undefined;
  /** What the cache shows. */
  #shown: BrupopConfig | undefined;
  /** The cache has changed since the status was written or read. */
  #isChanged = false;
  #writtenAt = -Infinity;
  #knownAt = -Infinity;

  /** `latest` is the configuration as it was just read; the watch may be behind. */
  constructor(context: ApplyContext, latest: BrupopConfig | undefined) {
    this.#context = context;
    if (latest?.status !== undefined) this.#remember(latest.metadata.uid, latest.status);
  }

  /**
   * Writes the status of the configuration, which has what {@link withWritten} knows, or creates a configuration when there is none. Returns
   * after how many milliseconds there is more to write, or undefined.
   */
  async write(config: BrupopConfig | undefined, plan: WholePlan, isWritten: boolean): Promise<number | undefined> {
    if (config === undefined) return await this.#create(plan.policy);
    this.#missingSince = undefined;
    return await this.#writeStatus(config, plan, isWritten);
  }

  /** The watch may not show yet what is known, such as a freeze. */
  withWritten<T extends { readonly config: BrupopConfig | undefined }>(snapshot: T): T {
    const { config } = snapshot;
    this.#isChanged ||= this.#shown !== undefined && config?.status !== this.#shown.status;
    this.#shown = config;
    const status = config && this.#statusOf(config);
    return status === undefined ? snapshot : { ...snapshot, config: { ...config, status } };
  }

  async #create(policy: UpdatePolicy): Promise<number | undefined> {
    const { clock, writer } = this.#context;
    this.#missingSince ??= clock.monotonic();
    const waitMs = this.#missingSince + CREATE_AFTER_MS - clock.monotonic();
    if (waitMs > 0) return waitMs;
    await writer.create('config_create', CREATE_KEY, () => this.#post(policy));
    return undefined;
  }

  /** Without any field, so that the defaults apply and no field has an owner; but a pause outlives a deletion. */
  async #post({ paused, pauseReason = KEPT_PAUSED }: UpdatePolicy): Promise<void> {
    const { client, log, signal } = this.#context;
    const spec = paused ? { paused, pauseReason } : {};
    const body = { ...CONFIG_OBJECT, metadata: { name: CONFIG_NAME }, spec };
    await client.request({ method: 'POST', path: COLLECTION, query: { fieldManager: CONTROLLER }, body, signal });
    log.info('BrupopConfig created with the defaults', { name: CONFIG_NAME, paused });
  }

  async #writeStatus(config: BrupopConfig, plan: WholePlan, isWritten: boolean): Promise<number | undefined> {
    const { clock, writer } = this.#context;
    const { uid } = config.metadata;
    const before = config.status;
    const reports = this.#context.reports?.();
    const status = statusOf({ config, plan, before, isWritten, now: clock.now(), release: RELEASE, ...reports });
    if (isDeepStrictEqual(status, before) || !writer.canWrite(STATUS_KEY)) return undefined;
    const waitMs = this.#writtenAt + MIN_GAP_MS - clock.monotonic();
    if (waitMs > 0) return waitMs;
    this.#writtenAt = clock.monotonic();
    const written = await writer.attempt('config_status', STATUS_KEY, () => this.#apply(uid, status));
    if (!written) return undefined;
    recordChanges(this.#context, { uid, before, now: status, failed: plan.failed, frozen: plan.frozen });
    // The lists of members are kept until the status has their counts: now they may go.
    return plan.quorums.length > 0 ? 0 : undefined;
  }

  /**
   * As it was last written or read; later the cache counts if it has changed since, as another actor may have edited the status. One
   * that has not is of a watch that hangs, and knows of no freeze since.
   */
  #statusOf({ metadata: { uid }, status }: BrupopConfig): BrupopConfigStatus | undefined {
    const known = this.#known?.uid === uid ? this.#known : undefined;
    const isRecent = this.#context.clock.monotonic() - this.#knownAt < WATCH_LIMIT_MS;
    return known !== undefined && (isRecent || !this.#isChanged) ? known.status : status && ownOf(status);
  }

  async #apply(uid: string, status: BrupopConfigStatus): Promise<void> {
    const { client, signal } = this.#context;
    const body = { ...CONFIG_OBJECT, metadata: { name: CONFIG_NAME, uid }, status };
    await client.apply(STATUS, body, { fieldManager: CONTROLLER, signal });
    this.#remember(uid, status);
  }

  #remember(uid: string, status: BrupopConfigStatus): void {
    this.#known = { uid, status: ownOf(status) };
    this.#isChanged = false;
    this.#knownAt = this.#context.clock.monotonic();
  }
}

/** Without what `upkeep/recovery` writes. */
function ownOf(status: BrupopConfigStatus): BrupopConfigStatus {
  const { recovery: _, ...own } = status;
  return own;
}
