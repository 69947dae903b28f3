/** What users see of the dependents: the condition DependentsAvailable and `status.dependents` of the BrupopConfig. */
import type { DependentStatus } from '@brupop/shared/api/brupop-config';
import type { ConditionReport } from '@brupop/shared/api/meta';
import { DEPENDENT_REPLICAS_ANNOTATION, IGNORE_SCALING_ANNOTATION } from '@brupop/shared/api/names';
import { shorten } from '@brupop/shared/runtime/errors';
import type { ClusterLoss } from '../../cluster/connectivity.ts';
import type { DependentsReport } from '../../report/config-status.ts';
import type { Entry } from './decide.ts';
import type { Found, Target } from './target.ts';

/** Reasons of the condition DependentsAvailable. `docs/runbook.md` explains each. */
export const DEPENDENT_REASONS = [
  'NotScaled',
  'ScaledDown',
  'ScaledByOthers',
  'RecordRemoved',
  'TargetNotFound',
  'TargetNotAllowed',
  'TargetRequestFailed',
  'TargetLosesVolumes',
  'LossUnknown',
] as const;
type Reason = (typeof DEPENDENT_REASONS)[number];
/** `docs/runbook.md` explains each. */
export const DEPENDENT_EVENTS = [
  'DependentScaledDown',
  'DependentScaledUp',
  'DependentScaledByOthers',
  'DependentRecordRemoved',
] as const;

export interface Shown extends Entry {
  readonly found: Found;
  /** Why it has failed. */
  readonly problem?: string | undefined;
  /** Recorded, of one that is Down, or was when it was last read, or is at 0 without its record. */
  readonly replicas?: number | undefined;
  /** Of one that was Down with this number, and is at 0 without its record. */
  readonly lostRecord?: number | undefined;
}

export function isByOthers(found: Found): found is Target {
  return typeof found !== 'string' && found.state === 'ScaledByOthers';
}

/** As in the status and in the metric. */
export function stateOf({ found, lostRecord }: Shown): string {
  if (typeof found === 'string') return found;
  return lostRecord === undefined ? found.state : 'RecordRemoved';
}

const MAX_MESSAGE = 1_024;

/** @param why - nothing is decided at the moment; empty: something is */
export function reportOf(shown: readonly Shown[], loss: ClusterLoss | undefined, why: string): DependentsReport {
  const { status, reason, message } = conditionOf(shown, loss, why);
  const condition = { status, reason, message: shorten(message, MAX_MESSAGE) };
  return { condition, dependents: shown.map(statusOf), clusterLostAt: loss?.since };
}

function conditionOf(shown: readonly Shown[], loss: ClusterLoss | undefined, why: string): ConditionReport<Reason> {
  const problem = problemOf(shown);
  const down = shown.filter(({ found }) => typeof found !== 'string' && found.state === 'Down');
  const others = shown.filter(({ found }) => isByOthers(found));
  if (problem !== undefined) return { status: 'False', ...problem };
  if (why !== '') return { status: 'False', reason: 'LossUnknown', message: `Nothing is scaled. ${why}` };
  if (others.length > 0) return { status: 'False', reason: 'ScaledByOthers', message: describeOthers(others) };
  if (down.length > 0)
    return { status: 'False', reason: 'ScaledDown', message: `Scaled to 0: ${list(down)}. ${cause(loss)}` };
  if (loss?.lost === true)
    return { status: 'True', reason: 'NotScaled', message: `Not scaled to 0 yet. ${cause(loss)}` };
  return { status: 'True', reason: 'NotScaled', message: 'No dependent is scaled to 0' };
}

function problemOf(shown: readonly Shown[]): Omit<ConditionReport<Reason>, 'status'> | undefined {
  const failed = shown.find(({ found }) => found === 'Failed');
  if (failed !== undefined)
    return { reason: 'TargetRequestFailed', message: `${failed.key}: ${failed.problem ?? 'a request failed'}` };
  const denied = shown.find(({ found }) => found === 'NotAllowed');
  if (denied !== undefined) {
    const message =
      `${denied.key}: expected a target of the value dependents.targets of the chart, found one that it does not have; ` +
      'add it, so that the controller has the right to scale it';
    return { reason: 'TargetNotAllowed', message };
  }
  const removed = shown.find(({ lostRecord }) => lostRecord !== undefined);
  if (removed?.lostRecord !== undefined)
    return { reason: 'RecordRemoved', message: describeRemoved(removed.key, removed.lostRecord) };
  const losing = shown.find(
    ({ dependent, found }) => dependent !== undefined && typeof found !== 'string' && found.losesVolumes,
  );
  if (losing !== undefined) {
    const message =
      `${losing.key}: expected persistentVolumeClaimRetentionPolicy.whenScaled: Retain, found Delete, with which Kubernetes ` +
      'deletes its volumes when it is scaled to 0; it is not scaled';
    return { reason: 'TargetLosesVolumes', message };
  }
  const missing = shown.find(({ found, dependent }) => found === 'NotFound' && dependent?.optional === false);
  if (missing === undefined) return undefined;
  const message = `${missing.key}: expected a target that exists, found none; correct the entry, or set its field optional`;
  return { reason: 'TargetNotFound', message };
}

export function describeOthers(shown: readonly Entry[]): string {
  return (
    `Another actor has scaled back what the operator had scaled to 0: ${list(shown)}. It stays as it is; ` +
    `to keep the operator from scaling it, set the annotation ${IGNORE_SCALING_ANNOTATION}: "true"`
  );
}

/** @param replicas - that the record had */
export function describeRemoved(key: string, replicas: number): string {
  return (
    `Another actor has removed the annotation ${DEPENDENT_REPLICAS_ANNOTATION} of ${key}, which the operator had ` +
    `scaled from ${replicas} to 0. It remains at 0 until a user scales it; if it is to remain there, set the annotation ` +
    `${IGNORE_SCALING_ANNOTATION}: "true"`
  );
}

/** Without counts, which change with each node. */
function cause(loss: ClusterLoss | undefined): string {
  return loss?.lost === true
    ? 'Most nodes of the cluster have not renewed their Leases'
    : 'The nodes renew their Leases again, and dependents are scaled back by their levels';
}

const list = (shown: readonly Entry[]): string => shown.map(({ key }) => key).join(', ');

function statusOf(shown: Shown): DependentStatus {
  const { dependent, kind, namespace, target, replicas } = shown;
  return {
    ...(dependent !== undefined && { name: dependent.name }),
    kind,
    namespace,
    target,
    state: stateOf(shown),
    ...(replicas !== undefined && { replicas }),
  };
}
