/**
 * How many nodes may be disrupted at once: the limits of `spec.concurrency`. A {@link Capacity} counts the nodes that
 * hold an update slot, and those that are unavailable for other reasons, in the fleet or in one group, and in each zone
 * of it. {@link Limits} are those of the fleet and of its groups, which hold together. `fleet-state.ts` fills them;
 * `gates/admission.ts` checks each candidate and reserves a slot for those that start, so that one plan never starts more
 * than the limits allow. Nodes may exceed a limit that was lowered: then no node starts, and {@link nodesOverLimit} names
 * the staged ones that are deferred.
 *
 * The {@link ControlPlane} keeps its members from being disrupted together: the nodes that run kube-apiserver or etcd
 * as static pods, which no disruption budget protects. They go one at a time, and only while every other one is well,
 * whether or not the operator manages it:
 *
 *     at the start of an update      no other one holds an update slot, or is not Ready or being deleted
 *     before the drain of a node     no other one is drained or rebooting, or is not Ready or being deleted
 *
 * One that is still cordoned for an update that was given up counts as updating in both. The labels that make a node
 * such a member cannot be set by kubelets (admission plugin NodeRestriction).
 */
import { namesOf } from '@brupop/shared/runtime/errors';
import { NODE_GROUP_KIND } from '@brupop/shared/api/names';
import { ownedByUs } from '@brupop/shared/node/ownership';
import { isControlPlane, isDown, type NodeView, zoneOf } from '../../cluster/node.ts';
import { hasReached, isStaging, STATES } from '../../cluster/state.ts';
import { isPair, type ManagedNode, type NodePair } from '../../cluster/snapshot.ts';
import type { GroupConcurrency } from '../../policy/node-groups.ts';
import { nodesAtOnce, type UpdatePolicy } from '../../policy/policy.ts';
import type { Blocked } from '../facts/reasons.ts';

interface Count {
  updating: number;
  /** Includes those that are updating. */
  unavailable: number;
}

/** The fleet, or a group with limits of its own. */
interface Limited {
  /** Its name; undefined: the fleet. */
  readonly group: string | undefined;
  readonly concurrency: GroupConcurrency;
  /** Percentages are of this number of nodes. */
  readonly managed: number;
  /** The nodes that hold a slot past a deadline. */
  readonly stuck: readonly NodeView[];
}

class Capacity {
  readonly #max: Readonly<Record<Exclude<keyof GroupConcurrency, 'controlPlane'>, number>>;
  readonly #stuck: readonly NodeView[];
  readonly #all: Count = { updating: 0, unavailable: 0 };
  readonly #zones = new Map<string, Count>();
  /** Those that are counted as unavailable. */
  readonly #counted = new Set<NodeView>();

  constructor({ concurrency, managed, stuck }: Limited) {
    const { maxUpdating, maxUnavailable, maxPerZone = Infinity, maxZones = Infinity } = concurrency;
    const atOnce = (limit: typeof maxUpdating): number =>
      limit === undefined ? Infinity : nodesAtOnce(limit, managed);
    this.#max = { maxUpdating: atOnce(maxUpdating), maxUnavailable: atOnce(maxUnavailable), maxPerZone, maxZones };
    this.#stuck = stuck;
  }

  get updating(): number {
    return this.#all.updating;
  }

  reserve(node: NodeView, updating: boolean): void {
    this.#count(node, { unavailable: this.#counted.has(node) ? 0 : 1, updating: updating ? 1 : 0 });
    this.#counted.add(node);
  }

  /** No longer counts an updating node, which remains available. */
  release(node: NodeView): void {
    this.#count(node, { unavailable: -1, updating: -1 });
    this.#counted.delete(node);
  }

  /**
   * Returns why this node must not start, or undefined. The messages contain no counts, so that a
   * step of one node does not rewrite the conditions of all that wait; nodes that are stuck are named. One that is
   * unavailable already makes no other one unavailable.
   */
  check(node: NodeView): Blocked | undefined {
    const zone = this.#zone(node);
    const { maxUpdating, maxUnavailable, maxPerZone, maxZones } = this.#max;
    const own = this.#counted.has(node) ? 1 : 0;
    if (this.#all.updating >= maxUpdating) return naming(FULL, this.#stuck);
    if (this.#all.unavailable - own >= maxUnavailable) return naming(UNAVAILABLE, this.#stuck);
    if (zone.unavailable - own >= maxPerZone) {
      return naming(
        ZONE_FULL,
        this.#stuck.filter((other) => zoneOf(other) === zoneOf(node)),
      );
    }
    return this.#zonesWith(zone) > maxZones ? naming(OTHER_ZONES, this.#stuck) : undefined;
  }

  /** True when a limit is exceeded, and releasing this node would help. */
  isOverLimit(node: NodeView): boolean {
    const { maxUpdating, maxUnavailable, maxPerZone } = this.#max;
    const { updating, unavailable } = this.#all;
    return updating > maxUpdating || unavailable > maxUnavailable || this.#zone(node).unavailable > maxPerZone;
  }

  #count(node: NodeView, { updating, unavailable }: Count): void {
    const zone = this.#zone(node);
    this.#zones.set(zoneOf(node), zone);
    for (const count of [this.#all, zone]) {
      count.unavailable += unavailable;
      count.updating += updating;
    }
  }

  #zonesWith({ updating }: Count): number {
    const others = [...this.#zones.values()].filter((zone) => zone.updating > 0).length;
    return updating > 0 ? others : others + 1;
  }

  #zone(node: NodeView): Count {
    return this.#zones.get(zoneOf(node)) ?? { updating: 0, unavailable: 0 };
  }
}

type Member = Pick<NodePair, 'node' | 'group'>;

export class Limits {
  /** By the name of the group; undefined: of the fleet. */
  readonly #capacities: ReadonlyMap<string | undefined, Capacity>;

  constructor(limited: readonly Limited[]) {
    this.#capacities = new Map(limited.map((one) => [one.group, new Capacity(one)]));
  }

  /** How many nodes of the fleet have a slot, also those that are next in this plan, such as while their pods are listed. */
  get updating(): number {
    return this.#capacities.get(undefined)?.updating ?? 0;
  }

  reserve(member: Member, updating: boolean): void {
    for (const capacity of this.#of(member)) capacity.reserve(member.node, updating);
  }

  release(member: Member): void {
    for (const capacity of this.#of(member)) capacity.release(member.node);
  }

  /** As {@link Capacity.check}, of the fleet first. */
  check({ node, group }: Member): Blocked | undefined {
    const ofFleet = this.#capacities.get(undefined)?.check(node);
    if (ofFleet !== undefined || group === undefined) return ofFleet;
    const ofGroup = this.#capacities.get(group.name)?.check(node);
    return ofGroup && { ...ofGroup, message: `In ${NODE_GROUP_KIND} "${group.name}": ${ofGroup.message}` };
  }

  isOverLimit(member: Member): boolean {
    return this.#of(member).some((capacity) => capacity.isOverLimit(member.node));
  }

  /** Those that count the node. */
  #of({ group }: Member): Capacity[] {
    return [...new Set([undefined, group?.name])].flatMap((name) => this.#capacities.get(name) ?? []);
  }
}

const FULL: Blocked = {
  reason: 'WaitingForCapacity',
  message: 'As many nodes are updating as concurrency.maxUpdating allows',
};
const UNAVAILABLE: Blocked = {
  reason: 'MaxUnavailableReached',
  message: 'As many nodes are updating or unavailable for other reasons as concurrency.maxUnavailable allows',
};
const ZONE_FULL: Blocked = {
  reason: 'WaitingForZone',
  message: 'As many nodes of its zone are updating or unavailable as concurrency.maxPerZone allows',
};
const OTHER_ZONES: Blocked = {
  reason: 'WaitingForZone',
  message: 'Nodes are updating in as many other zones as concurrency.maxZones allows',
};

function naming(blocked: Blocked, stuck: readonly NodeView[]): Blocked {
  if (stuck.length === 0) return blocked;
  const message = `${blocked.message}; ${describeStuck(stuck.map(({ metadata: { name } }) => name))}`;
  return { ...blocked, message, byStuck: true };
}

/** Names at most three of the nodes that hold a slot past a deadline, or after a check failed. */
export function describeStuck(nodes: readonly string[]): string {
  const slots = nodes.length === 1 ? 'holds its update slot' : 'hold their update slots';
  return `${namesOf(nodes)} missed a deadline or failed a check, and still ${slots}`;
}

export function isUnavailable(node: NodeView): boolean {
  return node.unschedulable || isDown(node);
}

/**
 * Returns the names of the nodes that must not be drained because a limit is exceeded: it was
 * lowered, or other nodes became unavailable. Only nodes that are staging or staged can stay; as few
 * as necessary, those that are still staging first.
 * @param limits - count all unavailable nodes; they are used up
 */
export function nodesOverLimit(updating: readonly ManagedNode[], limits: Limits): ReadonlySet<string> {
  const names = new Set<string>();
  for (const pair of updating.filter(isPair).filter(canStay).toSorted(byProgress)) {
    if (!limits.isOverLimit(pair)) continue;
    limits.release(pair);
    names.add(pair.name);
  }
  return names;
}

function canStay({ node, shadow }: NodePair): boolean {
  return isStaging(shadow) && !isUnavailable(node);
}

function byProgress(a: NodePair, b: NodePair): number {
  return Number(hasReached(a.shadow)) - Number(hasReached(b.shadow)) || (a.name < b.name ? 1 : -1);
}

type Asked = { readonly node: NodeView; readonly policy: Pick<UpdatePolicy, 'concurrency'> };

export class ControlPlane {
  readonly #nodes: readonly NodeView[];
  /** Names of those that hold an update slot, those that start in this plan included. */
  readonly #updating: Set<string>;
  /** Names of those whose drain has started, those that start it in this plan included. */
  readonly #drained: Set<string>;

  /**
   * @param nodes - those of the control plane
   * @param slots - the nodes that hold an update slot
   */
  constructor(nodes: readonly NodeView[], slots: Iterable<ManagedNode>) {
    const holders = [...slots];
    this.#nodes = nodes;
    const cordoned = this.#nodes.filter(ownedByUs).map(({ metadata: { name } }) => name);
    this.#updating = new Set([...holders.map(({ name }) => name), ...cordoned]);
    this.#drained = new Set([...holders.filter(isDisrupted).map(({ name }) => name), ...cordoned]);
  }

  /** Returns why this node must not start its update, or restart its services. */
  whyNotStarted(asked: Asked): Blocked | undefined {
    return this.#check(asked, this.#updating);
  }

  /** Returns why this node, which is staged, must not be drained. */
  whyNotDrained(asked: Asked): Blocked | undefined {
    return this.#check(asked, this.#drained);
  }

  starts({ metadata: { name } }: NodeView): void {
    this.#updating.add(name);
  }

  drains({ metadata: { name } }: NodeView): void {
    this.#drained.add(name);
  }

  #check({ node, policy }: Asked, busy: ReadonlySet<string>): Blocked | undefined {
    if (policy.concurrency.controlPlane === 'Ignored' || !isControlPlane(node)) return undefined;
    const others = this.#nodes.filter(({ metadata: { name } }) => name !== node.metadata.name);
    const down = namesOf(others.filter(isDown).map(({ metadata: { name } }) => name));
    const updating = namesOf(others.map(({ metadata: { name } }) => name).filter((name) => busy.has(name)));
    if (down !== '') return blocked(`not Ready or being deleted: ${down}`, updating !== '');
    return updating === '' ? undefined : blocked(`updating: ${updating}`, true);
  }
}

function blocked(why: string, byStuck: boolean): Blocked {
  const message =
    'Nodes of the control plane update one at a time, and only while all others are Ready ' +
    `(spec.concurrency.controlPlane). Others of them are ${why}`;
  return { reason: 'WaitingForControlPlane', message, byStuck };
}

function isDisrupted({ shadow }: ManagedNode): boolean {
  return shadow !== undefined && STATES[shadow.state].isDisrupted;
}
