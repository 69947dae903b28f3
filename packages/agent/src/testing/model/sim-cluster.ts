/** The apiserver's side of the contract, one Node and its shadow, as a pure state machine on a clock of a test. */
import type {
  AgentShadow,
  DrainResult,
  ExclusionResult,
  SpecReference,
  StatusReport,
  StreamMessage,
} from '@brupop/shared/api/agent-protocol';
import type { SettingsSpec, ShadowSpec } from '@brupop/shared/api/shadow';
import { grouped, type Pin, pinned } from '@brupop/shared/testing/settings';
import { type Clock, rfc3339 } from '@brupop/shared/runtime/clock';
import { ApiError } from '../../apiserver/messages.ts';

const PODS = 3;
const EXCLUSION_MS = 5_000;
const IDLE: ShadowSpec = { state: 'Idle', version: null };

type Listener = (message: StreamMessage | Error) => void;

export class SimCluster {
  shadow: AgentShadow | undefined;
  /** Host settings that the controller requests with each spec. */
  wanted: Pin | null = null;
  /** What a group requests as `settings.motd`. */
  motd: string | null = null;
  #isGrouped = false;
  managed = true;
  cordoned = false;
  excludedAt: number | undefined;
  pods = PODS;
  /** Pods that a pass gets evicted. */
  perPass = 2;
  unavailableUntil = 0;
  /** When a pass last found the node empty, and in which boot. */
  drained: { readonly at: number; readonly boots: number } | undefined;
  /** Called after each change of the shadow. */
  onChange: () => void = () => undefined;
  /** Called after each change of the spec. */
  onSpec: () => void = () => undefined;
  readonly #clock: Clock;
  readonly #boots: () => number;
  readonly #listeners = new Set<Listener>();
  #shadows = 0;

  constructor(clock: Clock, boots: () => number) {
    this.#clock = clock;
    this.#boots = boots;
  }

  get reachable(): boolean {
    return this.unavailableUntil <= this.#clock.monotonic();
  }

  get marked(): boolean {
    return this.cordoned || this.excludedAt !== undefined;
  }

  listen(listener: Listener): () => void {
    this.#listeners.add(listener);
    listener(this.shadow === undefined ? { type: 'deleted' } : { type: 'shadow', shadow: this.shadow });
    return () => this.#listeners.delete(listener);
  }

  send(message: StreamMessage | Error): void {
    for (const listener of this.#listeners) listener(message);
  }

  /** Requests other host settings from now on. */
  want(wanted: Pin | null): void {
    this.wanted = wanted;
    this.onChange();
  }

  wantMotd(motd: string | null): void {
    this.#isGrouped = true;
    this.motd = motd;
    this.onChange();
  }

  /** What the next spec requests. */
  get settings(): SettingsSpec | null {
    const pin = pinned(this.wanted);
    if (!this.#isGrouped) return pin;
    return { leaves: [...(pin?.leaves ?? []), ...grouped({ motd: this.motd }).leaves], allow: 'Live' };
  }

  setSpec(spec: ShadowSpec): void {
    if (this.shadow === undefined) return;
    const since = { state_transition_timestamp: rfc3339(this.#clock.now()) };
    const dated = { ...spec, settings: this.settings, ...since };
    this.shadow = { ...this.shadow, generation: this.shadow.generation + 1, spec: dated };
    this.onSpec();
    this.#changed();
  }

  deleteShadow(): void {
    this.shadow = undefined;
    this.onSpec();
    this.send({ type: 'deleted' });
    this.onChange();
  }

  /** As a user who removes the status. */
  wipeStatus(): void {
    if (this.shadow === undefined) return;
    const { status: _wiped, ...bare } = this.shadow;
    this.shadow = bare;
    this.#changed();
  }

  restore(): void {
    this.cordoned = false;
    this.excludedAt = undefined;
    this.pods = PODS;
  }

  read(): AgentShadow {
    if (!this.managed) throw new ApiError('Forbidden', 'the Node is not managed');
    if (this.shadow === undefined) {
      this.#shadows += 1;
      this.shadow = { uid: `uid-${this.#shadows}`, generation: 1, spec: IDLE };
      this.onChange();
    }
    return this.shadow;
  }

  report({ shadowUID, status }: StatusReport): AgentShadow {
    if (this.shadow === undefined) throw new ApiError('NotFound', 'there is no shadow');
    if (this.shadow.uid !== shadowUID) throw new ApiError('SpecChanged', 'another shadow');
    this.shadow = { ...this.shadow, status };
    this.#changed();
    return this.shadow;
  }

  exclude(reference: SpecReference): ExclusionResult {
    this.#requireReboot(reference);
    const now = this.#clock.monotonic();
    this.excludedAt ??= now;
    return { remainingMs: Math.max(0, this.excludedAt + EXCLUSION_MS - now) };
  }

  drain(reference: SpecReference): DrainResult {
    this.#requireReboot(reference);
    this.cordoned = true;
    const evicted = Math.min(this.pods, this.perPass);
    this.pods -= evicted;
    const done = this.pods === 0;
    if (done) this.drained = { at: this.#clock.monotonic(), boots: this.#boots() };
    return { done, evicted, remaining: this.pods, blockedBy: [] };
  }

  #requireReboot({ shadowUID, generation }: SpecReference): void {
    const { shadow } = this;
    if (shadow === undefined) throw new ApiError('NotFound', 'there is no shadow');
    if (shadow.uid !== shadowUID || shadow.generation !== generation) throw new ApiError('SpecChanged', 'another');
    if (shadow.spec.state !== 'RebootedIntoUpdate') throw new ApiError('SpecForbids', 'the spec requests no reboot');
  }

  #changed(): void {
    if (this.shadow !== undefined) this.send({ type: 'shadow', shadow: this.shadow });
    this.onChange();
  }
}
