/** What the shadow of a node says, for tables. */
import type { Condition } from '@brupop/shared/api/meta';
import { ABORT_ANNOTATION, GROUP, RETRY_ANNOTATION, shadowName, UPDATE_NOW_ANNOTATION } from '@brupop/shared/api/names';
import { type NodeRecord, readRecord } from '@brupop/shared/api/record';
import { shorten } from '@brupop/shared/runtime/errors';
import type { BottlerocketShadow, LastOperation } from '@brupop/shared/api/shadow';

export type Phase = 'UpToDate' | 'Updating' | 'Waiting' | 'Failed' | 'Unknown';

export interface NodeRow {
  readonly node: string;
  readonly phase: Phase;
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
  const progressing = reported.conditions.find(({ type }) => type === 'Progressing');
  const { reason, message } = progressing ?? NO_CONDITION;
  return {
    node: metadata.name.startsWith(PREFIX) ? metadata.name.slice(PREFIX.length) : metadata.name,
    phase: phaseOf(progressing, reported.crash_count),
    reason,
    message,
    waitingFor: reported.waitingFor,
    group: reported.group,
    version: reported.current_version,
    target: reported.target_version,
    lastOperation: reported.lastOperation,
    record: readRecord(metadata),
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
  crash_count: 0,
  waitingFor: '',
  group: '',
  current_version: '',
  target_version: '',
  lastOperation: undefined,
};

function phaseOf(progressing: Condition | undefined, failures: number): Phase {
  if (progressing === undefined) return 'Unknown';
  if (progressing.status === 'True') return 'Updating';
  if (progressing.reason === 'UpToDate') return 'UpToDate';
  return failures > 0 ? 'Failed' : 'Waiting';
}
