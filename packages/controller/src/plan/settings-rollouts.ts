/**
 * What is known of all nodes of a group that are to have the same settings. One node proves them first: those
 * that need no reboot and, separately, those that do.
 */
import { nodesAtOnce } from '../policy/policy.ts';
import { isSettled, isUnderWay } from '../cluster/state.ts';
import type { ManagedNode } from '../cluster/snapshot.ts';
import type { Blocked } from './gates/reasons.ts';
import { deadlineOf, isAccepted } from './facts/deadlines.ts';
import {
  allowedAtReboot,
  hashOfSettings,
  isChanging,
  ownSettings,
  requestedOf,
  type SettingsFacts,
} from './facts/settings.ts';
import type { Moment } from './facts/moment.ts';

interface Rollout {
  readonly members: number;
  readonly failed: readonly string[];
  /** Nodes that are not Ready with them, as after a failure; what is restored has been good before. */
  readonly late: number;
  readonly isProved: boolean;
  readonly isBooted: boolean;
  changing: number;
  rebooting: number;
}

export class SettingsRollouts {
  readonly #settings: ReadonlyMap<string, SettingsFacts>;
  readonly #rollouts: ReadonlyMap<string, Rollout>;

  constructor(managedNodes: readonly ManagedNode[], settings: ReadonlyMap<string, SettingsFacts>, now: Moment) {
    this.#settings = settings;
    this.#rollouts = new Map(
      [...membersOf(managedNodes, settings)].map(([key, nodes]) => [key, rolloutOf(nodes, now)]),
    );
  }

  /** Returns why a node at rest may not change its settings yet. */
  whyNotChanged(node: ManagedNode): Blocked | undefined {
    const rollout = this.#of(node);
    if (rollout === undefined) return undefined;
    return tooManyFailed(node, rollout) ?? (rollout.isProved || rollout.changing === 0 ? undefined : FIRST);
  }

  /** Returns why a node may not be rebooted for its settings yet. */
  whyNotRebooted(node: ManagedNode): Blocked | undefined {
    const rollout = this.#triedBy(node);
    if (rollout === undefined) return undefined;
    return tooManyFailed(node, rollout) ?? (rollout.isBooted || rollout.rebooting === 0 ? undefined : FIRST);
  }

  /** True when not even an update may bring the settings. */
  areStopped(node: ManagedNode): boolean {
    const rollout = this.#triedBy(node);
    if (rollout === undefined) return false;
    // While one has failed and none has booted with them, one node tries them in a reboot of its own.
    const isTrial = !rollout.isBooted && rollout.failed.length + rollout.late > 0;
    return isTrial || tooManyFailed(node, rollout) !== undefined;
  }

  changes(node: ManagedNode): void {
    const rollout = this.#of(node);
    if (rollout !== undefined) rollout.changing += 1;
  }

  reboots(node: ManagedNode): void {
    const rollout = this.#of(node);
    if (rollout !== undefined) rollout.rebooting += 1;
  }

  /** Undefined also for a node that gets back what was before, which has been good. */
  #triedBy(node: ManagedNode): Rollout | undefined {
    const rollout = this.#of(node);
    return rollout?.failed.includes(node.name) === true ? undefined : rollout;
  }

  #of(node: ManagedNode): Rollout | undefined {
    const facts = this.#settings.get(node.name);
    return facts && this.#rollouts.get(keyOf(node, facts));
  }
}

/** By key. Nodes that neither have settings of a group nor are to lose some wait for nothing. */
function membersOf(
  managedNodes: readonly ManagedNode[],
  settings: ReadonlyMap<string, SettingsFacts>,
): ReadonlyMap<string, readonly Member[]> {
  const all = managedNodes.flatMap((managedNode): Member[] => {
    const facts = settings.get(managedNode.name);
    return facts === undefined ? [] : [{ managedNode, facts }];
  });
  const keys = new Set(
    all.filter(({ facts }) => facts.state !== 'none').map((one) => keyOf(one.managedNode, one.facts)),
  );
  if (keys.size === 0) return new Map();
  const concerned = all
    .map((one) => ({ ...one, key: keyOf(one.managedNode, one.facts) }))
    .filter(({ key }) => keys.has(key));
  return Map.groupBy(concerned, ({ key }) => key);
}

type Member = { readonly managedNode: ManagedNode; readonly facts: SettingsFacts };

const NOTHING = hashOfSettings([]);

function rolloutOf(nodes: readonly Member[], now: Moment): Rollout {
  const waiting = new Set(nodes.flatMap(({ facts }) => facts.pending.map(({ key }) => key)));
  // A node on which nothing is left to restore has proved what was before. The value of a user proves nothing for others.
  const inForce = nodes.filter(
    ({ facts: { state, conflicts } }) =>
      (state === 'inForce' || state === 'none') && !conflicts.some((key) => waiting.has(key)),
  );
  return {
    members: nodes.length,
    failed: nodes.filter(({ facts }) => facts.state === 'failed').map(({ managedNode }) => managedNode.name),
    late: nodes.filter((one) => isLate(one, now)).length,
    isProved: inForce.some(hasAny),
    isBooted: inForce.some((one) => isAtRest(one) && allowedAtReboot(one.facts) === 'None'),
    changing: nodes.filter(({ facts }) => isChanging(facts)).length,
    rebooting: nodes.filter((one) => isRebooting(one, now)).length,
  };
}

/** A host on which all that is requested waits, such as for a reboot or a user, has proved nothing. */
function hasAny({ managedNode: { shadow }, facts: { pending, conflicts } }: Member): boolean {
  const own = shadow === undefined ? [] : ownSettings(requestedOf(shadow));
  const open = new Set([...pending.map(({ key }) => key), ...conflicts]);
  return own.length === 0 || own.some(({ key }) => !open.has(key));
}

/** A node that is rebooted for them is away for longer: until the deadline of its step, unless a user accepts that. */
function isLate({ managedNode: { shadow, policy }, facts }: Member, now: Moment): boolean {
  if (shadow === undefined || facts.hash === NOTHING) return false;
  if (!isUnderWay(shadow)) return facts.isLate === true;
  const isOther = facts.state === 'failed' || facts.state === 'requested';
  if (shadow.purpose !== 'Settings' || isOther) return false;
  const deadline = deadlineOf(shadow, policy, now);
  return now.reached(deadline) && !isAccepted(deadline, policy, now);
}

/** Neither one that restores what was before, nor one that is lost: that one is late. */
function isRebooting({ managedNode: { shadow, policy }, facts }: Member, now: Moment): boolean {
  if (shadow === undefined || shadow.purpose !== 'Settings' || facts.rebootFailedAt !== undefined) return false;
  return !now.reached(deadlineOf(shadow, policy, now));
}

/** An agent reports what is pending in Idle only. */
function isAtRest({ managedNode: { shadow } }: Member): boolean {
  return shadow !== undefined && isSettled(shadow);
}

function keyOf({ group }: ManagedNode, { hash }: SettingsFacts): string {
  return `${group?.name ?? ''}/${hash}`;
}

const FIRST: Blocked = {
  reason: 'ChangingSettings',
  message: 'One node of the group proves the settings first',
};

function tooManyFailed({ policy }: ManagedNode, { members, failed, late }: Rollout): Blocked | undefined {
  const count = failed.length + late;
  if (count <= nodesAtOnce(policy.rollout.failureBudget, members)) return undefined;
  return { reason: 'HostSettingsNotApplied', message: `The settings failed on ${count} nodes of the group` };
}
