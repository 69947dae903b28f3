/** What users read of a version that is frozen or held, and of a group whose updates are paused or frozen. */
import type { ConditionReport } from '@brupop/shared/api/meta';
import { sameVersion } from '@brupop/shared/api/version';
import { rfc3339 } from '@brupop/shared/runtime/clock';
import { firstFew } from '@brupop/shared/runtime/errors';
import type { FailedNode } from '../plan/facts/failed-nodes.ts';
import type { FrozenVersion } from '../plan/facts/freezes.ts';
import type { HeldVersion } from '../plan/facts/holds.ts';
import type { SuspectNode } from '../plan/facts/suspects.ts';
import { describeFreeze } from '../plan/gates/fleet.ts';
import { describePause, objectOf } from '../policy/node-groups.ts';
import type { GroupRollout } from './rollout.ts';

export const NOT_PAUSED = { status: 'False', reason: 'NotPaused', message: 'Updates may start' } as const;

export function groupPaused({ policy, group }: GroupRollout): ConditionReport<'Paused' | 'NotPaused'> {
  return policy.paused ? { status: 'True', reason: 'Paused', message: describePause(policy, group) } : NOT_PAUSED;
}

const NOT_FROZEN = { status: 'False', reason: 'NotFrozen', message: 'No version failed on too many nodes' } as const;

/** What the configuration says of watches and of the clock is not repeated. */
export function groupFrozen({
  group,
  fleetFrozen: [ofFleet],
  frozen: [own],
  failed,
}: Pick<GroupRollout, 'group' | 'fleetFrozen' | 'frozen' | 'failed'>): ConditionReport<
  'FailureBudgetExceeded' | 'NotFrozen'
> {
  const reason = 'FailureBudgetExceeded';
  if (ofFleet !== undefined) return { status: 'True', reason, message: describeFreeze(ofFleet) };
  if (own === undefined) return NOT_FROZEN;
  return { status: 'True', reason, message: `In ${objectOf(group.name)}: ${describeFrozen(own, failed)}` };
}

const MAX_NAMED = 5;
const MAX_NODES = 3;

/** Names at most five of the nodes that are still failed. */
export function describeFrozen(
  { version, holdsOlder }: Pick<FrozenVersion, 'version' | 'holdsOlder'>,
  failed: readonly FailedNode[],
): string {
  const nodes = failed.filter((one) => sameVersion(one.version, version));
  const names = nodes.map(({ name, code, deleted = false }) => `${name} (${code}${deleted ? ', deleted' : ''})`);
  const list = firstFew(names, MAX_NAMED, 'others');
  const still = nodes.length === 0 ? 'all have recovered or are accepted' : `still failed: ${list}`;
  return (
    `No update to ${version}${holdsOlder ? ' or an older version' : ''} starts: it failed on more nodes than spec.rollout.failureBudget allows ` +
    `(${still}). Find the cause; then set spec.rollout.resume to the current time, pin another version, or wait for a later one`
  );
}

/** The condition Held of the BrupopConfig. */
export function held({ holds }: { readonly holds: readonly HeldVersion[] }) {
  const found = holds.find(({ suspects }) => suspects.length > 0);
  if (found === undefined)
    return { status: 'False', reason: 'NotHeld', message: 'No version is held because workloads fail on it' } as const;
  return { status: 'True', reason: 'WorkloadsFail', message: describeHeld(found) } as const;
}

/** Names the workloads with their nodes, and the ways out. */
export function describeHeld({ version, until, suspects }: HeldVersion): string {
  const byWorkload = [...Map.groupBy(suspects, ({ workload }) => workload)];
  const list = byWorkload.map(
    ([workload, nodes]) => `${workload} (${firstFew(nodes.map(onNode), MAX_NODES, 'more nodes')})`,
  );
  return (
    `No update to ${version} starts until ${rfc3339(until)}: these workloads fail on nodes that run it, and were Ready on nodes of the ` +
    `former version: ${firstFew(list, MAX_NAMED)}. Look at their pods with kubectl get pods -n NAMESPACE -o wide. If ${version} is not the cause, set ` +
    'spec.rollout.resume to the current time to continue now; if it is, pin another version or deny it with spec.versions'
  );
}

function onNode({ node, problem, from }: SuspectNode): string {
  const moved = from === undefined ? '' : `, moved there by the drain of ${from}`;
  return `${problem} on ${node}${moved}`;
}
