import type { DrainSettings } from '@brupop/shared/api/config-spec';
import type { DrainBlock } from '@brupop/shared/api/shadow';
import type { BudgetIndex, IndexedBudgets } from '@brupop/shared/drain/budget-index';
import type { DrainPod } from '@brupop/shared/drain/pods';
import { preflight } from '@brupop/shared/drain/preflight';
import type { NodeView } from '../../cluster/node.ts';
import type { PodsOfNode, Snapshot } from '../../cluster/snapshot.ts';

/** The result of the preflight, by the latest list of the pods on the node. */
export interface Drainable {
  /** What blocks the drain, or undefined. */
  readonly block: string | undefined;
  /** The list is recent enough to cordon the node. */
  readonly fresh: boolean;
  /** When the pods of a blocked node are listed again, epoch milliseconds. */
  readonly recheckAt: number;
  readonly problem: string | undefined;
}

/** A drain may start on a list of this age. */
const FRESH_MS = 10_000;
/** Budgets are watched, pods are not: those that block a node are listed again after this time, */
const RECHECK_MS = 60_000;
/** and this much later for each node whose pods are known, to limit the load. */
const RECHECK_EACH_MS = 100;

type DrainView = Pick<Snapshot, 'pods' | 'budgets'>;

/** What one plan learns about the drains of the nodes that it asks for. */
export class Drains {
  /** The names of these nodes: the pods of no other are needed. */
  readonly asked = new Set<string>();
  readonly #view: DrainView;
  readonly #settings: DrainSettings;
  readonly #now: number;

  constructor(view: DrainView, settings: DrainSettings, now: number) {
    this.#view = view;
    this.#settings = settings;
    this.#now = now;
  }

  of({ metadata }: NodeView): Drainable {
    this.asked.add(metadata.name);
    const { pods, budgets } = this.#view;
    const known = pods.get(metadata.name);
    if (known === undefined || known.nodeUID !== metadata.uid) return UNKNOWN;
    const { seenAt, problem } = known;
    // The clock may have been set back since.
    if (seenAt === undefined || seenAt > this.#now) return { ...UNKNOWN, problem };
    return {
      block: judge(known, budgets, this.#settings),
      fresh: this.#now - seenAt <= FRESH_MS,
      recheckAt: seenAt + RECHECK_MS + RECHECK_EACH_MS * pods.size,
      problem,
    };
  }
}

const UNKNOWN: Drainable = { block: undefined, fresh: false, recheckAt: 0, problem: undefined };

interface Verdict {
  readonly block: string | undefined;
  readonly settings: DrainSettings;
  /** By namespace, the budgets that it was found with. */
  readonly budgets: ReadonlyMap<string, BudgetIndex | undefined>;
}

/** The latest verdict on each list of pods, which holds while the budgets and settings are the same. */
const verdicts = new WeakMap<readonly DrainPod[], Verdict>();

/** Compares the pods with their budgets when the list, a budget of its namespaces or the settings changed. */
function judge({ pods, namespaces }: PodsOfNode, budgets: IndexedBudgets, settings: DrainSettings): Verdict['block'] {
  const known = verdicts.get(pods);
  if (known?.settings === settings && isSame(known.budgets, budgets)) return known.block;
  const blocks = preflight(pods, budgets, settings);
  const used = new Map([...namespaces].map((name) => [name, budgets.get(name)]));
  const block = blocks.length === 0 ? undefined : describeBlocks(blocks);
  verdicts.set(pods, { block, settings, budgets: used });
  return block;
}

function isSame(used: Verdict['budgets'], budgets: IndexedBudgets): boolean {
  for (const [name, index] of used) if (budgets.get(name) !== index) return false;
  return true;
}

export function isDrainBlocked({ block, recheckAt }: Drainable, now: number): boolean {
  return block !== undefined && now < recheckAt;
}

export function isDrainable({ block, fresh }: Drainable): boolean {
  return fresh && block === undefined;
}

const MAX_NAMED = 3;

export function describeBlocks(blocks: readonly DrainBlock[]): string {
  const named = blocks.slice(0, MAX_NAMED).map(({ pod, message }) => `${pod} ${message}`);
  const more = blocks.length > MAX_NAMED ? [`${blocks.length - MAX_NAMED} more`] : [];
  return [...named, ...more].join('; ');
}
