/**
 * Canaries: the nodes that update to a version before all others. For each version,
 *
 *     too few have succeeded     only canaries start: `spec.rollout.canary` says how many, and of which nodes
 *     enough have succeeded      nothing starts for `spec.rollout.soak`; a canary that becomes unhealthy
 *                                in that time starts it again, and so does a query or an alert of
 *                                `spec.health.checks` after an update, the removal of the last canary, or one
 *                                that went back, if too few are left; one past a deadline is not waited for
 *     they have soaked           a version that needs an approval waits for it
 *     approved                   all nodes start
 *
 * A canary has succeeded when this controller has recorded so on its shadow; a node that joined with
 * the version says nothing about the update to it, nor does a reboot for settings. Its group says what
 * healthy is. When enough have succeeded, the status of the BrupopConfig records it, so that nodes which
 * are deleted or join later do not begin again; one that is being removed counts as deleted. Where every node that needs the version is a canary, none
 * goes ahead, and the approval is needed first.
 *
 * A group that sets canaries, a soak or an approval has its own, by the same code, with its nodes, policy and status. Those of
 * the fleet are for the other nodes.
 */
import { namesOf } from '@brupop/shared/runtime/errors';
import { isClockWrong, isFromFuture } from '@brupop/shared/api/deadlines';
import { selects } from '@brupop/shared/api/label-selector';
import type { BrupopConfigStatus } from '@brupop/shared/api/brupop-config';
import type { NodeGroupStatus } from '@brupop/shared/api/node-group';
import type { ShadowStatus } from '@brupop/shared/api/shadow';
import { releaseOf, sameVersion } from '@brupop/shared/api/version';
import { rfc3339 } from '@brupop/shared/runtime/clock';
import { isBeingRemoved, isDown, type NodeView, skippedBy } from '../../cluster/node.ts';
import { isPair, type ManagedNode, type NodePair, type Snapshot } from '../../cluster/snapshot.ts';
import { type NodeGroup, objectOf } from '../../policy/node-groups.ts';
import { isAtOrBeyond, isWanted, nodesAtOnce, type UpdatePolicy, wantedVersion } from '../../policy/policy.ts';
import type { Blocked } from '../facts/reasons.ts';
import { isOverdue } from '../facts/deadlines.ts';
import { type Checks, probesOf, problemIn } from '../facts/query-checks.ts';
import { recorded } from '../facts/failed-nodes.ts';
import { problemCondition } from '../facts/health.ts';
import { isPrevious } from '../facts/attempts.ts';
import type { Moment } from '../../kept/moment.ts';
import { membersOf, ofParts, ofPartsAt, pairsIn, type Parts } from '../../kept/parts.ts';

export interface CompletedCanary {
  readonly version: string;
  /** Since when enough canaries have succeeded and are healthy, epoch milliseconds. */
  readonly since: number;
}

interface Phase {
  readonly version: string;
  readonly needed: number;
  readonly succeeded: number;
  updating: number;
  /** Names of canaries: those that hold up the others, as far as they are known. */
  readonly pending: readonly string[];
  /** Names of those that have succeeded and are unhealthy now. */
  readonly unhealthy: readonly string[];
  /** The check that does not pass, and what it found. */
  readonly failedCheck: string | undefined;
  /** No node would wait for another. */
  readonly includesAll: boolean;
  readonly since: number | undefined;
  /** When unhealthy ones may count as healthy by time alone, epoch milliseconds. */
  readonly healthyTimes: readonly number[];
}

interface FleetOfLanes extends Pick<Snapshot, 'policy' | 'clockSkewMs' | 'groups'> {
  /** What was last reported. */
  readonly before: BrupopConfigStatus | undefined;
  /** The same of each group, by its name. */
  readonly groupsBefore: ReadonlyMap<string, NodeGroupStatus | undefined>;
  readonly checks: Checks;
}

/** The canaries of the fleet, and of each group that has its own. */
export class CanaryLanes {
  /** By the name of the group; undefined: those of the fleet. */
  readonly #lanes: ReadonlyMap<string | undefined, Canaries>;

  /** @param selected - the nodes that the configuration selects */
  constructor(selected: Parts<ManagedNode>, fleet: FleetOfLanes, now: number) {
    const ofGroups = fleet.groups
      .filter(({ lanes }) => lanes.has('canaries'))
      .map((group): [string, Canaries] => {
        const members = pairsIn(membersOf(group.name, selected));
        return [group.name, new Canaries(members, fleet, now, group)];
      });
    this.#lanes = new Map([[undefined, new Canaries(ofFleetIn(selected), fleet, now)], ...ofGroups]);
  }

  /** For the status of the configuration, or of the group with this name. */
  completed(group?: string): readonly CompletedCanary[] {
    return this.#lanes.get(group)?.completed ?? [];
  }

  /** When to check again, epoch milliseconds. */
  get times(): readonly number[] {
    return [...this.#lanes.values()].flatMap(({ times }) => times);
  }

  /** Returns why a node must not start an update to `version`, or undefined. */
  check(pair: NodePair, version: string): Blocked | undefined {
    return this.#of(pair)?.check(pair.node, version);
  }

  /** Counts a node that starts. */
  reserve(pair: NodePair, version: string): void {
    this.#of(pair)?.reserve(pair.node, version);
  }

  #of({ group }: NodePair): Canaries | undefined {
    return this.#lanes.get(group?.name) ?? this.#lanes.get(undefined);
  }
}

/** The nodes that are in no group with canaries of its own. */
const ofFleetIn = ofParts((part: readonly ManagedNode[]) =>
  part.filter(isPair).filter(({ group }) => group?.lanes.has('canaries') !== true),
);

class Canaries {
  readonly #policy: UpdatePolicy;
  /** The name of the group whose `spec.rollout` counts; undefined: that of the configuration does. */
  readonly #group: string | undefined;
  readonly #now: number;
  /** By release. */
  readonly #phases: ReadonlyMap<string, Phase>;

  /**
   * @param selected - the nodes that the configuration selects: of the group, or of the fleet
   * @param group - undefined: the fleet
   */
  constructor(selected: Parts<NodePair>, fleet: FleetOfLanes, now: number, group?: NodeGroup) {
    const { policy } = group ?? fleet;
    const before = group === undefined ? fleet.before : fleet.groupsBefore.get(group.name);
    const { checks, clockSkewMs } = fleet;
    this.#policy = policy;
    this.#group = group?.name;
    this.#now = now;
    const isClockRight = !isClockWrong(clockSkewMs);
    const isPast = ({ since }: CompletedCanary): boolean => !isClockRight || !isFromFuture(since, now);
    const known = recorded(before?.canaries).filter(isPast);
    const nodes = isOff(policy) ? [] : countedIn(selected);
    const ofPhase = { nodes: nodes.flat(), policy, checks, isClockRight, known, now };
    const byRelease = [...Map.groupBy(rolesIn(nodes, now).flat(), ({ version }) => releaseOf(version))];
    this.#phases = new Map(byRelease.map(([release, of]) => [release, phaseOf(release, of, ofPhase)]));
  }

  /** For the status. */
  get completed(): readonly CompletedCanary[] {
    return [...this.#phases.values()].flatMap(({ version, since }) =>
      since === undefined ? [] : [{ version, since }],
    );
  }

  /** When to check again, epoch milliseconds. */
  get times(): readonly number[] {
    return [...this.#phases.values()].flatMap(({ healthyTimes }) => healthyTimes);
  }

  /** Returns why a node must not start an update to `version`, or undefined. */
  check(node: NodeView, version: string): Blocked | undefined {
    const phase = this.#phases.get(releaseOf(version));
    if (phase === undefined) return undefined;
    if (phase.includesAll) return this.#approval(version);
    const { rollout } = this.#policy;
    if (phase.since === undefined) {
      const goesFirst = isCanary(node, this.#policy) && phase.succeeded + phase.updating < phase.needed;
      return goesFirst ? undefined : { reason: 'WaitingForCanary', message: this.#describe(phase) };
    }
    const retryAt = phase.since + rollout.soakMs;
    if (this.#now >= retryAt) return this.#approval(version);
    const whose = this.#group === undefined ? '' : ` of ${objectOf(this.#group)}`;
    const message = `The canaries run ${version}, and soak until ${rfc3339(retryAt)} (spec.rollout.soak${whose})`;
    return { reason: 'Soaking', message, retryAt };
  }

  /** Counts a node that starts. */
  reserve(node: NodeView, version: string): void {
    const phase = this.#phases.get(releaseOf(version));
    if (phase !== undefined && isCanary(node, this.#policy)) phase.updating += 1;
  }

  #approval(version: string): Blocked | undefined {
    const { approval, approvedVersion } = this.#policy.rollout;
    if (approval === 'NotRequired' || sameVersion(approvedVersion, version)) return undefined;
    const message = `${version} needs an approval: set spec.rollout.approvedVersion of ${objectOf(this.#group)} to ${version}`;
    return { reason: 'WaitingForApproval', message };
  }

  #describe(phase: Phase): string {
    const { nodeSelector } = this.#policy.rollout.canary;
    return describe(phase, nodeSelector && `spec.rollout.canary.nodeSelector of ${objectOf(this.#group)}`);
  }
}

function isOff({ rollout: { canary, approval } }: UpdatePolicy): boolean {
  const { nodes, nodeSelector } = canary;
  return nodeSelector === undefined && 'percent' in nodes && nodes.percent === 100 && approval === 'NotRequired';
}

export function isCanary({ metadata: { labels = {} } }: NodeView, { rollout: { canary } }: UpdatePolicy): boolean {
  return canary.nodeSelector === undefined || selects(canary.nodeSelector, labels);
}

type Role = 'waiting' | 'updating' | 'late' | 'succeeded';

/** What a node is for one version. */
interface NodeRole {
  readonly pair: NodePair;
  readonly version: string;
  readonly role: Role;
}

/** The others would wait for a skipped node for ever. */
const countedIn = ofParts((part: readonly NodePair[]) => part.filter(({ node }) => skippedBy(node) === undefined));

const rolesIn = ofPartsAt((part: readonly NodePair[], now) => part.flatMap((pair) => rolesOf(pair, now)));

/** For the versions that a node has updated to, and is to update to or is updating to. */
function rolesOf(pair: NodePair, now: Moment): NodeRole[] {
  const { status, updated } = pair.shadow;
  if (status === undefined) return [];
  const { current_version: version } = status;
  const hasSucceeded = sameVersion(updated?.version, version) && !isPrevious(pair.shadow, version);
  return [...(hasSucceeded ? [{ pair, version, role: 'succeeded' as const }] : []), ...nextRoleOf(pair, status, now)];
}

function nextRoleOf(pair: NodePair, { current_version, target_version }: ShadowStatus, now: Moment): NodeRole[] {
  const { shadow, policy } = pair;
  if (shadow.purpose === 'Update') {
    const role = isOverdue(shadow, policy, now) ? 'late' : 'updating';
    return [{ pair, version: shadow.spec.version ?? '', role }];
  }
  // A reboot for settings says nothing about a version.
  if (shadow.purpose !== undefined) return [];
  const version = wantedVersion(target_version, policy.versions);
  return version === '' || sameVersion(version, current_version) ? [] : [{ pair, version, role: 'waiting' }];
}

interface PhaseInput {
  /** Those that a user leaves out do not count. */
  readonly nodes: readonly NodePair[];
  readonly policy: UpdatePolicy;
  readonly checks: Checks;
  /** No soak starts by a clock that is wrong. */
  readonly isClockRight: boolean;
  readonly known: readonly CompletedCanary[];
  readonly now: number;
}

/**
 * Of all nodes that may be canaries, not only of those that are offered the version already: a release
 * reaches the nodes in waves, and one agent may claim to be offered it first.
 */
function phaseOf(version: string, roles: readonly NodeRole[], input: PhaseInput): Phase {
  const { nodes, policy, now } = input;
  const canaries = roles.filter(({ pair }) => isCanary(pair.node, policy));
  const ofRole = (role: Role): NodePair[] => canaries.flatMap((one) => (one.role === role ? one.pair : []));
  const succeeded = ofRole('succeeded').filter(({ node }) => !isBeingRemoved(node));
  const updating = ofRole('updating');
  const updated = new Set(succeeded);
  const mayUpdate = (pair: NodePair): boolean => !runs(pair, version) && isWanted(version, pair.policy.versions);
  const usable = nodes.filter((pair) => updated.has(pair) || mayUpdate(pair));
  const eligible = usable.filter(({ node }) => isCanary(node, policy));
  const needed = Math.min(eligible.length, nodesAtOnce(policy.rollout.canary.nodes, eligible.length));
  const unhealthy = succeeded.filter((pair) => healthyFrom(pair) > now);
  const before = input.known.find((one) => sameVersion(one.version, version))?.since;
  // Nodes that join need more canaries, and those that leave take some along: the soak goes on with one that remains.
  const goesOn = before !== undefined && !nodes.some((pair) => isCanary(pair.node, policy) && wentBack(pair, version));
  const enough = goesOn ? Math.min(1, needed) : needed;
  const isProved = needed > 0 && succeeded.length >= enough && unhealthy.length === 0;
  const isAwaited = roles.some(({ role }) => role !== 'succeeded');
  const needsEach = needed >= eligible.length;
  const known = new Set(canaries.map(({ pair }) => pair));
  const others = eligible.filter((pair) => !known.has(pair));
  return {
    version,
    needed,
    succeeded: succeeded.length,
    updating: updating.length,
    pending: [...ofRole('late'), ...(needsEach ? [...updating, ...ofRole('waiting'), ...others] : [])].map(nameOf),
    unhealthy: unhealthy.map(({ name }) => name),
    includesAll: needed > 0 && needed >= usable.length,
    ...soakOf(before, isProved ? succeeded : undefined, isAwaited, input),
    healthyTimes: unhealthy.map(healthyFrom).filter((from) => from < Infinity),
  };
}

/** True for a node that is not being removed, and does not run the version any more to which it was updated. */
function wentBack(pair: NodePair, version: string): boolean {
  return sameVersion(pair.shadow.updated?.version, version) && !runs(pair, version) && !isBeingRemoved(pair.node);
}

/** With the reason why it is not offered a version, unless it goes back or is changed otherwise. */
function nameOf({ name, node, shadow, policy }: NodePair): string {
  const { current_version: running, target_version: offered = '' } = shadow.status ?? {};
  const isOffered = !sameVersion(wantedVersion(offered, policy.versions), running);
  if (shadow.purpose !== undefined || isOffered) return name;
  return `${name} ${isDown(node) ? '(not Ready)' : '(not offered it)'}`;
}

/**
 * After the soak nothing changes the record, and none is made for a version that no node waits for. An answer
 * that has become old does not end the soak, but it begins only with one that counts.
 * @param proved - the canaries, when enough of them are healthy
 */
function soakOf(
  before: number | undefined,
  proved: readonly NodePair[] | undefined,
  isAwaited: boolean,
  { policy, checks, isClockRight, now }: PhaseInput,
): Pick<Phase, 'since' | 'failedCheck'> {
  const none = { since: undefined, failedCheck: undefined };
  if (before !== undefined && now >= before + policy.rollout.soakMs) return { ...none, since: before };
  if (proved === undefined || (before === undefined && !isAwaited)) return none;
  const policies = new Set(proved.map((one) => one.policy));
  const found = checks.all([...policies].flatMap((one) => probesOf(one, 'After')));
  const failedCheck = problemIn(found);
  if (failedCheck !== undefined) return { ...none, failedCheck };
  const isKnown = found.every(({ latest }) => latest !== undefined);
  return { ...none, since: before ?? (isKnown && isClockRight ? now : undefined) };
}

/** True for a node that need not be updated to the version, and for one that has not reported. */
function runs({ shadow, policy }: NodePair, version: string): boolean {
  const running = shadow.status?.current_version;
  return running === undefined || isAtOrBeyond(running, version, policy.versions);
}

/** Infinity: not healthy now. Where nodes with a condition are updated, it says nothing about the version. */
function healthyFrom({ node, policy }: NodePair): number {
  const hasProblem = policy.health.unhealthyNodes === 'Wait' && problemCondition(node, policy) !== undefined;
  if (!node.ready || hasProblem) return Infinity;
  return (node.readySince ?? 0) + policy.monitoring.healthyForMs;
}

/** The message names few nodes, and changes with few updates, since each change is a write for every node that waits. */
function describe(phase: Phase, selector: string | undefined): string {
  const { version, needed, succeeded, pending, unhealthy, failedCheck } = phase;
  if (needed === 0)
    return selector !== undefined
      ? `${selector} selects no node that updates to ${version}, so no node starts`
      : `No node can be a canary for ${version}, so no node starts`;
  const canaries = `${needed} ${needed === 1 ? 'canary' : 'canaries'}`;
  const whose = selector === undefined ? '' : ` that ${selector} selects`;
  const first = `${canaries}${whose} must update to ${version} before the other nodes`;
  if (succeeded >= needed && unhealthy.length > 0) return `${first}; updated, but not healthy: ${namesOf(unhealthy)}`;
  if (failedCheck !== undefined) return `${first}; updated, but ${failedCheck}`;
  return pending.length > 0 ? `${first}; not updated: ${namesOf(pending)}` : first;
}
