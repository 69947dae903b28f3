import { sameVersion } from '@brupop/shared/api/version';
import { isManaged, type NodeView } from '../cluster/node.ts';
import { isOwnedBy, isSettled, isUnderWay, type ShadowView } from '../cluster/shadow.ts';
import type { ManagedNode } from '../cluster/snapshot.ts';
import { type UpdatePolicy, wantedVersion } from '../policy/policy.ts';
import { failures } from './attempts.ts';
import { type Cleanup, cleanupOf } from './cleanup.ts';
import { notConfigured, overdue, silent, updating, upToDate, type ProgressingCondition, waiting } from './condition.ts';
import { deadlineOf, isOverdue, silentAt } from './deadlines.ts';
import type { Drainable } from './drainability.ts';
import type { Candidate } from './gates/index.ts';
import { type Blocked, specRejected } from './reasons.ts';
import type { Transition } from './spec-change.ts';
import { advance, type TransitionInput, idleSpec, monitoredUntil, needsPods, sameSettings } from './transition.ts';

/** How a managed node counts in the status of the configuration. */
export type NodePhase = 'upToDate' | 'updating' | 'waiting' | 'failed';

/** What is to be done with one member, and how it stands. */
export interface Assessment {
  readonly managedNode: ManagedNode;
  /** Its Node has the label of managed nodes. */
  readonly managed: boolean;
  /** Something of the configuration is still to take effect on it. */
  readonly pending?: boolean;
  /** The change that its spec needs now. */
  readonly change?: Transition;
  readonly progressing?: ProgressingCondition;
  readonly phase?: NodePhase;
  /** The pods on its node are to be looked up. */
  readonly lookUp?: boolean;
  /** It may begin an update if the gates let it. */
  readonly candidate?: Candidate;
  readonly cleanup?: Cleanup;
  /** Times at which this may be otherwise without anything else changing, epoch milliseconds. */
  readonly times: readonly (number | undefined)[];
}

/** An assessment after the gates: what a node adds to the plan. */
export interface Decision {
  readonly assessment: Assessment;
  readonly change?: Transition;
  readonly progressing?: ProgressingCondition;
  readonly phase?: NodePhase;
  readonly blocked?: Blocked;
  readonly lookUp?: boolean;
}

type Findings = Omit<Assessment, 'managedNode' | 'managed' | 'cleanup'>;

export interface AssessInput {
  readonly policy: UpdatePolicy;
  readonly drainOf: (node: NodeView) => Drainable;
  /** Why a node that has staged its version must not be drained now, or undefined. */
  readonly whyNotDrained: (candidate: Candidate) => Blocked | undefined;
  readonly now: number;
}

/** Looks at one member. */
export function assess(managedNode: ManagedNode, input: AssessInput): Assessment {
  const { node, shadow } = managedNode;
  const managed = node !== undefined && isManaged(node);
  const cleanup = cleanupOf(managedNode, input.now);
  const isPair = node !== undefined && shadow !== undefined && isOwnedBy(shadow, node);
  const ours = isPair ? { node, shadow, writeRejection: managedNode.writeRejection } : undefined;
  const findings: Findings =
    ours === undefined ? { phase: 'waiting', times: [] } : assessOwn(ours, { ...input, managed });
  return { ...findings, managedNode, managed, ...(cleanup !== undefined && { cleanup }) };
}

interface Own {
  readonly node: NodeView;
  readonly shadow: ShadowView;
  readonly writeRejection: string | undefined;
}

interface Circumstances extends AssessInput {
  readonly managed: boolean;
}

function assessOwn(own: Own, circumstances: Circumstances): Findings {
  const { shadow } = own;
  if (!circumstances.managed) return assessUnmanaged(own, circumstances);
  if (isUnderWay(shadow)) return assessUnderWay(own, circumstances);
  return isSettled(shadow) ? assessSettled(own, circumstances) : assessUnsettled(own, circumstances);
}

function advanceInput({ node, shadow, writeRejection }: Own, circumstances: Circumstances): TransitionInput {
  const { policy, drainOf, whyNotDrained, now } = circumstances;
  const { status, spec } = shadow;
  const staged = spec.state === 'StagedAndPerformedUpdate' && status !== undefined;
  const blockedBy = staged
    ? whyNotDrained({ node, shadow, status, version: spec.version ?? '', writeRejection })
    : undefined;
  return { shadow, node, policy, drain: drainOf(node), blockedBy, now };
}

function assessUnmanaged(own: Own, circumstances: Circumstances): Findings {
  const atRest = own.shadow.spec.state === 'Idle';
  const released = { spec: idleSpec(circumstances.policy, circumstances.now), outcome: 'Released' } as const;
  const change = atRest ? advance(advanceInput(own, circumstances)) : released;
  return { ...(change !== undefined && { change }), times: [] };
}

function assessUnderWay(own: Own, circumstances: Circumstances): Findings {
  const { node, shadow, writeRejection } = own;
  const { policy, now } = circumstances;
  const input = advanceInput(own, circumstances);
  const change = advance(input);
  const stuck = isStuck(input, change);
  const lookUp = change === undefined && needsPods(input);
  const goesOn = updating(shadow.spec.version ?? '', lookUp ? input.drain.problem : undefined);
  const progressing = stuck ? overdue({ shadow, node, policy }, change?.outcome) : goesOn;
  return {
    ...next(change, progressing, writeRejection),
    phase: stuck ? 'failed' : 'updating',
    pending: !stuck && !sameSettings(shadow.spec.hostSettings, policy.hostSettings),
    ...(lookUp && { lookUp }),
    times: [deadlineOf(shadow, policy, now), monitoredUntil(input)],
  };
}

/** The change, with why an update is called off; and what the node says, also while the API server does not take the change. */
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

function assessSettled(own: Own, circumstances: Circumstances): Findings {
  const { node, shadow, writeRejection } = own;
  const { status } = shadow;
  if (status === undefined) return { phase: 'waiting', times: [] };
  const change = advance(advanceInput(own, circumstances));
  const version = wantedVersion(status.target_version, circumstances.policy.versions);
  const trouble = status.hostSettings?.message;
  if (trouble !== undefined && sameVersion(status.current_version, status.target_version)) {
    return { progressing: notConfigured(trouble), ...changed(change, writeRejection), phase: 'waiting', times: [] };
  }
  if (sameVersion(status.current_version, version)) {
    const progressing = upToDate(status.current_version, circumstances.policy.versions.pin !== undefined);
    return { progressing, ...changed(change, writeRejection), phase: 'upToDate', times: [] };
  }
  const phase = failures(shadow) > 0 ? 'failed' : 'waiting';
  if (change !== undefined) return { ...changed(change, writeRejection), phase, times: [] };
  return { candidate: { node, shadow, status, version, writeRejection }, phase, times: [] };
}

/** A host that is to be set otherwise; while the API server does not take that, the node says so. */
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

/** What a node was before its spec changed it still is. */
function standingBefore({ progressing }: ShadowView): NodePhase {
  if (progressing?.reason === 'UpToDate') return 'upToDate';
  return progressing?.reason === 'Updating' ? 'updating' : 'waiting';
}

/** Between the end of an attempt and the agent's confirmation the condition stays as it is. */
function assessUnsettled(own: Own, circumstances: Circumstances): Findings {
  const { shadow } = own;
  const { now } = circumstances;
  const change = advance(advanceInput(own, circumstances));
  const at = silentAt(shadow, now);
  const phase = standingBefore(shadow);
  return {
    ...(change !== undefined && { change }),
    ...(now >= at && { progressing: silent(shadow.status?.lastOperation) }),
    phase: now >= at ? 'waiting' : phase,
    pending: now < at,
    times: [at],
  };
}
