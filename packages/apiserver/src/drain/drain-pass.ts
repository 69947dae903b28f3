/**
 * One pass of a drain over one node. The drain goes through its stages by the clock (Evict, Force,
 * Over; see settings.ts), and a pass does what its stage allows:
 *
 * 1. The Node and then its pods are read from etcd. On a node that is cordoned and empty
 *    already, only step 5 follows: that is the case before the reboot, and after the replica that
 *    drained its own node has evicted itself.
 * 2. A drain that is over, or that the configuration blocks, ends here: nothing is evicted, and the
 *    node is not cordoned.
 * 3. The node is cordoned, and the watches start. If disruption budgets hold pods at the start of the drain, these are
 *    asked for before any other pod: an operator may move a primary, or open its budget, once it sees the cordon. A drain
 *    whose pods are not let go in time ends as Blocked. Pods that go last are not among them: their budgets may open only
 *    when the others are gone.
 * 4. The loop evicts pods in order until none is left, none can be evicted, another actor uncordons
 *    the node, the spec changes, or the time of the pass is over. It also ends, and the drain with it,
 *    when pods are to be deleted and this account may not.
 * 5. The node counts as empty only after another read of the Node and then of its pods from etcd, in
 *    which the Node is cordoned.
 */
import type { DrainSettings } from '@brupop/shared/api/config-spec';
import type { DrainResultName } from '@brupop/shared/api/shadow';
import { budgetsOf, type IndexedBudgets } from '@brupop/shared/drain/budget-index';
import { exhaustedBudgets, isHeld, mayBeOpened } from '@brupop/shared/drain/budgets';
import type { EvictionOutcome } from '@brupop/shared/drain/evictions';
import { cameBack, type DrainPod, goesLast, hasVolumes, podKey, podsToEvict } from '@brupop/shared/drain/pods';
import { policyBlock } from '@brupop/shared/drain/preflight';
import type { Changes } from '@brupop/shared/runtime/changes';
import type { Clock } from '@brupop/shared/runtime/clock';
import { Semaphore } from '../http/limits.ts';
import { requireNode } from '../nodes/nodes.ts';
import { cordonedSince, type Node } from '../nodes/policy.ts';
import type { DrainView } from './cluster-view.ts';
import type { PassContext } from './context.ts';
import { type DrainRecord, lastingFirst, type PassOutcome } from './drain-record.ts';
import { EvictionOrder } from './eviction-order.ts';
import type { Evictor } from './evictor.ts';
import {
  CORDON_REMOVED,
  holdsForBudgets,
  isAbandoned,
  isHoldOver,
  mayNotForce,
  type Stage,
  stageOf,
  timedOut,
} from './settings.ts';
import { VolumeHandovers } from './volume-handover.ts';

/** The parts of a pass; the pass calls them, and none of them calls back. */
interface PassParts {
  readonly view: DrainView;
  readonly evictor: Pick<Evictor, 'evict' | 'mayDelete' | 'budgetsFor'>;
  readonly record: DrainRecord;
}

export class DrainPass {
  readonly #context: PassContext;
  readonly #parts: PassParts;
  /** Monotonic milliseconds. */
  readonly #deadline: number;

  constructor(context: PassContext, parts: PassParts, deadline: number) {
    this.#context = context;
    this.#parts = parts;
    this.#deadline = deadline;
  }

  /** Throws KubeError, ApiError, and the reason of the signal. */
  async run(): Promise<PassOutcome> {
    const outcome = await this.#run();
    const returned = this.#returned();
    return returned.length === 0 ? outcome : { ...outcome, returned };
  }

  /** Pods that a drain would evict had they been there at the cordon. */
  #returned(): readonly string[] {
    const { view } = this.#parts;
    const since = cordonedSince(view.node()) ?? Infinity;
    return podsToEvict(view.pods(), view.filter())
      .filter((pod) => cameBack(pod, since))
      .map(podKey);
  }

  async #run(): Promise<PassOutcome> {
    const { nodes, identity, settings, clock, signal } = this.#context;
    const { view, record } = this.#parts;
    await view.load();
    const node = requireNode(view.node(), identity);
    await view.learnReplicas(view.pods());
    const budgets = await this.#start();
    await view.learnDaemonSets(view.pods());
    const stage = stageOf(record.current, settings, this.#podsToEvict(view.pods(), node), clock.now());
    const force = stage !== 'Evict' && settings.onTimeout === 'Force';
    const pods = this.#remaining(view.pods(), node, force);
    const early = this.#endsEarly(stage, pods);
    if (early !== undefined) return early;
    const cordon = await nodes.cordon(identity, signal, node);
    if (cordon === 'CordonRemoved') return nothingEvicted(pods, { result: cordon, failure: CORDON_REMOVED });
    const waits = stage === 'Evict' && record.current.handover !== undefined;
    if (node.unschedulable && pods.length === 0 && !waits) return nothingEvicted(pods, await this.#confirm(force));
    view.watch();
    if (budgets === undefined) return this.#evict(stage, force);
    const held = await this.#askFor(budgets);
    if (held.held === true) return held;
    await record.release();
    const { evicted, ...outcome } = await this.#evict(stage, force);
    return { ...outcome, evicted: held.evicted + evicted };
  }

  /** Returns the budgets of a drain that waits for the pods that they hold. */
  async #start(): Promise<IndexedBudgets | undefined> {
    const { view, record, evictor } = this.#parts;
    const pods = podsToEvict(view.pods(), view.filter());
    const mayHold = record.isNew ? holdsForBudgets(this.#context.settings) : record.current.held === true;
    const budgets = mayHold ? await evictor.budgetsFor(pods) : undefined;
    const isTried = (pod: DrainPod): boolean => {
      const [budget, ...more] = budgets === undefined ? [] : exhaustedBudgets(pod, budgetsOf(pod, budgets));
      return budget !== undefined && more.length === 0 && mayBeOpened(budget) && !goesLast(pod);
    };
    await record.start(pods.length, pods.some(isTried));
    return record.current.held === true ? budgets : undefined;
  }

  /** Requests the evictions of the pods that budgets hold and that go first, and of no other pod. */
  async #askFor(budgets: IndexedBudgets): Promise<PassOutcome> {
    const { settings, clock, signal } = this.#context;
    const { view, record } = this.#parts;
    const held = (): readonly DrainPod[] =>
      this.#remaining(view.pods(), view.node(), false).filter(
        (pod) => !goesLast(pod) && isHeld(pod, budgetsOf(pod, budgets)),
      );
    const handovers = new VolumeHandovers(this.#context, view, record);
    const { evicted, blockedBy } = await this.#loop(held, false, handovers).run(signal);
    const remaining = this.#remaining(view.pods(), view.node(), false);
    const isBlocked = held().length > 0;
    const result = isBlocked && isHoldOver(record.current, settings, clock.now()) ? 'Blocked' : undefined;
    const handover = result === undefined ? handovers.open : undefined;
    return { ...nothingEvicted(remaining, { blockedBy, handover, result }), evicted, held: isBlocked };
  }

  /** The outcome before the node is cordoned; undefined: the pass continues. */
  #endsEarly(stage: Stage, pods: readonly DrainPod[]): PassOutcome | undefined {
    const { settings, clock } = this.#context;
    const { current } = this.#parts.record;
    const { handover, blockedBy = [], result, held = false } = current;
    if (result === 'Blocked') return nothingEvicted(pods, { result, blockedBy });
    if (stage === 'Over' && pods.length > 0)
      return nothingEvicted(pods, { result: 'TimedOut', failure: timedOut(settings), blockedBy });
    const blocks = pods.flatMap((pod) => policyBlock(pod, settings) ?? []);
    if (blocks.length === 0) return undefined;
    if (held && isHoldOver(current, settings, clock.now()))
      return nothingEvicted(pods, { result: 'Blocked', blockedBy: blocks });
    return nothingEvicted(pods, { handover, blockedBy: blocks, held });
  }

  async #evict(stage: Stage, force: boolean): Promise<PassOutcome> {
    const { view, evictor, record } = this.#parts;
    const handovers = stage === 'Evict' ? new VolumeHandovers(this.#context, view, record) : undefined;
    const pods = (): readonly DrainPod[] => this.#remaining(view.pods(), view.node(), force);
    const result = await this.#loop(pods, force, handovers).run(this.#context.signal);
    if (!evictor.mayDelete) {
      const failure = mayNotForce(this.#context.settings);
      return { ...result, handover: undefined, result: 'TimedOut', forced: false, failure };
    }
    const handover = handovers?.open;
    const outcome = { ...result, handover, result: undefined, forced: force && result.evicted > 0 };
    if (result.remaining > 0 || handover !== undefined) return outcome;
    return { ...outcome, ...(await this.#confirm(force)) };
  }

  #loop(pods: () => readonly DrainPod[], force: boolean, handovers: VolumeHandovers | undefined): EvictionLoop {
    const { namespace, podName, clock, settings } = this.#context;
    const { view, evictor, record } = this.#parts;
    const isCordoned = cordonCheck(view);
    const mayContinue = (): boolean => !record.isOutdated() && isCordoned() && evictor.mayDelete;
    return new EvictionLoop({
      pods,
      evict: async (pod) => forbidden(pod, settings) ?? (await evictor.evict(pod, force && !pod.own, mayContinue)),
      handovers,
      order: new EvictionOrder(`${namespace}/${podName}`),
      mayContinue,
      changes: view.changes,
      clock,
      deadline: this.#deadline,
    });
  }

  async #confirm(force: boolean): Promise<Pick<PassOutcome, 'remaining' | 'result'>> {
    const { view } = this.#parts;
    const { pods, node: found } = await view.read();
    const node = requireNode(found, this.#context.identity);
    await view.learnReplicas(pods);
    await view.learnDaemonSets(pods);
    const remaining = this.#remaining(pods, node, force).length;
    return { remaining, result: remaining === 0 && node.unschedulable ? successOf(force) : undefined };
  }

  #podsToEvict(pods: readonly DrainPod[], node: Node | undefined): readonly DrainPod[] {
    const { view } = this.#parts;
    const since = cordonedSince(node);
    return podsToEvict(pods, { ...view.filter(), ...(since !== undefined && { cordonedSince: since }) });
  }

  /** Without those that a forced drain leaves behind. */
  #remaining(pods: readonly DrainPod[], node: Node | undefined, force: boolean): readonly DrainPod[] {
    const now = this.#context.clock.now();
    return this.#podsToEvict(pods, node).filter((pod) => !(force && isAbandoned(pod, now)));
  }
}

function nothingEvicted(remaining: readonly DrainPod[], changes: Partial<PassOutcome>): PassOutcome {
  const nothing = { evicted: 0, blockedBy: [], handover: undefined, result: undefined, forced: false };
  return { ...nothing, remaining: remaining.length, ...changes };
}

function successOf(force: boolean): DrainResultName {
  return force ? 'Forced' : 'Drained';
}

/** The configuration keeps the pod, which was bound to the node after the pass had read its pods. */
function forbidden(pod: DrainPod, settings: DrainSettings): EvictionOutcome | undefined {
  const block = policyBlock(pod, settings);
  return block && { kind: 'blocked', block, retryAfterMs: 0 };
}

/** True until the cordon is gone again: the watch shows it a moment after it was set. */
function cordonCheck(view: DrainView): () => boolean {
  let seen = false;
  return () => {
    const cordoned = view.node()?.unschedulable === true;
    seen ||= cordoned;
    return !seen || cordoned;
  };
}

export interface EvictionLoopOptions {
  /** What is left to evict, by the watch. */
  readonly pods: () => readonly DrainPod[];
  readonly evict: (pod: DrainPod) => Promise<EvictionOutcome>;
  /** Undefined: pods with volumes go like all others. */
  readonly handovers: Pick<VolumeHandovers, 'pending' | 'start' | 'requested' | 'blocks'> | undefined;
  readonly order: EvictionOrder;
  readonly mayContinue: () => boolean;
  readonly changes: Changes;
  readonly clock: Clock;
  /** Monotonic milliseconds. */
  readonly deadline: number;
}

const PARALLEL = 10;
const POLL_MS = 1_000;

export class EvictionLoop {
  readonly #options: EvictionLoopOptions;
  readonly #semaphore = new Semaphore(PARALLEL);
  #evicted = 0;

  constructor(options: EvictionLoopOptions) {
    this.#options = options;
  }

  /** Throws the reason of the signal, and what the handovers throw. */
  async run(signal: AbortSignal): Promise<Pick<PassOutcome, 'evicted' | 'remaining' | 'blockedBy'>> {
    const { pods, clock, deadline, handovers, order, changes } = this.#options;
    while (this.#mayContinue()) {
      changes.reset();
      const pending = await handovers?.pending(pods(), order);
      if (pending === undefined && (pods().length === 0 || order.isStuck(pods()))) break;
      const next = order.next(pods()).filter((pod) => {
        if (pending === undefined) return true;
        return pending.pod !== undefined && !hasVolumes(pod) && order.isBefore(pod, pending.pod);
      });
      const now = clock.monotonic();
      const due = order.due(next, now);
      await Promise.all(due.map((pod) => this.#semaphore.run(() => this.#request(pod))));
      const waitMs = Math.min(order.dueAt(next, now), deadline, now + POLL_MS) - now;
      if (due.length === 0) await changes.wait(Math.max(1, waitMs), signal);
      signal.throwIfAborted();
    }
    const left = pods();
    const blockedBy = lastingFirst([...(handovers?.blocks() ?? []), ...order.blocks(left, clock.now())]);
    return { evicted: this.#evicted, remaining: left.length, blockedBy };
  }

  async #request(pod: DrainPod): Promise<void> {
    const { clock, evict, handovers, order } = this.#options;
    if (!this.#mayContinue()) return;
    const mayStart = handovers === undefined || !hasVolumes(pod) || (await handovers.start(pod));
    // The process may have been frozen meanwhile, and the drain cancelled.
    if (!this.#mayContinue()) return;
    const outcome = mayStart ? await evict(pod) : NOT_YET;
    if (mayStart && hasVolumes(pod)) handovers?.requested(pod, outcome);
    if (outcome.kind === 'accepted') this.#evicted += 1;
    order.record(pod, outcome, clock.monotonic());
  }

  #mayContinue(): boolean {
    const { clock, deadline, mayContinue } = this.#options;
    return clock.monotonic() < deadline && mayContinue();
  }
}

/** Another replica may be evicting another pod with volumes. */
const NOT_YET: EvictionOutcome = {
  kind: 'blocked',
  block: { reason: 'Throttled', message: 'another pod with volumes may be terminating' },
  retryAfterMs: 1_000,
};
