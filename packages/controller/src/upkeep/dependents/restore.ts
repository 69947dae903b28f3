/**
 * What a Job of the chart does before the operator is uninstalled: it takes the Lease from the controllers, so that none
 * of them scales anything to 0 again, and scales back what is at 0. It takes the Lease again and again until all are back,
 * and so keeps it long enough for the uninstallation to delete the controllers.
 *
 *     a target fails                  all are tried again, after a backoff, until LIMIT_MS
 *     another process took the Lease  it may have scaled targets to 0: all are tried again, when it no longer leads
 */
import { LEASE_LIMITS } from '@brupop/shared/api/deadlines';
import { type TargetName, targetKey } from '@brupop/shared/api/config-dependents';
import { CONTROLLER } from '@brupop/shared/api/names';
import type { KubeClient } from '@brupop/shared/kube/client';
import { hasStatus, isTransient } from '@brupop/shared/kube/error';
import { claimed, holderOf, type Lease, MAX_WAIT_FACTOR } from '@brupop/shared/kube/leader-election';
import { LEASE_VERSION, leasePath } from '@brupop/shared/kube/paths';
import { backoff } from '@brupop/shared/runtime/backoff';
import { type Clock, rfc3339Micro } from '@brupop/shared/runtime/clock';
import { messageOf } from '@brupop/shared/runtime/errors';
import type { Logger } from '@brupop/shared/runtime/log';
import { type RawTarget, readTarget, targetPath, upPatch } from './target.ts';

interface RestoreOptions {
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
const LOST = 'another process takes the Lease again and again';
/** So often the Lease is taken again. */
const RENEW_MS = 20_000;

/** Throws when targets cannot be scaled back in time, with the reason of each, and the signal's reason when it aborts. */
export async function restoreDependents(options: RestoreOptions, signal: AbortSignal): Promise<void> {
  const { clock } = options;
  const endsAt = clock.monotonic() + LIMIT_MS;
  const lease = new TakenLease(options);
  const retry = backoff(RETRY);
  await lease.keep(signal);
  for (;;) {
    const { failed, wasKept } = await restoreEach(options, lease, signal);
    if (failed.length === 0 && wasKept) return;
    if (clock.monotonic() >= endsAt) throw new Error(`cannot scale back: ${failed.join('; ') || LOST}`);
    await clock.sleep(retry.next(), signal);
  }
}

interface Round {
  /** Why each target that failed could not be scaled back. */
  readonly failed: readonly string[];
  /** False: a controller may have led meanwhile, and have scaled to 0 again what this round has scaled back. */
  readonly wasKept: boolean;
}

/** Tries all of them, so that one that fails keeps no other at 0. Ends with a Lease that has just been taken. */
async function restoreEach(options: RestoreOptions, lease: TakenLease, signal: AbortSignal): Promise<Round> {
  const failed: string[] = [];
  let wasKept = true;
  for (const target of options.targets) {
    try {
      await restore(options, target, signal);
    } catch (error) {
      if (signal.aborted) throw error;
      const why = `${targetKey(target)}: ${messageOf(error)}`;
      options.log.warn('cannot scale a dependent back', { error: why });
      failed.push(why);
    }
    if (lease.isDue && !(await lease.keep(signal))) wasKept = false;
  }
  return { failed, wasKept: (await lease.keep(signal)) && wasKept };
}

/** The Lease of the controllers: for as long as another candidate waits at most, longer than the longest round of requests. */
class TakenLease {
  readonly #options: RestoreOptions;
  #takenAt = -Infinity;

  constructor(options: RestoreOptions) {
    this.#options = options;
  }

  /** A target takes two requests, and so does the Lease: it has not expired at the next look. */
  get isDue(): boolean {
    return this.#options.clock.monotonic() - this.#takenAt >= RENEW_MS;
  }

  /**
   * Takes the Lease. True: this process has held it since it took it before. Otherwise another one may have acted with
   * it, and returns only when that has seen the change.
   */
  async keep(signal: AbortSignal): Promise<boolean> {
    const { clock, log } = this.#options;
    const wasHeld = await this.#untilTaken(signal);
    this.#takenAt = clock.monotonic();
    if (wasHeld) return true;
    const waitMs = LEASE_LIMITS.leaseDurationMs;
    log.info('no controller leads from now on; waiting for the last one', { waitMs });
    await clock.sleep(waitMs, signal);
    return false;
  }

  /** A conflict shows that the Lease is to be read again. Returns whether no other process held it: a response may be lost. */
  async #untilTaken(signal: AbortSignal): Promise<boolean> {
    const { client, clock, log, namespace, identity } = this.#options;
    const retry = backoff(RETRY);
    let wasHeld = true;
    for (;;) {
      try {
        const lease = await client.find<Lease>(leasePath({ namespace, name: CONTROLLER }), signal);
        wasHeld &&= holderOf(lease) === identity;
        await this.#write(lease, signal);
        return wasHeld;
      } catch (error) {
        if (signal.aborted || !(isTransient(error) || hasStatus(error, 409))) throw error;
        const retryInMs = retry.next();
        log.warn('cannot take the Lease, retrying', { error: messageOf(error), retryInMs });
        await clock.sleep(retryInMs, signal);
      }
    }
  }

  async #write(lease: Lease | undefined, signal: AbortSignal): Promise<void> {
    const { client, clock, namespace, identity } = this.#options;
    const leaseDurationMs = MAX_WAIT_FACTOR * LEASE_LIMITS.leaseDurationMs;
    const spec = claimed(lease, { identity, leaseDurationMs }, rfc3339Micro(clock.now()));
    const metadata = lease?.metadata ?? { name: CONTROLLER, namespace };
    const body = { apiVersion: LEASE_VERSION, kind: 'Lease', metadata, spec };
    const path = leasePath(lease === undefined ? { namespace } : { namespace, name: CONTROLLER });
    await client.request({ method: lease === undefined ? 'POST' : 'PUT', path, body, signal });
  }
}

async function restore({ client, log }: RestoreOptions, name: TargetName, signal: AbortSignal): Promise<void> {
  const raw = await client.find<RawTarget>(targetPath(name), signal);
  const target = raw && readTarget(raw);
  if (target === undefined || target.state === 'Up') return;
  await client.mergePatch(targetPath(name), upPatch(target), { signal });
  log.info('dependent scaled back', { target: targetKey(name), replicas: target.restored });
}
