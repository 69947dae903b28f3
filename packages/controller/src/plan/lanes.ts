/**
 * Lanes: what the fleet has for each version, once more for a group that sets it itself. `policy/node-groups.ts` says what
 * begins a lane. Of the same version,
 *
 *     a budget of failures      the fleet counts all nodes, and freezes for all; a group its own nodes, and freezes for them
 *     canaries                  a group has canaries, a soak and an approval of its own; those of the fleet are for the others
 *     a deadline of progress    so is this (`report/progress.ts`)
 *
 * The code is that of the fleet, with the nodes, the policy and the status of the group.
 */
import type { BrupopConfigStatus } from '@brupop/shared/api/brupop-config';
import type { NodeGroupStatus } from '@brupop/shared/api/node-group';
import { isPair, type ManagedNode, type NodePair, type Snapshot } from '../cluster/snapshot.ts';
import type { Lane, NodeGroup } from '../policy/node-groups.ts';
import { Canaries, type CompletedCanary } from './canaries.ts';
import type { Blocked } from './gates/reasons.ts';
import { isAccepted } from './facts/deadlines.ts';
import type { Checks } from './facts/query-checks.ts';
import type { FailedNode } from './facts/failed-nodes.ts';
import { type FrozenVersion, frozenVersions } from './facts/freezes.ts';
import { Moment } from '../kept/moment.ts';
import { membersOf, ofParts, pairsIn, type Parts } from '../kept/parts.ts';
import { versionsOf } from './facts/versions.ts';

/** What the budget of a group comes to. */
export interface GroupFreeze {
  /** Of its nodes, and without those that a user has accepted. */
  readonly failed: readonly FailedNode[];
  readonly frozen: readonly FrozenVersion[];
}

interface Reported {
  readonly groups: readonly NodeGroup[];
  /** What was last reported of each, by its name. */
  readonly groupsBefore: ReadonlyMap<string, NodeGroupStatus | undefined>;
}

type Member = Pick<ManagedNode, 'group'>;

/** The groups with a lane. */
function withLane(groups: readonly NodeGroup[], lane: Lane): NodeGroup[] {
  return groups.filter(({ lanes }) => lanes.has(lane));
}

/**
 * By the name of the group, of those with a budget of their own.
 * @param selected - the nodes that the configuration selects
 */
export function groupFreezes(
  failed: readonly FailedNode[],
  { groups, groupsBefore }: Reported,
  selected: Parts<ManagedNode>,
  now: number,
): ReadonlyMap<string, GroupFreeze> {
  const moment = new Moment(now);
  const freezes = withLane(groups, 'budget').map(({ name, policy }): [string, GroupFreeze] => {
    const nodes = membersOf(name, selected);
    const own = failed.filter((one) => one.group === name && !isAccepted(one.since, policy, moment));
    const before = groupsBefore.get(name)?.frozenVersions;
    const lane = { parts: nodes, selected: nodes, versions: versionsOf(nodes) };
    const frozen = frozenVersions(own, { ...lane, policy, before, now });
    return [name, { failed: own, frozen: frozen.map((one) => ({ ...one, group: name })) }];
  });
  return new Map(freezes);
}

/** The nodes that are in no group with canaries of its own. */
const ofFleetIn = ofParts((part: readonly ManagedNode[]) =>
  part.filter(isPair).filter(({ group }) => group?.lanes.has('canaries') !== true),
);

interface FleetOfLanes extends Reported, Pick<Snapshot, 'policy' | 'clockSkewMs'> {
  readonly before: BrupopConfigStatus | undefined;
  readonly checks: Checks;
}

/** The canaries of the fleet, and of each group that has its own. */
export class CanaryLanes {
  readonly #fleet: Canaries;
  readonly #ofGroups: ReadonlyMap<string, Canaries>;

  /** @param selected - the nodes that the configuration selects */
  constructor(selected: Parts<ManagedNode>, fleet: FleetOfLanes, now: number) {
    const { groups, groupsBefore, before } = fleet;
    this.#fleet = new Canaries(ofFleetIn(selected), { ...fleet, before: before?.canaries }, now);
    this.#ofGroups = new Map(
      withLane(groups, 'canaries').map((group) => {
        const nodes = pairsIn(membersOf(group.name, selected));
        const own = { policy: group.policy, before: groupsBefore.get(group.name)?.canaries, group };
        return [group.name, new Canaries(nodes, { ...fleet, ...own }, now)];
      }),
    );
  }

  /** For the status of the configuration, or of the group with this name. */
  completed(group?: string): readonly CompletedCanary[] {
    return (group === undefined ? this.#fleet : this.#ofGroups.get(group))?.completed ?? [];
  }

  /** When to check again, epoch milliseconds. */
  get times(): readonly number[] {
    return [this.#fleet, ...this.#ofGroups.values()].flatMap(({ times }) => times);
  }

  /** Returns why a node must not start an update to `version`, or undefined. */
  check(pair: NodePair, version: string): Blocked | undefined {
    return this.#of(pair).check(pair.node, version);
  }

  /** Counts a node that starts. */
  reserve(pair: NodePair, version: string): void {
    this.#of(pair).reserve(pair.node, version);
  }

  #of({ group }: Member): Canaries {
    return (group && this.#ofGroups.get(group.name)) ?? this.#fleet;
  }
}
