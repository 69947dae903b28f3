/**
 * What is known of all nodes of a group that are to have the same settings. One node proves them for the others: one of those
 * that get them at rest and, separately, one of those that are rebooted for them.
 *
 *     left[way]    how many more nodes may get them in this way: none while one does; any number, once they are proved
 *     stopped      more nodes have failed than spec.rollout.failureBudget allows
 */
import { nodesAtOnce, type UpdatePolicy } from '../../policy/policy.ts';
import { isSettled, isUnderWay } from '../../cluster/state.ts';
import { isPair, type ManagedNode, type NodePair, type Snapshot } from '../../cluster/snapshot.ts';
import type { Blocked } from '../facts/reasons.ts';
import { deadlineOf, isAccepted } from '../facts/deadlines.ts';
import {
  allowedAtReboot,
  hashOfSettings,
  isChanging,
  ownSettings,
  requestedOf,
  type SettingsFacts,
} from '../facts/settings.ts';
import type { Moment } from '../../kept/moment.ts';
import { ofParts, type Parts } from '../../kept/parts.ts';

type Way = 'AtRest' | 'InReboot';

interface Rollout {
  /** Names of those on which they failed. These get back what was before, which has been good. */
  readonly failed: readonly string[];
  /** Of these, and of nodes that are not Ready with the settings, as after a failure. */
  readonly failures: number;
  readonly isStopped: boolean;
  readonly left: Record<Way, number>;
}

export class SettingsRollouts {
  /** By the name of each of its nodes. */
  readonly #rollouts = new Map<string, Rollout>();

  constructor({ policy }: Pick<Snapshot, 'policy'>, facts: Parts<Known>, now: Moment) {
    const parts = membersIn(facts);
    if (!concernedIn(parts).includes(true)) return;
    const members = parts.flat();
    for (const nodes of [...Map.groupBy(members, keyOf).values()].filter(areConcerned)) {
      const rollout = rolloutOf(nodes, nodes[0]?.pair.policy ?? policy, now);
      for (const { pair } of nodes) this.#rollouts.set(pair.name, rollout);
    }
  }

  /** Returns why a node may not get its settings yet. */
  check(node: ManagedNode, way: Way): Blocked | undefined {
    const rollout = this.#triedBy(node);
    if (rollout === undefined) return undefined;
    const message = `The settings failed on ${rollout.failures} nodes of the group`;
    if (rollout.isStopped) return { reason: 'HostSettingsNotApplied', message };
    return rollout.left[way] > 0 ? undefined : FIRST;
  }

  /** True when not even an update may bring the settings. */
  areStopped(node: ManagedNode): boolean {
    const { isStopped = false, failures = 0, left } = this.#triedBy(node) ?? {};
    // While one has failed and none has booted with them, one node tries them in a reboot of its own.
    return isStopped || (failures > 0 && left?.InReboot !== Infinity);
  }

  /** Counts a node that gets them. */
  reserve({ name }: ManagedNode, way: Way): void {
    const rollout = this.#rollouts.get(name);
    if (rollout !== undefined) rollout.left[way] -= 1;
  }

  #triedBy({ name }: ManagedNode): Rollout | undefined {
    const rollout = this.#rollouts.get(name);
    return rollout?.failed.includes(name) === true ? undefined : rollout;
  }
}

/** What is known of a node; undefined: it has no shadow. */
interface Known {
  readonly managedNode: ManagedNode;
  readonly settings: SettingsFacts | undefined;
}

type Member = { readonly pair: NodePair; readonly facts: SettingsFacts };

/** Nodes that neither have settings of a group nor are to lose some wait for nothing. */
function areConcerned(nodes: readonly Member[]): boolean {
  return nodes.some(({ facts }) => facts.state !== 'none');
}

const concernedIn = ofParts(areConcerned);

const membersIn = ofParts((part: readonly Known[]) =>
  part.flatMap(({ managedNode: pair, settings: facts }): Member[] =>
    facts !== undefined && isPair(pair) ? [{ pair, facts }] : [],
  ),
);

function keyOf({ pair: { group }, facts: { hash } }: Member): string {
  return `${group?.name ?? ''}/${hash}`;
}

const FIRST: Blocked = {
  reason: 'ChangingSettings',
  message: 'One node of the group proves the settings first',
};
const NOTHING = hashOfSettings([]);

function rolloutOf(nodes: readonly Member[], { rollout }: UpdatePolicy, now: Moment): Rollout {
  const waiting = new Set(nodes.flatMap(({ facts }) => facts.pending.map(({ key }) => key)));
  // A node on which nothing is left to restore has proved what was before. The value of a user proves nothing for others.
  const inForce = nodes.filter(
    ({ facts: { state, conflicts, isUnproved = false } }) =>
      (state === 'none' || (state === 'inForce' && !isUnproved)) && !conflicts.some((key) => waiting.has(key)),
  );
  // An agent reports what is pending in Idle only.
  const isBooted = inForce.some(({ pair, facts }) => isSettled(pair.shadow) && allowedAtReboot(facts) === 'None');
  const failed = nodes.filter(({ facts }) => facts.state === 'failed').map(({ pair }) => pair.name);
  const failures = failed.length + nodes.filter((one) => isLate(one, now)).length;
  return {
    failed,
    failures,
    isStopped: failures > nodesAtOnce(rollout.failureBudget, nodes.length),
    left: {
      AtRest: inForce.some(hasAny) ? Infinity : 1 - nodes.filter(({ facts }) => isChanging(facts)).length,
      InReboot: isBooted ? Infinity : 1 - nodes.filter((one) => isRebooting(one, now)).length,
    },
  };
}

/** A host on which all that is requested waits, such as for a reboot or a user, has proved nothing. */
function hasAny({ pair, facts: { pending, conflicts } }: Member): boolean {
  const own = ownSettings(requestedOf(pair.shadow));
  const open = new Set([...pending.map(({ key }) => key), ...conflicts]);
  return own.length === 0 || own.some(({ key }) => !open.has(key));
}

/** A node that is rebooted for them is away for longer: until the deadline of its step, unless a user accepts that. */
function isLate({ pair: { shadow, policy }, facts }: Member, now: Moment): boolean {
  if (facts.hash === NOTHING) return false;
  if (!isUnderWay(shadow)) return facts.isLate === true;
  const isOther = facts.state === 'failed' || facts.state === 'requested';
  if (shadow.purpose !== 'Settings' || isOther) return false;
  const deadline = deadlineOf(shadow, policy, now);
  return now.reached(deadline) && !isAccepted(deadline, policy, now);
}

/** Neither one that restores what was before, nor one that is lost: that one is late. */
function isRebooting({ pair: { shadow, policy }, facts }: Member, now: Moment): boolean {
  if (shadow.purpose !== 'Settings' || facts.rebootFailedAt !== undefined) return false;
  return !now.reached(deadlineOf(shadow, policy, now));
}
