import type { AgentShadow } from '@brupop/shared/api/agent-protocol';
import type { ErrorCode } from '@brupop/shared/api/error-codes';
import type { AgentStatus, LastOperation, Operation, ShadowState } from '@brupop/shared/api/shadow';
import type { Action } from '../action.ts';
import { LIMITS, STEP_LIMITS } from '../limits.ts';
import type { Observation } from '../state/observe.ts';
import type { TrackerView } from '../state/tracker.ts';
import { mayBeActive } from './reboot.ts';
import { baseStatus, fail, hasFailed, stepUnderWay, wait } from './report.ts';
import { answeredBefore } from './settings-view.ts';
import { began, isRebootUnderWay } from './status.ts';
import { CLOCK_SET_BACK, countedAnew, overdue } from './step-guards.ts';

/** What a decision sees when the host does not answer. What is not known then is reported as it was. */
interface Silence {
  readonly seen: Observation;
  readonly tracker: TrackerView;
  readonly shadow: AgentShadow;
  /** Why there is no answer. */
  readonly message: string;
}

/** Time limits hold, and the Node is given back, although the host does not answer: both need only the apiserver. */
export function hostUnreachable(silence: Silence): Action {
  const { seen, tracker, message } = silence;
  const untilMs = Math.max(tracker.host.notBefore, seen.nowMs + LIMITS.pollFirst);
  return (
    endStep(silence) ??
    closeStep(silence) ??
    giveBack(silence) ??
    wait(seen, `the host does not answer: ${message}`, untilMs)
  );
}

const OPERATION_OF: Partial<Record<ShadowState, Operation>> = {
  StagedAndPerformedUpdate: 'Stage',
  RebootedIntoUpdate: 'Drain',
};

interface Attempted extends Silence {
  /** The status as it was. */
  readonly base: AgentStatus;
}

function endStep(silence: Silence): Action | undefined {
  const { shadow, seen } = silence;
  const { spec, status } = shadow;
  const operation = OPERATION_OF[spec.state];
  if (operation === undefined || spec.version == null || status === undefined || hasFailed(silence)) return undefined;
  const attempted = { ...silence, base: knownBase(seen, shadow, status) };
  const step = stepUnderWay(silence, spec.version);
  return (step && limited(attempted, step)) ?? unreachable(attempted, operation, spec.version);
}

function knownBase(seen: Observation, shadow: AgentShadow, status: AgentStatus): AgentStatus {
  const { current_version, target_version, hostSettings } = status;
  const recorded = hostSettings === undefined ? {} : { hostSettings };
  const facts = { current_version, target_version, observedGeneration: shadow.generation, ...recorded };
  return baseStatus(seen, shadow, facts);
}

/**
 * When the reboot that a step has asked for cannot come any more, the step is an activation that is to be undone: each new process of this agent would
 * wait for the reboot again. A boot that comes all the same is still seen by it. While it can come, `unlessRebooting` holds this back.
 */
function closeStep({ seen, shadow }: Silence): Action | undefined {
  const { spec, status } = shadow;
  const last = status?.lastOperation;
  const isOpen = isRebootUnderWay(last) && last.bootID === seen.bootID;
  if (status === undefined || !isOpen || !isUndone(spec.state)) return undefined;
  const { version } = last;
  const lastOperation = began('Activate', { version, bootID: seen.bootID, wallMs: seen.wallMs });
  const base = { ...knownBase(seen, shadow, status), observedGeneration: answeredBefore(shadow) };
  return { do: 'report', status: { ...base, lastOperation }, reason: `no reboot into ${version} can come any more` };
}

/** Fails a step that runs past its limit. */
function limited(attempted: Attempted, step: LastOperation): Action | undefined {
  const { seen, tracker, base, message } = attempted;
  const lastOperation = countedAnew(seen, step);
  if (lastOperation !== undefined) {
    return { do: 'report', status: { ...base, lastOperation }, reason: CLOCK_SET_BACK };
  }
  const late = overdue(seen, tracker, step);
  if (late === undefined) return undefined;
  const code = step.bootID === seen.bootID ? STEP_LIMITS[step.operation].code : 'HostUnreachable';
  return failed(attempted, step, { code, message: `${late}; the host does not answer: ${message}` });
}

/** Fails the step that needs the host. */
function unreachable(attempted: Attempted, operation: Operation, version: string): Action | undefined {
  const { seen, tracker, shadow, message } = attempted;
  const silentMs = seen.nowMs - (tracker.hostSilentSince ?? seen.nowMs);
  if (silentMs <= LIMITS.hostSilent) return undefined;
  const { bootID, wallMs } = seen;
  const last = shadow.status?.lastOperation;
  const step = last?.state === 'Processing' ? last : began(operation, { version, bootID, wallMs });
  const code = 'HostUnreachable';
  return failed(attempted, step, { code, message: `no answer for ${Math.round(silentMs / 1000)} s: ${message}` });
}

/** A step stays open whose boot may have rolled back: that shows only when the host answers, and must not be missed then. */
function failed(
  attempted: Attempted,
  step: LastOperation,
  failure: { readonly code: ErrorCode; readonly message: string },
): Action {
  const open = mayBeActive(step) && step.bootID !== attempted.seen.bootID;
  return fail(attempted.seen, attempted.base, { ...failure, step, open });
}

function giveBack({ shadow, tracker }: Silence): Action | undefined {
  const over = isUndone(shadow.spec.state) || hasFailed({ shadow });
  if (!over || tracker.attempt.restored) return undefined;
  return { do: 'restore', reason: 'nothing is to be done on this node, whether its host answers or not' };
}

/** True for the states in which nothing is to be left of an update under way. */
function isUndone(state: ShadowState): boolean {
  return state === 'Idle' || state === 'ErrorReset';
}
