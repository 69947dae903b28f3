import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import { isManaged } from './cluster/node.ts';
import type { ManagedNode, Snapshot, WatchLag } from './cluster/snapshot.ts';
import { releaseOf } from '@brupop/shared/api/version';
import { budgetLeft, type FailedNode, isFailureCode } from './plan/facts/failed-nodes.ts';
import type { Plan } from './plan/plan.ts';
import type { SpecChange } from './plan/spec-change.ts';
import { stepSeconds, transitionOf } from './plan/transition-facts.ts';

export type Metrics = ReturnType<typeof createMetrics>;

/** The controller's metrics. `docs/metrics.md` describes each. */
export function createMetrics(registry: Registry, watchLags: () => readonly WatchLag[] = () => []) {
  const of = optionsIn(registry);
  const watchLag = new Gauge({
    ...of('controller_watch_lag_seconds', 'Seconds since the latest activity on a watch.', 'resource'),
    collect: () => {
      for (const { resource, ms } of watchLags()) watchLag.set({ resource }, ms / 1000);
    },
  });
  return {
    ...fleetGauges(of),
    ...updateMetrics(of),
    leader: new Gauge(of('controller_leader', '1 on the leader, else 0.')),
    observedGeneration: new Gauge(
      of('config_observed_generation', 'metadata.generation of the BrupopConfig that the latest plan followed, or 0.'),
    ),
    planDuration: new Histogram({
      ...of('plan_duration_seconds', 'How long it took to plan for the whole fleet.'),
      buckets: [0.001, 0.005, 0.02, 0.05, 0.1, 0.5, 2],
    }),
    reconcileErrors: new Counter(of('controller_reconcile_errors_total', 'Reconciles that failed.')),
    certificateExpiry: new Gauge(
      of(
        'controller_certificate_expiry_timestamp_seconds',
        'When the serving certificate and the authorities in use expire (Unix time).',
        'certificate',
        'issuer',
      ),
    ),
    certificateReady: new Gauge(
      of('controller_certificate_ready', '1 if the condition CertificateReady is True, else 0.', 'mode'),
    ),
    checks: new Counter(
      of(
        'checks_total',
        'Jobs of checks and hooks that ended, and evaluations of queries.',
        'check',
        'phase',
        'result',
      ),
    ),
    writes: new Counter(of('controller_writes_total', 'Writes to the Kubernetes API.', 'kind', 'result')),
  };
}

const MAX_VERSIONS = 20;

/** The first values that it is asked for, and `other` for the rest; an empty one is always kept. */
class BoundedLabels {
  readonly #known = new Set<string>();
  readonly #max: number;

  constructor(max: number) {
    this.#max = max;
  }

  of(value: string): string {
    if (value !== '' && this.#known.size < this.#max) this.#known.add(value);
    return value === '' || this.#known.has(value) ? value : 'other';
  }
}

/** Steps of updates, as they are written. */
function updateMetrics(of: ReturnType<typeof optionsIn>) {
  return {
    transitions: new Counter(
      of(
        'update_transitions_total',
        'Specs written to shadows, by what they mean for the update.',
        'from_version',
        'to_version',
        'state',
        'outcome',
        'code',
      ),
    ),
    stepDuration: new Histogram({
      ...of('update_step_duration_seconds', 'How long completed steps of updates took, by their spec.state.', 'state'),
      buckets: [10, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200],
    }),
    failures: new Counter(
      of(
        'node_failures_total',
        'Nodes that failed with a version, each counted when that was first seen.',
        'version',
        'code',
      ),
    ),
    versionLabels: new BoundedLabels(MAX_VERSIONS),
    deadlineExceeded: new Counter(
      of('deadline_exceeded_total', 'Steps of updates that had no result within their limit, by spec.state.', 'state'),
    ),
  };
}

/** What the latest plan counted; only the leader has values. */
function fleetGauges(of: ReturnType<typeof optionsIn>) {
  return {
    nodes: new Gauge(of('nodes', 'Managed nodes by spec.state and running version.', 'state', 'version')),
    hostsState: new Gauge(of('hosts_state', 'Shadows with a report by status.current_state.', 'state')),
    hostsVersion: new Gauge(
      of('hosts_version', 'Shadows with a report by the version that their node runs.', 'bottlerocket_version'),
    ),
    waiting: new Gauge(
      of('waiting_nodes', 'Managed nodes that do not update although they could, by reason.', 'reason'),
    ),
    failedNodes: new Gauge(
      of('failed_nodes', 'Nodes that failed with a version, not accepted by spec.rollout.resume.', 'version', 'code'),
    ),
    lostNodes: new Gauge(of('lost_nodes', 'Nodes that did not return from the reboot of their update.')),
    expiredLeases: new Gauge(of('expired_node_leases', 'Nodes, not updating, whose Lease has expired.')),
    countedLeases: new Gauge(of('node_leases', 'Nodes, not updating, that have a Lease.')),
    connectivityLost: new Gauge(
      of('connectivity_lost', '1 while updates wait since most Leases have expired, else 0.'),
    ),
    frozenVersions: new Gauge(of('frozen_versions', '1 for each version that too many nodes failed with.', 'version')),
    failureBudget: new Gauge(
      of(
        'failure_budget_remaining',
        'For each version that nodes failed with: how many more may fail until it is frozen.',
        'version',
      ),
    ),
    rolloutLate: new Gauge(of('rollout_late', '1 while no node succeeds for spec.rollout.progressDeadline, else 0.')),
  };
}

function optionsIn(registry: Registry) {
  return <L extends string>(name: string, help: string, ...labelNames: L[]) => ({
    name: `brupop_${name}`,
    help,
    labelNames,
    registers: [registry],
  });
}

export function showFleet(metrics: Metrics, { managedNodes, config }: Snapshot, made: Plan): void {
  const { conditions, connectivity, progress } = made;
  metrics.observedGeneration.set(config?.metadata.generation ?? 0);
  resetFleet(metrics);
  for (const managedNode of managedNodes) {
    countNode(metrics, managedNode);
    countHost(metrics, managedNode);
  }
  showFailures(metrics, made);
  metrics.rolloutLate.set(progress?.isLate === true ? 1 : 0);
  metrics.lostNodes.set(made.lost.length);
  metrics.expiredLeases.set(connectivity.expired.length);
  metrics.countedLeases.set(connectivity.counted);
  metrics.connectivityLost.set(connectivity.lost ? 1 : 0);
  for (const { progressing } of conditions) {
    const { reason } = progressing;
    if (reason !== 'UpToDate' && reason !== 'Updating') metrics.waiting.inc({ reason });
  }
}

function showFailures(metrics: Metrics, { failed, frozen, policy, counts }: Plan): void {
  for (const { version, code } of failed) metrics.failedNodes.inc({ version, code });
  for (const { version } of frozen) metrics.frozenVersions.set({ version }, 1);
  const budgets = budgetLeft(failed, frozen, policy, counts.managed);
  for (const [version, left] of budgets) metrics.failureBudget.set({ version }, left);
}

function countNode({ nodes }: Metrics, { node, shadow }: ManagedNode): void {
  if (node === undefined || !isManaged(node)) return;
  nodes.inc({ state: shadow?.spec.state ?? 'NoShadow', version: shadow?.status?.current_version ?? '' });
}

/** The metrics of the Rust operator, with its labels, for dashboards that were made for it. */
function countHost({ hostsState, hostsVersion }: Metrics, { shadow }: ManagedNode): void {
  if (shadow?.status === undefined) return;
  const { current_state: state, current_version: version } = shadow.status;
  if (state !== undefined) hostsState.inc({ state });
  if (version !== undefined) hostsVersion.inc({ bottlerocket_version: version });
}

function resetFleet(metrics: Metrics): void {
  const { nodes, waiting, hostsState, hostsVersion, failedNodes, frozenVersions } = metrics;
  const { expiredLeases, countedLeases, connectivityLost, failureBudget, rolloutLate, lostNodes } = metrics;
  for (const gauge of [nodes, waiting, hostsState, hostsVersion, failedNodes, frozenVersions]) gauge.reset();
  for (const gauge of [expiredLeases, countedLeases, connectivityLost, failureBudget, rolloutLate, lostNodes])
    gauge.reset();
}

/**
 * Counts a spec that was written. A counter never forgets a label, and agents choose which versions they report: those
 * beyond the first ones are `other`.
 */
export function countTransition({ transitions, stepDuration, versionLabels }: Metrics, change: SpecChange): void {
  const { from, to, ...labels } = transitionOf(change);
  transitions.inc({ from_version: versionLabels.of(from), to_version: versionLabels.of(to), ...labels });
  const seconds = stepSeconds(change);
  if (seconds !== undefined) stepDuration.observe({ state: change.shadow.spec.state }, seconds);
}

/** Counts a node that has just failed with a version. */
export function countFailure(
  { failures, versionLabels }: Metrics,
  { version, code }: Pick<FailedNode, 'version' | 'code'>,
): void {
  failures.inc({ version: versionLabels.of(releaseOf(version)), code: isFailureCode(code) ? code : 'other' });
}

/** Only the leader has values of the fleet, so that sums over the replicas are right. */
export function showLeader(metrics: Metrics, isLeader: boolean): void {
  metrics.leader.set(isLeader ? 1 : 0);
  if (!isLeader) resetFleet(metrics);
}
