/** Nodes that reboot, and settings of silences, for tests. */
import type { SilenceSettings } from '@brupop/shared/api/config-silences';
import type { LastOperation, ShadowState } from '@brupop/shared/api/shadow';
import type { ManagedNode } from '../cluster/snapshot.ts';
import { ago, aManagedNode, failure, MINUTE, type NodeParts, underWay } from './objects.ts';

export const ALERTMANAGER = 'https://alertmanager.example.com/prefix';

export function silenceSettings(changes: Partial<SilenceSettings> = {}): SilenceSettings {
  return {
    addresses: [ALERTMANAGER],
    secretName: undefined,
    allowHTTP: true,
    labels: [{ name: 'node' }],
    matchers: [],
    ...changes,
  };
}

interface Step {
  readonly state?: ShadowState;
  readonly operation?: Partial<LastOperation>;
  readonly node?: NodeParts;
  /** How long the step has lasted. */
  readonly sinceMs?: number;
  /** Of the record of the drain; that of the spec is 3. */
  readonly drainedFor?: number;
  readonly drain?: 'Drained' | 'TimedOut';
}

/** A node that was drained and asked to reboot a minute ago, with some parts different. */
export function aRebootingNode(name: string, step: Step = {}): ManagedNode {
  const { state = 'RebootedIntoUpdate', sinceMs = MINUTE, drainedFor = 3, drain = 'Drained' } = step;
  const lastOperation = failure(undefined, { operation: 'Reboot', state: 'Processing', ...step.operation });
  const times = { startTime: ago(sinceMs), endTime: ago(sinceMs) };
  return aManagedNode(name, step.node, {
    spec: underWay(state, sinceMs),
    record: { rebootRequestedAt: ago(sinceMs) },
    status: {
      current_state: 'StagedAndPerformedUpdate',
      lastOperation,
      drain: { ...times, observedGeneration: drainedFor, result: drain, evicted: 0, remaining: 0 },
    },
  });
}
