import { CONTROLLER } from '@brupop/shared/api/names';
import type { KubeClient } from '@brupop/shared/kube/client';
import { Events } from '@brupop/shared/kube/events';
import type { Clock } from '@brupop/shared/runtime/clock';
import type { Logger } from '@brupop/shared/runtime/log';
import { Loop } from '@brupop/shared/runtime/loop';
import { ConfigStatus } from './apply/config-status.ts';
import { Restorer } from './apply/node-restore.ts';
import { TaintWriter } from './apply/node-taint.ts';
import { Publisher } from './apply/shadow-condition.ts';
import { specKey, SpecWriter } from './apply/spec.ts';
import { Writer } from './apply/writer.ts';
import type { Cluster } from './cluster/cluster.ts';
import type { Snapshot } from './cluster/snapshot.ts';
import { type Metrics, showFleet, showLeader } from './metrics.ts';
import { type Plan, plan } from './plan/plan.ts';
import type { SpecChange } from './plan/spec-change.ts';

export interface ControllerOptions {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly log: Logger;
  readonly cluster: Cluster;
  readonly metrics: Metrics;
  readonly namespace: string;
  /** Name of this pod, for Events. */
  readonly podName: string;
  readonly isLeading: () => boolean;
}

/** Changes come in bursts: one turn answers all of a burst. */
const MIN_GAP_MS = 50;

/** The loop of the leader: snapshot, plan, write, publish. */
export class Controller {
  readonly #options: ControllerOptions;
  readonly #writes: Writer;
  readonly #specs: SpecWriter;
  readonly #restorer: Restorer;
  readonly #publisher: Publisher;
  readonly #configStatus: ConfigStatus;
  readonly #taints: TaintWriter;
  #loop: Loop | undefined;
  #stale = '';
  /** Some node waits for a disruption budget, or something like it. */
  #drainBlocked = false;

  constructor(options: ControllerOptions) {
    this.#options = options;
    const { cluster, podName } = options;
    const writes = new Writer(options);
    const count = (result: string): void => options.metrics.writes.inc({ kind: 'event', result });
    const events = new Events({ ...options, component: CONTROLLER, instance: podName, count });
    const common = { ...options, writes, events, assumeCache: cluster.assumeCache };
    this.#writes = writes;
    this.#specs = new SpecWriter(common);
    this.#restorer = new Restorer(common);
    this.#publisher = new Publisher(common);
    this.#configStatus = new ConfigStatus(common);
    this.#taints = new TaintWriter(common);
  }

  /** Why this process is to be started anew, or undefined. */
  stalled(): string | undefined {
    return stalled(this.#loop?.runningForMs ?? 0, this.#writes.sinceWriteMs());
  }

  /** Leads until `signal` aborts. Throws KubeError when the shadows cannot be read at the beginning. */
  async lead(signal: AbortSignal): Promise<void> {
    const { clock, log, cluster, metrics } = this.#options;
    this.#writes.clear();
    this.#configStatus.clear();
    await cluster.catchUp(signal);
    const reconcile = (stop: AbortSignal): Promise<number | undefined> => this.#step(stop);
    const loop = new Loop({
      clock,
      log,
      reconcile,
      minGapMs: MIN_GAP_MS,
      onError: () => metrics.reconcileErrors.inc(),
    });
    this.#loop = loop;
    const unsubscribe = cluster.onChange(
      () => loop.wake(),
      () => this.#drainBlocked,
    );
    showLeader(metrics, true);
    try {
      await loop.run(signal);
    } finally {
      this.#loop = undefined;
      showLeader(metrics, false);
      unsubscribe();
    }
  }

  /** One turn. Answers the milliseconds until the next one is due. */
  async #step(signal: AbortSignal): Promise<number | undefined> {
    const snapshot = this.#options.cluster.snapshot((uid) => this.#writes.writeRejection(specKey(uid)));
    const next = this.#plan(snapshot);
    const unwritten = await this.#specs.write(next.specs, signal);
    await this.#restorer.run(next.cleanups, signal);
    await this.#options.cluster.lookups.look(next.lookUps, signal);
    const moreTaints = await this.#taints.write(next.taints, signal);
    const holding = next.conditions.filter(
      ({ shadow, progressing }) => !unwritten.has(shadow.metadata.uid) || progressing.reason === 'SpecWriteRejected',
    );
    const more = await this.#publisher.publish(holding, signal);
    const isInEffect =
      next.isInEffect &&
      !next.moreSpecs &&
      !moreTaints &&
      !next.specs.some((write) => isOfConfig(write) && unwritten.has(write.shadow.metadata.uid));
    const configIn = await this.#configStatus.publish(snapshot.config, next, isInEffect, signal);
    const planIn = next.wakeAt === undefined ? undefined : Math.max(0, next.wakeAt - this.#options.clock.now());
    const lookedUp = next.lookUps.length > 0;
    return soonest([
      more || moreTaints || lookedUp || next.moreSpecs ? 0 : undefined,
      configIn,
      planIn,
      this.#writes.nextTryMs(),
    ]);
  }

  #plan(snapshot: Snapshot): Plan {
    const { clock, metrics } = this.#options;
    const startedAt = clock.monotonic();
    const next = plan(snapshot, clock.now());
    metrics.planDuration.observe((clock.monotonic() - startedAt) / 1000);
    showFleet(metrics, snapshot, next);
    this.#drainBlocked = next.conditions.some(({ progressing }) => progressing.reason === 'DrainBlocked');
    this.#noteStale(next.stale.join(', '));
    return next;
  }

  #noteStale(stale: string): void {
    if (stale === this.#stale) return;
    const { log } = this.#options;
    if (stale === '') log.info('all watches are heard again: nodes may begin updates');
    else log.error('nothing was heard on a watch for too long: no node begins an update', { resources: stale });
    this.#stale = stale;
  }
}

/** True for what follows from the configuration alone. */
function isOfConfig({ outcome }: SpecChange): boolean {
  return outcome === 'Configured' || outcome === 'Interrupted' || outcome === 'Superseded';
}

function soonest(delays: readonly (number | undefined)[]): number | undefined {
  const known = delays.filter((delay): delay is number => delay !== undefined);
  return known.length === 0 ? undefined : Math.min(...known);
}

/** Longer than any single request or write may take. */
const LIMIT_MS = 120_000;

/**
 * Why the leader's loop hangs, or undefined: a turn has been under way for too long and no write of it has ended meanwhile. A large fleet makes
 * long turns, and a loop that waits for changes makes none.
 */
export function stalled(runningForMs: number, sinceWriteMs: number): string | undefined {
  const ms = Math.min(runningForMs, sinceWriteMs);
  return ms <= LIMIT_MS ? undefined : `a turn of the loop hangs: nothing has come of it for ${Math.round(ms / 1000)} s`;
}
