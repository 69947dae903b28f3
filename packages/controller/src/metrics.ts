import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import { isManaged } from './cluster/node.ts';
import type { ManagedNode, WatchLag, Snapshot } from './cluster/snapshot.ts';
import type { Plan } from './plan/plan.ts';

export type WriteKind =
  | 'spec'
  | 'condition'
  | 'config_status'
  | 'node_restore'
  | 'node_taint'
  | 'shadow_delete'
  | 'event';
export type WriteResult = 'ok' | 'conflict' | 'error' | 'dropped';

/** The controller's metrics. Those of the fleet are empty on a replica that does not lead. */
export class Metrics {
  readonly #nodes: Gauge<'state' | 'version'>;
  readonly #waiting: Gauge<'reason'>;
  readonly #leader: Gauge;
  readonly #generation: Gauge;
  readonly #writes: Counter<'kind' | 'result'>;
  readonly #planning: Histogram;
  readonly #errors: Counter;
  readonly #overdue: Counter<'state'>;
  #watchLags: () => readonly WatchLag[] = () => [];

  constructor(registry: Registry) {
    const registers = [registry];
    this.#nodes = new Gauge({
      name: 'brupop_nodes',
      help: 'Managed nodes by what their spec calls for and the Bottlerocket version that they run.',
      labelNames: ['state', 'version'] as const,
      registers,
    });
    this.#waiting = new Gauge({
      name: 'brupop_waiting_nodes',
      help: 'Managed nodes that are not updating although they could, by reason.',
      labelNames: ['reason'] as const,
      registers,
    });
    this.#leader = new Gauge({
      name: 'brupop_controller_leader',
      help: '1 on the replica that leads, else 0.',
      registers,
    });
    this.#generation = new Gauge({
      name: 'brupop_config_observed_generation',
      help: 'metadata.generation of the BrupopConfig that the latest plan followed; 0 without one.',
      registers,
    });
    this.#writes = new Counter({
      name: 'brupop_controller_writes_total',
      help: 'Writes to the Kubernetes API by what was written and the result.',
      labelNames: ['kind', 'result'] as const,
      registers,
    });
    this.#planning = new Histogram({
      name: 'brupop_plan_duration_seconds',
      help: 'How long it took to make a plan.',
      buckets: [0.001, 0.005, 0.02, 0.05, 0.1, 0.5, 2],
      registers,
    });
    this.#errors = new Counter({
      name: 'brupop_controller_loop_errors_total',
      help: 'Turns of the controller that failed.',
      registers,
    });
    this.#overdue = new Counter({
      name: 'brupop_deadline_exceeded_total',
      help: 'Steps of updates that had no result within their limit, by what the spec called for.',
      labelNames: ['state'] as const,
      registers,
    });
    registerSilence(registry, () => this.#watchLags());
  }

  /** Where to read, at each scrape, how long nothing was heard. */
  watches(watchLags: () => readonly WatchLag[]): void {
    this.#watchLags = watchLags;
  }

  leads(leads: boolean): void {
    this.#leader.set(leads ? 1 : 0);
    if (leads) return;
    this.#nodes.reset();
    this.#waiting.reset();
  }

  /** Shows the fleet as a plan saw it. `seconds`: how long planning took. */
  planned({ managedNodes, config }: Snapshot, { conditions }: Plan, seconds: number): void {
    this.#planning.observe(seconds);
    this.#generation.set(config?.metadata.generation ?? 0);
    this.#nodes.reset();
    for (const managedNode of managedNodes) this.#count(managedNode);
    this.#waiting.reset();
    for (const { progressing } of conditions) {
      if (progressing.reason !== 'UpToDate' && progressing.reason !== 'Updating')
        this.#waiting.inc({ reason: progressing.reason });
    }
  }

  #count({ node, shadow }: ManagedNode): void {
    if (node === undefined || !isManaged(node)) return;
    this.#nodes.inc({ state: shadow?.spec.state ?? 'NoShadow', version: shadow?.status?.current_version ?? '' });
  }

  wrote(kind: WriteKind, result: WriteResult): void {
    this.#writes.inc({ kind, result });
  }

  loopFailed(): void {
    this.#errors.inc();
  }

  deadlineExceeded(state: string): void {
    this.#overdue.inc({ state });
  }
}

function registerSilence(registry: Registry, watchLags: () => readonly WatchLag[]): void {
  const gauge = new Gauge({
    name: 'brupop_controller_watch_silence_seconds',
    help: 'How long the Kubernetes API has sent nothing on the watch of a resource.',
    labelNames: ['resource'] as const,
    registers: [registry],
    collect: () => {
      for (const { resource, ms } of watchLags()) gauge.set({ resource }, ms / 1000);
    },
  });
}
