import type { DrainSettings } from '@brupop/shared/api/config-spec';
import type { DrainBlock } from '@brupop/shared/api/shadow';
import type { Budget } from '@brupop/shared/drain/budgets';
import { preflight } from '@brupop/shared/drain/preflight';
import type { NodeView } from '../cluster/node.ts';
import type { PodsOfNode } from '../cluster/snapshot.ts';

/** Whether a drain may succeed, from the pods that were last seen on the node. */
export interface Drainable {
  /** What would make it fail; empty: nothing is known that would. */
  readonly blocks: readonly DrainBlock[];
  /** The pods were looked up so lately that a node may be cordoned on their account. */
  readonly fresh: boolean;
  /** When the pods of a node that cannot be drained are to be looked up again, epoch milliseconds. */
  readonly recheckAt: number;
  /** Why the pods could not be looked up, the latest time. */
  readonly problem: string | undefined;
}

/** A drain may begin on pods that were seen so long ago. */
const FRESH_MS = 10_000;
/** Budgets are watched, pods are not: those that hold a node up are looked up again after so long, */
const RECHECK_MS = 60_000;
/** and so much later for each node whose pods are known, so that many of them do not become load. */
const RECHECK_EACH_MS = 100;

export interface DrainView {
  /** By node name. */
  readonly pods: ReadonlyMap<string, PodsOfNode>;
  readonly budgets: readonly Budget[];
}

/** Judges a node. */
export function drainable({ metadata }: NodeView, view: DrainView, settings: DrainSettings, now: number): Drainable {
  const known = view.pods.get(metadata.name);
  if (known === undefined || known.nodeUID !== metadata.uid) return UNKNOWN;
  const { pods, seenAt, problem } = known;
  // The clock may have been set back since.
  if (seenAt === undefined || seenAt > now) return { ...UNKNOWN, problem };
  return {
    blocks: preflight(pods, view.budgets, settings),
    fresh: now - seenAt <= FRESH_MS,
    recheckAt: seenAt + RECHECK_MS + RECHECK_EACH_MS * view.pods.size,
    problem,
  };
}

const UNKNOWN: Drainable = { blocks: [], fresh: false, recheckAt: 0, problem: undefined };

/** True when a node is known to be impossible to drain, by what was seen not too long ago. */
export function isHopeless({ blocks, recheckAt }: Drainable, now: number): boolean {
  return blocks.length > 0 && now < recheckAt;
}

/** True when its pods were just looked up and nothing speaks against a drain. */
export function isDrainable({ blocks, fresh }: Drainable): boolean {
  return fresh && blocks.length === 0;
}

const MAX_NAMED = 3;

/** What keeps a node from being drained, in words. */
export function describeBlocks(blocks: readonly DrainBlock[]): string {
  const named = blocks.slice(0, MAX_NAMED).map(({ pod, message }) => `${pod} ${message}`);
  const more = blocks.length > MAX_NAMED ? [`${blocks.length - MAX_NAMED} more`] : [];
  return [...named, ...more].join('; ');
}
