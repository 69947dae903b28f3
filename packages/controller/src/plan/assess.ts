/**
 * Assesses one node: the change that its spec needs now, its condition and its phase. `plan.ts` calls
 * {@link assess} for each node, and the gates then decide on the candidates. A Node with its shadow
 * is in one of four states; a Node or a shadow alone waits.
 *
 *     unmanaged   the Node has lost its label: an update ends
 *     under way   the spec calls for a step of an update
 *     settled     the agent has confirmed Idle: the node is up to date, or a candidate
 *     unsettled   the agent has not confirmed Idle: the condition stays as it is until the deadline
 */
import { sameVersion } from '@brupop/shared/api/version';
import { isManaged, type NodeView } from '../cluster/node.ts';
import { isOwnedBy, isSettled, isUnderWay, type ShadowView } from '../cluster/shadow.ts';
import type { ManagedNode } from '../cluster/snapshot.ts';
import { type UpdatePolicy, wantedVersion } from '../policy/policy.ts';
import { failures } from './attempts.ts';
import { type Cleanup, cleanupOf } from './cleanup.ts';
import {
  notConfigured,
  overdue,
  agentNotResponding,
  updating,
  upToDate,
  type ProgressingCondition,
  waiting,
} from './condition.ts';
import { deadlineOf, isOverdue, notRespondingAt } from './deadlines.ts';
import type { Drainable } from './drainability.ts';
import type { Candidate } from './gates/gate.ts';
import { type Blocked, specRejected } from './reasons.ts';
import type { Transition } from './spec-change.ts';
import { idle, monitoredUntil, needsPods, sameSettings, transition, type TransitionInput } from './transition.ts';

export type NodePhase = 'upToDate' | 'updating' | 'waiting' | 'failed';

export interface Assessment {
  readonly managedNode: ManagedNode;
  /** The configuration has not taken full effect on the host yet. */
  readonly pending?: boolean;
  readonly change?: Transition | undefined;
  readonly progressing?: ProgressingCondition | undefined;
  readonly phase?: NodePhase;
  readonly lookUp?: boolean;
  readonly candidate?: Candidate;
  readonly cleanup?: Cleanup | undefined;
  /** When the assessment may change by time alone, epoch milliseconds. */
  readonly times: readonly (number | undefined)[];
}

/** An assessment after the gates: what a node adds to the plan. */
export interface Decision extends Assessment {
  readonly blocked?: Blocked;
}

interface AssessInput {
  readonly policy: UpdatePolicy;
  readonly drainOf: (node: NodeView) => Drainable;
  readonly whyNotDrained: (candidate: Candidate) => Blocked | undefined;
  readonly now: number;
}

interface Pair extends TransitionInput {
  readonly writeRejection: string | undefined;
}

type Findings = Omit<Assessment, 'managedNode' | 'cleanup'>;

const WAITING: Findings = { phase: 'waiting', times: [] };

export function assess(managedNode: ManagedNode, input: AssessInput): Assessment {
  const { node, shadow, writeRejection } = managedNode;
  const isPair = node !== undefined && shadow !== undefined && isOwnedBy(shadow, node);
  const findings = isPair ? assessPair(pairOf(node, shadow, writeRejection, input)) : WAITING;
  return { ...findings, managedNode, cleanup: cleanupOf(managedNode, input.now) };
}

function pairOf(
  node: NodeView,
  shadow: ShadowView,
  writeRejection: string | undefined,
  { policy, drainOf, whyNotDrained, now }: AssessInput,
): Pair {
  const { status, spec } = shadow;
  const staged = spec.state === 'StagedAndPerformedUpdate' && status !== undefined;
  const blockedBy = staged
    ? whyNotDrained({ node, shadow, status, version: spec.version ?? '', writeRejection })
    : undefined;
  return { node, shadow, policy, drain: drainOf(node), blockedBy, now, writeRejection };
}

function assessPair(pair: Pair): Findings {
  const { node, shadow } = pair;
  const change = transition(pair);
  if (!isManaged(node)) return { change: shadow.spec.state === 'Idle' ? change : idle(pair, 'Released'), times: [] };
  if (isUnderWay(shadow)) return assessUnderWay(pair, change);
  return isSettled(shadow) ? assessSettled(pair, change) : assessUnsettled(pair, change);
}

function assessUnderWay(pair: Pair, change: Transition | undefined): Findings {
  const { shadow, policy, drain, now } = pair;
  const stuck = isStuck(pair, change);
  const lookUp = change === undefined && needsPods(pair);
  const progressing = stuck
    ? overdue(pair, change?.outcome)
    : updating(shadow.spec.version ?? '', lookUp ? drain.problem : undefined);
  return {
    change: change?.outcome === 'Cancelled' ? { ...change, because: progressing } : change,
    progressing: conditionWith(change, pair, progressing),
    phase: stuck ? 'failed' : 'updating',
    pending: !stuck && !sameSettings(shadow.spec.hostSettings, policy.hostSettings),
    lookUp,
    times: [deadlineOf(shadow, policy, now), monitoredUntil(pair)],
  };
}

function isStuck({ shadow, policy, now }: Pair, change: Transition | undefined): boolean {
  return isOverdue(shadow, policy, now) && (change === undefined || change.outcome === 'Cancelled');
}

function assessSettled(pair: Pair, change: Transition | undefined): Findings {
  const { node, shadow, policy, writeRejection } = pair;
  const { status } = shadow;
  if (status === undefined) return WAITING;
  const { current_version: running, target_version: offered } = status;
  const version = wantedVersion(offered, policy.versions);
  const problem = status.hostSettings?.message;
  const common = { change, pending: change !== undefined, times: [] };
  if (problem !== undefined && sameVersion(running, offered)) {
    return { ...common, progressing: conditionWith(change, pair, notConfigured(problem)), phase: 'waiting' };
  }
  if (sameVersion(running, version)) {
    const progressing = upToDate(running, policy.versions.pin !== undefined);
    return { ...common, progressing: conditionWith(change, pair, progressing), phase: 'upToDate' };
  }
  const phase = failures(shadow) > 0 ? 'failed' : 'waiting';
  if (change !== undefined) return { ...common, progressing: conditionWith(change, pair, undefined), phase };
  return { candidate: { node, shadow, status, version, writeRejection }, phase, times: [] };
}

/** A change that the API server rejects takes precedence over `progressing`. */
function conditionWith(
  change: Transition | undefined,
  { writeRejection }: Pair,
  progressing: ProgressingCondition | undefined,
): ProgressingCondition | undefined {
  return change === undefined || writeRejection === undefined ? progressing : waiting(specRejected(writeRejection));
}

function assessUnsettled({ shadow, now }: Pair, change: Transition | undefined): Findings {
  const at = notRespondingAt(shadow, now);
  if (now < at) return { change, phase: phaseBefore(shadow), pending: true, times: [at] };
  return { change, progressing: agentNotResponding(shadow.status?.lastOperation), phase: 'waiting', times: [at] };
}

function phaseBefore({ progressing }: ShadowView): NodePhase {
  if (progressing?.reason === 'UpToDate') return 'upToDate';
  return progressing?.reason === 'Updating' ? 'updating' : 'waiting';
}
