/** The conditions Paused and Frozen of a group, and what is said of a frozen version. */
import { sameVersion } from '@brupop/shared/api/version';
import type { FailedNode } from '../plan/facts/failed-nodes.ts';
import { describeFreeze, describePause } from '../plan/gates/fleet.ts';
import { objectOf } from '../policy/node-groups.ts';
import type { GroupRollout } from './rollout.ts';

interface Evaluation<R extends string> {
  readonly status: 'True' | 'False';
  readonly reason: R;
  readonly message: string;
}

export const NOT_PAUSED = { status: 'False', reason: 'NotPaused', message: 'Updates may start' } as const;

export function groupPaused({ policy, group }: GroupRollout): Evaluation<'Paused' | 'NotPaused'> {
  return policy.paused ? { status: 'True', reason: 'Paused', message: describePause(policy, group) } : NOT_PAUSED;
}

const NOT_FROZEN = { status: 'False', reason: 'NotFrozen', message: 'No version failed on too many nodes' } as const;

/** What the configuration says of watches and of the clock is not repeated. */
export function groupFrozen({
  group,
  fleetFrozen: [ofFleet],
  frozen: [own],
  failed,
}: Pick<GroupRollout, 'group' | 'fleetFrozen' | 'frozen' | 'failed'>): Evaluation<
  'FailureBudgetExceeded' | 'NotFrozen'
> {
  const reason = 'FailureBudgetExceeded';
  if (ofFleet !== undefined) return { status: 'True', reason, message: describeFreeze(ofFleet) };
  if (own === undefined) return NOT_FROZEN;
  return { status: 'True', reason, message: `In ${objectOf(group.name)}: ${describeFrozen(own.version, failed)}` };
}

const MAX_NAMED_FAILED = 5;

/** Names at most five of the nodes that are still failed. */
export function describeFrozen(version: string, failed: readonly FailedNode[]): string {
  const nodes = failed.filter((one) => sameVersion(one.version, version));
  const list = nodes
    .slice(0, MAX_NAMED_FAILED)
    .map(({ name, code, deleted = false }) => `${name} (${code}${deleted ? ', deleted' : ''})`);
  const more = nodes.length > list.length ? ` and ${nodes.length - list.length} others` : '';
  const still = nodes.length === 0 ? 'all have recovered or are accepted' : `still failed: ${list.join(', ')}${more}`;
  return (
    `No update to ${version} or an older version starts: it failed on more nodes than spec.rollout.failureBudget allows ` +
    `(${still}). Find the cause; then set spec.rollout.resume to the current time, pin another version, or wait for a later one`
  );
}
