/**
 * What a Job of the chart does before the operator is uninstalled: it takes the Lease from the controllers, so that none
 * of them scales anything to 0 again, and scales back what is at 0. It keeps the Lease long enough for the uninstallation
 * to delete the controllers.
 */
import { LEASE_LIMITS } from '@brupop/shared/api/deadlines';
import { type TargetName, targetKey } from '@brupop/shared/api/config-dependents';
import { CONTROLLER } from '@brupop/shared/api/names';
import type { KubeClient } from '@brupop/shared/kube/client';
import { hasStatus, isTransient } from '@brupop/shared/kube/error';
import { claimed, type Lease, MAX_WAIT_FACTOR } from '@brupop/shared/kube/leader-election';
import { groupPath } from '@brupop/shared/kube/paths';
import { backoff } from '@brupop/shared/runtime/backoff';
import { type Clock, rfc3339Micro } from '@brupop/shared/runtime/clock';
import { messageOf } from '@brupop/shared/runtime/errors';
import type { Logger } from '@brupop/shared/runtime/log';
import { type RawTarget, readTarget, targetPath, upPatch } from './target.ts';

export interface RestoreOptions {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly log: Logger;
  /** That of the operator. */
  readonly namespace: string;
  readonly identity: string;
  readonly targets: readonly TargetName[];
}

const RETRY = { baseMs: 500, capMs: 10_000 };
/** Shorter than the deadline of the Job, so that the log says what could not be scaled back. */
const LIMIT_MS = 200_000;
const GROUP_VERSION = 'coordination.k8s.io/v1';

/** Throws when targets cannot be scaled back in time, with the reason of each, and the signal's reason when it aborts. */
export async function restoreDependents(options: RestoreOptions, signal: AbortSignal): Promise<void> {
  const { clock, log, targets } = options;
  const endsAt = clock.monotonic() + LIMIT_MS;
  await untilDone(options, 'take the Lease', signal, async () => await takeLease(options, signal));
  log.info('no controller leads from now on; waiting for the last one', { waitMs: LEASE_LIMITS.leaseDurationMs });
  await clock.sleep(LEASE_LIMITS.leaseDurationMs, signal);
  const retry = backoff(RETRY);
  let failed = await restoreEach(options, targets, signal);
  while (failed.length > 0 && clock.monotonic() < endsAt) {
    await clock.sleep(retry.next(), signal);
    failed = await restoreEach(
      options,
      failed.map(({ target }) => target),
      signal,
    );
  }
  await untilDone(options, 'keep the Lease', signal, async () => await takeLease(options, signal));
  if (failed.length > 0) throw new Error(`cannot scale back: ${failed.map(({ why }) => why).join('; ')}`);
}

interface Failed {
  readonly target: TargetName;
  readonly why: string;
}

/** Tries all of them, so that one that fails keeps no other at 0. */
async function restoreEach(
  options: RestoreOptions,
  targets: readonly TargetName[],
  signal: AbortSignal,
): Promise<Failed[]> {
  const failed: Failed[] = [];
  for (const target of targets) {
    try {
      await restore(options, target, signal);
    } catch (error) {
      if (signal.aborted) throw error;
      const why = `${targetKey(target)}: ${messageOf(error)}`;
      options.log.warn('cannot scale a dependent back', { error: why });
      failed.push({ target, why });
    }
  }
  return failed;
}

/** A conflict shows that the Lease is to be read again. */
async function untilDone(
  { clock, log }: RestoreOptions,
  what: string,
  signal: AbortSignal,
  attempt: () => Promise<void>,
): Promise<void> {
  const retry = backoff(RETRY);
  for (;;) {
    try {
      return await attempt();
    } catch (error) {
      if (signal.aborted || !(isTransient(error) || hasStatus(error, 409))) throw error;
      const retryInMs = retry.next();
      log.warn(`cannot ${what}, retrying`, { error: messageOf(error), retryInMs });
      await clock.sleep(retryInMs, signal);
    }
  }
}

/** For as long as another candidate waits at most. */
async function takeLease({ client, clock, namespace, identity }: RestoreOptions, signal: AbortSignal): Promise<void> {
  const path = groupPath(GROUP_VERSION, 'leases', { namespace, name: CONTROLLER });
  const lease = await client.find<Lease>(path, signal);
  const leaseDurationMs = MAX_WAIT_FACTOR * LEASE_LIMITS.leaseDurationMs;
  const spec = claimed(lease, { identity, leaseDurationMs }, rfc3339Micro(clock.now()));
  const metadata = lease?.metadata ?? { name: CONTROLLER, namespace };
  const body = { apiVersion: GROUP_VERSION, kind: 'Lease', metadata, spec };
  if (lease !== undefined) await client.request({ method: 'PUT', path, body, signal });
  else await client.request({ method: 'POST', path: groupPath(GROUP_VERSION, 'leases', { namespace }), body, signal });
}

async function restore({ client, log }: RestoreOptions, name: TargetName, signal: AbortSignal): Promise<void> {
  const raw = await client.find<RawTarget>(targetPath(name), signal);
  const target = raw && readTarget(raw);
  if (target === undefined || target.state === 'Up') return;
  await client.mergePatch(targetPath(name), upPatch(target), { signal });
  log.info('dependent scaled back', { target: targetKey(name), replicas: target.restored });
}
