import type { DrainSettings } from '@brupop/shared/api/config-spec';
import type { DrainBlock } from '@brupop/shared/api/shadow';
import type { Budget } from '@brupop/shared/drain/budgets';
import { preflight } from '@brupop/shared/drain/preflight';
import type { NodeView } from '../../cluster/node.ts';
import type { PodsOfNode } from '../../cluster/snapshot.ts';

/** The result of the preflight, by the latest list of the pods on the node. */
export interface Drainable {
  readonly blocks: readonly DrainBlock[];
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

interface DrainView {
  readonly pods: ReadonlyMap<string, PodsOfNode>;
  readonly budgets: readonly Budget[];
}

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

export function isDrainBlocked({ blocks, recheckAt }: Drainable, now: number): boolean {
  return blocks.length > 0 && now < recheckAt;
}

export function isDrainable({ blocks, fresh }: Drainable): boolean {
  return fresh && blocks.length === 0;
}

const MAX_NAMED = 3;

export function describeBlocks(blocks: readonly DrainBlock[]): string {
  const named = blocks.slice(0, MAX_NAMED).map(({ pod, message }) => `${pod} ${message}`);
  const more = blocks.length > MAX_NAMED ? [`${blocks.length - MAX_NAMED} more`] : [];
  return [...named, ...more].join('; ');
}
