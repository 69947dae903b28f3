/**
 * The record of recoveries in `status.recovery` of the BrupopConfig. It has a field manager of its own: what else is in the status
 * is written by others, and they do not write this.
 */
import { isDeepStrictEqual } from 'node:util';
import { type BrupopConfig, readBrupopConfig, type RecoveryStatus } from '@brupop/shared/api/brupop-config';
import { RECOVERY_KINDS } from '@brupop/shared/api/config-recovery';
import { CONFIG_KIND, CONFIG_NAME, CONFIG_PLURAL, CONFIG_VERSION, CONTROLLER, GROUP } from '@brupop/shared/api/names';
import type { KubeClient } from '@brupop/shared/kube/client';
import { readList } from '@brupop/shared/kube/list';
import { crPath } from '@brupop/shared/kube/paths';
import { parseTime, rfc3339 } from '@brupop/shared/runtime/clock';
import type { Recovery } from './decide.ts';

const COLLECTION = crPath(CONFIG_PLURAL, { version: CONFIG_VERSION });
const STATUS = crPath(CONFIG_PLURAL, { version: CONFIG_VERSION, name: CONFIG_NAME, subresource: 'status' });
const OBJECT = { apiVersion: `${GROUP}/${CONFIG_VERSION}`, kind: CONFIG_KIND };
const MANAGER = `${CONTROLLER}-recovery`;

export class RecoveryRecord {
  readonly #client: KubeClient;
  readonly #count: (result: 'ok' | 'error') => void;
  /** Undefined: it is not known what the record has. */
  #written: { readonly uid: string; readonly status: readonly RecoveryStatus[] } | undefined;

  /** `count` is called with the result of each write. */
  constructor(client: KubeClient, count: (result: 'ok' | 'error') => void) {
    this.#client = client;
    this.#count = count;
  }

  /** Reads it live: the watch may not have what a former leader wrote last. Throws KubeError. */
  async read(signal: AbortSignal): Promise<readonly Recovery[]> {
    const { items } = await readList(this.#client, { path: COLLECTION, signal, slim: readBrupopConfig });
    const config = items.find(({ metadata }) => metadata.name === CONFIG_NAME);
    const recoveries = recoveriesIn(config);
    this.#written = config && { uid: config.metadata.uid, status: statusOf(recoveries) };
    return recoveries;
  }

  /** Writes what differs, to the configuration with this UID. Throws KubeError; then nothing may be evicted. */
  async write(uid: string, recoveries: readonly Recovery[], signal: AbortSignal): Promise<void> {
    const status = statusOf(recoveries);
    if (isDeepStrictEqual({ uid, status }, this.#written)) return;
    // Without a response it may have been written.
    this.#written = undefined;
    const metadata = { name: CONFIG_NAME, uid };
    const body = { ...OBJECT, metadata, ...(status.length > 0 && { status: { recovery: status } }) };
    try {
      await this.#client.apply(STATUS, body, { fieldManager: MANAGER, signal });
      this.#count('ok');
    } catch (error) {
      this.#count('error');
      throw error;
    }
    this.#written = { uid, status };
  }
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
