/**
 * What receivers are notified of, as it is found in a plan. An event is here for as long as it lasts:
 *
 *     Frozen             a version is frozen, for the fleet or a group
 *     Failed             a node has failed with a version
 *     Held               a version is held because workloads fail on it
 *     Stuck              a node holds its slot past a deadline or did not return; the rollout is late
 *     WaitsForApproval   nodes wait for an approval of their version
 *     Finished           nodes have succeeded, and none needs an update any more, for an hour
 *
 * Its ID says which one it is: it is the same for every leader, and another one when the same thing happens again. So the
 * start of a freeze and of a hold are in it, and only those that are recorded in the status count. In that of a late rollout
 * is its last success, and in that of a node that is stuck the start of its update.
 */
import { createHash } from 'node:crypto';
import type { BrupopConfigStatus } from '@brupop/shared/api/brupop-config';
import type { NotificationEvent } from '@brupop/shared/api/config-notifications';
import { CONFIG_KIND, CONFIG_NAME, NODE_GROUP_KIND } from '@brupop/shared/api/names';
import type { BottlerocketNodeGroup } from '@brupop/shared/api/node-group';
import { releaseOf, sameVersion } from '@brupop/shared/api/version';
import { rfc3339 } from '@brupop/shared/runtime/clock';
import type { ManagedNode } from '../cluster/snapshot.ts';
import { AGENT_SAYS } from '../plan/condition.ts';
import type { FailedNode } from '../plan/facts/failed-nodes.ts';
import type { Reason } from '../plan/facts/reasons.ts';
import { versionsOf } from '../plan/facts/versions.ts';
import { wantedVersion } from '../policy/policy.ts';
import { CONDITIONS, GROUP_CONDITIONS } from '../report/config-conditions.ts';
import { describeFrozen, describeHeld } from '../report/stopped-versions.ts';
import type { NodeCondition } from '../report/node-conditions.ts';
import type { Progress } from '../report/progress.ts';
import type { WholePlan } from '../report/report.ts';
import type { GroupRollout } from '../report/rollout.ts';

export const SEVERITIES = ['info', 'warning', 'error'] as const;

export interface Notice {
  readonly id: string;
  readonly event: NotificationEvent;
  readonly severity: (typeof SEVERITIES)[number];
  readonly object: { readonly kind: string; readonly name: string };
  /** Of Bottlerocket. */
  readonly version?: string;
  /** One line. */
  readonly summary: string;
  /** What was found, and what to do. */
  readonly message: string;
  /** Shows more, or does it. */
  readonly command: string;
}

/** What decides beside the plan. */
export interface Seen {
  readonly plan: WholePlan;
  /** As it is written. */
  readonly status: Pick<BrupopConfigStatus, 'frozenVersions' | 'heldVersions'>;
  readonly groups: readonly Pick<BottlerocketNodeGroup, 'metadata' | 'status'>[];
  readonly nodes: readonly Pick<ManagedNode, 'name' | 'shadow' | 'writeRejection' | 'writeFailure'>[];
  /** When the rollout ended, if that was within the hour, epoch milliseconds. */
  readonly finishedAt: number | undefined;
}

/** What is sent of those that last at once. Fewer than a receiver's record has, which also has those that have just ended. */
export const MAX_NOTICES = 50;

export interface Notices {
  readonly notices: readonly Notice[];
  /** They last as well, and are left out. */
  readonly others: readonly Notice[];
}

/** Those that stop the most nodes come first. */
export function noticesOf(seen: Seen): Notices {
  const { plan, nodes, finishedAt } = seen;
  const all = [
    ...frozenNotices(seen),
    ...heldNotices(seen),
    ...approvalNotices(plan),
    ...lateNotices(plan),
    ...stuckNotices(plan, nodes),
    ...failedNotices(plan),
    ...(finishedAt === undefined ? [] : [finishedNotice(plan, finishedAt)]),
  ];
  return { notices: all.slice(0, MAX_NOTICES), others: all.slice(MAX_NOTICES) };
}

/** True while a node of the fleet or of a group needs an update. */
export function isRolling({ progress, groups }: Pick<WholePlan, 'progress' | 'groups'>): boolean {
  return progress !== undefined || groups.some((group) => group.progress !== undefined);
}

/** False: it is not known whether the rollout has ended, or nodes wait for the age of a version only. */
export function isCertain(plan: WholePlan): boolean {
  const { stale, policy, counts, forecast } = plan;
  if (stale.length > 0 || policy.problem !== undefined || counts.managed === 0) return false;
  return counts.updating + counts.failed === 0 && !forecast.reasons.has('MinimumAgeNotReached') && isConfirmed(plan);
}

/** False while an agent has time to confirm a spec: until then the plan does not say what its node needs. */
function isConfirmed({ unconfirmed, conditions }: WholePlan): boolean {
  if (unconfirmed.length === 0) return true;
  const known = new Set(conditions.flat().map(({ node }) => node.metadata.name));
  return unconfirmed.every((name) => known.has(name));
}

/** When a node last succeeded, epoch milliseconds; 0: none did. */
export function lastSuccessOf(nodes: readonly Pick<ManagedNode, 'shadow'>[]): number {
  const times = nodes.flatMap(({ shadow }) => [shadow?.times.succeededAt ?? 0, shadow?.updated?.at ?? 0]);
  return times.reduce((latest, at) => Math.max(latest, at), 0);
}

const FLEET = { kind: CONFIG_KIND, name: CONFIG_NAME };
const groupObject = (name: string): Notice['object'] => ({ kind: NODE_GROUP_KIND, name });

function notice(one: Omit<Notice, 'id'>, since = ''): Notice {
  const { event, object, version = '' } = one;
  const key = JSON.stringify([event, object.kind, object.name, version, since]);
  return { id: createHash('sha256').update(key).digest('hex').slice(0, 12), ...one };
}

function describeCommand({ kind, name }: Notice['object']): string {
  return `kubectl describe ${kind === CONFIG_KIND ? 'brc' : 'brng'} ${name}`;
}

function frozenNotices({ plan, status, groups }: Seen): Notice[] {
  const statusOf = (name: string) => groups.find(({ metadata }) => metadata.name === name)?.status;
  const lanes = [
    { ...plan, object: FLEET, recorded: status.frozenVersions },
    ...plan.groups.map(({ group: { name }, frozen, failed }) => ({
      frozen,
      failed,
      object: groupObject(name),
      recorded: statusOf(name)?.frozenVersions,
    })),
  ];
  return lanes.flatMap(({ frozen, failed, object, recorded = [] }) =>
    frozen.flatMap((one) => {
      const { version } = one;
      const since = recorded.find((known) => sameVersion(known.version, version))?.since;
      if (since === undefined) return [];
      const summary = `Bottlerocket ${version} is frozen: too many nodes failed with it`;
      const message = describeFrozen(one, failed);
      const command = describeCommand(object);
      return [notice({ event: 'Frozen', severity: 'error', object, version, summary, message, command }, since)];
    }),
  );
}

function heldNotices({ plan, status: { heldVersions = [] } }: Seen): Notice[] {
  return plan.holds.flatMap((hold) => {
    const { version, suspects } = hold;
    const since = heldVersions.find((one) => sameVersion(one.version, version))?.since;
    if (since === undefined || suspects.length === 0) return [];
    const summary = `Bottlerocket ${version} is held: workloads fail on nodes that run it`;
    const command = describeCommand(FLEET);
    const message = describeHeld(hold);
    return [notice({ event: 'Held', severity: 'error', object: FLEET, version, summary, message, command }, since)];
  });
}

/** Versions that wait at once: one is usual. */
const MAX_APPROVALS = 5;

/**
 * One for each version and each object that approves it, those of the most nodes first. An agent may invent versions: one
 * that a single node of several reports, and no user has pinned, makes none.
 */
function approvalNotices(plan: WholePlan): Notice[] {
  const { forecast, conditions } = plan;
  if (!forecast.reasons.has('WaitingForApproval')) return [];
  const waiting = conditions.flat().filter(({ progressing }) => progressing.reason === 'WaitingForApproval');
  const lanes = [...Map.groupBy(waiting, ({ group }) => group)];
  const all = lanes.flatMap(([group, nodes]) => approvalsIn(plan, group, nodes));
  const same = [...Map.groupBy(all, ({ object, version }) => `${object.kind} ${object.name} ${version}`).values()];
  const first = same.toSorted((a, b) => b.length - a.length).flatMap((found) => found.slice(0, 1));
  return first.slice(0, MAX_APPROVALS).map(({ version, object }) => approvalNotice(version, object));
}

/** Of each node of a group that waits, what is to be approved and where. */
function approvalsIn(
  { forecast, conditions, groups, policy }: WholePlan,
  name: string,
  nodes: readonly NodeCondition[],
): readonly { readonly version: string; readonly object: Notice['object'] }[] {
  const rollout = groups.find(({ group }) => group.name === name);
  const { versions } = rollout?.policy ?? policy;
  const isOwn = rollout?.group.lanes.has('canaries') === true;
  const object = isOwn ? groupObject(name) : FLEET;
  const counts = isOwn ? versionsOf([conditions.flat().filter(({ group }) => group === name)]) : forecast.versions;
  const isKnown = (version: string): boolean => counts.some((one) => one.hasAge && sameVersion(one.version, version));
  return nodes
    .map(({ shadow }) => releaseOf(wantedVersion(shadow.status?.target_version ?? '', versions)))
    .filter((version) => versions.pin !== undefined || isKnown(version))
    .map((version) => ({ version, object }));
}

function approvalNotice(version: string, object: Notice['object']): Notice {
  const kind = object.kind === CONFIG_KIND ? 'brc' : 'brng';
  const patch = JSON.stringify({ spec: { rollout: { approvedVersion: version } } });
  return notice({
    event: 'WaitsForApproval',
    severity: 'info',
    object,
    version,
    summary: `Bottlerocket ${version} waits for an approval`,
    message: `Nodes wait with their update to ${version} until spec.rollout.approvedVersion of ${object.kind} "${object.name}" is ${version}`,
    command: `kubectl patch ${kind} ${object.name} --type merge -p '${patch}'`,
  });
}

function lateNotices(plan: WholePlan): Notice[] {
  return [
    ...late(plan.progress, FLEET, () => CONDITIONS.Degraded(plan).message),
    ...plan.groups.flatMap((rollout) =>
      late(
        rollout.progress,
        groupObject(rollout.group.name),
        () => GROUP_CONDITIONS.Degraded(withoutReasons(rollout)).message,
      ),
    ),
  ];
}

/** Agents say why settings are refused. */
function withoutReasons<T extends Pick<GroupRollout, 'settings'>>(rollout: T): T {
  return { ...rollout, settings: { ...rollout.settings, left: [] } };
}

function late(progress: Progress | undefined, object: Notice['object'], messageOf: () => string): Notice[] {
  if (progress?.isLate !== true) return [];
  const summary = `The rollout of ${object.kind} "${object.name}" is late`;
  const [message, command] = [messageOf(), describeCommand(object)];
  const since = rfc3339(progress.lastProgressAt);
  return [notice({ event: 'Stuck', severity: 'error', object, summary, message, command }, since)];
}

function stuckNotices(plan: WholePlan, nodes: Seen['nodes']): Notice[] {
  const { stuckNodes, lost, conditions } = plan;
  if (lost.length + stuckNodes.length === 0) return [];
  const going = goingOn(plan, nodes);
  const names = [...new Set([...lost.map(({ name }) => name), ...stuckNodes.filter((name) => !going.has(name))])];
  const found = new Map(conditions.flat().map((one): [string, NodeCondition] => [one.node.metadata.name, one]));
  return names.map((name) => {
    const isLost = lost.some((one) => one.name === name);
    const summary = isLost ? `${name} did not return from its reboot` : `${name} is stuck in its update`;
    const why = isLost ? found.get(name)?.progressing.message : reasonOf(found.get(name));
    const message = `${why ?? summary}. Look at its host; it holds its update slot until its update continues, its Node is deleted, or spec.rollout.resume is set to a later time`;
    const object = nodeObject(name);
    return notice(
      { event: 'Stuck', severity: 'error', object, summary, message, command: shadowOf(name) },
      nodes.find((one) => one.name === name)?.shadow?.record.startedAt,
    );
  });
}

/** Of these the words are the controller's, but for what follows {@link AGENT_SAYS}. */
const OWN_WORDS: ReadonlySet<Reason> = new Set<Reason>(['DeadlineExceeded', 'CheckFailed', 'AgentNotResponding']);

/** Not what its agent says, which may be any text, such as a link: receivers trust the operator. */
function reasonOf(found: NodeCondition | undefined): string | undefined {
  if (found === undefined) return undefined;
  const { reason, message } = found.progressing;
  return OWN_WORDS.has(reason) ? message.split(AGENT_SAYS, 1)[0] : `${reason}: its BottlerocketShadow says why`;
}

/** Names of nodes whose step ends with this plan, such as a staging that is cancelled at its deadline, if that can be written. */
function goingOn({ specs }: Pick<WholePlan, 'specs'>, nodes: Seen['nodes']): ReadonlySet<string> {
  const failing = nodes.filter(({ writeRejection, writeFailure }) => (writeRejection ?? writeFailure) !== undefined);
  const unwritten = new Set(failing.map(({ name }) => name));
  return new Set(specs.map(({ node }) => node.metadata.name).filter((name) => !unwritten.has(name)));
}

const nodeObject = (name: string): Notice['object'] => ({ kind: 'Node', name });
const shadowOf = (name: string): string => `kubectl get brs -A -o wide --field-selector metadata.name=brs-${name}`;

function failedNotices({ failed }: WholePlan): Notice[] {
  return failed.map((one) => {
    const { name, version, code } = one;
    const summary = `${name} failed with Bottlerocket ${version}: ${code}`;
    const texts = { summary, message: describeFailure(one), command: shadowOf(name) };
    return notice({ event: 'Failed', severity: 'warning', object: nodeObject(name), version, ...texts }, code);
  });
}

function describeFailure({ version, code, since, deleted = false }: FailedNode): string {
  const failed = `Its update to ${version} failed at ${rfc3339(since)} with the code ${code}`;
  const counts = 'The failure counts against spec.rollout.failureBudget until';
  const orAccepted = 'or spec.rollout.resume accepts it';
  if (deleted) return `${failed}. It was deleted since. ${counts} all nodes run the version ${orAccepted}`;
  if (code !== 'WorkloadsFailed')
    return `${failed}. Its BottlerocketShadow says why, and when it is tried again. ${counts} the node succeeds ${orAccepted}`;
  const suspect = `Since its update to ${version}, a workload fails on it (${code}, ${rfc3339(since)})`;
  return `${suspect}. The condition Suspect of its BottlerocketShadow names it. ${counts} no such workload fails ${orAccepted}`;
}

function finishedNotice({ counts, forecast: { versions } }: WholePlan, at: number): Notice {
  const list = versions.filter(({ running }) => running > 0).map(({ version, running }) => `${version} (${running})`);
  const message = `${counts.upToDate} of ${counts.managed} nodes are up to date. They run ${list.slice(0, 5).join(', ')}`;
  const summary = 'The rollout is finished: no node needs an update';
  const command = 'kubectl get brs -A';
  return notice({ event: 'Finished', severity: 'info', object: FLEET, summary, message, command }, rfc3339(at));
}
