import { isDeepStrictEqual } from 'node:util';
import type { DrainBlock, DrainBlockStatus, DrainResultName, DrainStatus, Handover } from '@brupop/shared/api/shadow';
import { type EventSource, shadowReference } from '@brupop/shared/kube/events';
import { rfc3339 } from '@brupop/shared/runtime/clock';
import type { SlimShadow } from '../shadows/policy.ts';

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

/** `docs/runbook.md` explains each. */
export const EVENT_REASONS = ['DrainBlocked', 'DrainForced'] as const;

/** A pod that holds a drain up, once for each reason and update. */
export function blockedOccurrence(shadow: SlimShadow, node: string, block: DrainBlockStatus): EventSource {
  const { pod, reason, message } = block;
  return {
    reason: 'DrainBlocked',
    warning: true,
    about: shadowReference(shadow),
    message: `Pod ${pod} holds up the drain of ${node}: ${reason}: ${message}`,
    key: `${shadow.metadata.generation ?? 0}/${pod}/${reason}`,
  };
}

/** Pods are deleted past their budgets, since the drain's time is over and the configuration says so. */
export function forcedOccurrence(shadow: SlimShadow, node: string): EventSource {
  const message = `The time for draining ${node} is over: what is left is deleted past its disruption budgets, as BrupopConfig "cluster" says in spec.drain.onTimeout`;
  const key = String(shadow.metadata.generation ?? 0);
  return { reason: 'DrainForced', warning: true, about: shadowReference(shadow), message, key };
}

/** The drain as the shadow has it; written only when it changes. */
export class DrainRecord {
  readonly #write: (drain: DrainStatus) => Promise<void>;
  #current: DrainStatus;

  /** @param current - what the shadow has now */
  constructor(current: DrainStatus, write: (drain: DrainStatus) => Promise<void>) {
    this.#current = current;
    this.#write = write;
  }

  get current(): DrainStatus {
    return this.#current;
  }

  /** Throws what the write throws; then the record stays as it was. */
  async set(next: DrainStatus): Promise<void> {
    if (isDeepStrictEqual(next, this.#current)) return;
    await this.#write(next);
    this.#current = next;
  }
}
