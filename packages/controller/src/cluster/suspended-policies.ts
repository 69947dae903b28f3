/**
 * The policies of nodes whose fleet or zone is lost, or was: their deadlines begin at the end of the loss. While a loss does not
 * change, nor does the object, since nodes are recognised by it ({@link UnchangedNodes}).
 */
import type { UpdatePolicy } from '../policy/policy.ts';
import { type Connectivity, type Loss, lossOf } from './connectivity.ts';
import { isSameTime } from './managed-nodes.ts';
import type { ManagedNode } from './snapshot.ts';

interface Suspended {
  readonly loss: Loss;
  readonly policy: UpdatePolicy;
}

export class SuspendedPolicies {
  /** By the policy without a loss; only those of the latest snapshot. */
  #known: ReadonlyMap<UpdatePolicy, readonly Suspended[]> = new Map();

  /** @param fleet - the policy of the configuration */
  of(
    managedNodes: readonly ManagedNode[],
    fleet: UpdatePolicy,
    connectivity: Connectivity,
  ): { readonly managedNodes: readonly ManagedNode[]; readonly policy: UpdatePolicy } {
    const used = new Map<UpdatePolicy, readonly Suspended[]>();
    const wasNeverLost = connectivity.lostUntil === 0 && connectivity.zones.size === 0;
    const withPolicy = (one: ManagedNode): ManagedNode => {
      const policy = this.#suspended(one.policy, lossOf(connectivity, one.node), used);
      return policy === one.policy ? one : { ...one, policy };
    };
    const found = wasNeverLost ? managedNodes : managedNodes.map(withPolicy);
    const policy = this.#suspended(fleet, connectivity, used);
    this.#known = used;
    return { managedNodes: found, policy };
  }

  #suspended(policy: UpdatePolicy, loss: Loss, used: Map<UpdatePolicy, readonly Suspended[]>): UpdatePolicy {
    if (loss.lostUntil === 0) return policy;
    const ofPolicy = used.get(policy) ?? [];
    const inUse = ofPolicy.find((one) => isSame(one.loss, loss));
    if (inUse !== undefined) return inUse.policy;
    const before = this.#known.get(policy)?.find((one) => isSame(one.loss, loss));
    const made = before ?? { loss, policy: suspend(policy, loss) };
    used.set(policy, [...ofPolicy, made]);
    return made.policy;
  }
}

function isSame(a: Loss, b: Loss): boolean {
  const isSameKind = a.lost === b.lost && a.isOff === b.isOff && a.isClockWrong === b.isClockWrong;
  return isSameKind && isSameTime(a.lostUntil, b.lostUntil);
}

function suspend(policy: UpdatePolicy, { lost, lostUntil, isOff, isClockWrong }: Loss): UpdatePolicy {
  const why = { ...(isOff && { isZoneOff: isOff }), ...(isClockWrong && { isClockWrong }) };
  return { ...policy, isSuspended: lost, deadlinesFrom: lostUntil, ...why };
}
