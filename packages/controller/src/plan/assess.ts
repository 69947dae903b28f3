import { sameVersion } from '@brupop/shared/api/version';
import { isManaged, type NodeView } from '../cluster/node.ts';
import { isOwnedBy, isSettled, isUnderWay, type ShadowView } from '../cluster/shadow.ts';
import type { Member } from '../cluster/snapshot.ts';
import { type Rules, wantedVersion } from '../policy/policy.ts';
import { failures } from './attempts.ts';
import { type CleanUp, cleanUpOf } from './cleanup.ts';
import { notConfigured, overdue, silent, updating, upToDate, type Verdict, waiting } from './condition.ts';
import { deadlineOf, isOverdue, silentAt } from './deadlines.ts';
import type { Drainable } from './drainability.ts';
import type { Candidate } from './gates/index.ts';
import { refused } from './gates/node.ts';
import type { Wait } from './reasons.ts';
import {
  advance,
  type AdvanceInput,
  idleSpec,
  monitoredUntil,
  needsPods,
  sameSettings,
  type SpecChange,
} from './transition.ts';

/** How a managed node counts in the status of the configuration. */
export type Standing = 'upToDate' | 'updating' | 'waiting' | 'failed';

/** What is to be done with one member, and how it stands. */
export interface Assessment {
  readonly member: Member;
  /** Its Node has the label of managed nodes. */
  readonly managed: boolean;
  /** Something of the configuration is still to take effect on it. */
  readonly pending?: boolean;
  /** The change that its spec needs now. */
  readonly change?: SpecChange;
  readonly verdict?: Verdict;
  readonly standing?: Standing;
  /** The pods on its node are to be looked up. */
  readonly lookUp?: boolean;
  /** It may begin an update if the gates let it. */
  readonly candidate?: Candidate;
  readonly cleanUp?: CleanUp;
  /** Times at which this may be otherwise without anything else changing, epoch milliseconds. */
  readonly times: readonly (number | undefined)[];
}

type Findings = Omit<Assessment, 'member' | 'managed' | 'cleanUp'>;

export interface AssessInput {
  readonly rules: Rules;
  readonly drainOf: (node: NodeView) => Drainable;
  /** Why a node that has staged its version must not be drained now, or undefined. */
  readonly whyNotDrained: (candidate: Candidate) => Wait | undefined;
  readonly now: number;
}

/** Looks at one member. */
export function assess(member: Member, input: AssessInput): Assessment {
  const { node, shadow } = member;
  const managed = node !== undefined && isManaged(node);
  const cleanUp = cleanUpOf(member, input.now);
  const isPair = node !== undefined && shadow !== undefined && isOwnedBy(shadow, node);
  const ours = isPair ? { node, shadow, refusal: member.refusal } : undefined;
  const findings: Findings =
    ours === undefined ? { standing: 'waiting', times: [] } : assessOwn(ours, { ...input, managed });
  return { ...findings, member, managed, ...(cleanUp !== undefined && { cleanUp }) };
}

interface Own {
  readonly node: NodeView;
  readonly shadow: ShadowView;
  readonly refusal: string | undefined;
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

function advanceInput({ node, shadow, refusal }: Own, circumstances: Circumstances): AdvanceInput {
  const { rules, drainOf, whyNotDrained, now } = circumstances;
  const { status, spec } = shadow;
  const staged = spec.state === 'StagedAndPerformedUpdate' && status !== undefined;
  const hold = staged ? whyNotDrained({ node, shadow, status, version: spec.version ?? '', refusal }) : undefined;
  return { shadow, node, rules, drain: drainOf(node), hold, now };
}

function assessUnmanaged(own: Own, circumstances: Circumstances): Findings {
  const atRest = own.shadow.spec.state === 'Idle';
  const released = { spec: idleSpec(circumstances.rules, circumstances.now), outcome: 'Released' } as const;
  const change = atRest ? advance(advanceInput(own, circumstances)) : released;
  return { ...(change !== undefined && { change }), times: [] };
}

function assessUnderWay(own: Own, circumstances: Circumstances): Findings {
  const { node, shadow, refusal } = own;
  const { rules, now } = circumstances;
  const input = advanceInput(own, circumstances);
  const change = advance(input);
  const stuck = isStuck(input, change);
  const lookUp = change === undefined && needsPods(input);
  const goesOn = updating(shadow.spec.version ?? '', lookUp ? input.drain.problem : undefined);
  const verdict = stuck ? overdue({ shadow, node, rules }, change?.outcome) : goesOn;
  return {
    ...next(change, verdict, refusal),
    standing: stuck ? 'failed' : 'updating',
    pending: !stuck && !sameSettings(shadow.spec.hostSettings, rules.hostSettings),
    ...(lookUp && { lookUp }),
    times: [deadlineOf(shadow, rules, now), monitoredUntil(input)],
  };
}

/** The change, with why an update is called off; and what the node says, also while the API server does not take the change. */
function next(
  change: SpecChange | undefined,
  verdict: Verdict,
  refusal: string | undefined,
): Pick<Findings, 'change' | 'verdict'> {
  if (change === undefined) return { verdict };
  return {
    change: change.outcome === 'Cancelled' ? { ...change, because: verdict } : change,
    verdict: refusal === undefined ? verdict : waiting(refused(refusal)),
  };
}

function isStuck({ shadow, rules, now }: AdvanceInput, change: SpecChange | undefined): boolean {
  return isOverdue(shadow, rules, now) && (change === undefined || change.outcome === 'Cancelled');
}

function assessSettled(own: Own, circumstances: Circumstances): Findings {
  const { node, shadow, refusal } = own;
  const { status } = shadow;
  if (status === undefined) return { standing: 'waiting', times: [] };
  const change = advance(advanceInput(own, circumstances));
  const version = wantedVersion(status.target_version, circumstances.rules.versions);
  const trouble = status.hostSettings?.message;
  if (trouble !== undefined && sameVersion(status.current_version, status.target_version)) {
    return { verdict: notConfigured(trouble), ...changed(change, refusal), standing: 'waiting', times: [] };
  }
  if (sameVersion(status.current_version, version)) {
    const verdict = upToDate(status.current_version, circumstances.rules.versions.pin !== undefined);
    return { verdict, ...changed(change, refusal), standing: 'upToDate', times: [] };
  }
  const standing = failures(shadow) > 0 ? 'failed' : 'waiting';
  if (change !== undefined) return { ...changed(change, refusal), standing, times: [] };
  return { candidate: { node, shadow, status, version, refusal }, standing, times: [] };
}

/** A host that is to be set otherwise; while the API server does not take that, the node says so. */
function changed(
  change: SpecChange | undefined,
  refusal: string | undefined,
): Pick<Findings, 'change' | 'pending' | 'verdict'> {
  if (change === undefined) return {};
  return { change, pending: true, ...(refusal !== undefined && { verdict: waiting(refused(refusal)) }) };
}

/** What a node was before its spec changed it still is. */
function standingBefore({ progressing }: ShadowView): Standing {
  if (progressing?.reason === 'UpToDate') return 'upToDate';
  return progressing?.reason === 'Updating' ? 'updating' : 'waiting';
}

/** Between the end of an attempt and the agent's confirmation the condition stays as it is. */
function assessUnsettled(own: Own, circumstances: Circumstances): Findings {
  const { shadow } = own;
  const { now } = circumstances;
  const change = advance(advanceInput(own, circumstances));
  const at = silentAt(shadow, now);
  const standing = standingBefore(shadow);
  return {
    ...(change !== undefined && { change }),
    ...(now >= at && { verdict: silent(shadow.status?.lastOperation) }),
    standing: now >= at ? 'waiting' : standing,
    pending: now < at,
    times: [at],
  };
}
