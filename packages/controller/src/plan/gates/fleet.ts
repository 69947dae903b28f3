/** Gates that hold for all nodes alike: the configuration, stale watches, capacity, and time. */
import { isClockWrong } from '@brupop/shared/api/deadlines';
import { NODE_GROUP_KIND, RECORD_ANNOTATION } from '@brupop/shared/api/names';
import { isLater, sameVersion } from '@brupop/shared/api/version';
import { rfc3339 } from '@brupop/shared/runtime/clock';
import { lossOf } from '../../cluster/connectivity.ts';
import { zoneOf } from '../../cluster/node.ts';
import { groupAtStart } from '../../cluster/shadow.ts';
import type { Calendar, CalendarState } from '../../policy/calendar.ts';
import { describePause, objectOf } from '../../policy/node-groups.ts';
import type { FrozenVersion } from '../facts/freezes.ts';
import type { Blocked, Reason } from '../facts/reasons.ts';
import type { Gate, GateInput } from './gate.ts';

export const paused = ({ policy, group }: Pick<GateInput, 'policy' | 'group'>): Blocked | undefined => {
  return policy.paused ? { reason: 'Paused', message: describePause(policy, group) } : undefined;
};

/** A stale watch may have missed a pause, a cordon or another update. */
export const watchFresh = ({ stale }: Pick<GateInput, 'stale'>): Blocked | undefined => {
  if (stale.length === 0) return undefined;
  return { reason: 'WatchStale', message: unconfirmed(stale) };
};

export function unconfirmed(resources: readonly string[]): string {
  const what = resources.join(', ');
  const found = 'has not been confirmed by an event, a bookmark or a check for more than 2 minutes';
  return `The watch of ${what} ${found}; see "watch failed" in the log`;
}

/** By a wrong clock, windows, ages and soaks would begin or end at the wrong time. */
export const clockRight = ({ clockSkewMs = 0 }: Partial<Pick<GateInput, 'clockSkewMs'>>): Blocked | undefined => {
  return isClockWrong(clockSkewMs) ? { reason: 'ClockSkew', message: describeSkew(clockSkewMs) } : undefined;
};

function describeSkew(clockSkewMs: number): string {
  const differs = `${minutes(Math.abs(clockSkewMs))} minutes ${clockSkewMs > 0 ? 'ahead of' : 'behind'}`;
  const found = `The clock of the controller's node is about ${differs} that of the Kubernetes API`;
  return `${found}. No update starts until they differ by at most 5 minutes: synchronize the clocks of both`;
}

/** The cause is the network or the control plane: a node that is rebooted now might not come back. */
export const connected = ({ connectivity, node }: Pick<GateInput, 'connectivity' | 'node'>): Blocked | undefined => {
  if (!lossOf(connectivity, node).lost) return undefined;
  const which = connectivity.lost ? 'nodes' : `nodes of its zone ${zoneOf(node)}`;
  const message = `Most ${which} have not renewed their Leases; see the condition Connected of BrupopConfig "cluster"`;
  return { reason: 'ConnectivityLost', message };
};

/** What the author of an invalid configuration wanted to limit is unknown. */
export const validConfig = ({ policy, group }: Pick<GateInput, 'policy' | 'group'>): Blocked | undefined => {
  if (policy.problem === undefined) return undefined;
  const what = group?.problem === undefined ? 'BrupopConfig "cluster" cannot be followed' : 'No update starts';
  return { reason: 'InvalidConfiguration', message: `${what}: ${policy.problem}` };
};

/** Only a later release, or a user who resumes or pins another version, ends a freeze. */
export const notFrozen: Gate = ({ frozen, version, policy: { versions } }) => {
  const isPinned = versions.pin !== undefined;
  const isHeld = (one: FrozenVersion): boolean =>
    sameVersion(version, one.version) || (!isPinned && one.holdsOlder && !isLater(version, one.version));
  const found = frozen.find(isHeld);
  return found && { reason: 'Frozen', message: describeFreeze(found) };
};

export function describeFreeze({ version, group }: FrozenVersion): string {
  return `Too many nodes failed with ${version}; see the condition Frozen of ${objectOf(group)}`;
}

export const inTurn: Gate = (input) => input.othersFirst;

/** For a staged node: the drain would follow other rules than the author of its group wants. */
export const validGroup: Gate = ({ group, shadow }) => {
  const began = groupAtStart(shadow);
  if (group?.problem !== undefined) return { reason: 'InvalidConfiguration', message: `${group.policy.problem}` };
  if (began === (group?.name ?? '')) return undefined;
  const message = `${NODE_GROUP_KIND} "${began}", with which the update began, does not exist any more`;
  return { reason: 'InvalidConfiguration', message };
};

export const controlPlaneFree: Gate = (input) => input.controlPlane;

export const capacity: Gate = (input) => input.capacity;

type OfWindow = Pick<GateInput, 'policy' | 'needMs' | 'now' | 'isRequested'>;

export const windowOpen = (input: OfWindow): Blocked | undefined => {
  const { needMs, now } = input;
  const calendar = calendarFor(input);
  const retryAt = calendar.nextFit(now, needMs);
  if (retryAt !== undefined && retryAt <= now) return undefined;
  const [reason, why] = closed(calendar.at(now), needMs);
  if (retryAt !== undefined) return { reason, message: `${why}; updates may start at ${rfc3339(retryAt)}`, retryAt };
  const everOpens = calendar.nextFit(now, 1) !== undefined;
  return everOpens ? tooShort(needMs) : { reason, message: `${why}, and none opens within 400 days` };
};

/** A user who asks for one update now overrides the windows, but not a time at which nothing may be updated. */
export function calendarFor({ policy, isRequested = false }: Pick<GateInput, 'policy' | 'isRequested'>): Calendar {
  return isRequested && policy.problem === undefined ? policy.calendarOfRequests : policy.calendar;
}

function closed({ open, reason, blackout }: CalendarState, needMs: number): [Reason, string] {
  const update = `an update of about ${minutes(needMs)} minutes can finish`;
  if (open && reason === 'NoWindows') return ['Blackout', `A blackout starts before ${update}`];
  if (open) return ['OutsideMaintenanceWindow', `The window that is open closes before ${update}`];
  if (reason !== 'Blackout') return ['OutsideMaintenanceWindow', 'No maintenance window is open'];
  const why = blackout?.reason === undefined ? '' : `: ${blackout.reason}`;
  return ['Blackout', `No node starts an update during this blackout${why}`];
}

function tooShort(needMs: number): Blocked {
  const message =
    `No maintenance window is long enough for an update of about ${minutes(needMs)} minutes, its margin included. ` +
    'Make a window longer or spec.maintenance.margin shorter. If the latest update of this node or of others took unusually long, ' +
    `remove the annotation ${RECORD_ANNOTATION} from their BottlerocketShadows while these nodes are at rest`;
  return { reason: 'WindowTooShort', message };
}

/** In steps of 5, so that a new measurement does not rewrite the conditions of waiting nodes. */
function minutes(ms: number): number {
  return Math.ceil(ms / 300_000) * 5;
}
