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
import type { Candidate } from './gates/index.ts';
import { type Blocked, specRejected } from './reasons.ts';
import type { Transition } from './spec-change.ts';
import { transition, type TransitionInput, idleSpec, monitoredUntil, needsPods, sameSettings } from './transition.ts';

/** How a managed node counts in the status of the configuration. */
export type NodePhase = 'upToDate' | 'updating' | 'waiting' | 'failed';

/** What is to be done with one node, and its phase. */
export interface Assessment {
  readonly managedNode: ManagedNode;
  /** Its Node has the label of managed nodes. */
  readonly managed: boolean;
  /** The configuration has not taken full effect on the host yet. */
  readonly pending?: boolean;
  /** The change that its spec needs now. */
  readonly change?: Transition;
  readonly progressing?: ProgressingCondition;
  readonly phase?: NodePhase;
  /** The pods on the node have to be listed first. */
  readonly lookUp?: boolean;
  /** The node could update: the gates decide. */
  readonly candidate?: Candidate;
  readonly cleanup?: Cleanup;
  /** When the assessment may change by time alone, epoch milliseconds. */
  readonly times: readonly (number | undefined)[];
}

/** An assessment after the gates: what a node adds to the plan. */
export interface Decision extends Assessment {
  /** Why the gates do not let the node start. */
  readonly blocked?: Blocked;
}

export interface AssessInput {
  readonly policy: UpdatePolicy;
  readonly drainOf: (node: NodeView) => Drainable;
  /** Why a node that has staged its version must not be drained now, or undefined. */
  readonly whyNotDrained: (candidate: Candidate) => Blocked | undefined;
  readonly now: number;
}

/** A Node and the shadow that belongs to it. */
interface Pair extends AssessInput {
  readonly managedNode: ManagedNode;
  readonly node: NodeView;
  readonly shadow: ShadowView;
}

/** What the assessments of all nodes have in common is added by {@link assess}. */
type Findings = Omit<Assessment, 'managedNode' | 'managed' | 'cleanup'>;

/** Assesses one node. */
export function assess(managedNode: ManagedNode, input: AssessInput): Assessment {
  const { node, shadow } = managedNode;
  const managed = node !== undefined && isManaged(node);
  const cleanup = cleanupOf(managedNode, input.now);
  const isPair = node !== undefined && shadow !== undefined && isOwnedBy(shadow, node);
  const findings = isPair ? assessPair({ ...input, managedNode, node, shadow }) : WAITING;
  return { ...findings, managedNode, managed, ...(cleanup !== undefined && { cleanup }) };
}

const WAITING: Findings = { phase: 'waiting', times: [] };

function assessPair(pair: Pair): Findings {
  const { node, shadow } = pair;
  if (!isManaged(node)) return assessUnmanaged(pair);
  if (isUnderWay(shadow)) return assessUnderWay(pair);
  return isSettled(shadow) ? assessSettled(pair) : assessUnsettled(pair);
}

function transitionInput({ managedNode, node, shadow, policy, drainOf, whyNotDrained, now }: Pair): TransitionInput {
  const { status, spec } = shadow;
  const { writeRejection } = managedNode;
  const staged = spec.state === 'StagedAndPerformedUpdate' && status !== undefined;
  const blockedBy = staged
    ? whyNotDrained({ node, shadow, status, version: spec.version ?? '', writeRejection })
    : undefined;
  return { shadow, node, policy, drain: drainOf(node), blockedBy, now };
}

function assessUnmanaged(pair: Pair): Findings {
  const released = { spec: idleSpec(pair.policy, pair.now), outcome: 'Released' } as const;
  const change = pair.shadow.spec.state === 'Idle' ? transition(transitionInput(pair)) : released;
  return { ...(change !== undefined && { change }), times: [] };
}

function assessUnderWay(pair: Pair): Findings {
  const { managedNode, node, shadow, policy, now } = pair;
  const input = transitionInput(pair);
  const change = transition(input);
  const stuck = isStuck(input, change);
  const lookUp = change === undefined && needsPods(input);
  const progressing = stuck
    ? overdue({ shadow, node, policy }, change?.outcome)
    : updating(shadow.spec.version ?? '', lookUp ? input.drain.problem : undefined);
  return {
    ...next(change, progressing, managedNode.writeRejection),
    phase: stuck ? 'failed' : 'updating',
    pending: !stuck && !sameSettings(shadow.spec.hostSettings, policy.hostSettings),
    ...(lookUp && { lookUp }),
    times: [deadlineOf(shadow, policy, now), monitoredUntil(input)],
  };
}

/** Adds the reason to a cancellation. A change that the API server rejects is what the condition says. */
function next(
  change: Transition | undefined,
  progressing: ProgressingCondition,
  writeRejection: string | undefined,
): Pick<Findings, 'change' | 'progressing'> {
  if (change === undefined) return { progressing };
  return {
    change: change.outcome === 'Cancelled' ? { ...change, because: progressing } : change,
    progressing: writeRejection === undefined ? progressing : waiting(specRejected(writeRejection)),
  };
}

function isStuck({ shadow, policy, now }: TransitionInput, change: Transition | undefined): boolean {
  return isOverdue(shadow, policy, now) && (change === undefined || change.outcome === 'Cancelled');
}

function assessSettled(pair: Pair): Findings {
  const { managedNode, node, shadow, policy } = pair;
  const { status } = shadow;
  const { writeRejection } = managedNode;
  if (status === undefined) return WAITING;
  const change = transition(transitionInput(pair));
  const version = wantedVersion(status.target_version, policy.versions);
  const problem = status.hostSettings?.message;
  if (problem !== undefined && sameVersion(status.current_version, status.target_version)) {
    return { progressing: notConfigured(problem), ...changed(change, writeRejection), phase: 'waiting', times: [] };
  }
  if (sameVersion(status.current_version, version)) {
    const progressing = upToDate(status.current_version, policy.versions.pin !== undefined);
    return { progressing, ...changed(change, writeRejection), phase: 'upToDate', times: [] };
  }
  const phase = failures(shadow) > 0 ? 'failed' : 'waiting';
  if (change !== undefined) return { ...changed(change, writeRejection), phase, times: [] };
  return { candidate: { node, shadow, status, version, writeRejection }, phase, times: [] };
}

/** The host gets other settings; if the API server rejects that, the condition says so. */
function changed(
  change: Transition | undefined,
  writeRejection: string | undefined,
): Pick<Findings, 'change' | 'pending' | 'progressing'> {
  if (change === undefined) return {};
  return {
    change,
    pending: true,
    ...(writeRejection !== undefined && { progressing: waiting(specRejected(writeRejection)) }),
  };
}

/** The phase before the spec changed. */
function phaseBefore({ progressing }: ShadowView): NodePhase {
  if (progressing?.reason === 'UpToDate') return 'upToDate';
  return progressing?.reason === 'Updating' ? 'updating' : 'waiting';
}

/** Between the end of an attempt and the agent's confirmation the condition stays as it is. */
function assessUnsettled(pair: Pair): Findings {
  const { shadow, now } = pair;
  const change = transition(transitionInput(pair));
  const at = notRespondingAt(shadow, now);
  return {
    ...(change !== undefined && { change }),
    ...(now >= at && { progressing: agentNotResponding(shadow.status?.lastOperation) }),
    phase: now >= at ? 'waiting' : phaseBefore(shadow),
    pending: now < at,
    times: [at],
  };
}
