/**
 * Keeps the members of the control plane from being disrupted together: the nodes that run kube-apiserver or etcd as
 * static pods, which no disruption budget protects. They go one at a time, and only while every other one is well,
 * whether or not the operator manages it:
 *
 *     at the start of an update      no other one holds an update slot, or is not Ready or being deleted
 *     before the drain of a node     no other one is drained or rebooting, or is not Ready or being deleted
 *
 * One that is still cordoned for an update that was given up counts as updating in both.
 * The labels that make a node such a member cannot be set by kubelets (admission plugin NodeRestriction).
 */
import { namesOf } from '@brupop/shared/runtime/errors';
import { ownedByUs } from '@brupop/shared/node/ownership';
import { isControlPlane, isDown, type NodeView } from '../cluster/node.ts';
import { STATES } from '../cluster/state.ts';
import type { ManagedNode } from '../cluster/snapshot.ts';
import type { UpdatePolicy } from '../policy/policy.ts';
import type { Blocked } from './gates/reasons.ts';

type Asked = { readonly node: NodeView; readonly policy: Pick<UpdatePolicy, 'concurrency'> };

export class ControlPlane {
  readonly #nodes: readonly NodeView[];
  /** Names of those that hold an update slot, those that start in this plan included. */
  readonly #updating: Set<string>;
  /** Names of those whose drain has begun, those that begin it in this plan included. */
  readonly #drained: Set<string>;

  /**
   * @param nodes - all nodes of the cluster
   * @param slots - the nodes that hold an update slot
   */
  constructor(nodes: readonly NodeView[], slots: Iterable<ManagedNode>) {
    const holders = [...slots];
    this.#nodes = nodes.filter(isControlPlane);
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
    if (down !== '') return blocked(`not Ready or being deleted: ${down}`);
    const updating = namesOf(others.map(({ metadata: { name } }) => name).filter((name) => busy.has(name)));
    return updating === '' ? undefined : blocked(`updating: ${updating}`);
  }
}

function blocked(why: string): Blocked {
  const message =
    'Nodes of the control plane update one at a time, and only while all others are Ready ' +
    `(spec.concurrency.controlPlane). Others of them are ${why}`;
  return { reason: 'WaitingForControlPlane', message };
}

function isDisrupted({ shadow }: ManagedNode): boolean {
  return shadow !== undefined && STATES[shadow.state].isDisrupted;
}
