import { rfc3339 } from '@brupop/shared/clock';
import type { DrainBlock } from '@brupop/shared/drain/blocks';
import type { DrainBlockStatus, DrainResultName, DrainStatus, Handover } from '@brupop/shared/shadow';

/** More are not named; `remaining` counts them. */
export const MAX_BLOCKS = 20;
const MAX_MESSAGE = 500;
const MAX_BUDGETS = 20;

/** What a pass has come to. */
export interface PassOutcome {
  readonly evicted: number;
  readonly remaining: number;
  readonly blockedBy: readonly DrainBlock[];
  readonly handover: Handover | undefined;
  /** Undefined: the drain goes on. */
  readonly result: DrainResultName | undefined;
}

/**
 * The drain that a pass for this generation continues, or a new one. One that has emptied the node has its time again. One that was forced goes on as
 * it is, or it would wait for what it has left behind.
 */
export function continued(
  before: DrainStatus | undefined,
  { generation, remaining, now }: { readonly generation: number; readonly remaining: number; readonly now: number },
): DrainStatus {
  const time = rfc3339(now);
  const own = before?.observedGeneration === generation && before.result !== 'Cancelled' ? before : undefined;
  if (own === undefined) return { observedGeneration: generation, startTime: time, evicted: 0, remaining };
  if (own.result !== 'Drained') return own;
  const { observedGeneration, startTime, evicted } = own;
  return { observedGeneration, startTime, resumeTime: time, evicted, remaining };
}

/** True for the results after which the node is empty. */
export function isSuccess(result: DrainResultName | undefined): boolean {
  return result === 'Drained' || result === 'Forced';
}

/** True when the drain for this generation has emptied the node before. */
export function hasSucceeded(drain: DrainStatus | undefined, generation: number): boolean {
  return drain?.observedGeneration === generation && isSuccess(drain.result);
}

/** True for a pass that had nothing to do. */
export function isEmptyAgain({ result, evicted }: Pick<PassOutcome, 'result' | 'evicted'>): boolean {
  return isSuccess(result) && evicted === 0;
}

/** The drain with another handover, or without one. */
export function withHandover(drain: DrainStatus, handover: Handover | undefined): DrainStatus {
  const { handover: _, ...rest } = drain;
  return handover === undefined ? rest : { ...rest, handover };
}

/** The drain after a pass. */
export function afterPass(before: DrainStatus, outcome: PassOutcome, now: number): DrainStatus {
  const { result, handover, remaining } = outcome;
  const { observedGeneration, startTime, resumeTime } = before;
  const endTime = before.result === result ? before.endTime : rfc3339(now);
  const blockedBy = outcome.blockedBy.slice(0, MAX_BLOCKS).map((block) => dated(block, before, now));
  return {
    observedGeneration,
    startTime,
    ...(resumeTime !== undefined && { resumeTime }),
    evicted: before.evicted + outcome.evicted,
    remaining,
    ...(blockedBy.length > 0 && { blockedBy }),
    ...(handover !== undefined && { handover }),
    ...(result !== undefined && { result, ...(endTime !== undefined && { endTime }) }),
  };
}

/** The drain of an update that was called off: what it waited for does not matter any more. */
export function cancelled(before: DrainStatus, now: number): DrainStatus {
  const { blockedBy: _, handover: __, ...rest } = before;
  return { ...rest, result: 'Cancelled', endTime: rfc3339(now) };
}

function dated(block: DrainBlock, { blockedBy = [] }: DrainStatus, now: number): DrainBlockStatus {
  const known = blockedBy.find((one) => isSame(one, block));
  const { podDisruptionBudgets, ...rest } = block;
  const message = block.message.slice(0, MAX_MESSAGE);
  return {
    ...rest,
    message,
    ...(podDisruptionBudgets !== undefined && { podDisruptionBudgets: podDisruptionBudgets.slice(0, MAX_BUDGETS) }),
    since: known?.since ?? rfc3339(now),
  };
}

function isSame(a: DrainBlock, b: DrainBlock): boolean {
  return a.pod === b.pod && a.reason === b.reason;
}

/** Reasons that belong to every drain for a while. */
const ORDINARY: ReadonlySet<DrainBlock['reason']> = new Set([
  'Terminating',
  'VolumeDetach',
  'Replacement',
  'Throttled',
]);

/** What holds a pod up now and did not before: each is worth an Event. */
export function newBlocks(before: DrainStatus, after: DrainStatus): readonly DrainBlockStatus[] {
  const known = before.blockedBy ?? [];
  return (after.blockedBy ?? []).filter(
    (block) => !ORDINARY.has(block.reason) && !known.some((one) => isSame(one, block)),
  );
}
