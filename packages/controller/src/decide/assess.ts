import type { ShadowView } from '../cluster/shadow-view.ts';
import type { SpecChange } from './advance.ts';
import { advance, idleSpec, monitoredUntil } from './advance.ts';
import type { CleanUp } from './clean-up.ts';
import { cleanUpOf } from './clean-up.ts';
import type { Candidate } from './gates/index.ts';
import type { NodeView } from '../cluster/node-view.ts';
import { isManaged } from '../cluster/node-view.ts';
import { isOwnedBy, isSettled, isUnderWay } from '../cluster/shadow-view.ts';
import type { Member } from '../cluster/snapshot.ts';
import { deadlineOf, holdsSlot, isOverdue } from './steps.ts';
import type { Verdict } from './verdict.ts';
import { overdue, silent, silentAt, upToDate, updating } from './verdict.ts';
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
  /** It may begin an update if the gates let it. */
  readonly candidate?: Candidate;
  readonly cleanUp?: CleanUp;
  /** Times at which this may be otherwise without anything else changing, epoch milliseconds. */
  readonly times: readonly (number | undefined)[];
}

type Findings = Omit<Assessment, 'member' | 'managed' | 'holdsSlot' | 'cleanUp'>;

/** Looks at one member. */
export function assess(member: Member, monitoringMs: number, now: number): Assessment {
  const { node, shadow } = member;
  const managed = node !== undefined && isManaged(node);
  const cleanUp = cleanUpOf(member, now);
  const isPair = node !== undefined && shadow !== undefined && isOwnedBy(shadow, node);
  const ours = isPair ? { node, shadow, refusal: member.refusal } : undefined;
  return {
    member,
    managed,
    holdsSlot: ours !== undefined && holdsSlot(ours.shadow, monitoringMs, now),
    ...(cleanUp !== undefined && { cleanUp }),
    ...(ours === undefined ? { standing: 'waiting', times: [] } : assessOwn(ours, { managed, monitoringMs, now })),
  };
}

interface Own {
  readonly node: NodeView;
  readonly shadow: ShadowView;
  readonly refusal: string | undefined;
}

interface Circumstances {
  readonly managed: boolean;
  readonly monitoringMs: number;
  readonly now: number;
}

function assessOwn(own: Own, circumstances: Circumstances): Findings {
  const { shadow } = own;
  if (!circumstances.managed) return assessUnmanaged(shadow, circumstances.now);
  if (isUnderWay(shadow)) return assessUnderWay(own, circumstances);
  return isSettled(shadow) ? assessSettled(own) : assessUnsettled(own, circumstances);
}

function assessUnmanaged({ spec }: ShadowView, now: number): Findings {
  if (spec.state === 'Idle') return { times: [] };
  return { change: { spec: idleSpec(now), outcome: 'Released' }, times: [] };
}

function assessUnderWay({ node, shadow }: Own, { monitoringMs, now }: Circumstances): Findings {
  const input = { shadow, node, monitoringMs, now };
  const change = advance(input);
  const stuck = isOverdue(shadow, monitoringMs, now) && (change === undefined || change.outcome === 'Cancelled');
  return {
    ...(change !== undefined && { change }),
    verdict: stuck ? overdue(shadow, node, change?.outcome) : updating(shadow.spec.version ?? ''),
    standing: stuck ? 'failed' : 'updating',
    times: [deadlineOf(shadow.spec, monitoringMs, now), monitoredUntil(input)],
  };
}

function assessSettled({ node, shadow, refusal }: Own): Findings {
  const { status } = shadow;
  if (status === undefined) return { standing: 'waiting', times: [] };
  if (sameVersion(status.current_version, status.target_version)) {
    return { verdict: upToDate(status.current_version), standing: 'upToDate', times: [] };
  }
  const standing = status.crash_count > 0 ? 'failed' : 'waiting';
  return { candidate: { node, shadow, status, refusal }, standing, times: [] };
}

/** Between the end of an attempt and the agent's confirmation the condition stays as it is. */
function assessUnsettled({ node, shadow }: Own, { monitoringMs, now }: Circumstances): Findings {
  const change = advance({ shadow, node, monitoringMs, now });
  const at = silentAt(shadow, now);
  const standing = shadow.progressing?.reason === 'Updating' ? 'updating' : 'waiting';
  return {
    ...(change !== undefined && { change }),
    ...(now >= at && { verdict: silent() }),
    standing: now >= at ? 'waiting' : standing,
    times: [at],
  };
}
