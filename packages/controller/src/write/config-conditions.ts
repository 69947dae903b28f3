import { rfc3339 } from '@brupop/shared/clock';
import type { Condition } from '@brupop/shared/kubernetes-types';
import type { Plan } from '../decide/plan.ts';
import type { Reason } from '../decide/reasons.ts';

/** Reasons of the conditions of a BrupopConfig, beside those for which nodes wait. `docs/runbook.md` explains each. */
export const CONFIG_REASONS = [
  'InUse',
  'InvalidConfiguration',
  'Paused',
  'NotPaused',
  'StaleView',
  'NotFrozen',
  'NoWindows',
  'InWindow',
  'OutsideWindows',
  'Blackout',
  'Updating',
  'UpToDate',
  'NoNodes',
  'Waiting',
  'NodesFailed',
  'NodesNeedAttention',
  'AsExpected',
] as const;

export interface NewCondition extends Omit<Condition, 'lastTransitionTime'> {
  readonly reason: (typeof CONFIG_REASONS)[number] | Reason;
}

/** What is true of the fleet, by the plan that was just made. */
export function conditionsOf(plan: Plan): NewCondition[] {
  return [ready(plan), paused(plan), frozen(plan), windowOpen(plan), progressing(plan), degraded(plan)];
}

function ready({ fleet: { problem } }: Plan): NewCondition {
  if (problem === undefined) {
    return { type: 'Ready', status: 'True', reason: 'InUse', message: 'The configuration is in use' };
  }
  const message = `No node begins an update, and nodes under way go by what held before: ${problem}`;
  return { type: 'Ready', status: 'False', reason: 'InvalidConfiguration', message };
}

function paused({ fleet: { paused, pauseReason } }: Plan): NewCondition {
  if (!paused) {
    return { type: 'Paused', status: 'False', reason: 'NotPaused', message: 'Nodes may begin updates' };
  }
  const message = pauseReason ?? 'spec.paused is true; spec.pauseReason does not say why';
  return { type: 'Paused', status: 'True', reason: 'Paused', message };
}

function frozen({ fleet: { problem }, stale }: Plan): NewCondition {
  if (stale.length > 0) {
    const message = `No node begins an update: the Kubernetes API has sent nothing about ${stale.join(', ')} for more than 2 minutes`;
    return { type: 'Frozen', status: 'True', reason: 'StaleView', message };
  }
  if (problem !== undefined) {
    const message = `No node begins an update: ${problem}`;
    return { type: 'Frozen', status: 'True', reason: 'InvalidConfiguration', message };
  }
  const message = 'The controller sees all that it needs to see';
  return { type: 'Frozen', status: 'False', reason: 'NotFrozen', message };
}

const WINDOW_MESSAGES = {
  NoWindows: 'There are no maintenance windows: it is always open',
  InWindow: 'A maintenance window is open',
  OutsideWindows: 'No maintenance window is open',
  Blackout: 'No node begins an update or its drain during this blackout',
} as const;

function windowOpen({ outlook: { window, nextOpenAt } }: Plan): NewCondition {
  const { open, reason, until, blackout } = window;
  const why = blackout?.reason === undefined ? '' : `: ${blackout.reason}`;
  const closes = open && until !== undefined ? `, until ${rfc3339(until)}` : '';
  const opens = !open && nextOpenAt !== undefined ? `; the next opens at ${rfc3339(nextOpenAt)}` : '';
  const message = `${WINDOW_MESSAGES[reason]}${why}${closes}${opens}`;
  return { type: 'WindowOpen', status: open ? 'True' : 'False', reason, message };
}

function progressing({ counts, outlook: { reasons, completionTime }, fleet }: Plan): NewCondition {
  const type = 'Progressing';
  const { managed, upToDate, updating } = counts;
  const by = completionTime === undefined ? '' : `; expected to be complete by ${completionTime}`;
  const tally = `${upToDate} of ${managed} nodes are up to date`;
  if (managed === 0) {
    const which = fleet.nodeSelector === undefined ? '' : ' and that spec.nodeSelector selects';
    const message = `There is no node with the label of managed nodes${which}`;
    return { type, status: 'False', reason: 'NoNodes', message };
  }
  if (fleet.problem !== undefined) {
    const message = `${tally}, ${updating} are updating, and no other begins: the configuration cannot be followed`;
    return { type, status: updating > 0 ? 'True' : 'False', reason: 'InvalidConfiguration', message };
  }
  if (updating > 0) {
    return { type, status: 'True', reason: 'Updating', message: `${tally}, ${updating} are updating${by}` };
  }
  if (upToDate === managed) return { type, status: 'False', reason: 'UpToDate', message: 'All nodes are up to date' };
  const [reason = 'Waiting', waiting] = mostFrequent(reasons);
  const why = waiting === undefined ? 'the others have not reported yet' : `${waiting} wait for ${reason}`;
  return { type, status: 'False', reason, message: `${tally}; ${why}${by}` };
}

function mostFrequent(reasons: ReadonlyMap<Reason, number>): [Reason, number] | [] {
  return [...reasons].toSorted(([a, x], [b, y]) => y - x || (a < b ? -1 : 1))[0] ?? [];
}

/** Reasons that do not pass without a person. */
const ATTENTION: readonly Reason[] = [
  'NotRetried',
  'AgentNotResponding',
  'DeadlineExceeded',
  'VersionNotOffered',
  'HostNotConfigured',
  'UnreadableVersion',
  'WindowTooShort',
  'SpecRefused',
];

function degraded({ fleet: { problem }, counts: { failed }, outlook: { reasons } }: Plan): NewCondition {
  const type = 'Degraded';
  const needed = ATTENTION.filter((reason) => reasons.has(reason)).map((reason) => `${reasons.get(reason)} ${reason}`);
  if (problem !== undefined) return { type, status: 'True', reason: 'InvalidConfiguration', message: problem };
  if (needed.length > 0) {
    const message = `Nodes need a person: ${needed.join(', ')}; kubectl get brs -A -o wide names them and says why`;
    return { type, status: 'True', reason: 'NodesNeedAttention', message };
  }
  if (failed > 0) {
    const message = `The latest attempt failed at ${failed} nodes; they are tried again by themselves`;
    return { type, status: 'True', reason: 'NodesFailed', message };
  }
  return { type, status: 'False', reason: 'AsExpected', message: 'Nothing needs a person' };
}
