/** What the shadow of a node says, for tables. */
import { failures } from '@brupop/controller/plan/facts/attempts';
import type { Reason } from '@brupop/controller/plan/facts/reasons';
import type { Condition } from '@brupop/shared/api/meta';
import { ABORT_ANNOTATION, GROUP, RETRY_ANNOTATION, shadowName, UPDATE_NOW_ANNOTATION } from '@brupop/shared/api/names';
import { type NodeRecord, readRecord } from '@brupop/shared/api/record';
import { shorten } from '@brupop/shared/runtime/errors';
import type { BottlerocketShadow, LastOperation } from '@brupop/shared/api/shadow';

export type Phase = 'UpToDate' | 'Updating' | 'Waiting' | 'Failed' | 'Unknown';

export interface NodeRow {
  readonly node: string;
  /** As the controller counts the node, as far as its shadow shows that; one whose host lacks settings waits here. */
  readonly phase: Phase;
  /** The condition Stalled is True: the node needs a user, whatever its phase. */
  readonly stalled: boolean;
  /** Of the condition Progressing. */
  readonly reason: string;
  readonly message: string;
  readonly waitingFor: string;
  readonly group: string;
  readonly version: string;
  readonly target: string;
  readonly lastOperation: LastOperation | undefined;
  readonly record: NodeRecord;
  /** What users have asked for, and the controller has not followed yet, such as `retry=1.21.0`. */
  readonly requests: readonly string[];
}

const PREFIX = shadowName('');

/** Nothing of the status is required: a shadow of another release lacks some of it. */
export function nodeRow({ metadata, status }: BottlerocketShadow): NodeRow {
  const reported = { ...NOTHING, ...status };
  const record = readRecord(metadata);
  const progressing = reported.conditions.find(({ type }) => type === 'Progressing');
  const { reason, message } = progressing ?? NO_CONDITION;
  return {
    node: metadata.name.startsWith(PREFIX) ? metadata.name.slice(PREFIX.length) : metadata.name,
    phase: phaseOf(progressing, reported.waitingFor, failures({ record, ...(status && { status }) }) > 0),
    stalled: reported.conditions.some(({ type, status: is }) => type === 'Stalled' && is === 'True'),
    reason,
    message,
    waitingFor: reported.waitingFor,
    group: reported.group,
    version: reported.current_version,
    target: reported.target_version,
    lastOperation: reported.lastOperation,
    record,
    requests: requestsOf(metadata.annotations),
  };
}

const REQUESTS = [ABORT_ANNOTATION, UPDATE_NOW_ANNOTATION, RETRY_ANNOTATION];

function requestsOf(annotations: Readonly<Record<string, string>> = {}): string[] {
  return REQUESTS.flatMap((name) => {
    const value = annotations[name];
    return value === undefined ? [] : [`${name.slice(GROUP.length + 1)}=${shorten(value, MAX_VALUE)}`];
  });
}

/** Characters of an annotation. */
const MAX_VALUE = 100;
const NO_CONDITION = { reason: '', message: '' };
const NOTHING = {
  conditions: [] as readonly Condition[],
  waitingFor: '',
  group: '',
  current_version: '',
  target_version: '',
  lastOperation: undefined,
};

/** With these the controller counts a node as waiting, whatever its attempts. */
const WAITING: readonly string[] = [
  'UpdateCheckFailed',
  'HostLocked',
  'HostSettingsNotApplied',
  'AgentNotConnected',
  'AgentNotResponding',
] satisfies Reason[];

function phaseOf(progressing: Condition | undefined, waitingFor: string, hasFailed: boolean): Phase {
  if (progressing === undefined) return 'Unknown';
  const { status, reason } = progressing;
  if (status === 'True') return 'Updating';
  if (reason === 'UpToDate') return 'UpToDate';
  // A check that failed before the drain is retried at a time, for which the node waits.
  const isFinal = reason === 'DeadlineExceeded' || (reason === 'CheckFailed' && waitingFor === reason);
  return isFinal || (hasFailed && !WAITING.includes(reason)) ? 'Failed' : 'Waiting';
}
