/**
 * The order of groups: which groups a node waits for, by `spec.after` of its own. A group is done with a version when each
 * of its nodes runs that version or a later one and is not updating; `spec.soak` counts from its latest success.
 * Not waited for are nodes that a user leaves out, and groups that are not to update to the version at all.
 */
import { NODE_GROUP_KIND } from '@brupop/shared/api/names';
import { isLater, sameVersion } from '@brupop/shared/api/version';
import { rfc3339 } from '@brupop/shared/runtime/clock';
import { skippedBy } from '../cluster/node.ts';
import { isUnderWay } from '../cluster/shadow.ts';
import { isPair, type ManagedNode } from '../cluster/snapshot.ts';
import type { NodeGroup } from '../policy/node-groups.ts';
import { isWanted } from '../policy/policy.ts';
import { success } from './facts/attempts.ts';
import type { Blocked } from './gates/reasons.ts';

interface Done {
  /** A node does not run the version yet. */
  readonly isBehind: boolean;
  /** When the latest node succeeded, epoch milliseconds; 0: none is known. */
  readonly latestAt: number;
}

export class GroupOrder {
  readonly #groups: ReadonlyMap<string, NodeGroup>;
  readonly #members: ReadonlyMap<string | undefined, readonly ManagedNode[]>;
  readonly #now: number;
  readonly #known = new Map<string, Done>();

  /** @param selected - the nodes that the configuration selects */
  constructor(groups: readonly NodeGroup[], selected: readonly ManagedNode[], now: number) {
    this.#groups = new Map(groups.map((group) => [group.name, group]));
    this.#members = Map.groupBy(selected.filter(isAwaited), ({ group }) => group?.name);
    this.#now = now;
  }

  /** Why the node must not start its update to `version`, or undefined. */
  check({ group }: Pick<ManagedNode, 'group'>, version: string): Blocked | undefined {
    if (group === undefined || group.after.length === 0) return undefined;
    const earlier = group.after.filter((name) => this.#updatesTo(name, version));
    const behind = earlier.find((name) => this.#done(name, version).isBehind);
    if (behind !== undefined) {
      const message = `All nodes of ${NODE_GROUP_KIND} "${behind}" must run ${version} first (spec.after of "${group.name}")`;
      return { reason: 'WaitingForNodeGroup', message };
    }
    const latestAt = Math.max(0, ...earlier.map((name) => this.#done(name, version).latestAt));
    const retryAt = latestAt + group.soakMs;
    if (latestAt === 0 || retryAt <= this.#now) return undefined;
    const message = `The groups before it run ${version} since ${rfc3339(latestAt)}; spec.soak of ${NODE_GROUP_KIND} "${group.name}" ends at ${rfc3339(retryAt)}`;
    return { reason: 'WaitingForNodeGroup', message, retryAt };
  }

  #updatesTo(name: string, version: string): boolean {
    const group = this.#groups.get(name);
    return group !== undefined && isWanted(version, group.policy.versions);
  }

  #done(name: string, version: string): Done {
    const key = `${name} ${version}`;
    const done = this.#known.get(key) ?? doneWith(this.#members.get(name) ?? [], version);
    this.#known.set(key, done);
    return done;
  }
}

function isAwaited({ node }: ManagedNode): boolean {
  return node !== undefined && skippedBy(node) === undefined;
}

function doneWith(members: readonly ManagedNode[], version: string): Done {
  const times = members.map(({ shadow }) => (shadow === undefined ? 0 : (success(shadow)?.at ?? 0)));
  return {
    isBehind: !members.every((member) => runs(member, version)),
    latestAt: times.reduce((a, b) => Math.max(a, b), 0),
  };
}

function runs(member: ManagedNode, version: string): boolean {
  if (!isPair(member) || isUnderWay(member.shadow)) return false;
  const running = member.shadow.status?.current_version ?? '';
  return sameVersion(running, version) || isLater(running, version);
}
