/**
 * What becomes of each node once the gates have been asked: it starts, waits and says why, or goes on as assessed. A decision that is the
 * same as in the plan before is the same object, and so is a part of the nodes with no other ones.
 *
 * After the updates that start, hosts at rest may change their settings. Their agents have reported what each change
 * disrupts (`facts/settings.ts`). In each group, for the same settings:
 *
 *     until one node has proved them    one node at a time
 *     then, if nothing restarts         many nodes at once
 *     then, if services restart         within the limits of spec.concurrency, inside the windows, one node of
 *                                       the control plane at a time, while quorums can do without it, and
 *                                       not on nodes that a user has left out with the annotation skip
 *     too many nodes have failed        none, until the settings change or a user sets rollout.resume
 *
 * Nothing is granted during a pause, while watches are stale, the clock is wrong or connectivity is
 * lost, or with a mistake in the configuration or the group. What needs a reboot is a candidate, as an update is.
 */
import type { Allowed } from '@brupop/shared/api/shadow';
import { isPair, type NodePair } from '../cluster/snapshot.ts';
import type { Assessment, Decision } from './assess.ts';
import { type ProgressingCondition, rebooting, updating, waiting } from './condition.ts';
import { problemBefore } from './facts/health.ts';
import { recordsAtStart } from './facts/jobs.ts';
import { ofParts, type Parts } from '../kept/parts.ts';
import { allowedAtReboot, replacesUnproved, type SettingsFacts } from './facts/settings.ts';
import { type FleetState, policyFor } from './fleet/fleet-state.ts';
import { quorumKeptOtherwise } from './gates/applications.ts';
import { clockRight, connected, paused, validConfig, watchFresh, windowOpen } from './gates/fleet.ts';
import { notSkipped, writable } from './gates/node.ts';
import { type Blocked, type Candidate, firstOf, specRejected } from './facts/reasons.ts';
import { withRequest } from './facts/requests.ts';
import { grant, startSpec } from './specs/transition.ts';

/** The latest decisions about nodes that wait. */
export class KeptDecisions {
  readonly #waiting = new WeakMap<Assessment, Decision>();
  readonly #parts = new WeakMap<readonly Assessment[], readonly Decision[]>();
  /** What says the same as an object of the plan before; most nodes share both. */
  readonly #same = new WeakMap<object, object>();

  /** Returns the decision of the plan before, if that was the same. */
  waits(assessment: Assessment, blocked: Blocked, progressing: ProgressingCondition | undefined): Decision {
    const lookUp = blocked.lookUp ?? false;
    const before = this.#waiting.get(assessment);
    const isKnown =
      before !== undefined && this.#isSame(before.blocked, blocked) && this.#isSame(before.progressing, progressing);
    if (isKnown && before.lookUp === lookUp) return before;
    const decision = { ...assessment, lookUp, blocked, progressing };
    this.#waiting.set(assessment, decision);
    return decision;
  }

  #isSame(before: object | undefined, next: object | undefined): boolean {
    if (before === next || before === undefined || next === undefined) return before === next;
    const isKnown = this.#same.get(next) === before || hasSameFields(before, next);
    if (isKnown) this.#same.set(next, before);
    return isKnown;
  }

  /** The same for a part. */
  part(assessed: readonly Assessment[], decisions: readonly Decision[]): readonly Decision[] {
    const before = this.#parts.get(assessed);
    if (before !== undefined && before.every((one, i) => one === decisions[i])) return before;
    this.#parts.set(assessed, decisions);
    return decisions;
  }
}

function hasSameFields(before: object, next: object): boolean {
  const fields = new Map(Object.entries(before));
  const others = Object.entries(next);
  return fields.size === others.length && others.every(([name, value]) => fields.get(name) === value);
}

/** In the other parts, no step of {@link decideAll} changes what the assessments say. */
const isOpenIn = ofParts((part: readonly Assessment[]) =>
  part.some(({ candidate, grant, change, managedNode: { writeFailure } }) => {
    const isRetried = change !== undefined && writeFailure !== undefined;
    return candidate !== undefined || grant !== undefined || isRetried;
  }),
);

/** Grants settings after the updates that start. */
export function decideAll(
  assessments: Parts<Assessment>,
  admitted: ReadonlyMap<Candidate, Blocked | undefined>,
  fleetState: FleetState,
  kept: KeptDecisions,
): { readonly decisions: Parts<Decision>; readonly grants: Grants } {
  const isOpen = isOpenIn(assessments);
  const ofEach = (parts: Parts<Decision>, step: (one: Decision) => Decision): Parts<Decision> =>
    parts.map((part, i) => (isOpen[i] === true ? part.map(step) : part));
  const decided = ofEach(assessments, (one) => decide(one, admitted, fleetState, kept));
  const grants = grantsOf(decided.filter((_, i) => isOpen[i] === true).flat(), fleetState);
  const decisions = ofEach(decided, (one) => withFailure(withGrant(one, grants, fleetState)));
  return { decisions: decisions.map((part, i) => kept.part(assessments[i] ?? part, part)), grants };
}

/** Most nodes that wait do so for the same reason. */
const conditions = new WeakMap<Blocked, ProgressingCondition>();

function conditionOf(blocked: Blocked): ProgressingCondition {
  const made = conditions.get(blocked) ?? waiting(blocked);
  conditions.set(blocked, made);
  return made;
}

function decide(
  assessment: Assessment,
  admitted: ReadonlyMap<Candidate, Blocked | undefined>,
  fleetState: FleetState,
  kept: KeptDecisions,
): Decision {
  const { candidate, settings } = assessment;
  if (candidate === undefined) return assessment;
  const blocked = admitted.get(candidate);
  if (blocked !== undefined) {
    // What is about to be known leaves the condition as it is.
    const progressing = blocked.isUnknown === true ? undefined : conditionOf(withRequest(blocked, candidate));
    return kept.waits(assessment, blocked, progressing);
  }
  const { node, group, policy } = candidate;
  const jobs = recordsAtStart(policy, candidate.status.current_version, candidate.version);
  const spec = startSpec(candidate.version, policy, fleetState.moment, allowedAtStart(candidate, settings, fleetState));
  const { mayOpen: isBlocked, pods } = fleetState.drains.known(node, policy);
  const members = fleetState.quorums.records.recordOf({ node, pods });
  const restores = settings?.state === 'failed';
  const unhealthyPods = podsWaitedFor(candidate, fleetState);
  const change = {
    spec,
    outcome: 'Started',
    jobs,
    members,
    group: group?.name,
    isBlocked,
    restores,
    unhealthyPods,
    isRequested: candidate.isRequested,
  } as const;
  const progressing = candidate.isReboot ? rebooting() : updating(candidate.version);
  return { ...assessment, change, progressing, phase: 'updating' };
}

/** What is wrong with the pods of a node that has waited for them. */
function podsWaitedFor({ node, shadow, policy }: Candidate, { drains, moment }: FleetState): string | undefined {
  if (shadow.record.podsWaitSince === undefined) return undefined;
  return problemBefore(drains.known(node, policy).podHealth(), policy, moment);
}

function allowedAtStart(
  candidate: Candidate,
  facts: SettingsFacts | undefined,
  { settingsRollouts }: FleetState,
): Allowed {
  return facts === undefined || settingsRollouts.areStopped(candidate) ? 'None' : allowedAtReboot(facts);
}

/** Its write is tried again, and the node keeps its slot. */
function withFailure(decision: Decision): Decision {
  const { writeFailure } = decision.managedNode;
  if (writeFailure === undefined || decision.change === undefined) return decision;
  return { ...decision, progressing: waiting(specRejected(writeFailure)) };
}

type Grant = 'Live' | 'RestartsService';

export interface Grants {
  /** By the name of the node. */
  readonly granted: ReadonlyMap<string, Grant>;
  /** Why others wait, by the name of the node. */
  readonly waiting: ReadonlyMap<string, Blocked>;
}

/** Hosts that get a grant in one plan. */
const MAX_GRANTS = 100;
/** What a restart of services needs of a window. */
const RESTART_MS = 5 * 60_000;

/** @param decisions - after the updates that start have reserved their slots */
function grantsOf(decisions: readonly Decision[], fleetState: FleetState): Grants {
  const { settingsRollouts, capacity, controlPlane, quorums } = fleetState;
  const granted = new Map<string, Grant>();
  const waiting = new Map<string, Blocked>();
  const due = decisions.flatMap(({ managedNode, grant, change }) =>
    grant !== undefined && change === undefined && isPair(managedNode) ? [{ ...managedNode, grant }] : [],
  );
  const inOrder = due.toSorted((a, b) => Number(b.node.ready) - Number(a.node.ready) || (a.name < b.name ? -1 : 1));
  for (const one of inOrder) {
    const blocked = whyNotGranted(one, fleetState);
    if (blocked !== undefined) waiting.set(one.name, blocked);
    else if (granted.size < MAX_GRANTS) {
      granted.set(one.name, one.grant);
      settingsRollouts.reserve(one, 'AtRest');
      if (one.grant === 'Live') continue;
      capacity.reserve(one, true);
      controlPlane.starts(one.node);
      quorums.starts(one.node);
    }
  }
  return { granted, waiting };
}

function whyNotGranted(
  { grant, ...one }: NodePair & { readonly grant: Grant },
  fleetState: FleetState,
): Blocked | undefined {
  const input = { ...fleetState, ...one, needMs: RESTART_MS };
  const gates = grant === 'Live' ? GRANT_GATES : [...GRANT_GATES, notSkipped];
  const blocked = firstOf(gates, input) ?? fleetState.settingsRollouts.check(one, 'AtRest');
  if (blocked !== undefined || grant === 'Live') return blocked;
  return (
    windowOpen(input) ??
    fleetState.controlPlane.whyNotStarted(one) ??
    fleetState.capacity.check(one) ??
    quorumKeptOtherwise(fleetState, one.node, one.policy)
  );
}

/** What speaks against any disruption. */
const GRANT_GATES = [watchFresh, clockRight, connected, paused, validConfig, ready, writable];

/** A Node that is not Ready may be so because of what its host has, and only other settings can repair that. */
function ready({ node, shadow }: Pick<NodePair, 'node' | 'shadow'>): Blocked | undefined {
  if (node.ready || replacesUnproved(shadow)) return undefined;
  return { reason: 'NodeNotReady', message: 'The Node is not Ready' };
}

function withGrant(decision: Decision, { granted, waiting: blocked }: Grants, fleetState: FleetState): Decision {
  const { managedNode } = decision;
  const waits = blocked.get(managedNode.name);
  const isChanging = decision.phase === 'upToDate' && decision.progressing?.reason === 'ChangingSettings';
  if (waits !== undefined) {
    const progressing = waits.isUnknown === true ? undefined : waiting(waits);
    return {
      ...decision,
      ...(waits.lookUp !== undefined && { lookUp: waits.lookUp }),
      ...(isChanging && { progressing }),
    };
  }
  const allow = granted.get(managedNode.name);
  if (allow === undefined || !isPair(managedNode)) return decision;
  const policy = policyFor(managedNode, fleetState.moment);
  return { ...decision, change: grant({ policy, now: fleetState.moment }, allow), pending: true };
}
