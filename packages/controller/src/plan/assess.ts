/**
 * Assesses one node: the change that its spec needs now, its condition and its phase. `plan.ts` calls
 * {@link assess} for each node, and the gates then decide on the candidates. What is found depends on the
 * state of the node (`cluster/state.ts`); a Node or a shadow alone waits.
 *
 *     not managed   the Node has lost its label: an update ends
 *     under way     the next step, or why there is none
 *     confirmed     Resting or Restoring: the node is up to date, or a candidate
 *     unconfirmed   the condition stays as it is until the deadline
 */
import type { ErrorCode } from '@brupop/shared/api/error-codes';
import type { LastOperation, ShadowStatus } from '@brupop/shared/api/shadow';
import { sameVersion } from '@brupop/shared/api/version';
import { parseTime } from '@brupop/shared/runtime/clock';
import { isManaged, skippedBy } from '../cluster/node.ts';
import { blockOf, type ShadowView } from '../cluster/shadow.ts';
import { hasReached, isSettled, isUnderWay } from '../cluster/state.ts';
import { isPair, type ManagedNode, type NodePair } from '../cluster/snapshot.ts';
import { isWanted, type UpdatePolicy, wantedVersion } from '../policy/policy.ts';
import { whyNotDrainedNow } from './gates/admission.ts';
import * as condition from './condition.ts';
import { failures, pendingRollback } from './facts/attempts.ts';
import { deadlineOf, isOverdue, notRespondingAt } from './facts/deadlines.ts';
import { failedCheckAt } from './facts/failed-nodes.ts';
import { areDaemonSetsReady, monitoringOf } from './facts/health.ts';
import { hasHooksLeft, hooksAfter, type JobProgress, progressOf } from './facts/jobs.ts';
import { mayBeDrained } from './facts/drainability.ts';
import { type FleetState, type NodeFacts, policyFor } from './fleet/fleet-state.ts';
import { beforeDrain } from './facts/query-checks.ts';
import { type Blocked, type Candidate, type Reason, specRejected } from './facts/reasons.ts';
import { isUpdateRequested } from './facts/requests.ts';
import { idle, needsPods, type Transition, transition, type TransitionInput } from './specs/transition.ts';
import {
  waitsForRestore,
  grantable,
  isChanging,
  isComplete,
  needsReboot,
  repairs,
  requestedOf,
  restoresSettings,
  sameSettings,
  type SettingsFacts,
} from './facts/settings.ts';
import type { Moment } from '../kept/moment.ts';
import { type Suspect, suspectsOf } from './facts/suspects.ts';

export type NodePhase = 'upToDate' | 'updating' | 'waiting' | 'failed';

export interface Assessment {
  readonly managedNode: ManagedNode;
  /** Undefined: its shadow does not exist, or is not that of this Node. */
  readonly settings?: SettingsFacts | undefined;
  /** The workloads that fail on it since its update. */
  readonly suspects?: readonly Suspect[];
  /** The configuration has not taken full effect on the host yet. */
  readonly pending?: boolean;
  readonly change?: Transition | undefined;
  readonly progressing?: condition.ProgressingCondition | undefined;
  readonly phase?: NodePhase;
  readonly lookUp?: boolean;
  /** Pods must not be scheduled to it until its DaemonSets are Ready. */
  readonly isStarting?: boolean;
  readonly candidate?: Candidate;
  /** The version that a node at rest is to run. */
  readonly next?: string;
  /** What its host has to be allowed to disrupt for its settings, while it is at rest. */
  readonly grant?: ReturnType<typeof grantable> | undefined;
  /** The Jobs that the node needs now. */
  readonly jobs?: JobProgress | undefined;
  /** No agent has reported within the time limit of a confirmation. */
  readonly neverConnected?: boolean;
  /** When the assessment may change by time alone, epoch milliseconds. */
  readonly times: readonly (number | undefined)[];
}

/** An assessment after the gates: what a node adds to the plan. */
export interface Decision extends Assessment {
  readonly blocked?: Blocked;
}

export function assess({ managedNode, settings }: NodeFacts, fleetState: FleetState, now: Moment): Assessment {
  if (!isPair(managedNode)) return { times: [], ...WAITING, managedNode };
  const input = inputOf(managedNode, settings, fleetState, now);
  const { start, ...found } = assessPair(input);
  const candidate = start && { ...managedNode, policy: input.policy, ...start };
  const suspects = suspectsOf(managedNode, now, fleetState.policy);
  return {
    times: [],
    ...found,
    managedNode,
    settings,
    ...(suspects.length > 0 && { suspects }),
    ...(candidate !== undefined && { candidate }),
  };
}

/** What a node finds that is a candidate now. */
type Start = Omit<Candidate, keyof NodePair>;

interface Found extends Partial<Omit<Assessment, 'managedNode' | 'settings' | 'suspects' | 'candidate'>> {
  readonly start?: Start;
}

function inputOf(
  pair: NodePair,
  settings: SettingsFacts | undefined,
  fleetState: FleetState,
  now: Moment,
): TransitionInput {
  const { status, spec, state, record, purpose } = pair.shadow;
  // These ask checks, workloads and quorums as well.
  if (state === 'Staged' || state === 'Proving' || record.jobs !== undefined) now.holdsOnce();
  return {
    ...pair,
    policy: policyFor(pair, now),
    rules: pair.policy,
    drain: () => {
      now.holdsOnce();
      return fleetState.drains.of(pair.node, pair.policy);
    },
    blockedBy:
      state === 'Staged' && status !== undefined
        ? whyNotDrainedNow(
            {
              ...pair,
              status,
              version: spec.version ?? '',
              isReboot: purpose === 'Settings',
              isRepair: purpose === 'Settings' && repairs(pair.shadow, settings),
              isRequested: record.updateNow === true,
              isRollback: purpose === 'Rollback' || restoresSettings(pair.shadow, settings),
            },
            fleetState,
          )
        : undefined,
    ownNamespace: fleetState.ownNamespace,
    checks: fleetState.checks,
    workloads: fleetState.workloads,
    quorums: fleetState.quorums,
    settings,
    now,
  };
}

const WAITING: Found = { phase: 'waiting' };

function assessPair(input: TransitionInput): Found {
  const { node, shadow } = input;
  const change = transition(input);
  if (!isManaged(node)) return { change: shadow.spec.state === 'Idle' ? change : idle(input, 'Released') };
  if (isUnderWay(shadow)) return withRejection(input, assessUnderWay(input, change));
  return isSettled(shadow) ? withRejection(input, assessSettled(input, change)) : assessUnsettled(input, change);
}

/** A change that the API server rejects takes precedence in the condition. */
function withRejection({ writeRejection }: TransitionInput, found: Found): Found {
  if (found.change === undefined || writeRejection === undefined) return found;
  return { ...found, progressing: condition.waiting(specRejected(writeRejection)) };
}

function assessUnderWay(input: TransitionInput, change: Transition | undefined): Found {
  const { node, shadow, policy, now } = input;
  const { healthyAt, recheckAt, problem, jobs } = { ...monitoringOf(input), ...jobsBeforeDrain(input) };
  const times = [deadlineOf(shadow, policy, now), healthyAt, recheckAt, ...(jobs?.times ?? [])];
  const lookUp = change === undefined && needsPods(input);
  const isCancelled = change?.outcome === 'Cancelled';
  const isStarting = startsUp(input);
  if (isOverdue(shadow, policy, now) && (change === undefined || isCancelled)) {
    const progressing = condition.overdue(input, isCancelled);
    const cancelled = change && { ...change, because: progressing };
    return { change: cancelled, progressing, phase: 'failed', lookUp, jobs, times, isStarting };
  }
  const { blockedAt, block } = longBlock(input);
  const progressing = condition.blockedDrain(updatingCondition(input, { problem, jobs }, lookUp), block, node);
  const pending = !sameSettings(requestedOf(shadow), policy.settings) || !isComplete(input.settings);
  return { change, progressing, phase: 'updating', pending, lookUp, jobs, times: [...times, blockedAt], isStarting };
}

/** A drain waits for each pod for a while: only what takes longer is a write. */
const BLOCKED_MS = 60_000;

function longBlock({ shadow, now }: TransitionInput): {
  readonly blockedAt?: number;
  readonly block?: ReturnType<typeof blockOf>;
} {
  const block = blockOf(shadow);
  if (block === undefined) return {};
  const blockedAt = (parseTime(block.since) ?? now.ms) + BLOCKED_MS;
  return now.reached(blockedAt) ? { blockedAt, block } : { blockedAt };
}

/** The startup taint is set while the Node is cordoned. */
function startsUp(input: TransitionInput): boolean {
  const { node, shadow } = input;
  if (shadow.state === 'Draining' || shadow.state === 'Away') return node.unschedulable || node.hasStartupTaint;
  return shadow.state === 'Proving' && node.hasStartupTaint && !areDaemonSetsReady(input);
}

/** Of a node under way: what it waits for, and its Jobs. */
interface Checked {
  readonly problem?: string | undefined;
  readonly jobs?: JobProgress | undefined;
}

/** Those of a staged node that may be drained otherwise. */
function jobsBeforeDrain(input: TransitionInput): Checked {
  const { shadow, blockedBy, drain } = input;
  if (shadow.state !== 'Staged' || blockedBy !== undefined) return {};
  const { blocked, jobs } = beforeDrain(input);
  const isDue = blocked === undefined && (jobs.isStarted || mayBeDrained(drain(), shadow));
  return isDue ? { problem: jobs.waitsFor, jobs } : {};
}

/** A node that was rebooted for settings runs the same version. */
function provingCondition(shadow: ShadowView, { problem: unhealthy, jobs }: Checked): condition.ProgressingCondition {
  const problem = hasReached(shadow) ? unhealthy : undefined;
  const version = shadow.spec.version ?? '';
  // The Jobs run while the node is healthy otherwise.
  if (problem !== undefined && problem === jobs?.waitsFor) return condition.checked(version, problem);
  const isForSettings = problem === undefined && shadow.purpose === 'Settings';
  return isForSettings ? condition.rebooting() : condition.monitored(version, problem);
}

function updatingCondition(input: TransitionInput, found: Checked, lookUp: boolean): condition.ProgressingCondition {
  const { shadow, blockedBy, drain } = input;
  const { state, purpose, rollback } = shadow;
  const version = shadow.spec.version ?? '';
  if (blockedBy !== undefined && blockedBy.isUnknown !== true) return condition.notDrained(blockedBy);
  if (state === 'Proving') return provingCondition(shadow, found);
  if (found.problem !== undefined) return condition.staged(version, found.problem);
  if (purpose === 'Rollback') return condition.goingBack(version, rollback?.failed);
  const podsProblem = lookUp ? drain().problem : undefined;
  return purpose === 'Settings' ? condition.rebooting(podsProblem) : condition.updating(version, podsProblem);
}

function assessSettled(input: TransitionInput, change: Transition | undefined): Found {
  const { shadow, policy } = input;
  const { status } = shadow;
  if (status === undefined) return WAITING;
  const { current_version: running, target_version: offered } = status;
  const version = nextVersion(input, status);
  const problem = problemOf(input, status);
  const found = { change, next: version, ...settingsOf(input, change) };
  if (hasHooksLeft(input)) return { ...found, ...runningHooks(progressOf(hooksAfter(input), input), policy) };
  if (problem !== undefined && sameVersion(running, offered)) {
    return { ...found, progressing: condition.notConfigured(problem), phase: 'waiting' };
  }
  if (failedCheckAt(input) !== undefined)
    return { ...found, progressing: condition.checkFailed(running), phase: 'failed' };
  if (sameVersion(running, version) && !needsReboot(input.settings)) {
    return { ...found, ...restingOf(input, status) };
  }
  const phase = failures(shadow) > 0 ? 'failed' : 'waiting';
  return { ...found, phase, ...startOf(input, { change, status, version: isMendedFirst(input) ? running : version }) };
}

/** An update would wait for the Node, which may not be Ready until other settings replace what its host has. */
function isMendedFirst({ node, shadow, policy, settings, now }: TransitionInput): boolean {
  const mayStay = isWanted(shadow.status?.current_version ?? '', policy.versions);
  if (node.ready || !mayStay || pendingRollback(shadow, policy, now) !== undefined) return false;
  return needsReboot(settings) && repairs(shadow, settings);
}

/** A restore needs no refresh, and the node holds its slot until then. */
function problemOf({ settings }: TransitionInput, status: ShadowStatus): string | undefined {
  return waitsForRestore(settings) ? undefined : status.settings?.message;
}

/** A node that waits for a restore holds its slot, so an update to another version would wait for the node itself. */
function nextVersion({ settings, policy }: TransitionInput, status: ShadowStatus): string {
  const { current_version: running, target_version: offered } = status;
  return waitsForRestore(settings) ? running : wantedVersion(offered, policy.versions);
}

/** With these it is not known what the host is offered. A host without in-place updates is left alone. */
const UNCHECKED: readonly (string | undefined)[] = ['UpdateCheckFailed', 'HostStatusUnreadable'] satisfies ErrorCode[];

function failedCheckOf({ lastOperation: last }: ShadowStatus): LastOperation | undefined {
  return last?.state === 'Failed' && UNCHECKED.includes(last.errorCode) ? last : undefined;
}

/** What keeps a node from the versions of the fleet counts unless it is pinned, or a user leaves it out. */
function restingOf({ node, settings, policy: { versions } }: TransitionInput, status: ShadowStatus): Found {
  const { current_version: running, settings: { hostLock, cannotUnset } = {} } = status;
  const isFree = versions.pin === undefined && skippedBy(node) === undefined;
  if (hostLock !== undefined && isFree) return { progressing: condition.hostLocked(hostLock), phase: 'waiting' };
  const unset = condition.whyNotInForce(settings);
  const failed = isFree ? failedCheckOf(status) : undefined;
  // A change of settings passes, and may be the repair.
  if (failed !== undefined && unset?.reason !== 'ChangingSettings')
    return { progressing: condition.unchecked(running, failed), phase: 'waiting' };
  if (unset !== undefined) return { progressing: condition.waiting(unset), phase: 'upToDate' };
  return { progressing: condition.upToDate(running, versions.pin !== undefined, cannotUnset), phase: 'upToDate' };
}

function startOf(
  input: TransitionInput,
  { change, status, version }: Pick<Assessment, 'change'> & Pick<Candidate, 'status' | 'version'>,
): Found {
  const { shadow, policy, settings, now } = input;
  if (isChanging(settings)) return { progressing: condition.waiting(condition.CHANGING) };
  if (change !== undefined) return {};
  const isReboot = sameVersion(version, status.current_version);
  const isRollback = pendingRollback(shadow, policy, now) !== undefined || (isReboot && waitsForRestore(settings));
  const isRequested = !isReboot && !isRollback && isUpdateRequested(shadow, version, now);
  const isRepair = isReboot && repairs(shadow, settings);
  return { start: { status, version, isReboot, isRepair, isRollback, isRequested } };
}

function settingsOf({ settings }: TransitionInput, change: Transition | undefined) {
  const pending = change !== undefined || !isComplete(settings);
  return { pending, grant: settings && grantable(settings), times: [settings?.changesAt] };
}

function runningHooks(jobs: JobProgress, { isSuspended = false }: UpdatePolicy): Found {
  const progressing = condition.runsHooks(jobs.waitsFor ?? 'all hooks have ended');
  return { progressing, phase: 'updating', ...(!isSuspended && { jobs, times: jobs.times }) };
}

/** A silent agent has what it has confirmed before. */
function assessUnsettled({ shadow, settings, ownNamespace, now }: TransitionInput, change?: Transition): Found {
  const at = notRespondingAt(shadow, now);
  const isLate = now.reached(at);
  const waiting = { change, phase: 'waiting', times: [at] } as const;
  if (shadow.status === undefined)
    return {
      ...waiting,
      progressing: condition.agentNotConnected(ownNamespace),
      pending: !isLate,
      neverConnected: isLate,
    };
  if (!isLate) return { change, phase: phaseBefore(shadow), pending: true, times: [at] };
  return {
    ...waiting,
    progressing: condition.agentNotResponding(shadow.status.lastOperation),
    pending: !isComplete(settings),
  };
}

/** With these, a node may have the version that it is offered. */
const OF_SETTINGS: readonly string[] = ['ChangingSettings', 'SettingsConflict'] satisfies Reason[];

function phaseBefore({ progressing, status }: ShadowView): NodePhase {
  const reason = progressing?.reason ?? '';
  const isCurrent = sameVersion(status?.current_version, status?.target_version);
  if (reason === 'UpToDate' || (isCurrent && OF_SETTINGS.includes(reason))) return 'upToDate';
  return progressing?.reason === 'Updating' ? 'updating' : 'waiting';
}
