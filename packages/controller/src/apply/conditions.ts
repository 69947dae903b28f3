/**
 * Writes the conditions of nodes beside the reconciles, so that neither specs nor plans wait for the conditions of a large
 * fleet, or for one that is slow to write. Of each node the newest condition is written:
 *
 *     wanted      the latest plan has it, and the shadow does not show it; a later plan replaces or withdraws it
 *     in flight   one for each node; what a later plan wants follows it
 *     failed      the key backs off (`writer.ts`), and the controller wakes to find out when it is tried again
 */
import { CONTROLLER, GROUP, SHADOW_KIND, SHADOW_VERSION } from '@brupop/shared/api/names';
import type { Condition } from '@brupop/shared/api/meta';
import { isShown } from '../cluster/assume-cache.ts';
import { healthCondition, nodeOf, PROGRESSING, type ShadowView, SUSPECT } from '../cluster/shadow.ts';
import { isUnderWay } from '../cluster/state.ts';
import { transitionTime } from '../plan/condition.ts';
import type { NodeCondition } from '../report/node-conditions.ts';
import { record, shadowPath } from './shadows.ts';
import type { ApplyContext } from './writer.ts';

/**
 * Few at a time: they cost the API server as much as specs do, and a node that goes through several states meanwhile needs
 * only the last one.
 */
const PARALLEL = 2;

export class ConditionQueue {
  readonly #context: ApplyContext;
  readonly #onFailure: () => void;
  /** By the UID of the shadow; those that need a user first, then the longest wanted. */
  #wanted = new Map<string, NodeCondition>();
  readonly #inFlight = new Map<string, NodeCondition>();
  readonly #workers = new Set<Promise<void>>();

  /** @param onFailure - called after a write that failed */
  constructor(context: ApplyContext, onFailure: () => void) {
    this.#context = context;
    this.#onFailure = onFailure;
  }

  /** Replaces what is left to be written. */
  offer(conditions: readonly NodeCondition[]): void {
    const due = new Map(
      conditions.filter((one) => this.#isDue(one)).map((one) => [one.shadow.metadata.uid, one] as const),
    );
    const earlier = [...this.#wanted].filter(([uid]) => due.has(uid));
    const urgent = [...due].filter(([, one]) => isUrgent(one));
    // The newest wish takes the place of the one before.
    this.#wanted = new Map([...urgent, ...earlier, ...due]);
    while (this.#workers.size < Math.min(PARALLEL, this.#wanted.size)) {
      const worker = this.#work();
      this.#workers.add(worker);
      void worker.finally(() => this.#workers.delete(worker));
    }
  }

  /** Resolves when nothing is left to be written, or the signal has aborted. */
  async idle(): Promise<void> {
    while (this.#workers.size > 0) await Promise.all(this.#workers);
  }

  /** The plan may be older than the latest write. */
  #isDue(change: NodeCondition): boolean {
    const { writer, assumeCache } = this.#context;
    const { shadow } = change;
    const { uid } = shadow.metadata;
    const flying = this.#inFlight.get(uid);
    const shown = flying === undefined ? (assumeCache.shown(uid) ?? shadow) : shownBy(flying);
    return !isShown(shown, shownBy(change)) && writer.canWrite(conditionKey(shadow));
  }

  async #work(): Promise<void> {
    for (let next = this.#take(); next !== undefined; next = this.#take()) await this.#write(next);
  }

  #take(): NodeCondition | undefined {
    if (this.#context.signal.aborted) return undefined;
    for (const [uid, change] of this.#wanted) {
      if (this.#inFlight.has(uid)) continue;
      this.#wanted.delete(uid);
      // The write before has failed meanwhile.
      if (!this.#context.writer.canWrite(conditionKey(change.shadow))) continue;
      this.#inFlight.set(uid, change);
      return change;
    }
    return undefined;
  }

  async #write(change: NodeCondition): Promise<void> {
    const { writer, logOf } = this.#context;
    const { shadow } = change;
    const send = () => writeCondition(this.#context, change);
    try {
      if (await writer.attempt('condition', conditionKey(shadow), send, logOf(nodeOf(shadow)))) return;
      this.#onFailure();
    } catch {
      // The Lease is lost, or the process ends: the reconcile says so.
      this.#wanted.clear();
      this.#onFailure();
    } finally {
      this.#inFlight.delete(shadow.metadata.uid);
    }
  }
}

function isUrgent({ event, health }: NodeCondition): boolean {
  return event?.warning === true || health === 'Stalled';
}

function shownBy(change: NodeCondition) {
  return { ...change, health: healthConditions(change, 0) };
}

function conditionKey({ metadata }: ShadowView): string {
  return `condition/${metadata.uid}`;
}

async function writeCondition(context: ApplyContext, planned: NodeCondition): Promise<void> {
  const { client, clock, assumeCache, signal } = context;
  // The plan may be older than the latest write, with which a status has changed.
  const change = { ...planned, shadow: { ...planned.shadow, ...assumeCache.shown(planned.shadow.metadata.uid) } };
  const { shadow, progressing, group } = change;
  const { uid, name, namespace = '' } = shadow.metadata;
  const condition = conditionOf(change, clock.now());
  const { waitingFor } = progressing;
  const [waitingReason] = waitingFor.split(' ', 1);
  const health = healthConditions(change, clock.now());
  // With the UID, so that a shadow that was deleted meanwhile is not created again.
  const body = {
    apiVersion: `${GROUP}/${SHADOW_VERSION}`,
    kind: SHADOW_KIND,
    metadata: { name, namespace, uid },
    status: { conditions: [condition, ...health], waitingFor, waitingReason, group },
  };
  await client.apply(shadowPath(shadow, 'status'), body, { fieldManager: CONTROLLER, signal });
  assumeCache.condition(shadow, { progressing: condition, health: health.map(healthCondition), group }, clock.now());
  logProblem(context, change);
  record(context, change);
}

/** A wait that passes by itself is a line at level debug only: in a large fleet there are many. */
function logProblem({ logOf }: ApplyContext, { node, shadow, progressing, event }: NodeCondition): void {
  if (event === undefined) return;
  const { reason: code, message } = progressing;
  const { from } = shadow.record;
  const fields = { ...(isUnderWay(shadow) && { from, to: shadow.spec.version }), code, message };
  const log = logOf(node.metadata.name);
  if (event.warning) log.warn('the node needs attention', fields);
  else log.debug('the node waits for something else', fields);
}

/** lastTransitionTime stays while the status does (Kubernetes API conventions). */
export function conditionOf(
  { shadow, progressing }: Pick<NodeCondition, 'shadow' | 'progressing'>,
  now: number,
): Condition {
  const { status, reason, message } = progressing;
  const lastTransitionTime = transitionTime(shadow.progressing, status, now);
  return { type: PROGRESSING, status, reason, message, lastTransitionTime };
}

/** Ready, what keeps it from being True, and Suspect. The first have the text of Progressing, for tools that know only these. */
export function healthConditions(
  { shadow, progressing, health, suspects }: Pick<NodeCondition, 'shadow' | 'progressing' | 'health' | 'suspects'>,
  now: number,
): Condition[] {
  const of = (
    type: string,
    status: Condition['status'],
    { reason, message }: Pick<Condition, 'reason' | 'message'>,
  ) => {
    const before = shadow.health.find((one) => one.type === type);
    return { type, status, reason, message, lastTransitionTime: transitionTime(before, status, now) };
  };
  const readiness =
    health === 'Ready'
      ? [of('Ready', 'True', progressing)]
      : [of('Ready', 'False', progressing), of(health, 'True', progressing)];
  return suspects === undefined
    ? readiness
    : [...readiness, of(SUSPECT, 'True', { reason: 'WorkloadsFail', message: suspects })];
}
