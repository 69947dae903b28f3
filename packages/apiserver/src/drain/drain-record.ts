/**
 * The only writer of `status.drain` of a shadow. Each change is recorded there, so that any replica
 * can continue a drain: `start` before anything is done to the node, `saveHandover` before a pod with
 * volumes is evicted, `finish` after a pass, `cancel` when the node is restored. A write throws what
 * Shadows.writeDrain throws; then the record stays as it was.
 */
import { isDeepStrictEqual } from 'node:util';
import type { DrainFailure } from '@brupop/shared/api/agent-protocol';
import { withoutEmpty } from '@brupop/shared/api/schema';
import type { DrainBlock, DrainBlockStatus, DrainResultName, DrainStatus, Handover } from '@brupop/shared/api/shadow';
import { type EventSource, shadowReference } from '@brupop/shared/kube/events';
import { parseTime, rfc3339 } from '@brupop/shared/runtime/clock';
import { shorten } from '@brupop/shared/runtime/errors';
import type { SlimShadow } from '../shadows/policy.ts';
import type { DrainCall, DrainContext } from './context.ts';

/** `remaining` counts those that are not listed, too. */
const MAX_UNREPLACED = 100;
export const MAX_BLOCKS = 20;
const MAX_MESSAGE = 500;
const MAX_BUDGETS = 20;

export interface PassOutcome {
  readonly evicted: number;
  readonly remaining: number;
  readonly blockedBy: readonly DrainBlock[];
  readonly handover: Handover | undefined;
  /** Undefined: another pass continues. */
  readonly result: DrainResultName | undefined;
  /** Whether pods were deleted past their budgets. */
  readonly forced: boolean;
  readonly failure?: DrainFailure;
  /** Budgets still hold pods, and nothing else is evicted. */
  readonly held?: boolean;
  /** Pods that came back to the cordoned node, as `namespace/name`. */
  readonly returned?: readonly string[];
}

export class DrainRecord {
  readonly #context: DrainContext & DrainCall;
  readonly #generation: number;
  /** Before this pass. */
  #started: DrainStatus;
  #current: DrainStatus;

  constructor(context: DrainContext & DrainCall) {
    const { shadow, clock } = context;
    this.#context = context;
    this.#generation = shadow.metadata.generation ?? 0;
    this.#started = continued(shadow.drain, { generation: this.#generation, remaining: 0, now: clock.now() });
    this.#current = this.#started;
  }

  get current(): DrainStatus {
    return this.#current;
  }

  /** True before {@link start} of a drain that no pass has recorded yet. */
  get isNew(): boolean {
    return this.#started !== this.#context.shadow.drain && this.#started.resumeTime === undefined;
  }

  /** True when the watch shows another spec than the one that the drain is for. */
  isOutdated(): boolean {
    const { shadows, identity, shadow } = this.#context;
    const { uid } = shadow.metadata;
    const known = shadows.cached(identity.node)?.metadata;
    return known !== undefined && (known.uid !== uid || (known.generation ?? 0) > this.#generation);
  }

  /**
   * Records a new drain: from here its time limit counts, also when this replica ends.
   * @param held - disruption budgets hold pods, which are asked for first
   */
  async start(remaining: number, held: boolean): Promise<void> {
    if (this.#started === this.#context.shadow.drain) return;
    this.#started = { ...this.#started, ...(held && { held }), remaining };
    this.#current = this.#started;
    if (this.#hasSucceeded()) return;
    await this.#write(this.#started);
    this.#context.log.info('the drain starts', { remaining, held });
  }

  /** Records that no budget holds a pod any more: the other pods are evicted from here, within the whole time limit. */
  async release(): Promise<void> {
    const { held: _, ...rest } = this.#started;
    this.#started = { ...rest, resumeTime: rfc3339(this.#context.clock.now()) };
    const { handover, unreplaced } = this.#current;
    await this.#set(withoutEmpty<DrainStatus>({ ...this.#started, unreplaced, handover }));
  }

  async cancel(): Promise<void> {
    const { shadows, shadow, identity, clock, log, signal } = this.#context;
    if (!isOpen(shadow.drain)) return;
    const { drain, metadata } = await shadows.read(identity.node, signal);
    if (!isOpen(drain)) return;
    await shadows.writeDrain({ node: identity.node, uid: metadata.uid }, cancelled(drain, clock.now()), signal);
    log.info('the drain is cancelled: the node is restored', { evicted: drain.evicted, remaining: drain.remaining });
  }

  /** @param unreplaced - a namespace in which no other replacement is waited for */
  async saveHandover(handover: Handover | undefined, unreplaced?: string): Promise<void> {
    const { unreplaced: before = [] } = this.#current;
    const all = [...new Set(unreplaced === undefined ? before : [...before, unreplaced])].slice(0, MAX_UNREPLACED);
    await this.#set(withoutEmpty<DrainStatus>({ ...this.#current, unreplaced: all, handover }));
  }

  /** Records the pass, counts it, and writes an Event for each new block. */
  async finish(outcome: PassOutcome): Promise<void> {
    const { clock, log, metrics, events, shadow, identity } = this.#context;
    const { node } = identity;
    const before = this.#started;
    // A node that is still empty needs no other record.
    const unchanged = this.#current === before && isSuccess(outcome.result) && outcome.evicted === 0;
    if (unchanged && this.#hasSucceeded()) return;
    const { unreplaced } = this.#current;
    const after = { ...afterPass(before, outcome, clock.now()), ...(unreplaced && { unreplaced }) };
    await this.#set(after);
    for (const block of newBlocks(before, after)) {
      const { pod, reason, message } = block;
      log.info('a pod blocks the drain', { pod, reason, message });
      metrics.drainBlocks.inc({ reason });
      events.record(blockedEvent(shadow, node, block));
    }
    if (outcome.forced) events.record(forcedEvent(shadow, node));
    if (after.result !== before.result) this.#ended(after, outcome);
  }

  #ended({ result, evicted, remaining, startTime }: DrainStatus, { failure }: PassOutcome): void {
    if (result === undefined) return;
    const { clock, log, metrics } = this.#context;
    const fields = { result, evicted, remaining, code: failure?.code, error: failure?.message };
    log[levelOfEnd(result)]('the drain ends', fields);
    const seconds = (clock.now() - (parseTime(startTime) ?? clock.now())) / 1000;
    metrics.drainDuration.observe({ result }, Math.max(0, seconds));
  }

  /** True when the drain for this generation has emptied the node before. */
  #hasSucceeded(): boolean {
    const { drain } = this.#context.shadow;
    return drain?.observedGeneration === this.#generation && isSuccess(drain.result);
  }

  async #set(next: DrainStatus): Promise<void> {
    if (isDeepStrictEqual(next, this.#current)) return;
    await this.#write(next);
    this.#current = next;
  }

  async #write(next: DrainStatus): Promise<void> {
    const { shadows, identity, shadow, signal } = this.#context;
    const { uid } = shadow.metadata;
    await shadows.writeDrain({ node: identity.node, uid, generation: this.#generation }, next, signal);
  }
}

function isOpen(drain: DrainStatus | undefined): drain is DrainStatus {
  return drain !== undefined && drain.result === undefined;
}

export function isSuccess(result: DrainResultName | undefined): boolean {
  return result === 'Drained' || result === 'Forced';
}

/** Blocked is no failure: no pod was evicted, and the node waits for its next turn. Forced has deleted pods past their budgets. */
export function levelOfEnd(result: DrainResultName): 'info' | 'warn' {
  return result === 'Drained' || result === 'Blocked' ? 'info' : 'warn';
}

/**
 * The drain that a pass for this generation continues, or a new one. A drained node that has pods
 * again gets the whole time limit again. A forced drain does not, or it would wait for the pods that
 * it has left behind.
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

export function afterPass(before: DrainStatus, outcome: Omit<PassOutcome, 'forced'>, now: number): DrainStatus {
  const { result, handover, remaining, held = false, returned = [] } = outcome;
  const { observedGeneration, startTime, resumeTime } = before;
  const endTime = before.result === result ? before.endTime : rfc3339(now);
  return withoutEmpty<DrainStatus>({
    observedGeneration,
    startTime,
    resumeTime,
    held: held && result === undefined ? held : undefined,
    returned: returned.slice(0, MAX_BLOCKS),
    evicted: before.evicted + outcome.evicted,
    remaining,
    blockedBy: outcome.blockedBy.slice(0, MAX_BLOCKS).map((block) => dated(block, before, now)),
    handover,
    result,
    endTime: result === undefined ? undefined : endTime,
  });
}

export function cancelled(before: DrainStatus, now: number): DrainStatus {
  const { blockedBy: _, handover: __, held: ___, ...rest } = before;
  return { ...rest, result: 'Cancelled', endTime: rfc3339(now) };
}

function dated(block: DrainBlock, { blockedBy = [] }: DrainStatus, now: number): DrainBlockStatus {
  const known = blockedBy.find((one) => isSame(one, block));
  return withoutEmpty<DrainBlockStatus>({
    ...block,
    message: shorten(block.message, MAX_MESSAGE),
    podDisruptionBudgets: block.podDisruptionBudgets?.slice(0, MAX_BUDGETS),
    since: known?.since ?? rfc3339(now),
  });
}

function isSame(a: DrainBlock, b: DrainBlock): boolean {
  return a.pod === b.pod && a.reason === b.reason;
}

/** Reasons that every drain has for a while: no Event. */
const ORDINARY: readonly DrainBlock['reason'][] = ['Terminating', 'VolumeDetach', 'Replacement', 'Throttled'];

function isOrdinary({ reason }: DrainBlock): boolean {
  return ORDINARY.includes(reason);
}

/** Only the first blocks are shown: those that every drain has follow the others. */
export function lastingFirst(blocks: readonly DrainBlock[]): readonly DrainBlock[] {
  return blocks.toSorted((a, b) => Number(isOrdinary(a)) - Number(isOrdinary(b)));
}

export function newBlocks(before: DrainStatus, after: DrainStatus): readonly DrainBlockStatus[] {
  const known = before.blockedBy ?? [];
  const blocks = after.blockedBy ?? [];
  return blocks.filter((block) => !isOrdinary(block) && !known.some((one) => isSame(one, block)));
}

/** `docs/runbook.md` explains each. */
export const EVENT_REASONS = ['DrainBlocked', 'DrainForced'] as const;

/** One Event for each pod, reason and update. */
function blockedEvent(shadow: SlimShadow, node: string, block: DrainBlockStatus): EventSource {
  const { pod, reason, message } = block;
  return {
    reason: 'DrainBlocked',
    warning: true,
    about: shadowReference(shadow),
    message: `Pod ${pod} blocks the drain of ${node}: ${reason}: ${message}`,
    key: `${shadow.metadata.generation ?? 0}/${pod}/${reason}`,
  };
}

function forcedEvent(shadow: SlimShadow, node: string): EventSource {
  const message = `The time limit for draining ${node} is over: deleting the remaining pods past their disruption budgets, because spec.drain.onTimeout is Force`;
  const key = String(shadow.metadata.generation ?? 0);
  return { reason: 'DrainForced', warning: true, about: shadowReference(shadow), message, key };
}
