/**
 * Gates about what runs on the nodes: workloads, checks, and the sets of `spec.quorums`.
 *
 * Workloads, off by default: those whose pods the drain of a node evicts must have all of their pods now. The next list
 * of the pods answers it, which takes a moment.
 *
 * Checks before an update: a query or an alert keeps nodes from starting. Its Jobs run before the drain
 * (`facts/query-checks.ts`).
 *
 * Sets with a member on the node: a majority has to be left without it, and the checks of the set have to pass. Both
 * are asked at the start and before the drain, also on the way back to the previous version.
 */
import { namesOf } from '@brupop/shared/runtime/errors';
import { RETRY_LIST_MS } from '../../cluster/all-pods.ts';
import type { Workloads } from '../facts/workloads.ts';
import { failedOf, probesNamed, probesOf, whyNotBefore, whyNotPassed } from '../facts/query-checks.ts';
import { type AskedNode, atRisk } from '../facts/quorum-members.ts';
import { type Blocked, traitsOf } from '../facts/reasons.ts';
import type { Gate, GateInput } from './gate.ts';

export const notHeld: Gate = ({ held }) => held;

/** The first nodes of a version show whether workloads fail on it. */
export const firstNodesObserved: Gate = ({ unobserved }) => unobserved();

/** Another drain would take a pod more from them. A disruption budget, if there is one, is stricter. */
export const workloadsReady: Gate = ({ node, policy, workloads, now }) => {
  if (policy.health.workloads === 'Ignored') return undefined;
  const found = workloads.belowDesired(node) ?? [];
  if (found.length > 0) {
    const message = `These workloads have a pod on the node, and another pod that is not Ready or is on a node that is being drained: ${namesOf(found)}`;
    return { reason: 'WorkloadsNotReady', message };
  }
  return workloads.counts ? undefined : notListed(workloads, now);
};

function notListed({ problem }: Workloads, now: number): Blocked {
  if (problem === undefined)
    return { reason: 'WorkloadsNotReady', message: 'The pods of the cluster are being listed', isUnknown: true };
  const message = `The pods of the cluster cannot be listed: ${problem}`;
  return { reason: 'PodListFailed', message, retryAt: now + RETRY_LIST_MS, keepsPosition: true };
}

/** What is asked after the update need not pass before it starts, but a node that cannot be asked then would fail. */
export const checksPass: Gate = ({ policy, checks, quorums, node, drain }) => {
  const later = checks.all(probesOf(policy, 'After'));
  const blocked = whyNotBefore(policy, checks, quorums.setsOn({ node, pods: drain().pods }));
  return blocked ?? whyNotPassed(later.filter(({ latest }) => latest === undefined || latest.isMissing === true));
};

export const quorumKept: Gate = (input) => {
  const { quorums, isRollback } = input;
  const asked = askedOf(input);
  const last = isRollback ? undefined : quorums.whyNotLast(asked);
  return quorums.whyNotStarted(asked) ?? last ?? quorumChecksPass(input, asked);
};

/** A member that came meanwhile has had no hook, and nothing would wait for it after the update. */
export const quorumKeptByDrain: Gate = (input) => {
  const { quorums, shadow } = input;
  const asked = askedOf(input);
  return quorums.whyNotDrained(asked) ?? quorums.whyUnrecorded(shadow, asked) ?? quorumChecksPass(input, asked);
};

/** The last members wait for a node that waits for what passes, not for a user, nor for what lets other nodes go first. */
export function goesBeforeLast({ quorums, node }: Pick<GateInput, 'quorums' | 'node'>, { reason }: Blocked): void {
  const { passes, fleetWide, withoutTaint } = traitsOf(reason);
  if (passes !== 'manual' && fleetWide !== true && withoutTaint !== true) quorums.goesFirst(node);
}

function askedOf({ node, drain }: GateInput): AskedNode {
  return { node, pods: drain().pods };
}

/** Those of the fleet, as are the sets. */
function quorumChecksPass({ quorums, checks, fleet }: GateInput, asked: AskedNode): Blocked | undefined {
  const wanted = quorums.checksFor(asked);
  const names = wanted.map(({ check }) => check);
  const answers = checks.all(probesNamed(fleet, names));
  const failed = failedOf(answers);
  if (failed !== undefined) {
    const { check } = failed.probe;
    const { who = '' } = wanted.find((one) => one.check === check) ?? {};
    return atRisk(`${who} waits for the check ${check}, which does not pass: ${failed.found}`);
  }
  const unknown = answers.find(({ latest }) => latest === undefined);
  if (unknown === undefined) return undefined;
  return { ...atRisk(`The check ${unknown.probe.check} is being evaluated`), isUnknown: true };
}
