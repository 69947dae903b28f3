import type { LastOperation } from '@brupop/shared/api/shadow';
import { parseTime, rfc3339 } from '@brupop/shared/runtime/clock';
import { sameVersion } from '@brupop/shared/api/version';
import type { Action } from '../action.ts';
import { describeStatus, isActivated, isStaged } from '../host/host-status.ts';
import { LIMITS, stepLimit } from '../limits.ts';
import { begin, type Context, ended, fail, failStep, hasFailed, report, settle, stepUnderWay, wait } from './report.ts';
import { cleanUp } from './stage.ts';
import { describeDrain, describeTrouble, stepGuard, TROUBLE } from './step-guards.ts';

/** So many replicas in a row that run on the node itself may be all that there are. */
const TRIES_BEFORE_ROOM = 8;

/** Spec RebootedIntoUpdate: exclude, drain, activate, reboot; each only when everything before it still holds. */
export function reboot(c: Context, version: string): Action {
  if (sameVersion(c.running, version)) return arrived(c, version);
  if (hasFailed(c)) return cleanUp(c);
  const step = stepUnderWay(c, version);
  return (
    rebootedMeanwhile(c, version) ??
    (step === undefined ? undefined : stepGuard(c, step)) ??
    withoutImage(c, version, step) ??
    beginDrain(c, version, step) ??
    emptyNode(c, version, step) ??
    activateAndReboot(c, version, step)
  );
}

function arrived(c: Context, version: string): Action {
  const { status, generation } = c.shadow;
  const reached = status?.current_state === 'RebootedIntoUpdate' && status.observedGeneration === generation;
  if (reached) return settle(c, {}, `${version} is running`);
  if (!c.tracker.attempt.restored) return { do: 'restore', reason: `${version} is running: giving the Node back` };
  const lastOperation = ended(c, 'Restore', version);
  const success = { crash_count: 0, state_transition_failure_timestamp: null, lastOperation } as const;
  return settle(
    c,
    { current_state: 'RebootedIntoUpdate', ...success },
    `${version} is running and the Node is given back`,
  );
}

/** A reboot before anything was activated: the host forgets what was staged. */
function rebootedMeanwhile(c: Context, version: string): Action | undefined {
  const last = c.shadow.status?.lastOperation;
  const before = last?.operation === 'Stage' || last?.operation === 'Drain';
  if (!before || last.state === 'Failed' || !sameVersion(last.version, version)) return undefined;
  if (last.bootID === c.seen.bootID) return undefined;
  return failStep(c, version, 'StagedImageLost', `the host rebooted before ${version} was activated`);
}

/** Nothing is evicted, activated or rebooted for an image that is not known to be there. */
function withoutImage(c: Context, version: string, step: LastOperation | undefined): Action | undefined {
  const { status, update } = c;
  if (update.kind === 'locked' || update.kind === 'failed') {
    return step === undefined ? begin(c, 'Drain', version, 'StagedAndPerformedUpdate') : undefined;
  }
  const there =
    status !== undefined && (isStaged(status, version) || (mayBeActive(step) && isActivated(status, version)));
  if (there) return undefined;
  const found = status === undefined ? 'no update status' : describeStatus(status);
  return failStep(c, version, 'StagedImageLost', `expected ${version} to be staged by its prepare, found ${found}`);
}

function beginDrain(c: Context, version: string, step: LastOperation | undefined): Action | undefined {
  return step === undefined || step.operation === 'Stage' || step.operation === 'Restore'
    ? begin(c, 'Drain', version, 'StagedAndPerformedUpdate')
    : undefined;
}

function emptyNode(c: Context, version: string, step: LastOperation | undefined): Action | undefined {
  const { seen, tracker } = c;
  const { excludedUntil, drainedAt, drainNotBefore } = tracker.attempt;
  const first = givenUp(c, version) ?? (step && explainTrouble(c, step));
  if (first !== undefined) return first;
  if (excludedUntil === undefined) return { do: 'exclude', reason: 'load balancers take the node out first' };
  if (excludedUntil > seen.nowMs) return waitForLoadBalancers(c, step, excludedUntil);
  if (drainedAt !== undefined && seen.nowMs - drainedAt <= LIMITS.drainFresh) return undefined;
  if (drainNotBefore > seen.nowMs) return wait(seen, 'pausing between two drain passes', drainNotBefore);
  const makeRoom = tracker.sameNodeRefusals >= TRIES_BEFORE_ROOM;
  return { do: 'drain', makeRoom, reason: 'nothing that a drain removes may run on the node' };
}

/** Who waits long says so, once. */
function waitForLoadBalancers(c: Context, step: LastOperation | undefined, untilMs: number): Action {
  const { seen } = c;
  const said = wait(seen, 'load balancers are taking the node out', untilMs);
  const longMs = untilMs - seen.nowMs;
  if (step?.operation !== 'Drain' || step.message !== undefined || longMs < LIMITS.troubleTold) return said;
  const message = `load balancers get until ${rfc3339(seen.wallMs + longMs)} to take the node out`;
  return report(c, { lastOperation: { ...step, message } }, said.reason);
}

/** The apiserver, which knows the configuration, has ended the drain. */
function givenUp(c: Context, version: string): Action | undefined {
  const { drain } = c.tracker.attempt;
  if (drain?.failure === undefined) return undefined;
  const { code, message } = drain.failure;
  return failStep(c, version, code, `${message}; ${describeDrain(drain)}`);
}

/** What a drain waits for is in the shadow's `status.drain`; why there is none is said here, when it lasts, and once: the next error may have other words. */
function explainTrouble(c: Context, step: LastOperation): Action | undefined {
  const { trouble } = c.tracker.attempt;
  if (step.operation !== 'Drain' || trouble === undefined) return undefined;
  const lasts = c.seen.nowMs - trouble.sinceMs >= LIMITS.troubleTold;
  if (!lasts || step.message?.startsWith(TROUBLE) === true) return undefined;
  return report(c, { lastOperation: { ...step, message: describeTrouble(trouble) } }, 'why the node is not drained');
}

function activateAndReboot(c: Context, version: string, step: LastOperation | undefined): Action {
  if (c.status?.state !== 'Ready') {
    if (step?.operation !== 'Activate') return begin(c, 'Activate', version);
    return { do: 'command', command: 'activate', version, reason: 'the node is drained' };
  }
  if (step?.operation !== 'Reboot') return begin(c, 'Reboot', version);
  if (c.seen.specAgeMs > LIMITS.specFresh) {
    return wait(c.seen, 'no reboot before the apiserver confirms the spec', c.seen.nowMs + LIMITS.pollLongest);
  }
  return askReboot(c, step);
}

/**
 * The step's `lastUpdateTime` says when a reboot was asked for, and writing that brings the newest spec. None is asked for that could come after the
 * step is given up, when the Node is given back.
 */
function askReboot(c: Context, step: LastOperation): Action {
  const { wallMs, nowMs } = c.seen;
  const endsMs = (parseTime(step.startTime) ?? wallMs) + stepLimit('Reboot', c.shadow.spec);
  if (endsMs - LIMITS.rebootPending < wallMs) {
    return wait(c.seen, 'too late in this step to ask for a reboot', nowMs + endsMs - wallMs + 1);
  }
  if (wallMs - (parseTime(step.lastUpdateTime) ?? 0) > LIMITS.askWritten) {
    return report(c, { lastOperation: { ...step, lastUpdateTime: rfc3339(wallMs) } }, 'the reboot is asked for again');
  }
  return { do: 'reboot', reason: `${step.version} is activated and boots next` };
}

/** True for the steps in which we activate, or have activated, an image that was verified before. */
export function mayBeActive(step: LastOperation | undefined): step is LastOperation {
  return step?.operation === 'Activate' || step?.operation === 'Reboot';
}

/** A boot after an activation that did not bring the version: rolled back, or something else came up. */
export function wrongBoot({ shadow: { status }, seen, running, base }: Context): Action | undefined {
  const last = status?.lastOperation;
  if (status === undefined || !mayBeActive(last) || last.state === 'Failed') return undefined;
  if (last.bootID === seen.bootID || sameVersion(running, last.version)) return undefined;
  const before = status.current_version;
  const code = sameVersion(running, before) ? 'RolledBack' : 'WrongVersionBooted';
  const message = `expected ${last.version} after the reboot, found ${running} (before: ${before})`;
  return fail(seen, base, { code, message, step: last });
}
