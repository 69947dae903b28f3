/**
 * The record of recoveries in `status.recovery` of the BrupopConfig. It has a field manager of its own: what else is in the status
 * is written by others, and they do not write this.
 */
import { isDeepStrictEqual } from 'node:util';
import { type BrupopConfig, readBrupopConfig, type RecoveryStatus } from '@brupop/shared/api/brupop-config';
import { RECOVERY_KINDS } from '@brupop/shared/api/config-recovery';
import { CONFIG_NAME, CONFIG_OBJECT, CONTROLLER } from '@brupop/shared/api/names';
import type { KubeClient } from '@brupop/shared/kube/client';
import { isTransient, kindOf } from '@brupop/shared/kube/error';
import { readList } from '@brupop/shared/kube/list';
import { configPath } from '@brupop/shared/kube/paths';
import { type Clock, parseTime, rfc3339 } from '@brupop/shared/runtime/clock';
import { messageOf } from '@brupop/shared/runtime/errors';
import { RetriedProblem } from '@brupop/shared/runtime/log';
import { FLAP_MS, type Recovery } from './decide.ts';

const COLLECTION = configPath();
const STATUS = configPath({ name: CONFIG_NAME, subresource: 'status' });
const MANAGER = `${CONTROLLER}-recovery`;

interface RecordOptions {
  readonly client: Pick<KubeClient, 'request' | 'apply'>;
  readonly clock: Pick<Clock, 'monotonic'>;
  /** Called with the result of each write. */
  readonly count: (result: 'ok' | 'error') => void;
}

export class RecoveryRecord {
  readonly #options: RecordOptions;
  /** Undefined: it is not known what the record has. */
  #written: { readonly uid: string; readonly status: readonly RecoveryStatus[]; readonly at: number } | undefined;
  readonly #retried: RetriedProblem;
  #problem = '';

  constructor(options: RecordOptions) {
    this.#options = options;
    this.#retried = new RetriedProblem(options.clock);
  }

  /** Why it cannot be read or written, once that has lasted. */
  get problem(): string | undefined {
    return this.#retried.hasLasted ? this.#problem : undefined;
  }

  /** Reads it live: the watch may not have what a former leader wrote last. Throws KubeError. */
  async read(signal: AbortSignal): Promise<readonly Recovery[]> {
    const { client, clock } = this.#options;
    const list = { path: COLLECTION, signal, slim: readBrupopConfig };
    const { items } = await this.#tried('read', signal, async () => await readList(client, list));
    const config = items.find(({ metadata }) => metadata.name === CONFIG_NAME);
    const recoveries = recoveriesIn(config);
    const status = statusOf(recoveries);
    this.#written = config && { uid: config.metadata.uid, status, at: clock.monotonic() };
    return recoveries;
  }

  /**
   * Writes what differs, to the configuration with this UID. A window or a pod that is new, or that is recorded no more, is
   * written at once; what costs nothing when it is lost, such as a later end, half a minute after the last write. Throws
   * KubeError; then nothing may be evicted.
   */
  async write(uid: string, recoveries: readonly Recovery[], signal: AbortSignal): Promise<void> {
    const { client, clock, count } = this.#options;
    const status = statusOf(recoveries);
    const before = this.#written;
    if (before?.uid === uid) {
      if (isDeepStrictEqual(status, before.status)) return;
      if (!hasNews(status, before.status) && clock.monotonic() - before.at < FLAP_MS) return;
    }
    // Without a response it may have been written.
    this.#written = undefined;
    const metadata = { name: CONFIG_NAME, uid };
    const body = { ...CONFIG_OBJECT, metadata, ...(status.length > 0 && { status: { recovery: status } }) };
    try {
      const options = { fieldManager: MANAGER, signal };
      await this.#tried('written', signal, async () => await client.apply(STATUS, body, options));
      count('ok');
    } catch (error) {
      count('error');
      throw error;
    }
    this.#written = { uid, status, at: clock.monotonic() };
  }

  async #tried<T>(what: 'read' | 'written', signal: AbortSignal, send: () => Promise<T>): Promise<T> {
    try {
      const answer = await send();
      this.#retried.ended();
      return answer;
    } catch (error) {
      if (signal.aborted) throw error;
      this.#problem = `status.recovery cannot be ${what}: ${messageOf(error)}`;
      // The loop logs it.
      this.#retried.levelOf(kindOf(error), { isLasting: !isTransient(error) });
      throw error;
    }
  }
}

function windowsOf(status: readonly RecoveryStatus[]): string[] {
  return status.map(({ kind, name, startTime }) => `${kind} ${name} ${startTime}`).toSorted();
}

function requestsIn(status: readonly RecoveryStatus[]): string[] {
  return status.flatMap(({ pods = [] }) => pods.map(({ uid, time }) => `${uid} ${time}`));
}

/** Whether a window opens or closes, an eviction is to be requested, or was refused and may be requested again. */
function hasNews(status: readonly RecoveryStatus[], before: readonly RecoveryStatus[]): boolean {
  const [now, known] = [status, before].map((one) => [windowsOf(one), requestsIn(one).toSorted()]);
  return !isDeepStrictEqual(now, known);
}

export function recoveriesIn(config: Pick<BrupopConfig, 'status'> | undefined): readonly Recovery[] {
  return (config?.status?.recovery ?? []).flatMap((one) => readRecovery(one) ?? []);
}

function readRecovery({ kind, name, startTime, endTime, evicted, pods = [] }: RecoveryStatus): Recovery | undefined {
  const [since, until] = [parseTime(startTime), parseTime(endTime)];
  if (since === undefined || until === undefined || !RECOVERY_KINDS.includes(kind)) return undefined;
  return {
    kind,
    name,
    since,
    until,
    evicted,
    pods: new Map(pods.map(({ uid, time }) => [uid, parseTime(time) ?? until])),
  };
}

function statusOf(recoveries: readonly Recovery[]): readonly RecoveryStatus[] {
  return recoveries.map(({ kind, name, since, until, evicted, pods }) => ({
    kind,
    name,
    startTime: rfc3339(since),
    endTime: rfc3339(until),
    evicted,
    ...(pods.size > 0 && { pods: [...pods].map(([uid, at]) => ({ uid, time: rfc3339(at) })) }),
  }));
}
