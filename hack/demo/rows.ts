import type { V1Node } from '@kubernetes/client-node';
import type { BottlerocketShadow, ShadowSpec, ShadowStatus } from '../../packages/shared/src/api/shadow.ts';
import type { KubernetesObject } from '../../packages/shared/src/api/meta.ts';

/** One line of the table. */
export interface Row {
  readonly node: string;
  readonly zone: string;
  readonly state: string;
  readonly version: string;
  readonly waitsFor: string;
  readonly done: boolean;
}

const STEPS = {
  Stage: 'staging',
  Drain: 'draining',
  Activate: 'activating',
  Reboot: 'rebooting',
  Restore: 'restoring',
} as const;

/** Reasons that the other columns already show. */
const SILENT_REASONS: ReadonlySet<string> = new Set(['UpToDate', 'Updating', 'AgentNotConnected']);

/** The row of one node. `goal` is the version that the fleet updates to. */
export function rowOf(node: V1Node & KubernetesObject, shadow: BottlerocketShadow | undefined, goal: string): Row {
  const version = shadow?.status?.current_version ?? '';
  return {
    node: node.metadata.name,
    zone: node.metadata.labels?.['topology.kubernetes.io/zone'] ?? '',
    state: stateOf(node, shadow, goal),
    version,
    waitsFor: waitsFor(shadow),
    done: version === goal && isIdle(shadow),
  };
}

function isIdle(shadow: BottlerocketShadow | undefined): boolean {
  return shadow?.spec.state === 'Idle' && shadow.status?.current_state === 'Idle';
}

function stateOf(node: V1Node, shadow: BottlerocketShadow | undefined, goal: string): string {
  if (!hasReported(shadow)) return 'starting';
  const { spec, status } = shadow;
  if (!isReady(node) && !isRebooting(shadow)) return 'down';
  if (status.current_state === 'ErrorReset') return 'failed';
  if (spec.state === 'Idle') return status.current_version === goal ? 'up to date' : 'waiting';
  return stepOf(spec, status);
}

/** The controller writes conditions before that. */
function hasReported(shadow: BottlerocketShadow | undefined): shadow is BottlerocketShadow & { status: ShadowStatus } {
  return shadow?.status?.current_version !== undefined;
}

function isReady({ status }: V1Node): boolean {
  return status?.conditions?.find(({ type }) => type === 'Ready')?.status === 'True';
}

/** Its Node is not Ready for a while, as expected. */
function isRebooting({ spec, status }: BottlerocketShadow): boolean {
  return spec.state !== 'Idle' && status?.lastOperation?.operation === 'Reboot';
}

function stepOf(spec: ShadowSpec, { lastOperation }: ShadowStatus): string {
  if (spec.state === 'MonitoringUpdate') return 'checking';
  return lastOperation !== undefined && lastOperation.version === spec.version
    ? STEPS[lastOperation.operation]
    : 'starting';
}

function waitsFor(shadow: BottlerocketShadow | undefined): string {
  // The condition is from before the update until the controller writes it.
  if (shadow?.spec.state !== 'Idle') return drainWaitsFor(shadow?.status);
  const progressing = shadow.status?.conditions?.find(({ type }) => type === 'Progressing');
  if (progressing === undefined || SILENT_REASONS.has(progressing.reason)) return '';
  return progressing.message;
}

function drainWaitsFor(status: ShadowStatus | undefined): string {
  const { result, blockedBy: [first] = [] } = status?.drain ?? {};
  return result !== undefined || first === undefined ? '' : `${first.pod}: ${first.message}`;
}
