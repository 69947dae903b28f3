import type { DrainFailure } from '@brupop/shared/api/agent-protocol';
import type { DrainSettings } from '@brupop/shared/api/config-spec';
import type { DrainResultName, DrainStatus, Handover } from '@brupop/shared/api/shadow';
import { daemonSetsInQuestion, type DrainPod, podsToEvict } from '@brupop/shared/drain/pods';
import { policyBlock } from '@brupop/shared/drain/preflight';
import type { Clock } from '@brupop/shared/runtime/clock';
import { cordonedSince, type Cordon, type Node } from '../nodes/policy.ts';
import type { DrainView } from './cluster-view.ts';
import { DrainPass } from './drain-pass.ts';
import type { PassOutcome } from './drain-status.ts';
import type { EvictionOutcome } from './eviction.ts';
import { isAbandoned, type Stage, stageOf, timedOut, CORDON_REMOVED } from './limits.ts';
import { VolumeHandovers, NO_HANDOVERS } from './volume-handovers.ts';

/** What a pass does to the cluster. */
export interface NodeDrainHands {
  readonly cordon: () => Promise<Cordon>;
  readonly end: (pod: DrainPod, force: boolean) => Promise<EvictionOutcome>;
  /** True when the DaemonSet (`namespace/name`) exists. */
  readonly daemonSetExists: (key: string) => Promise<boolean>;
  readonly saveHandover: (handover: Handover | undefined) => Promise<void>;
  /** Past every cache: the pods on the node, and the Node. */
  readonly lookAgain: () => Promise<{ readonly pods: readonly DrainPod[]; readonly node: Node }>;
}

export interface NodeDrainOptions {
  readonly view: DrainView;
  readonly hands: NodeDrainHands;
  readonly settings: DrainSettings;
  /** As it was before this pass. */
  readonly drain: DrainStatus;
  /** UID of the pod that asks. */
  readonly caller: string;
  /** False: the spec has changed, and nothing more is to be done for this one. */
  readonly isCurrent: () => boolean;
  readonly clock: Clock;
  /** When the pass must be over, monotonic milliseconds. */
  readonly deadline: number;
  readonly signal: AbortSignal;
}

export interface NodeDrainOutcome extends PassOutcome {
  readonly failure?: DrainFailure;
  /** True when pods were deleted past their budgets. */
  readonly forced: boolean;
}

/** One pass over one node, its view being there. */
export class NodeDrain {
  readonly #options: NodeDrainOptions;
  readonly #daemonSets = new Map<string, boolean>();
  #pass: DrainPass | undefined;

  constructor(options: NodeDrainOptions) {
    this.#options = options;
  }

  /** Something has changed in the view. */
  wake(): void {
    this.#pass?.wake();
  }

  /** Throws KubeError, Failure, and the reason of the signal. */
  async run(): Promise<NodeDrainOutcome> {
    const { view, settings, drain, clock, hands } = this.#options;
    await this.#lookUpDaemonSets(view.pods());
    const stage = stageOf(drain, settings, this.#toGo(view.pods(), view.node()), clock.now());
    const force = stage !== 'Evict' && settings.onTimeout === 'Force';
    const pods = this.#waitedFor(view.pods(), view.node(), force);
    const held = pods.flatMap((pod) => policyBlock(pod, settings) ?? []);
    const waits = { evicted: 0, remaining: pods.length, handover: drain.handover, result: undefined, forced: false };
    if (stage === 'Over' && pods.length > 0)
      return { ...waits, ...ended('TimedOut', timedOut(settings)), blockedBy: drain.blockedBy ?? [] };
    // Nobody is evicted, and the node is not cordoned, for a drain that cannot succeed.
    if (held.length > 0) return { ...waits, blockedBy: held };
    if ((await hands.cordon()) === 'Vetoed') return { ...waits, ...ended('Vetoed', CORDON_REMOVED), blockedBy: [] };
    return this.#empty(stage, force);
  }

  async #empty(stage: Stage, force: boolean): Promise<NodeDrainOutcome> {
    const { view, hands, settings, drain, clock, deadline, signal, isCurrent } = this.#options;
    const save = hands.saveHandover;
    const isCordoned = cordonWatch(view);
    const keeper = new VolumeHandovers({ view, settings, clock, known: drain.handover, save, signal });
    this.#pass = new DrainPass({
      pods: () => this.#waitedFor(view.pods(), view.node(), force),
      evict: (pod) => hands.end(pod, force),
      handovers: stage === 'Evict' ? keeper : NO_HANDOVERS,
      mayGoOn: () => isCurrent() && isCordoned(),
      clock,
      deadline,
    });
    const result = await this.#pass.run(signal);
    const handover = stage === 'Evict' ? keeper.current : undefined;
    const outcome = { ...result, handover, result: undefined, forced: force && result.evicted > 0 };
    if (result.remaining > 0 || handover !== undefined) return outcome;
    return { ...outcome, ...(await this.#confirm(force)) };
  }

  /** Asks once more, past every cache, before the host is rebooted. */
  async #confirm(force: boolean): Promise<Pick<NodeDrainOutcome, 'remaining' | 'result'>> {
    const { pods, node } = await this.#options.hands.lookAgain();
    await this.#lookUpDaemonSets(pods);
    const remaining = this.#waitedFor(pods, node, force).length;
    const done = remaining === 0 && node.unschedulable;
    return { remaining, result: done ? endOf(force) : undefined };
  }

  #toGo(pods: readonly DrainPod[], node: Node | undefined): readonly DrainPod[] {
    const orphaned = new Set([...this.#daemonSets].filter(([, exists]) => !exists).map(([key]) => key));
    const { caller, drain } = this.#options;
    const since = cordonedSince(node, drain);
    return podsToEvict(pods, { orphaned, caller, ...(since !== undefined && { since }) });
  }

  #waitedFor(pods: readonly DrainPod[], node: Node | undefined, force: boolean): readonly DrainPod[] {
    const now = this.#options.clock.now();
    return this.#toGo(pods, node).filter((pod) => !(force && isAbandoned(pod, now)));
  }

  /** Any answer but "yes" or "no" ends the pass. */
  async #lookUpDaemonSets(pods: readonly DrainPod[]): Promise<void> {
    const unknown = [...daemonSetsInQuestion(pods)].filter((key) => !this.#daemonSets.has(key));
    await Promise.all(
      unknown.map(async (key) => this.#daemonSets.set(key, await this.#options.hands.daemonSetExists(key))),
    );
  }
}

function ended<R extends DrainResultName>(
  result: R,
  failure: DrainFailure,
): { readonly result: R; readonly failure: DrainFailure; readonly handover: undefined } {
  return { result, failure, handover: undefined };
}

function endOf(force: boolean): 'Forced' | 'Drained' {
  return force ? 'Forced' : 'Drained';
}

/** True until the cordon, once it was seen, is gone: the watch shows it a moment after it was set. */
function cordonWatch(view: DrainView): () => boolean {
  let seen = false;
  return () => {
    const cordoned = view.node()?.unschedulable === true;
    seen ||= cordoned;
    return !seen || cordoned;
  };
}
