/** The fleet before any decision: its state, which assessments and the gates use. */
import type { BrupopConfigStatus } from '@brupop/shared/api/brupop-config';
import type { NodeGroupStatus } from '@brupop/shared/api/node-group';
import { ownedByUs } from '@brupop/shared/node/ownership';
import type { Connectivity } from '../../cluster/connectivity.ts';
import { isControlPlane, isDown, isManaged, isSelected, type NodeView } from '../../cluster/node.ts';
import { isPair, type ManagedNode, type NodePair, type Snapshot, staleResources } from '../../cluster/snapshot.ts';
import { isUnderWay, STATES } from '../../cluster/state.ts';
import type { NodeGroup } from '../../policy/node-groups.ts';
import { settingsOfVersions, type UpdatePolicy } from '../../policy/policy.ts';
import { CanaryLanes } from './canaries.ts';
import { ControlPlane, isUnavailable, Limits, nodesOverLimit } from './concurrency.ts';
import { currentRollback, rollbackPolicy } from '../facts/attempts.ts';
import { measuredMsOf } from '../facts/estimates.ts';
import { stateSince } from '../facts/deadlines.ts';
import { type Drainable, Drains } from '../facts/drainability.ts';
import { Checks } from '../facts/query-checks.ts';
import { type FailedNode, failedNodes } from '../facts/failed-nodes.ts';
import { type FrozenVersion, frozenVersions, type GroupFreeze, groupFreezes } from '../facts/freezes.ts';
import { monitoringOf } from '../facts/health.ts';
import { Quorums } from '../facts/quorums.ts';
import {
  ownSettings,
  requestedOf,
  restoresSettings,
  type SettingsFacts,
  settingsFacts,
  withoutFailed,
} from '../facts/settings.ts';
import { type Slot, slotOf } from '../facts/slots.ts';
import { agesSince, type VersionCount, versionsOf } from '../facts/versions.ts';
import { Workloads } from '../facts/workloads.ts';
import { GroupOrder } from './group-order.ts';
import { Observation } from './observation.ts';
import { SettingsRollouts } from './settings-rollouts.ts';
import { Moment } from '../../kept/moment.ts';
import { countOf, type KeptEach, membersOf, ofParts, ofPartsAt, type Parts, type Splitter } from '../../kept/parts.ts';

export interface FleetState {
  readonly policy: UpdatePolicy;
  /** Resources whose watch is stale. */
  readonly stale: readonly string[];
  readonly connectivity: Connectivity;
  readonly clockSkewMs: number | undefined;
  readonly ownNamespace: string;
  /** Epoch milliseconds. */
  readonly now: number;
  /** The same, for questions about one node. */
  readonly moment: Moment;
  /** In the order in which they claim nodes. */
  readonly groups: readonly NodeGroup[];
  /** Of each node; what is found of a node is made of these. */
  readonly facts: Parts<NodeFacts>;
  readonly parts: Parts<ManagedNode>;
  readonly settingsRollouts: SettingsRollouts;
  readonly drains: Drains;
  readonly checks: Checks;
  readonly workloads: Workloads;
  readonly quorums: Quorums;
  readonly versions: readonly VersionCount[];
  /** When the age of a version started, epoch milliseconds; undefined: too few nodes have it. */
  readonly offeredSince: (version: string) => number | undefined;
  /** How long updates take; undefined: too few were measured. */
  readonly measuredMs: number | undefined;
  readonly slots: ReadonlyMap<ManagedNode, Slot>;
  /** The nodes that hold a slot past a deadline. */
  readonly stuck: readonly NodeView[];
  /** Names of Nodes that have annotations of the operator, but hold no slot. */
  readonly orphaned: readonly string[];
  /** The nodes that failed with a version, the latest first. */
  readonly failed: readonly FailedNode[];
  readonly frozen: readonly FrozenVersion[];
  /** By the name of the group, of those with a budget of their own. */
  readonly groupFreezes: ReadonlyMap<string, GroupFreeze>;
  readonly before: BrupopConfigStatus | undefined;
  /** What was last reported of each group, by its name. */
  readonly groupsBefore: ReadonlyMap<string, NodeGroupStatus | undefined>;
  /** Names of nodes that must not be drained, since a limit is exceeded. */
  readonly nodesOverLimit: ReadonlySet<string>;
  readonly controlPlane: ControlPlane;
  readonly observation: Observation;
  /** Counts the unavailable nodes, and then those that start. */
  readonly capacity: Limits;
  readonly groupOrder: GroupOrder;
  /** Counts the canaries, and then those that start. */
  readonly canaries: CanaryLanes;
}

/** What depends on nothing but the node and the time. */
export interface NodeFacts {
  readonly managedNode: ManagedNode;
  /** Undefined: there is no shadow. */
  readonly settings: SettingsFacts | undefined;
  readonly slot: Slot | undefined;
}

/** What was found of nodes in earlier plans. */
export interface KeptFactsOfNodes {
  readonly managedNodes: Splitter<ManagedNode>;
  /** Also those that are not managed. */
  readonly nodes: Splitter<NodeView>;
  readonly found: KeptEach<ManagedNode, NodeFacts>;
}

export function fleetStateOf(snapshot: Snapshot, now: number, kept: KeptFactsOfNodes): FleetState {
  const { config, policy } = snapshot;
  const moment = new Moment(now);
  const parts = kept.managedNodes.split(snapshot.managedNodes, policy);
  const facts = kept.found.of(parts, now, factsOf);
  const { holders, slots, stuck, unavailable } = heldOf(facts, now);
  const selected = selectedIn(parts);
  const limitsOf = limitsBy(snapshot, selected, stuck, now);
  const versions = versionsOf(selected);
  const offeredSince = (version: string): number | undefined =>
    agesSince(version, versions, config?.status?.versions ?? [], now);
  const stale = staleResources(snapshot.watchLags);
  const asked = askedOf(snapshot, parts, slots.keys(), moment);
  const isHealthUnknown = (pair: NodePair): boolean => isUnknown(pair, asked, moment);
  const groupsBefore = new Map(snapshot.groupObjects.map(({ metadata, status }) => [metadata.name, status]));
  const reported = { before: config?.status, groups: snapshot.groups, groupsBefore };
  const known = { parts, selected, versions, now: moment };
  const observation = new Observation(snapshot, parts, asked, now);
  const stillFails: Observation['stillFails'] = (suspect) => observation.stillFails(suspect);
  const failed = failedNodes(snapshot, { ...known, isHealthUnknown, stillFails });
  return {
    policy,
    facts,
    parts,
    settingsRollouts: new SettingsRollouts(snapshot, facts, moment),
    ownNamespace: snapshot.ownNamespace,
    stale,
    connectivity: snapshot.connectivity,
    clockSkewMs: snapshot.clockSkewMs,
    ...asked,
    versions,
    offeredSince,
    measuredMs: measuredMsOf(parts),
    slots,
    stuck,
    orphaned: orphanedIn(facts).flat(),
    failed,
    observation,
    frozen: frozenVersions(failed, { ...known, policy, before: config?.status?.frozenVersions }),
    groupFreezes: groupFreezes(failed, snapshot.groups, groupsBefore, selected, moment),
    ...reported,
    nodesOverLimit: nodesOverLimit(mayWait(holders), limitsOf(unavailable)),
    controlPlane: new ControlPlane(controlPlaneIn(kept.nodes.split(snapshot.nodes)).flat(), slots.keys()),
    capacity: limitsOf(slots),
    groupOrder: new GroupOrder({ groups: snapshot.groups, selected, failed, offeredSince, now: moment }),
    canaries: new CanaryLanes(selected, { ...snapshot, ...reported, ...asked }, now),
    now,
    moment,
  };
}

type Holder = NodeFacts & { readonly slot: Slot };

function heldOf(facts: Parts<NodeFacts>, now: number) {
  const holders = holdersIn(facts).flat();
  const slots = new Map(holders.map(({ managedNode, slot }) => [managedNode, slot]));
  const late = holders.filter(({ slot }) => now >= slot.deadline);
  return {
    holders,
    slots,
    stuck: late.flatMap(({ managedNode: { node } }) => node ?? []),
    // A node that only has to confirm a change of settings is available.
    unavailable: new Map([...slots].filter(([, { expires }]) => !expires)),
  };
}

const holdersIn = ofParts((part: readonly NodeFacts[]) => part.filter((one): one is Holder => one.slot !== undefined));

const selectedIn = ofParts((part: readonly ManagedNode[]) =>
  part.filter(hasNode).filter(({ node, policy }) => isSelected(node, policy)),
);

const controlPlaneIn = ofParts((part: readonly NodeView[]) => part.filter(isControlPlane));

type Asked = Pick<FleetState, 'drains' | 'checks' | 'workloads' | 'quorums'>;

/** What asks for look-ups when it is asked. */
function askedOf(snapshot: Snapshot, parts: Parts<ManagedNode>, slots: Iterable<ManagedNode>, moment: Moment): Asked {
  const { ms: now } = moment;
  const { allPods } = snapshot;
  const drained = mayBeDrainedIn(parts)
    .flat()
    .filter((one) => isDrained(one, allPods.asOf, moment))
    .map(({ name }) => name);
  return {
    drains: new Drains(snapshot, now),
    checks: new Checks(snapshot.checks, now),
    workloads: new Workloads(allPods, drained, now),
    quorums: new Quorums(snapshot, slots, now),
  };
}

const mayBeDrainedIn = ofParts((part: readonly ManagedNode[]) =>
  part.filter(({ shadow }) => shadow !== undefined && (shadow.state === 'Proving' || STATES[shadow.state].evicts)),
);

/** True while it is not known whether the node is healthy after its update. */
function isUnknown(pair: NodePair, asked: Asked, now: Moment): boolean {
  const drain = (): Drainable => asked.drains.of(pair.node, pair.policy);
  return monitoringOf({ ...pair, ...asked, drain, now }).isUnknown === true;
}

function factsOf(managedNode: ManagedNode, now: Moment): NodeFacts {
  const settings = isPair(managedNode)
    ? settingsFacts({ ...managedNode, policy: requestedPolicy(managedNode, now), now })
    : undefined;
  return { managedNode, settings, slot: slotOf(managedNode, settings, now) };
}

/**
 * True while pods may be evicted from the node, and when they may have been since the pods were listed. One whose update
 * was cancelled may still be drained, or reboot, until its agent has confirmed that.
 */
function isDrained({ shadow }: ManagedNode, listedFrom: number, now: Moment): boolean {
  if (shadow === undefined) return false;
  const state = shadow.state;
  return state === 'Proving' ? (stateSince(shadow, now) ?? now.ms) + 1_000 > listedFrom : STATES[state].evicts;
}

/** Without nodes that go back to a version or to settings: these are drained also beyond the limits. */
function mayWait(holders: readonly Holder[]): ManagedNode[] {
  return holders.flatMap(({ managedNode, settings }) => {
    const { shadow } = managedNode;
    const goesBack = shadow !== undefined && (shadow.purpose === 'Rollback' || restoresSettings(shadow, settings));
    return goesBack ? [] : [managedNode];
  });
}

/** Names of those that have annotations of the operator, but hold no slot. */
const orphanedIn = ofParts((part: readonly NodeFacts[]) =>
  part.flatMap(({ managedNode: { name, node, shadow }, slot }) => {
    if (node === undefined || slot !== undefined || !ownedByUs(node)) return [];
    return shadow === undefined || !isUnderWay(shadow) ? [name] : [];
  }),
);

/** The time for which a cordon by another actor counts, which may be the kubelet. */
const CORDON_COUNTS_MS = 24 * 60 * 60_000;

type WithNode = ManagedNode & { readonly node: NodeView };

function hasNode(managedNode: ManagedNode): managedNode is WithNode {
  return managedNode.node !== undefined;
}

/**
 * Returns what counts every node that holds a slot, and the selected nodes that are unavailable for another reason;
 * nodes that are only cordoned count for CORDON_COUNTS_MS.
 */
function limitsBy(
  { policy, groups }: Snapshot,
  selected: Parts<WithNode>,
  stuck: readonly NodeView[],
  now: number,
): (slots: ReadonlyMap<ManagedNode, Slot>) => Limits {
  const ofGroups = groups
    .filter(({ concurrency }) => Object.keys(concurrency).length > 0)
    .map(({ name, concurrency }) => {
      const members = membersOf(name, selected);
      const own = stuck.filter((node) => members.some((part) => part.some((one) => one.node === node)));
      return { group: name, concurrency, managed: countOf(members), stuck: own };
    });
  const ofFleet = { group: undefined, concurrency: policy.concurrency, managed: countOf(selected), stuck };
  const unavailable = unavailableIn(selected, now).flat();
  return (slots) => {
    const limits = new Limits([ofFleet, ...ofGroups]);
    for (const one of [...slots.keys()].filter(hasNode)) limits.reserve(one, true);
    for (const one of unavailable) if (!slots.has(one)) limits.reserve(one, false);
    return limits;
  };
}

const unavailableIn = ofPartsAt((part: readonly WithNode[], now) =>
  part.filter(({ node, cordonedSince }) => {
    if (isDown(node)) return true;
    return isUnavailable(node) && (cordonedSince === undefined || !now.reached(cordonedSince + CORDON_COUNTS_MS));
  }),
);

/**
 * Hosts that the configuration does not select have their own settings, and one that goes back to its previous version. Those of
 * a group with a mistake keep what they have of it.
 */
export function policyFor(pair: NodePair, now: Moment): UpdatePolicy {
  return withoutFailed(requestedPolicy(pair, now), pair.shadow, now);
}

/** The same, with the settings that have failed on the node. */
function requestedPolicy({ node, shadow, policy, group }: NodePair, now: Moment): UpdatePolicy {
  const rollback = currentRollback(shadow, policy, now);
  if (rollback !== undefined && isManaged(node)) return rollbackPolicy(policy, rollback.previous);
  if (!isSelected(node, policy)) return { ...policy, settings: [] };
  if (group?.problem === undefined) return policy;
  const known = requestedOf(shadow);
  // A pin with a mistake would no longer be among the versions.
  const isKept = group.problem.startsWith('spec.versions');
  return { ...policy, settings: isKept ? known : [...settingsOfVersions(policy.versions), ...ownSettings(known)] };
}
