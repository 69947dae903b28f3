/**
 * Checks before an update, and before its drain. A query or an alert keeps nodes from starting; a Job runs
 * when the node is staged and everything else allows its drain:
 *
 *     queries, alerts and templates of Jobs -- all pass --> Jobs of checks -- all pass --> hooks, one by one --> drain
 *
 * Whatever does not pass defers the update. A query is asked again all the time, a Job has one chance in each attempt.
 */
import { type Checks, failedOf, probesOf, templatesOf } from '../facts/evaluations.ts';
import { type JobProgress, jobsBefore, progressOf } from '../facts/jobs.ts';
import { recordedMembers } from '../facts/quorum-members.ts';
import type { ShadowView } from '../../cluster/shadow.ts';
import type { UpdatePolicy } from '../../policy/policy.ts';
import type { Blocked, Gate } from './reasons.ts';
import type { Moment } from '../facts/moment.ts';

interface CheckInput {
  readonly shadow: ShadowView;
  readonly policy: UpdatePolicy;
  readonly checks: Checks;
  readonly now: Moment;
}

export const checksPass: Gate = ({ policy, checks, quorums, node, drain }) =>
  notPassed(policy, checks, quorums.setsOn({ node, pods: drain().pods }));

/** @param quorums - names of the sets with a member on the node */
function notPassed(policy: UpdatePolicy, checks: Checks, quorums: ReadonlySet<string>): Blocked | undefined {
  const probes = [...probesOf(policy, 'Before'), ...templatesOf(policy, quorums)];
  const answers = checks.all(probes);
  const failed = failedOf(answers);
  if (failed !== undefined) {
    const { kind, check } = failed.probe;
    const what = kind === 'cronJob' ? `The Job of ${check} cannot run` : `The check ${check} does not pass`;
    return { reason: 'CheckNotPassed', message: `${what}: ${failed.found}` };
  }
  const unknown = answers.find(({ latest }) => latest === undefined);
  if (unknown === undefined) return undefined;
  return { reason: 'CheckNotPassed', message: `The check ${unknown.probe.check} is being evaluated`, isUnknown: true };
}

export interface BeforeDrain {
  /** Why the node must not be drained, if known. */
  readonly blocked: Blocked | undefined;
  readonly jobs: JobProgress;
}

/** Judges a staged node that everything else allows to be drained. */
export function beforeDrain(input: CheckInput): BeforeDrain {
  const jobs = progressOf(jobsBefore(input), input);
  const { run, message = '' } = jobs.failed ?? {};
  if (run === undefined) {
    const quorums = new Set(recordedMembers(input.shadow).map(({ quorum }) => quorum));
    return { blocked: notPassed(input.policy, input.checks, quorums), jobs };
  }
  return { blocked: { reason: failureReason(run.kind), message }, jobs };
}

export function failureReason(kind: 'check' | 'hook'): 'CheckFailed' | 'HookFailed' {
  return kind === 'check' ? 'CheckFailed' : 'HookFailed';
}
