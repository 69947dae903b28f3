import type { ShadowView } from '../cluster/shadow-view.ts';
import type { AdvanceInput, SpecChange } from './advance.ts';
import { advance, idleSpec, monitoredUntil, needsPods } from './advance.ts';
import type { CleanUp } from './clean-up.ts';
import { cleanUpOf } from './clean-up.ts';
import type { Candidate } from './gates/index.ts';
import type { NodeView } from '../cluster/node-view.ts';
import { isManaged } from '../cluster/node-view.ts';
import { isOwnedBy, isSettled, isUnderWay } from '../cluster/shadow-view.ts';
import type { Member } from '../cluster/snapshot.ts';
import { failures } from './failures.ts';
import { placeUntil } from './place.ts';
import type { Drainable } from './drainable.ts';
import type { Rules } from './rules.ts';
import { deadlineOf, isOverdue, silentAt } from './steps.ts';
import type { Verdict } from './verdict.ts';
import { overdue, silent, upToDate, updating } from './verdict.ts';
import { sameVersion } from '../cluster/version.ts';

/** How a managed node counts in the status of the configuration. */
export type Standing = 'upToDate' | 'updating' | 'waiting' | 'failed';

/** What can be said of one member without looking at the others. */
export interface Assessment {
  readonly member: Member;
  readonly managed: boolean;
  readonly holdsSlot: boolean;
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

type Findings = Omit<Assessment, 'member' | 'managed' | 'holdsSlot' | 'cleanUp'>;

export interface AssessInput {
  readonly rules: Rules;
  readonly drainOf: (node: NodeView) => Drainable;
  readonly now: number;
}

/** Looks at one member. */
export function assess(member: Member, { rules, drainOf, now }: AssessInput): Assessment {
  const { node, shadow } = member;
  const managed = node !== undefined && isManaged(node);
  const cleanUp = cleanUpOf(member, now);
  const isPair = node !== undefined && shadow !== undefined && isOwnedBy(shadow, node);
  const until = placeUntil(member, rules, now);
  const ours = isPair ? { node, shadow, refusal: member.refusal } : undefined;
  const circumstances = { managed, rules, drainOf, now };
  const findings: Findings = ours === undefined ? { standing: 'waiting', times: [] } : assessOwn(ours, circumstances);
  return {
    ...findings,
    member,
    managed,
    holdsSlot: until !== undefined && now < until,
    ...(cleanUp !== undefined && { cleanUp }),
    times: [...findings.times, until],
  };
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
  return isSettled(shadow) ? assessSettled(own) : assessUnsettled(own, circumstances);
}

function assessUnmanaged({ node, shadow }: Own, { rules, drainOf, now }: Circumstances): Findings {
  const atRest = shadow.spec.state === 'Idle';
  const released = { spec: idleSpec(now), outcome: 'Released' } as const;
  const change = atRest ? advance({ shadow, node, rules, drain: drainOf(node), now }) : released;
  return { ...(change !== undefined && { change }), times: [] };
}

function assessUnderWay({ node, shadow }: Own, { rules, drainOf, now }: Circumstances): Findings {
  const input = { shadow, node, rules, drain: drainOf(node), now };
  const change = advance(input);
  const stuck = isStuck(input, change);
  const lookUp = change === undefined && needsPods(input);
  const goesOn = updating(shadow.spec.version ?? '', lookUp ? input.drain.problem : undefined);
  return {
    ...(change !== undefined && { change }),
    verdict: stuck ? overdue({ shadow, node, rules }, change?.outcome) : goesOn,
    standing: stuck ? 'failed' : 'updating',
    ...(lookUp && { lookUp }),
    times: [deadlineOf(shadow.spec, rules, now), monitoredUntil(input)],
  };
}

function isStuck({ shadow, rules, now }: AdvanceInput, change: SpecChange | undefined): boolean {
  return isOverdue(shadow, rules, now) && (change === undefined || change.outcome === 'Cancelled');
}

function assessSettled({ node, shadow, refusal }: Own): Findings {
  const { status } = shadow;
  if (status === undefined) return { standing: 'waiting', times: [] };
  if (sameVersion(status.current_version, status.target_version)) {
    return { verdict: upToDate(status.current_version), standing: 'upToDate', times: [] };
  }
  const standing = failures(shadow) > 0 ? 'failed' : 'waiting';
  return { candidate: { node, shadow, status, refusal }, standing, times: [] };
}

/** Between the end of an attempt and the agent's confirmation the condition stays as it is. */
function assessUnsettled({ node, shadow }: Own, { rules, drainOf, now }: Circumstances): Findings {
  const change = advance({ shadow, node, rules, drain: drainOf(node), now });
  const at = silentAt(shadow, now);
  const standing = shadow.progressing?.reason === 'Updating' ? 'updating' : 'waiting';
  return {
    ...(change !== undefined && { change }),
    ...(now >= at && { verdict: silent() }),
    standing: now >= at ? 'waiting' : standing,
    times: [at],
  };
}
