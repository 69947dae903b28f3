/**
 * Writes the conditions of nodes, each only if the shadow does not show it already. Of each node:
 *
 *     wanted    the latest plan has a condition for it
 *     left      an earlier plan had one, and the latest has none, since the agent has not confirmed the spec: until then the shadow
 *               shows what was known before
 *     written   the shadow shows it, or is assumed to until the watch does
 *
 * A later plan with a condition for the node replaces what is left.
 */
import { CONTROLLER, GROUP, SHADOW_KIND, SHADOW_VERSION } from '@brupop/shared/api/names';
import type { Condition } from '@brupop/shared/api/meta';
import { isShown } from '../cluster/assume-cache.ts';
import { healthCondition, nodeOf, PROGRESSING, type ShadowView, SUSPECT } from '../cluster/shadow.ts';
import { isUnderWay } from '../cluster/state.ts';
import { transitionTime } from '../report/config-status.ts';
import { ofKey, ofParts, type Parts } from '../kept/parts.ts';
import { afterOther, type NodeCondition } from '../report/node-conditions.ts';
import { WriteQueue, type Wish } from './queue.ts';
import { pathOf, record } from './shadows.ts';
import type { ApplyContext } from './writer.ts';

/**
 * Few at a time: they cost the API server as much as specs do, and a node that goes through several states meanwhile needs
 * only the last one.
 */
const PARALLEL = 2;

interface WantedCondition extends Wish {
  readonly change: NodeCondition;
}

export class ConditionQueue {
  readonly #context: ApplyContext;
  readonly #onFailure: () => void;
  readonly #queue: WriteQueue<WantedCondition>;
  /** By the UID of the shadow: what is to be written, in flight, or backing off after a failure. */
  #left = new Map<string, NodeCondition>();

  /** @param onFailure - called after a write that failed */
  constructor(context: ApplyContext, onFailure: () => void) {
    this.#context = context;
    this.#onFailure = onFailure;
    this.#queue = new WriteQueue({ ...context, parallel: PARALLEL, write: ({ change }) => this.#write(change) });
  }

  /**
   * Replaces what is left to be written. Those that need a user go first.
   * @param isWanted - false: the condition of the node is left as it is
   * @param isUnconfirmed - true: no plan has a condition for the node until its agent has confirmed a spec that is written or
   * planned, so that what is left of an earlier plan is still to be written
   */
  offer(
    conditions: Parts<NodeCondition>,
    isWanted: (one: NodeCondition) => boolean,
    isUnconfirmed: (one: NodeCondition) => boolean,
  ): void {
    const { assumeCache } = this.#context;
    // The plan may be older than the latest writes.
    const written = [...assumeCache.withConditions(), ...this.#queue.objectsInFlight()];
    const latest = written.flatMap((uid) => conditionFor(uid, conditions) ?? []);
    const wanted = [...new Set([...notShownIn(conditions).flat(), ...latest])].filter(isWanted);
    const left = [...this.#left].flatMap(([uid, one]) =>
      isUnconfirmed(one) && conditionFor(uid, conditions) === undefined ? one : [],
    );
    const due = [...left, ...wanted].filter((one) => this.#isDue(one));
    const flying = [...this.#queue.objectsInFlight()].flatMap((uid) => this.#queue.inFlight(uid)?.change ?? []);
    this.#left = new Map([...flying, ...due].map((one) => [one.shadow.metadata.uid, one]));
    this.#queue.offer(
      due.map((change) => ({
        key: conditionKey(change.shadow),
        object: change.shadow.metadata.uid,
        priority: isUrgent(change) ? 0 : 1,
        change,
      })),
    );
  }

  /** Resolves when nothing is left to be written, or the signal has aborted. */
  async idle(): Promise<void> {
    await this.#queue.idle();
  }

  #isDue(change: NodeCondition): boolean {
    const { shadow } = change;
    const { uid } = shadow.metadata;
    const flying = this.#queue.inFlight(uid)?.change;
    const shown = flying === undefined ? (this.#context.assumeCache.shown(uid) ?? shadow) : shownBy(flying);
    return !isShown(shown, shownBy(change));
  }

  async #write(change: NodeCondition): Promise<void> {
    const { writer, logOf } = this.#context;
    const { shadow } = change;
    const send = () => writeCondition(this.#context, change);
    let isWritten = false;
    try {
      isWritten = await writer.attempt('condition', conditionKey(shadow), send, logOf(nodeOf(shadow)));
    } finally {
      if (!isWritten) this.#onFailure();
      else if (this.#left.get(shadow.metadata.uid) === change) this.#left.delete(shadow.metadata.uid);
    }
  }
}

/** Those that the shadows did not show when they were planned. */
const notShownIn = ofParts((part: readonly NodeCondition[]) =>
  part.filter((one) => !isShown(one.shadow, shownBy(one))),
);

const conditionFor = ofKey(({ shadow }: NodeCondition) => shadow.metadata.uid);

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
  const shown = assumeCache.shown(planned.shadow.metadata.uid);
  // The plan may be older than the latest write, with which a status has changed.
  const isOlder = shown !== undefined && shown.progressing !== planned.shadow.progressing;
  const change = isOlder ? afterOther(planned, shown, clock.now()) : planned;
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
  await client.apply(pathOf(shadow, 'status'), body, { fieldManager: CONTROLLER, signal });
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
