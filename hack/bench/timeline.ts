import type { BottlerocketShadow, Operation, ShadowState } from '../../packages/shared/src/api/shadow.ts';

/** The milestones of an update, in their order. */
export const MILESTONES = [
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
export type Milestone = (typeof MILESTONES)[number];

/** Times of the milestones, in milliseconds on one clock. */
export type Timeline = Partial<Record<Milestone, number>>;

export interface Phase {
  readonly name: string;
  readonly from: Milestone;
  readonly to: Milestone;
  /** What takes the time. Only `operator` counts as the operator's own share. */
  readonly owner: 'operator' | 'drain' | 'host and pod start';
}

export const PHASES: readonly Phase[] = [
  { name: 'stage: refresh, prepare, report', from: 'specStaged', to: 'statusStaged', owner: 'operator' },
  { name: 'controller: staged → reboot', from: 'statusStaged', to: 'specRebooted', owner: 'operator' },
  { name: 'agent starts the drain', from: 'specRebooted', to: 'drainStarts', owner: 'operator' },
  { name: 'drain', from: 'drainStarts', to: 'drainEnds', owner: 'drain' },
  { name: 'activate, reboot call', from: 'drainEnds', to: 'hostDown', owner: 'operator' },
  { name: 'boot, start of the agent', from: 'hostDown', to: 'agentBack', owner: 'host and pod start' },
  { name: 'restore, report', from: 'agentBack', to: 'statusRebooted', owner: 'operator' },
  { name: 'controller: rebooted → monitoring', from: 'statusRebooted', to: 'specMonitoring', owner: 'operator' },
  { name: 'monitoring → idle', from: 'specMonitoring', to: 'specIdle', owner: 'operator' },
  { name: 'agent: idle', from: 'specIdle', to: 'statusIdle', owner: 'operator' },
];

const OF_SPEC: Record<ShadowState, readonly Milestone[]> = {
  Idle: ['specIdle'],
  StagedAndPerformedUpdate: ['specStaged'],
  RebootedIntoUpdate: ['specRebooted'],
  MonitoringUpdate: ['specMonitoring'],
  ErrorReset: [],
};
const OF_STATUS: Record<ShadowState, readonly Milestone[]> = {
  Idle: [],
  StagedAndPerformedUpdate: ['statusStaged'],
  RebootedIntoUpdate: ['statusRebooted'],
  MonitoringUpdate: [],
  ErrorReset: [],
};
const OF_OPERATION: Record<Operation, readonly Milestone[]> = {
  Stage: [],
  Drain: ['drainStarts'],
  Activate: ['drainEnds'],
  Reboot: ['drainEnds'],
  Restore: [],
};

/** The milestones that a version of a shadow shows. */
export function milestonesOf({ spec, status }: BottlerocketShadow): Milestone[] {
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

/** Milliseconds of a phase; undefined when one of its ends was not seen. */
export function phaseMs(timeline: Timeline, { from, to }: Pick<Phase, 'from' | 'to'>): number | undefined {
  const [started, ended] = [timeline[from], timeline[to]];
  return started === undefined || ended === undefined ? undefined : ended - started;
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}
