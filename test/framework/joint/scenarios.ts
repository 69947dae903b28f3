/** What happens to an agent, its host, the controller and its objects, as values. */
import fc from 'fast-check';
import {
  type Act,
  type AtCall,
  CALLS,
  type Fault,
  fault,
  type TimedFault,
} from '../../../packages/agent/src/testing/model/faults.ts';
import type { CallName } from '../../../packages/agent/src/testing/model/sim-world.ts';

const SECOND = 1_000;
const MINUTE = 60 * SECOND;

export interface Scenario {
  readonly faults: readonly TimedFault[];
  /** Whether `settings.motd` takes effect with the next boot only. */
  readonly needsReboot: boolean;
}

/** Attempts fail, and are repeated, within the time of a scenario. */
export const CONFIG: Readonly<Record<string, unknown>> = {
  monitoring: { healthyFor: '0s', timeout: '20m' },
  health: { watchFor: '0s', daemonSets: 'Ignored', pods: 'Ignored', podsBefore: 'Ignored' },
  retry: { backoff: '1m', maxBackoff: '10m', attempts: 20 },
  drain: { timeout: '10m' },
  rollout: { failureBudget: 5 },
};
const RETURNING = {
  monitoring: { healthyFor: '0s', timeout: '1m' },
  rollout: { failureBudget: 5, rollback: 'Automatic' },
};
const configs: readonly object[] = [
  {},
  { paused: true, pauseMode: 'Interrupt' },
  { versions: { deny: ['1.27.0'] } },
  { versions: { pin: '1.25.0' } },
  RETURNING,
];
const configures = configs.map((spec): Act => ({ kind: 'configure', spec: { ...CONFIG, ...spec } }));
const motds = ['a', 'b', null].map((motd): Act => ({ kind: 'motd', motd }));

const controller = fc.constantFrom<Act>(
  { kind: 'lead' },
  { kind: 'no leader', ms: 3 * MINUTE },
  { kind: 'no leader', ms: 12 * MINUTE },
  { kind: 'lag', ms: 3 * SECOND },
);
const etcd = fc.constantFrom<Act>(
  { kind: 'etcd restored', ms: 30 * SECOND },
  { kind: 'etcd restored', ms: 4 * MINUTE },
  { kind: 'etcd restored', ms: 10 * MINUTE },
);
const requests = fc.constantFrom<Act>(
  { kind: 'abort' },
  { kind: 'retry', version: '1.27.0' },
  { kind: 'retry', version: '1.28.0' },
  { kind: 'new node' },
);
const edits = fc.constantFrom<Act>(
  { kind: 'edit spec', spec: { state: 'ErrorReset' } },
  { kind: 'edit spec', spec: { state: 'RebootedIntoUpdate', version: '1.27.0' } },
  { kind: 'edit spec', spec: { state: 'MonitoringUpdate', version: '1.27.0' } },
  { kind: 'edit spec', spec: { state_transition_timestamp: null } },
  { kind: 'edit spec', spec: { settings: null } },
  { kind: 'edit status', status: { current_state: 'ErrorReset' } },
  { kind: 'edit status', status: { observedGeneration: 99 } },
  { kind: 'edit status', status: {}, last: { state: 'Failed', errorCode: 'RolledBack' } },
  { kind: 'edit status', status: {}, last: { operation: 'Reboot', state: 'Processing' } },
  { kind: 'edit record', record: '{}' },
  { kind: 'edit record', record: 'no JSON' },
);
const acts = fc.oneof(controller, etcd, requests, fc.constantFrom(...configures), fc.constantFrom(...motds), edits);

const calls = fc.constantFrom<CallName>(...CALLS, 'configure', 'classify', 'report', 'report');
const later = fc.constantFrom(0, 0, 50, SECOND, 30 * SECOND, 5 * MINUTE);
const atCall = (of: fc.Arbitrary<Fault>): fc.Arbitrary<AtCall> =>
  fc.record({ on: calls, nth: fc.nat(5), after: fc.boolean(), later, fault: of });
const asFault = (act: Act): Fault => ({ kind: 'act', act });
/** From the start there often is something besides an update to do. */
const first = fc.constantFrom(...motds, ...configures).map((act): TimedFault => ({ at: 0, fault: asFault(act) }));
/** Of clocks that differ the controller has a check of its own, and this model has one clock. */
const ofTheAgent = fault.filter(({ kind }) => kind !== 'clock jumps');

export const scenarios: fc.Arbitrary<Scenario> = fc.record({
  faults: fc
    .tuple(
      fc.array(first, { maxLength: 2 }),
      fc.array(atCall(acts.map(asFault)), { minLength: 1, maxLength: 4 }),
      fc.array(atCall(ofTheAgent), { minLength: 1, maxLength: 4 }),
    )
    .map((parts) => parts.flat()),
  needsReboot: fc.boolean(),
});
