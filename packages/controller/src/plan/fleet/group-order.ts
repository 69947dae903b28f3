/**
 * The order of groups: which groups a node waits for, by `spec.after` of its own group.
 *
 *     a node is behind      it does not run the version or a later one, is updating, is not Ready, or failed with a version
 *     a group is behind     one of its nodes is, or it has none
 *     the soak begins       with the latest success in those groups, or, if all nodes joined with the version, when the
 *                           first did; and not before the version was offered: an agent may claim to run any version
 *
 * Nodes that a user leaves out do not count, nor do groups that are not to update to the version at all.
 */
import { isFromFuture } from '@brupop/shared/api/deadlines';
import { NODE_GROUP_KIND } from '@brupop/shared/api/names';
import { sameVersion } from '@brupop/shared/api/version';
import { rfc3339 } from '@brupop/shared/runtime/clock';
import { isDown, skippedBy } from '../../cluster/node.ts';
import { isUnderWay } from '../../cluster/state.ts';
import { isPair, type ManagedNode } from '../../cluster/snapshot.ts';
import type { NodeGroup } from '../../policy/node-groups.ts';
import { isAtOrBeyond, isWanted } from '../../policy/policy.ts';
import { isAccepted } from '../facts/deadlines.ts';
import type { FailedNode } from '../facts/failed-nodes.ts';
import type { Moment } from '../../kept/moment.ts';
import { membersOf, type Parts } from '../../kept/parts.ts';
import type { Blocked } from '../facts/reasons.ts';

interface GroupOrderInput {
  readonly groups: readonly NodeGroup[];
  /** The nodes that the configuration selects. */
  readonly selected: Parts<ManagedNode>;
  /** Those that no user has accepted. */
  readonly failed: readonly FailedNode[];
  /** When the age of a version started, epoch milliseconds; undefined: too few nodes have it. */
  readonly offeredSince: (version: string) => number | undefined;
  readonly now: Moment;
}

/** A group that others wait for. */
export interface EarlierGroup {
  readonly name: string;
  readonly version: string;
  /** Names of the nodes that are outdated; none: the group has no nodes. */
  readonly nodes: readonly string[];
}

interface GroupProgress {
  readonly isOutdated: boolean;
  readonly outdated: readonly string[];
  /** Epoch milliseconds. */
  readonly since: number;
}

export class GroupOrder {
  readonly #input: GroupOrderInput;
  readonly #groups: ReadonlyMap<string, NodeGroup>;
  readonly #progressByKey = new Map<string, GroupProgress>();
  /** By group and version, as they are the same for all its nodes. */
  readonly #answers = new Map<string, { readonly blocked: Blocked | undefined }>();
  readonly #waitsFor = new Map<string, EarlierGroup>();

  constructor(input: GroupOrderInput) {
    this.#input = input;
    this.#groups = new Map(input.groups.map((group) => [group.name, group]));
  }

  /**
   * Why the node must not start its update to `version`, or undefined. The messages name no nodes, so that a step of one node
   * does not rewrite the conditions of all that wait; {@link waitsFor} has them.
   */
  check({ group }: Pick<ManagedNode, 'group'>, version: string): Blocked | undefined {
    if (group === undefined || group.after.length === 0) return undefined;
    const key = `${group.name} ${version}`;
    const { blocked } = this.#answers.get(key) ?? { blocked: this.#whyNot(group, version) };
    this.#answers.set(key, { blocked });
    return blocked;
  }

  #whyNot(group: NodeGroup, version: string): Blocked | undefined {
    const earlier = group.after.filter((name) => this.#updatesTo(name, version));
    const outdated = earlier.find((name) => this.#progress(name, version).isOutdated);
    const own = `spec.after of ${NODE_GROUP_KIND} "${group.name}"`;
    if (outdated !== undefined) {
      const nodes = this.#progress(outdated, version).outdated;
      this.#waitsFor.set(group.name, { name: outdated, version, nodes });
      const which = `${NODE_GROUP_KIND} "${outdated}"`;
      const message =
        nodes.length === 0
          ? `${which} has no nodes, and is to go first (${own})`
          : `Nodes of ${which} must run ${version} or a later version first, and be Ready (${own}). The condition Progressing of "${group.name}" names them`;
      return { reason: 'WaitingForNodeGroup', message };
    }
    const retryAt = Math.max(0, ...earlier.map((name) => this.#progress(name, version).since)) + group.soakMs;
    if (earlier.length === 0 || this.#input.now.reached(retryAt)) return undefined;
    const message = `The groups that go first (${own}) have updated; spec.soak of the group ends at ${rfc3339(retryAt)}`;
    return { reason: 'Soaking', message, retryAt };
  }

  /** The group for which nodes of the group `name` wait, after {@link check}. */
  waitsFor(name: string): EarlierGroup | undefined {
    return this.#waitsFor.get(name);
  }

  #updatesTo(name: string, version: string): boolean {
    const group = this.#groups.get(name);
    return group !== undefined && isWanted(version, group.policy.versions);
  }

  #progress(name: string, version: string): GroupProgress {
    const key = `${name} ${version}`;
    const known = this.#progressByKey.get(key);
    const progress = known ?? this.#progressOf(membersOf(name, this.#input.selected).flat(), version);
    this.#progressByKey.set(key, progress);
    return progress;
  }

  #progressOf(members: readonly ManagedNode[], version: string): GroupProgress {
    const counted = members.filter(({ node }) => node !== undefined && skippedBy(node) === undefined);
    const outdated = counted.filter((member) => !this.#isDone(member, version)).map(({ name }) => name);
    const isOutdated = members.length === 0 || outdated.length > 0;
    return {
      isOutdated,
      outdated,
      since: Math.max(this.#input.offeredSince(version) ?? 0, this.#doneSince(counted, version)),
    };
  }

  #isDone(member: ManagedNode, version: string): boolean {
    if (!isPair(member) || isUnderWay(member.shadow) || isDown(member.node)) return false;
    const running = member.shadow.status?.current_version ?? '';
    const { failed, now } = this.#input;
    const isCounted = ({ since }: FailedNode): boolean => !isAccepted(since, member.policy, now);
    const hasFailed = failed.some(
      // An earlier Node of this name was another machine.
      (one) => one.name === member.name && one.deleted !== true && sameVersion(one.version, running) && isCounted(one),
    );
    return !hasFailed && isAtOrBeyond(running, version, member.policy.versions);
  }

  #doneSince(members: readonly ManagedNode[], version: string): number {
    const known = (at: number | undefined): number[] =>
      at === undefined || isFromFuture(at, this.#input.now.ms) ? [] : [at];
    const successes = members.flatMap(({ shadow, policy }) => {
      const last = shadow?.updated;
      return last !== undefined && isAtOrBeyond(last.version, version, policy.versions) ? known(last.at) : [];
    });
    if (successes.length > 0) return Math.max(...successes);
    const joins = members.flatMap(({ node }) => known(node?.createdAt));
    return joins.length > 0 ? Math.min(...joins) : 0;
  }
}
