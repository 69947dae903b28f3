import type { LastOperation } from '@brupop/shared/api/shadow';
import type { Condition } from '@brupop/shared/api/meta';
import { rfc3339 } from '@brupop/shared/runtime/clock';
import type { NodeView } from '../cluster/node.ts';
import type { ShadowView } from '../cluster/shadow.ts';
import type { UpdatePolicy } from '../policy/policy.ts';
import { limitMs } from './deadlines.ts';
import { type Blocked, MAX_MESSAGE, type Reason, traitsOf } from './reasons.ts';
import type { Outcome } from './spec-change.ts';
import { monitoringProblem } from './transition.ts';

/** What the Progressing condition of a shadow says. */
export interface ProgressingCondition {
  readonly status: 'True' | 'False';
  readonly reason: Reason;
  readonly message: string;
  /** For a column of kubectl: the reason, and until when if that is known. Empty: it does not wait. */
  readonly waitingFor: string;
}

const MINUTE_MS = 60_000;

/** Nothing to do. */
export function upToDate(version: string, isPinned: boolean): ProgressingCondition {
  const which = isPinned ? 'the version that is pinned' : 'the version that the host is offered';
  return progressing('False', 'UpToDate', `Runs ${version}, ${which}`);
}

/**
 * The message stays the same for the whole update, so that an update costs few writes.
 * @param podsProblem - why the pods on a node that has staged the version cannot be seen
 */
export function updating(version: string, podsProblem?: string): ProgressingCondition {
  if (podsProblem !== undefined) {
    return progressing(
      'True',
      'Updating',
      `${version} is staged; it is not known what would be drained: ${podsProblem}`,
    );
  }
  return progressing('True', 'Updating', `Updates to ${version}; status.lastOperation names the step`);
}

/** The agent cannot set its host as the spec says, or back. What the host offers then is of other settings. */
export function notConfigured(message: string): ProgressingCondition {
  return progressing(
    'False',
    'HostSettingsNotApplied',
    `The host is not set as spec.versions of BrupopConfig "cluster" says: ${message}`,
  );
}

/** Held back by a gate. */
export function waiting({ reason, message, retryAt }: Blocked): ProgressingCondition {
  const isTimed = retryAt !== undefined && traitsOf(reason).passes === 'time';
  const until = isTimed ? ` until ${rfc3339(retryAt)}` : '';
  return { ...progressing('False', reason, message), waitingFor: `${reason}${until}` };
}

/** The step under way has run past its deadline. */
export function overdue(
  { shadow, node, policy }: { readonly shadow: ShadowView; readonly node: NodeView; readonly policy: UpdatePolicy },
  outcome: Outcome | undefined,
): ProgressingCondition {
  const { state, version } = shadow.spec;
  const minutes = Math.round(limitMs(shadow.spec, policy) / MINUTE_MS);
  if (state === 'MonitoringUpdate') {
    const problem = monitoringProblem(shadow, node) ?? 'its agent has not confirmed the step';
    return progressing(
      'False',
      'DeadlineExceeded',
      `The node is not healthy after its update to ${version}: ${problem}`,
    );
  }
  if (outcome === 'Cancelled') {
    const step = state === 'StagedAndPerformedUpdate' ? 'Staging' : 'The drain for';
    const message = `${step} ${version} had no result within ${minutes} minutes and was cancelled; look at the agent's log`;
    return progressing('False', 'DeadlineExceeded', message);
  }
  const message =
    `The drain and reboot into ${version} had no result within ${minutes} minutes; look at the host and the agent's log. ` +
    'The node holds its update slot, and continues when it comes back';
  return progressing('False', 'DeadlineExceeded', message);
}

/** The spec says Idle and the agent does not confirm it. What it said last may be the reason. */
export function silent(last: LastOperation | undefined): ProgressingCondition {
  const { message = '' } = last?.state === 'Processing' ? last : {};
  const said = message === '' ? '' : `. The latest that it said: ${message.slice(0, MAX_MESSAGE)}`;
  const problem = 'The agent does not confirm the spec; look whether its pod runs on the node';
  return progressing('False', 'AgentNotResponding', `${problem}${said}`);
}

function progressing(status: ProgressingCondition['status'], reason: Reason, message: string): ProgressingCondition {
  return { status, reason, message, waitingFor: reason === 'UpToDate' || reason === 'Updating' ? '' : reason };
}

/** When the status of a condition last changed, given what it is to become at `now`. */
export function transitionTime(before: Condition | undefined, status: Condition['status'], now: number): string {
  return before?.status === status ? before.lastTransitionTime : rfc3339(now);
}
