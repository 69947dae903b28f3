import type { BottlerocketShadow, Operation, ShadowState } from '../../packages/shared/src/api/shadow.ts';

/** What happens to a node during an update, in the order in which it must happen. */
export const MARKS = [
  'specStaged',
  'statusStaged',
  'specRebooted',
  'drainStarts',
  'drainEnds',
  'hostDown',
  'agentBack',
  'statusRebooted',
  'specMonitoring',
  'specIdle',
  'statusIdle',
] as const;
export type Mark = (typeof MARKS)[number];

/** Times of the marks, milliseconds on one clock. */
export type Timeline = Partial<Record<Mark, number>>;

export interface Leg {
  readonly name: string;
  readonly from: Mark;
  readonly to: Mark;
  /** Whose time it is. Only `operator` counts as the operator's own share. */
  readonly whose: 'operator' | 'drain' | 'host and pod start';
}

export const LEGS: readonly Leg[] = [
  { name: 'stage: refresh, prepare, report', from: 'specStaged', to: 'statusStaged', whose: 'operator' },
  { name: 'controller: staged → reboot', from: 'statusStaged', to: 'specRebooted', whose: 'operator' },
  { name: 'agent starts the drain', from: 'specRebooted', to: 'drainStarts', whose: 'operator' },
  { name: 'drain', from: 'drainStarts', to: 'drainEnds', whose: 'drain' },
  { name: 'activate, reboot call', from: 'drainEnds', to: 'hostDown', whose: 'operator' },
  { name: 'boot, start of the agent', from: 'hostDown', to: 'agentBack', whose: 'host and pod start' },
  { name: 'restore, report', from: 'agentBack', to: 'statusRebooted', whose: 'operator' },
  { name: 'controller: rebooted → monitoring', from: 'statusRebooted', to: 'specMonitoring', whose: 'operator' },
  { name: 'monitoring → idle', from: 'specMonitoring', to: 'specIdle', whose: 'operator' },
  { name: 'agent: idle', from: 'specIdle', to: 'statusIdle', whose: 'operator' },
];

const OF_SPEC: Record<ShadowState, readonly Mark[]> = {
  Idle: ['specIdle'],
  StagedAndPerformedUpdate: ['specStaged'],
  RebootedIntoUpdate: ['specRebooted'],
  MonitoringUpdate: ['specMonitoring'],
  ErrorReset: [],
};
const OF_STATUS: Record<ShadowState, readonly Mark[]> = {
  Idle: [],
  StagedAndPerformedUpdate: ['statusStaged'],
  RebootedIntoUpdate: ['statusRebooted'],
  MonitoringUpdate: [],
  ErrorReset: [],
};
const OF_OPERATION: Record<Operation, readonly Mark[]> = {
  Stage: [],
  Drain: ['drainStarts'],
  Activate: ['drainEnds'],
  Reboot: ['drainEnds'],
  Restore: [],
};

/** The marks that a version of a shadow sets. */
export function marksOf({ spec, status }: BottlerocketShadow): Mark[] {
  if (status === undefined) return [...OF_SPEC[spec.state]];
  const operation = status.lastOperation?.operation;
  const rests = spec.state === 'Idle' && status.current_state === 'Idle';
  return [
    ...OF_SPEC[spec.state],
    ...OF_STATUS[status.current_state],
    ...(operation === undefined ? [] : OF_OPERATION[operation]),
    ...(rests ? (['statusIdle'] as const) : []),
  ];
}

/** Milliseconds of a leg, undefined when one of its ends was not seen. */
export function legMs(timeline: Timeline, { from, to }: Pick<Leg, 'from' | 'to'>): number | undefined {
  const [started, ended] = [timeline[from], timeline[to]];
  return started === undefined || ended === undefined ? undefined : ended - started;
}

/** The middle one of the values. */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}
