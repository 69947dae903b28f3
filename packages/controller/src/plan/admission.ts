/**
 * Asks the gates (`gates/`) for the nodes that are to start an update, in their order, and for those that are staged and are to be drained.
 * A node that starts, or whose drain begins, takes its slot at once, so one plan never exceeds the limits.
 */
import type { Snapshot } from '../cluster/snapshot.ts';
import { isOverdue } from './facts/deadlines.ts';
import { estimateFor, expectedMs } from './facts/estimates.ts';
import { type FleetState, gateInput } from './fleet.ts';
import { goesBeforeLast } from './gates/applications.ts';
import { answersAtStart, whyNot, whyNotDrained } from './gates/index.ts';
import type { Blocked, Candidate, GateInput } from './gates/reasons.ts';
import { inOrder } from './order.ts';

/** Asks the gates for one candidate after the other, since each that starts reserves a slot. */
export function admit(
  candidates: readonly Candidate[],
  fleetState: FleetState,
  { ownNode }: Pick<Snapshot, 'ownNode'>,
): Map<Candidate, Blocked | undefined> {
  const { quorums, drains, now } = fleetState;
  // Its drain can only succeed if its cordon opens disruption budgets.
  const isBlocked = ({ node, policy }: Candidate): boolean => drains.known(node, policy).mayOpen;
  return new Map(
    inOrder(candidates, { ownNode, isBlocked, isLast: (node) => quorums.isLast(node), now }).map((candidate) => {
      const input = inputAtStart(candidate, fleetState);
      const blocked = whyNot(input);
      // A node whose pods must be listed first keeps its position, unless only its own list fails.
      const isLookedUp = blocked?.lookUp === true && (drains.noListWorks || input.drain().problem === undefined);
      const keepsPosition = isLookedUp || blocked?.keepsPosition === true;
      if (blocked === undefined || keepsPosition || blocked.isUnknown === true) reserve(candidate, fleetState);
      else goesBeforeLast(input, blocked);
      return [candidate, blocked];
    }),
  );
}

/** For users: what each gate says of a candidate that the plan has not started, after those that it has. */
export function gatesOf(candidate: Candidate, fleetState: FleetState): ReturnType<typeof answersAtStart> {
  return answersAtStart(inputAtStart(candidate, fleetState));
}

function inputAtStart(candidate: Candidate, fleetState: FleetState): GateInput {
  const { shadow, policy, isRollback } = candidate;
  const { capacity, controlPlane } = fleetState;
  const estimate = estimateFor(fleetState.estimate, policy.maintenance);
  return gateInput(candidate, fleetState, {
    needMs: expectedMs(shadow, estimate) + estimate.marginMs,
    // The slot of a rollback is that of the update that failed.
    capacity: isRollback ? undefined : capacity.check(candidate),
    controlPlane: isRollback ? controlPlane.whyNotDrained(candidate) : controlPlane.whyNotStarted(candidate),
    othersFirst: othersBefore(candidate, fleetState),
  });
}

/** The order of nodes with a new version says nothing about settings. */
function othersBefore(candidate: Candidate, fleetState: FleetState): Blocked | undefined {
  const { canaries, groupOrder, settingsRollouts } = fleetState;
  if (candidate.isReboot) return settingsRollouts.check(candidate, 'InReboot');
  // Asked in any case, since the status of its group names what it waits for.
  const earlier = groupOrder.check(candidate, candidate.version);
  return canaries.check(candidate, candidate.version) ?? earlier;
}

function reserve(candidate: Candidate, fleetState: FleetState): void {
  const { node, version, isReboot, isRollback } = candidate;
  fleetState.controlPlane.starts(node);
  fleetState.quorums.starts(node);
  if (isRollback) return;
  fleetState.capacity.reserve(candidate, true);
  if (isReboot) fleetState.settingsRollouts.reserve(candidate, 'InReboot');
  else fleetState.canaries.reserve(candidate, version);
}

/** The rest of its update has to fit into the window. */
export function whyNotDrainedNow(candidate: Candidate, fleetState: FleetState): Blocked | undefined {
  const { name, node, shadow, policy } = candidate;
  const { now } = fleetState;
  const estimate = estimateFor(fleetState.estimate, policy.maintenance);
  const since = shadow.times.startedAt ?? now;
  const needMs = Math.max(1, estimate.marginMs + Math.max(0, expectedMs(shadow, estimate) - (now - since)));
  // The slot of a rollback is that of the update that failed.
  const overLimit = fleetState.nodesOverLimit.has(name) && !candidate.isRollback ? OVER_LIMIT : undefined;
  const late = isOverdue(shadow, policy, fleetState.moment) ? LATE : undefined;
  const controlPlane = fleetState.controlPlane.whyNotDrained(candidate);
  const input = gateInput(candidate, fleetState, { ...NO_LIMITS, controlPlane, needMs });
  const blocked = whyNotDrained(input) ?? overLimit ?? late;
  // Its pods count as gone for the nodes that are assessed after it.
  if (blocked === undefined) {
    fleetState.workloads.drains(node);
    fleetState.controlPlane.drains(node);
    fleetState.quorums.drains(node);
  }
  return blocked;
}

/** It releases its slot, so that a node whose pods cannot be listed does not stop the fleet. */
const LATE: Blocked = {
  reason: 'WaitingForCapacity',
  message: 'Its drain could not start before the deadline of its staging',
};
/** They were asked before the node started. */
const NO_LIMITS = { capacity: undefined, othersFirst: undefined };
const OVER_LIMIT: Blocked = {
  reason: 'WaitingForCapacity',
  message: 'More nodes are unavailable than the limits allow',
};
