/** The condition Progressing of each node, and the Event that goes with it. */
import type { EventSource } from '@brupop/shared/kube/events';
import type { NodeView } from '../cluster/node.ts';
import type { ShadowView } from '../cluster/shadow.ts';
import { isPair, type NodePair, type Snapshot } from '../cluster/snapshot.ts';
import type { Decision } from '../plan/assess.ts';
import type { ProgressingCondition } from '../plan/condition.ts';
import { eventOn } from '../plan/specs/spec-change.ts';
import { Moment } from '../kept/moment.ts';
import { ofParts, ofPartsAt, type Parts } from '../kept/parts.ts';
import { describeSuspects, type Suspect } from '../plan/facts/suspects.ts';
import type { LostNode } from '../upkeep/lost-nodes.ts';
import { type Health, healthOf } from './reconciliation.ts';
import { isOfWait, keptEvent, waitEvent } from './wait-events.ts';

export interface NodeCondition {
  readonly shadow: ShadowView;
  readonly node: NodeView;
  readonly progressing: ProgressingCondition;
  readonly health: Health;
  /** The workloads that fail on it since its update; undefined: none. */
  readonly suspects?: string | undefined;
  /** Name of its group; empty: none. */
  readonly group: string;
  readonly event: EventSource | undefined;
}

/** A node whose pods are listed for the first time gets no condition, since that takes a moment. */
export function nodeConditionsOf(
  decisions: Parts<Decision>,
  { pods, lost }: Pick<Snapshot, 'pods'> & { readonly lost: readonly LostNode[] },
  now: Moment,
): Parts<NodeCondition> {
  const hasProblem = ({ managedNode: { name } }: Decision): boolean => pods.get(name)?.problem !== undefined;
  const listed = lookedUpIn(decisions).flat().filter(hasProblem);
  const found = [listed.flatMap((one) => nodeCondition(one, now) ?? []), ...conditionsIn(decisions, now.ms)];
  return lost.length === 0 ? found : found.map((part) => part.map((one) => withLoss(one, lost)));
}

const conditionsIn = ofPartsAt((part: readonly Decision[], now) =>
  part.filter(isKnown).flatMap((one) => (one.lookUp === true ? [] : (nodeCondition(one, now) ?? []))),
);

const lookedUpIn = ofParts((part: readonly Decision[]) => part.filter((one) => isKnown(one) && one.lookUp === true));

function isKnown({ blocked }: Decision): boolean {
  return blocked?.isUnknown !== true;
}

function nodeCondition(
  { managedNode, progressing, change, neverConnected, suspects = [] }: Decision,
  now: Moment,
): NodeCondition | undefined {
  if (progressing === undefined || !isPair(managedNode)) return undefined;
  // The write that cancels an update has its own Event.
  const deadline = change?.outcome === 'Cancelled' ? undefined : deadlineEvent(managedNode, progressing);
  const { node, shadow, group } = managedNode;
  const health = healthOf(progressing, neverConnected === true);
  const waits = waitEvent(managedNode, progressing, { isStalled: health === 'Stalled', now });
  const event = deadline ?? keptEvent(managedNode, progressing, now) ?? waits;
  return {
    shadow,
    node,
    ...withSuspects(progressing, suspects),
    health,
    event,
    group: group?.name ?? '',
  };
}

/** The condition after another one that its plan has not seen: which wait begins and which ends depends on that. */
export function afterOther(
  condition: NodeCondition,
  shown: Pick<ShadowView, 'progressing' | 'health' | 'group'>,
  now: number,
): NodeCondition {
  const { progressing, health, event } = condition;
  const shadow = { ...condition.shadow, ...shown };
  if (event !== undefined && !isOfWait(event)) return { ...condition, shadow };
  const isStalled = health === 'Stalled';
  return { ...condition, shadow, event: waitEvent({ shadow }, progressing, { isStalled, now: new Moment(now) }) };
}

function withSuspects(
  progressing: ProgressingCondition,
  found: readonly Suspect[],
): Pick<NodeCondition, 'progressing' | 'suspects'> {
  if (found.length === 0) return { progressing };
  const suspects = describeSuspects(found);
  return { progressing: { ...progressing, message: `${progressing.message}; ${suspects}` }, suspects };
}

/** The Event of a deadline that was missed, once for each step. */
function deadlineEvent({ node, shadow }: NodePair, { reason, message }: ProgressingCondition): EventSource | undefined {
  const { state, state_transition_timestamp: since } = shadow.spec;
  if (reason !== 'DeadlineExceeded' || shadow.progressing?.reason === reason) return undefined;
  return eventOn(node, shadow, { reason, message, key: `${shadow.metadata.uid}/${state}/${since ?? ''}` });
}

/** The condition of a lost node says so, whether or not its deadline has passed, and a user has to look at the host. */
function withLoss(condition: NodeCondition, lost: readonly LostNode[]): NodeCondition {
  const found = lost.find(({ name }) => name === condition.node.metadata.name);
  if (found === undefined) return condition;
  const progressing = { ...condition.progressing, message: found.message, waitingFor: 'NodeLost' };
  return { ...condition, progressing, health: 'Stalled' };
}
