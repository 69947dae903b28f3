/**
 * The loop of the leader: snapshot, plan, apply. Changes in the watch caches, the times that a plan
 * names and writes to be retried wake it; one reconcile answers all of them. Specs are written first,
 * so that no other write delays an update. Conditions and Nodes are written, and pods are listed, in the background: neither
 * those of many nodes nor one that is slow delays the next plan.
 */
import type { BrupopConfig } from '@brupop/shared/api/brupop-config';
import { CONTROLLER } from '@brupop/shared/api/names';
import { isTransient, kindOf } from '@brupop/shared/kube/error';
import { Events } from '@brupop/shared/kube/events';
import { retryDelayMs } from '@brupop/shared/kube/reflector';
import { backoff } from '@brupop/shared/runtime/backoff';
import { messageOf } from '@brupop/shared/runtime/errors';
import { RetriedProblem } from '@brupop/shared/runtime/log';
import { forEachOf } from '@brupop/shared/runtime/for-each';
import { Loop } from '@brupop/shared/runtime/loop';
import { ConfigWriter } from './apply/brupop-config.ts';
import { ConditionQueue } from './apply/conditions.ts';
import { CheckJobs } from './apply/jobs.ts';
import { NodeGroupWriter } from './apply/node-groups.ts';
import { NodeMetadataWriter } from './apply/node-metadata.ts';
import { cleanupWrite, taintWrite } from './apply/nodes.ts';
import { LossReporter, outOfServiceWrite } from './apply/lost-nodes.ts';
import { type NodeWrite, WriteQueue } from './apply/queue.ts';
import { writeRecords } from './apply/records.ts';
import { createKey, createWrite, specKey, writeSpecs } from './apply/shadows.ts';
import { type ApplyContext, Writer } from './apply/writer.ts';
import type { Cluster } from './cluster/cluster.ts';
import { nodeOf, type ShadowView } from './cluster/shadow.ts';
import type { ManagedNode, Snapshot } from './cluster/snapshot.ts';
import { isSettled } from './cluster/state.ts';
import { type Planned, showLeader } from './metrics.ts';
import type { NodeCondition } from './report/node-conditions.ts';
import type { Notifier } from './notify/notifier.ts';
import type { Silencer } from './silences/silencer.ts';
import { KeptFacts, type WholePlan, wholePlan } from './whole-plan.ts';

interface ControllerOptions extends Omit<ApplyContext, 'signal' | 'writer' | 'events' | 'assumeCache' | 'logOf'> {
  readonly cluster: Cluster;
  readonly podName: string;
  /** Absent: no receiver is notified. */
  readonly notifier?: Pick<Notifier, 'observe'>;
  /** Absent: no alert is silenced. */
  readonly silencer?: Pick<Silencer, 'observe'>;
}

interface Writers {
  readonly conditions: ConditionQueue;
  readonly nodes: WriteQueue<NodeWrite>;
  readonly config: ConfigWriter;
  readonly groups: NodeGroupWriter;
  readonly metadata: NodeMetadataWriter;
}

/** Changes come in bursts: one reconcile answers all changes of a burst. */
const MIN_GAP_MS = 50;
/** A plan for a large fleet takes a while: it uses no more than a tenth of a processor, unless that would delay updates. */
const GAP_OF_PLANS = 9;
const MAX_GAP_MS = 500;
/** Longer than any single request may take. */
const HANG_LIMIT_MS = 120_000;
/** Writes of Nodes, and of what goes with them. */
const NODES_AT_ONCE = 10;
/** Of the first lists. */
const CATCH_UP_RETRY = { baseMs: 250, capMs: 30_000 };

export class Controller {
  readonly #options: ControllerOptions;
  readonly #events: Events;
  #running: { readonly loop: Loop; readonly writer: Writer } | undefined;
  #stale = '';
  #planned: Planned | undefined;
  readonly #losses = new LossReporter();
  readonly #kept = new KeptFacts();
  /** How long the latest snapshot and its plan took, milliseconds, and when they ended, monotonic milliseconds. */
  #plannedForMs = 0;
  #plannedAt = -Infinity;

  constructor(options: ControllerOptions) {
    this.#options = options;
    const { podName, metrics } = options;
    const count = (result: string): void => metrics.writes.inc({ kind: 'event', result });
    this.#events = new Events({ ...options, component: CONTROLLER, instance: podName, count });
  }

  /** Makes the leader reconcile now. */
  wake(): void {
    this.#running?.loop.wake();
  }

  /** How many writes that failed wait for their next attempt, and Events to be sent, by kind. */
  pendingWrites(): ReadonlyMap<string, number> {
    return new Map([...(this.#running?.writer.pending() ?? []), ['event', this.#events.queued]]);
  }

  /** For metrics: what was planned last; undefined: this process does not lead. */
  get planned(): Planned | undefined {
    return this.#planned;
  }

  /** Why this process must be restarted, or undefined. */
  stalled(): string | undefined {
    return this.#running && stalled(this.#running.loop.runningForMs, this.#running.writer.sinceWriteMs());
  }

  /** Runs until `signal` aborts. Nothing is planned before the first lists have succeeded. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, log, cluster, metrics } = this.#options;
    const config = await this.#catchUp(signal);
    if (signal.aborted) return;
    const { assumeCache, logOf } = cluster;
    const writer = new Writer({ ...this.#options, signal });
    const context = { ...this.#options, signal, writer, events: this.#events, assumeCache, logOf };
    const jobs = new CheckJobs(context, cluster.checks);
    const writers = {
      conditions: new ConditionQueue(context, () => this.wake()),
      nodes: new WriteQueue<NodeWrite>({ ...context, parallel: NODES_AT_ONCE, write: (one) => this.#writeNode(one) }),
      config: new ConfigWriter(context, config),
      groups: new NodeGroupWriter(context),
      metadata: new NodeMetadataWriter(context, cluster.metadataNotes),
    };
    const reconcile = async (): Promise<number | undefined> => {
      const startedAt = clock.monotonic();
      const nextInMs = await this.#reconcile(context, writers, jobs);
      metrics.reconcileDuration.observe((clock.monotonic() - startedAt) / 1000);
      return nextInMs;
    };
    const onError = (): void => metrics.reconcileErrors.inc();
    const minGapMs = (delay: number | undefined): number =>
      gapAfter(this.#plannedForMs, clock.monotonic() - this.#plannedAt, delay);
    const loop = new Loop({ clock, log, reconcile, minGapMs, onError });
    const unsubscribe = cluster.onChange(() => loop.wake());
    this.#running = { loop, writer };
    showLeader(metrics, true);
    try {
      await loop.run(signal);
    } finally {
      this.#running = undefined;
      this.#planned = undefined;
      showLeader(metrics, false);
      unsubscribe();
      await Promise.all([writers.conditions.idle(), writers.nodes.idle()]);
      cluster.lookups.retain(new Set(), new Set());
      cluster.checks.clear();
      cluster.allPods.clear();
      cluster.members.clear();
    }
  }

  /** Tries until it succeeds or `signal` aborts: another leader would meet the same failure. */
  async #catchUp(signal: AbortSignal): Promise<BrupopConfig | undefined> {
    const { clock, log, cluster } = this.#options;
    const retry = backoff(CATCH_UP_RETRY);
    const problem = new RetriedProblem(clock);
    while (!signal.aborted) {
      try {
        const config = await cluster.catchUp(signal);
        if (problem.ended()) log.info('the new leader has read the shadows and the configuration');
        return config;
      } catch (error) {
        if (signal.aborted) break;
        const retryInMs = retryDelayMs(error, retry.next(), 'list');
        const level = problem.levelOf(kindOf(error), { isLasting: !isTransient(error) });
        const fields = { error: messageOf(error), retryInMs };
        log[level]('the new leader cannot read the shadows and the configuration, retrying', fields);
        await clock.sleep(retryInMs, signal).catch(() => undefined);
      }
    }
    return undefined;
  }

  /** Returns after how many milliseconds the next reconcile is due, or undefined. */
  async #reconcile(context: ApplyContext, writers: Writers, jobs: CheckJobs): Promise<number | undefined> {
    const { cluster, clock } = this.#options;
    const { writer, signal } = context;
    const failureOf = (name: string, shadow: ShadowView | undefined) => failuresOf(writer, name, shadow);
    const startedAt = clock.monotonic();
    const seen = cluster.snapshot(writer.hasFailures ? failureOf : undefined);
    const snapshot = writers.groups.withWritten(writers.config.withWritten(seen));
    const next = this.#wholePlan(snapshot);
    this.#plannedAt = clock.monotonic();
    this.#plannedForMs = this.#plannedAt - startedAt;
    const { unwritten, hasMore } = await writeSpecs(context, next.specs);
    await writeRecords(context, next.records);
    const sweepInMs = await jobs.run(next.checks);
    cluster.checks.look(next.checks, signal);
    cluster.allPods.look(next.allPods, signal);
    cluster.members.look(next.members, signal);
    this.#losses.report(context, next.lost);
    const metadataInMs = await this.#writeNodes(context, writers, next);
    const finalizersInMs = await writers.groups.finalize(next.metadata);
    const planned = new Set(next.specs.map(({ shadow }) => shadow.metadata.uid));
    writers.conditions.offer(next.conditions, isWanted(planned, unwritten), isUnconfirmed(planned, cluster));
    const written = isWritten(next, unwritten) && !writers.nodes.left.some(({ isOfConfig }) => isOfConfig === true);
    const configInMs = await writers.config.write(snapshot.config, next, written);
    const groupsInMs = await writers.groups.write(snapshot.groupObjects, next.groups, written);
    this.#options.notifier?.observe(next, writers.groups.withWritten(writers.config.withWritten(seen)));
    this.#options.silencer?.observe(next, snapshot);
    cluster.lookups.retain(next.needsPodsOf, next.observes);
    cluster.lookups.look(next.lookUps, signal);
    const planInMs = next.wakeAt === undefined ? undefined : Math.max(0, next.wakeAt - clock.now());
    const statusInMs = [configInMs, groupsInMs, metadataInMs, finalizersInMs];
    return soonest([hasMore ? 0 : undefined, ...statusInMs, planInMs, sweepInMs, writer.nextTryMs()]);
  }

  /** Returns after how many milliseconds there is more to write, or undefined. */
  async #writeNodes(
    context: ApplyContext,
    { nodes, metadata }: Writers,
    { cleanups, outOfService, newNodes, taints, metadata: { changes } }: WholePlan,
  ): Promise<number | undefined> {
    const { writes, inMs } = metadata.due(changes);
    nodes.offer([
      ...cleanups.map((one) => cleanupWrite(context, one)),
      ...outOfService.map((one) => outOfServiceWrite(context, one)),
      ...newNodes.map((one) => createWrite(context, one)),
      ...taints.map((one) => taintWrite(context, one)),
      ...writes.filter(({ evicts }) => !evicts),
    ]);
    const evicting = writes.filter(({ evicts }) => evicts);
    await forEachOf(evicting, ({ write }) => write());
    return evicting.length > 0 ? 0 : inMs;
  }

  /** The watch, or what is noted of the write, may change the next plan. */
  async #writeNode({ write }: NodeWrite): Promise<void> {
    try {
      await write();
    } finally {
      this.wake();
    }
  }

  #wholePlan(snapshot: Snapshot): WholePlan {
    const { clock, metrics } = this.#options;
    const startedAt = clock.monotonic();
    const next = wholePlan(snapshot, clock.now(), this.#kept);
    metrics.planDuration.observe((clock.monotonic() - startedAt) / 1000);
    const { managedNodes, config } = snapshot;
    // Not the whole snapshot: it has a list of all pods.
    this.#planned = { snapshot: { managedNodes, config }, made: next };
    this.#logStale(next.stale.join(', '));
    return next;
  }

  #logStale(stale: string): void {
    if (stale === this.#stale) return;
    const { log } = this.#options;
    if (stale === '') log.info('watches are current again: nodes may start updates');
    else log.error('watch stale: no node starts an update', { resources: stale });
    this.#stale = stale;
  }
}

function soonest(delays: readonly (number | undefined)[]): number | undefined {
  const ms = Math.min(...delays.map((delay) => delay ?? Infinity));
  return ms === Infinity ? undefined : ms;
}

/** What has failed of the writes of the spec, or of the creation of the shadow if there is none. */
export function failuresOf(
  writer: Writer,
  name: string,
  shadow: ShadowView | undefined,
): Pick<ManagedNode, 'writeRejection' | 'writeFailure'> {
  if (shadow === undefined) {
    const created = createKey(name);
    return { writeRejection: writer.latestRejection(created) ?? writer.lastingFailure(created) };
  }
  const key = specKey(shadow.metadata.uid);
  return { writeRejection: writer.writeRejection(key), writeFailure: writer.lastingFailure(key) };
}

/**
 * A spec that was just written was not rejected, and one that was not leaves the condition as it is, unless that says so.
 * @param planned - the UIDs of the shadows that are to have another spec
 */
function isWanted(planned: ReadonlySet<string>, unwritten: ReadonlySet<string>): (condition: NodeCondition) => boolean {
  return ({ shadow: { metadata }, progressing: { reason } }) => {
    const isRejected = reason === 'SpecWriteRejected';
    return !planned.has(metadata.uid) || unwritten.has(metadata.uid) === isRejected;
  };
}

/** True while this very shadow is to have another spec, or has one that its agent has not confirmed. */
function isUnconfirmed(
  planned: ReadonlySet<string>,
  cluster: Pick<Cluster, 'shadowOf'>,
): (condition: NodeCondition) => boolean {
  return ({ shadow }) => {
    const { uid } = shadow.metadata;
    const latest = cluster.shadowOf(nodeOf(shadow));
    return latest?.metadata.uid === uid && (planned.has(uid) || !isSettled(latest));
  };
}

/** True when all that follows from the configuration alone is written. */
function isWritten({ specs }: WholePlan, unwritten: ReadonlySet<string>): boolean {
  const ofConfig = specs.filter(({ outcome }) => ['Configured', 'Interrupted', 'Superseded'].includes(outcome));
  return !ofConfig.some(({ shadow }) => unwritten.has(shadow.metadata.uid));
}

/**
 * Milliseconds until the next reconcile.
 * @param sincePlanMs - what was written took this long
 * @param delayMs - when it is due; one that is to write more follows soon
 */
export function gapAfter(plannedForMs: number, sincePlanMs: number, delayMs: number | undefined): number {
  if (delayMs === 0) return MIN_GAP_MS;
  return Math.max(MIN_GAP_MS, Math.min(MAX_GAP_MS, GAP_OF_PLANS * plannedForMs) - sincePlanMs);
}

/** A large fleet makes long reconciles: one hangs only if none of its writes has ended. */
export function stalled(runningForMs: number, sinceWriteMs: number): string | undefined {
  const ms = Math.min(runningForMs, sinceWriteMs);
  return ms <= HANG_LIMIT_MS ? undefined : `reconcile hangs: no progress for ${Math.round(ms / 1000)} s`;
}
