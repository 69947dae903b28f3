/** What the controller does to one node, cut to what an agent sees of it. */
import type { AgentShadow } from '@brupop/shared/api/agent-protocol';
import { ERROR_CODES } from '@brupop/shared/api/error-codes';
import type { ShadowState } from '@brupop/shared/api/shadow';
import type { Clock } from '@brupop/shared/runtime/clock';
import type { Act } from './faults.ts';
import { SimCluster } from './sim-cluster.ts';
import type { SimHost } from './sim-host.ts';

const MINUTE = 60_000;
const STAGE_LIMIT = 50 * MINUTE;
const FIRST_WAIT = 5 * MINUTE;
const TURN_MS = 50;
const NEXT: Partial<Record<ShadowState, ShadowState>> = {
  StagedAndPerformedUpdate: 'RebootedIntoUpdate',
  RebootedIntoUpdate: 'MonitoringUpdate',
};

interface Parts {
  readonly cluster: SimCluster;
  readonly controller: SimController;
}

/** The cluster and the controller around a host. */
export function simulated(clock: Clock, host: SimHost): Parts {
  const cluster = new SimCluster(clock, () => host.boots);
  return { cluster, controller: new SimController(cluster, clock) };
}

export class SimController {
  /** No update starts. */
  paused = false;
  /** Called before each update starts. */
  onStart: (version: string) => void = () => undefined;
  readonly #cluster: SimCluster;
  readonly #clock: Clock;
  #timer: (() => void) | undefined;
  #notBefore = 0;
  #failures = 0;
  #since = 0;
  #generation = '';

  constructor(cluster: SimCluster, clock: Clock) {
    this.#cluster = cluster;
    this.#clock = clock;
    cluster.onChange = () => this.wake(TURN_MS);
  }

  resume(): void {
    this.paused = false;
    this.wake(0);
  }

  /** What is done to this controller, or to objects that it does not know: nothing. */
  act(_act: Act): void {
    // The real planner has such objects.
  }

  wake(ms: number): void {
    this.#timer?.();
    this.#timer = this.#clock.after(ms, () => this.#decide());
  }

  /** A named failure after which nothing is tried again by itself. */
  get needsUser(): boolean {
    const last = this.#cluster.shadow?.status?.lastOperation;
    if (last?.errorCode === undefined || last.state !== 'Failed') return false;
    return ['NeverThisVersion', 'Manual'].includes(ERROR_CODES[last.errorCode]);
  }

  #decide(): void {
    const { shadow, managed } = this.#cluster;
    if (shadow === undefined) return;
    const now = this.#clock.monotonic();
    const key = `${shadow.uid}/${shadow.generation}`;
    if (key !== this.#generation) this.#since = now;
    this.#generation = key;
    if (!managed) {
      if (shadow.spec.state !== 'Idle') this.#idle();
    } else if (shadow.spec.state === 'Idle') this.#begin(shadow, now);
    else this.#advance(shadow, now);
  }

  #begin({ generation, spec, status }: AgentShadow, now: number): void {
    if (JSON.stringify(spec.settings ?? null) !== JSON.stringify(this.#cluster.settings)) return this.#idle();
    const settled = status?.observedGeneration === generation && status.current_state === 'Idle';
    if (this.paused || !settled || status.target_version === status.current_version || this.needsUser) return;
    if (this.#notBefore > now) this.wake(this.#notBefore - now);
    else this.#stage(status.target_version);
  }

  #stage(version: string): void {
    this.onStart(version);
    this.#cluster.setSpec({ state: 'StagedAndPerformedUpdate', version });
  }

  #advance({ spec, status, generation }: AgentShadow, now: number): void {
    const answered = status?.observedGeneration === generation ? status.current_state : undefined;
    const next = NEXT[spec.state];
    if (answered === 'ErrorReset') this.#failed(now);
    else if (answered === spec.state && next !== undefined) this.#cluster.setSpec({ ...spec, state: next });
    else if (answered === spec.state) this.#succeeded();
    else if (spec.state === 'StagedAndPerformedUpdate') this.#limit(now);
  }

  #limit(now: number): void {
    const left = this.#since + STAGE_LIMIT - now;
    if (left <= 0) this.#failed(now);
    else this.wake(left);
  }

  #failed(now: number): void {
    this.#failures += 1;
    this.#notBefore = now + FIRST_WAIT * 2 ** Math.min(3, this.#failures - 1);
    this.#idle();
  }

  #succeeded(): void {
    this.#failures = 0;
    this.#idle();
  }

  #idle(): void {
    this.#cluster.setSpec({ state: 'Idle', version: null });
  }
}
