/**
 * Gates about the sets of `spec.quorums` with a member on the node: a majority has to be left without it, and the checks of the
 * set have to pass. Both are asked at the start and before the drain, also on the way back to the previous version.
 */
import type { NodeView } from '../../cluster/node.ts';
import type { UpdatePolicy } from '../../policy/policy.ts';
import type { Drains } from '../facts/drainability.ts';
import { failedOf, probesNamed } from '../facts/evaluations.ts';
import { type AskedNode, atRisk } from '../facts/quorum-members.ts';
import type { Quorums } from '../facts/quorums.ts';
import { podsUnknown } from './node.ts';
import { type Blocked, type Gate, type GateInput, traitsOf } from './reasons.ts';

export const quorumKept: Gate = (input) => {
  const { quorums, isRollback } = input;
  const asked = askedOf(input);
  const last = isRollback ? undefined : quorums.whyNotLast(asked);
  return quorums.whyNotStarted(asked) ?? last ?? checksPass(input, asked);
};

/** A member that came meanwhile has had no hook, and nothing would wait for it after the update. */
export const quorumKeptByDrain: Gate = (input) => {
  const { quorums, shadow } = input;
  const asked = askedOf(input);
  return quorums.whyNotDrained(asked) ?? quorums.records.whyUnrecorded(shadow, asked) ?? checksPass(input, asked);
};

interface KnownOfNodes {
  readonly quorums: Quorums;
  readonly drains: Drains;
}

/** For what disrupts a node without an update: its pods, which show whether it has a member, are listed just before. */
export function quorumKeptOtherwise(known: KnownOfNodes, node: NodeView, policy: UpdatePolicy): Blocked | undefined {
  if (!known.quorums.isUsed) return undefined;
  const found = known.drains.of(node, policy);
  return found.fresh ? known.quorums.whyNotStarted({ node, pods: found.pods }) : podsUnknown(found);
}

/** The last members wait for a node that waits for what passes, not for a user, nor for what lets other nodes go first. */
export function goesBeforeLast({ quorums, node }: Pick<GateInput, 'quorums' | 'node'>, { reason }: Blocked): void {
  const { passes, fleetWide, withoutTaint } = traitsOf(reason);
  if (passes !== 'manual' && fleetWide !== true && withoutTaint !== true) quorums.goesFirst(node);
}

function askedOf({ node, drain }: GateInput): AskedNode {
  return { node, pods: drain().pods };
}

/** Those of the fleet, as are the sets. */
function checksPass({ quorums, checks, fleet }: GateInput, asked: AskedNode): Blocked | undefined {
  const wanted = quorums.checksFor(asked);
  const probes = probesNamed(
    fleet,
    wanted.map(({ check }) => check),
  );
  const answers = checks.all(probes);
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
