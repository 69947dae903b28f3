/**
 * Which versions no further node is updated to, since nodes have failed with them; `holds.ts` has those that are only held.
 *
 * A version is frozen when more nodes failed with it (`failed-nodes.ts`) than `rollout.failureBudget` allows, and remains so
 * if they recover: only `rollout.resume` ends it. One agent that lies counts as one node; older versions are held only if a
 * node that did not fail, and more nodes than may conspire, know of the frozen one.
 *
 * A group that sets a budget has one as well, by the same code: it counts the nodes of the group, and freezes for them.
 */
import type { FrozenVersionStatus } from '@brupop/shared/api/brupop-config';
import type { NodeGroupStatus } from '@brupop/shared/api/node-group';
import { releaseOf, sameVersion } from '@brupop/shared/api/version';
import type { ManagedNode, Snapshot } from '../../cluster/snapshot.ts';
import { nodesAtOnce } from '../../policy/policy.ts';
import { isAccepted } from './deadlines.ts';
import { type FailedNode, isLeftBehind, recorded, type SelectedNodes } from './failed-nodes.ts';
import type { Moment } from '../../kept/moment.ts';
import { countOf, membersOf, type Parts } from '../../kept/parts.ts';
import { hasVersion, versionsOf } from './versions.ts';

export interface FrozenVersion {
  readonly version: string;
  /**
   * Older versions are held as well: at least {@link WITNESSES} nodes know of it, one of which did not fail. Otherwise
   * it may exist only by the word of the nodes that failed, or that failed and then claimed to have succeeded.
   */
  readonly holdsOlder: boolean;
  /** Epoch milliseconds. */
  readonly since: number;
  /** Whose nodes it is frozen for; undefined: for all. */
  readonly group?: string;
}

/** Two nodes may conspire to name a version that does not exist. */
export const WITNESSES = 3;

/** Of the fleet, or of a group. */
interface FleetFacts extends Pick<Snapshot, 'policy'>, SelectedNodes {
  /** All nodes. */
  readonly parts: Parts<ManagedNode>;
  /** What was last reported as frozen. */
  readonly before: readonly FrozenVersionStatus[] | undefined;
  readonly now: Moment;
}

/** Returns the versions that are frozen. One is forgotten when all nodes have gone beyond it. */
export function frozenVersions(
  failed: readonly FailedNode[],
  { parts, policy, before: reported, versions, selected, now }: FleetFacts,
): FrozenVersion[] {
  const before = recorded(reported).filter(({ since }) => !isAccepted(since, policy, now));
  const budget = nodesAtOnce(policy.rollout.failureBudget, countOf(selected));
  const releases = new Map([...failed, ...before].map(({ version }) => [releaseOf(version), version]));
  const frozen = [...releases.values()].flatMap((version) => {
    const known = before.find((one) => sameVersion(one.version, version));
    if (known !== undefined) return isLeftBehind(known, versions, selected) ? [] : [known];
    const count = failed.filter((one) => sameVersion(one.version, version)).length;
    return countOf(selected) > 0 && count > budget ? [{ version, since: now.ms }] : [];
  });
  const enough = Math.min(WITNESSES, countOf(parts));
  return frozen.map(({ version, since }) => {
    const failedOnes = new Set(failed.filter((one) => sameVersion(one.version, version)).map(({ name }) => name));
    const others = parts.flat().filter((one) => !failedOnes.has(one.name) && hasVersion(one.shadow, version));
    return { version, since, holdsOlder: others.length > 0 && failedOnes.size + others.length >= enough };
  });
}

/** What the budget of a group comes to. */
export interface GroupFreeze {
  /** Of its nodes, and without those that a user has accepted. */
  readonly failed: readonly FailedNode[];
  readonly frozen: readonly FrozenVersion[];
}

/**
 * By the name of the group, of those with a budget of their own.
 * @param before - what was last reported of each group, by its name
 * @param selected - the nodes that the configuration selects
 */
export function groupFreezes(
  failed: readonly FailedNode[],
  groups: Snapshot['groups'],
  before: ReadonlyMap<string, NodeGroupStatus | undefined>,
  selected: Parts<ManagedNode>,
  now: Moment,
): ReadonlyMap<string, GroupFreeze> {
  const freezes = groups.flatMap(({ name, policy, lanes }): [string, GroupFreeze][] => {
    if (!lanes.has('budget')) return [];
    const nodes = membersOf(name, selected);
    const own = failed.filter((one) => one.group === name && !isAccepted(one.since, policy, now));
    const lane = { parts: nodes, selected: nodes, versions: versionsOf(nodes) };
    const frozen = frozenVersions(own, { ...lane, policy, before: before.get(name)?.frozenVersions, now });
    return [[name, { failed: own, frozen: frozen.map((one) => ({ ...one, group: name })) }]];
  });
  return new Map(freezes);
}
