/** The real planner in the place of the controller of the agent's model: it plans after each change, and writes a moment later. */
import type { Clock } from '../../../packages/shared/src/runtime/clock.ts';
import type { Outcome } from '../../../packages/controller/src/plan/specs/transition.ts';
import { type ShadowView, readShadow } from '../../../packages/controller/src/cluster/shadow.ts';
import type { Act } from '../../../packages/agent/src/testing/model/faults.ts';
import { SimController } from '../../../packages/agent/src/testing/model/sim-controller.ts';
import type { SimHost } from '../../../packages/agent/src/testing/model/sim-host.ts';
import type { Planner } from '../oracle/planned.ts';
import type { Told, Write } from '../oracle/told.ts';
import type { JointCluster } from './cluster.ts';
import { JointObjects, NODE } from './objects.ts';

const TURN_MS = 50;
const WRITE_MS = 30;
/** Until what was asked to be looked up is known. */
const LOOK_MS = 300;
const MOST_MS = 30_000;
/** A scenario takes a few hundred; more are a loop. */
const MOST_PLANS = 3_000;

/** What of a plan is used here. */
type Says = {
  readonly specs: Readonly<Record<string, { readonly outcome: Outcome } | undefined>>;
  readonly slots: readonly string[];
  readonly lookUps: readonly string[];
  readonly wakeAt: number | undefined;
};

export type AnyPlanner = Pick<Planner, 'plan'>;

export class JointController extends SimController {
  /** What has become of each attempt. */
  readonly outcomes: Outcome[] = [];
  readonly wrong: string[] = [];
  slots: readonly string[] = [];
  isRestored = false;
  readonly #cluster: JointCluster;
  readonly #clock: Clock;
  readonly #host: SimHost;
  readonly #objects: JointObjects;
  readonly #newPlanner: () => AnyPlanner;
  #planner: AnyPlanner;
  #timer: (() => void) | undefined;
  #absentUntil = 0;
  #writeMs = WRITE_MS;
  #isHealed = false;
  #plans = 0;

  constructor(cluster: JointCluster, host: SimHost, clock: Clock, newPlanner: () => AnyPlanner) {
    super(cluster, clock);
    this.#cluster = cluster;
    this.#clock = clock;
    this.#host = host;
    this.#objects = new JointObjects(cluster, host, clock);
    this.#newPlanner = newPlanner;
    this.#planner = newPlanner();
    cluster.onChange = () => {
      cluster.resourceVersion += 1;
      this.wake(TURN_MS);
    };
    this.wake(0);
  }

  /** The shadow as the controller reads it. */
  get shadow(): ShadowView | undefined {
    const found = this.#objects.read().shadows.get(NODE);
    return found && readShadow(found);
  }

  override act(act: Act): void {
    switch (act.kind) {
      case 'lead':
        this.#planner = this.#newPlanner();
        break;
      case 'no leader':
        this.#planner = this.#newPlanner();
        this.#absentUntil = this.#clock.monotonic() + act.ms;
        break;
      case 'lag':
        this.#writeMs = act.ms;
        break;
      case 'etcd restored':
        this.#restoreAfter(act.ms);
        break;
      default:
        this.#cluster.edit(act);
    }
    this.#cluster.onChange();
  }

  #restoreAfter(ms: number): void {
    const restore = this.#cluster.saved();
    this.#clock.after(ms, () => {
      if (this.#isHealed) return;
      this.isRestored = true;
      this.#planner = this.#newPlanner();
      restore();
    });
  }

  /** Nothing else happens to it or to its objects. */
  heal(config: Readonly<Record<string, unknown>>): void {
    this.#isHealed = true;
    this.#absentUntil = 0;
    this.#writeMs = WRITE_MS;
    this.act({ kind: 'configure', spec: config });
  }

  override wake(ms: number): void {
    this.#timer?.();
    this.#timer = this.#clock.after(ms, () => this.#plan());
  }

  #plan(): void {
    const absentMs = this.#absentUntil - this.#clock.monotonic();
    if (absentMs > 0) return this.wake(absentMs);
    this.#plans += 1;
    if (this.#plans === MOST_PLANS) this.wrong.push(`${MOST_PLANS} plans, the latest outcome ${this.outcomes.at(-1)}`);
    if (this.#plans >= MOST_PLANS) return undefined;
    const { told, writes } = this.#planner.plan(this.#objects.read());
    const { specs, slots, lookUps, wakeAt = Infinity } = saysOf(told);
    this.slots = slots;
    const { outcome } = specs[NODE] ?? {};
    if (outcome !== undefined) this.outcomes.push(outcome);
    const seen = { resourceVersion: this.#cluster.resourceVersion, uid: this.#cluster.shadow?.uid };
    this.#clock.after(this.#writeMs, () => {
      for (const write of writes) this.#write(write, seen);
    });
    const most = lookUps.length > 0 ? LOOK_MS : MOST_MS;
    const next = Math.min(most, Math.max(LOOK_MS, wakeAt - this.#clock.now()));
    return this.wake(outcome === undefined ? next : this.#writeMs + TURN_MS);
  }

  #write(write: Write, seen: Parameters<JointCluster['write']>[1]): void {
    if (write.kind === 'restore' && this.#cluster.marked && this.#host.rebootComes)
      this.wrong.push('the controller restores the Node while the requested reboot may still come');
    this.#cluster.write(write, seen);
  }
}

function saysOf(told: Told): Says {
  return told as Says;
}
