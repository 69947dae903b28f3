/** The real agent, which may die at any instant, its host, apiserver and controller in memory, and the invariants. */
import type { Leaves } from '@brupop/shared/api/settings';
import type { AgentShadow, StatusReport } from '@brupop/shared/api/agent-protocol';
import { FakeClock } from '@brupop/shared/testing/fake-clock';
import { ApiError } from '../../apiserver/messages.ts';
import { HostError } from '../../host/host.ts';
import { AgentProcess } from './agent-process.ts';
import type { AtCall, Fault, TimedFault } from './faults.ts';
import { Invariants } from './invariants.ts';
import { actOnHost } from './host-faults.ts';
import { changeSettings } from './settings-faults.ts';
import type { SimCluster } from './sim-cluster.ts';
import { type SimController, simulated } from './sim-controller.ts';
import { SimHost } from './sim-host.ts';
import type { UpdateCommand } from '../../limits.ts';

export type CallName =
  | UpdateCommand
  | 'look'
  | 'classify'
  | 'configure'
  | 'reboot'
  | 'read'
  | 'stream'
  | 'report'
  | 'exclude'
  | 'drain'
  | 'restore';

export const OLD = '1.26.0';
export const NEW = '1.27.0';
const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const RESTART_MS = 5 * SECOND;
const HEARTBEAT_MS = 30 * SECOND;
/** The controller restores no Node while its host may still go down. */
const RELEASE_MS = 15 * MINUTE;

export class SimWorld {
  readonly clock = new FakeClock();
  readonly host = new SimHost(this.clock, { active: OLD, offered: NEW });
  readonly cluster: SimCluster;
  readonly controller: SimController;
  readonly invariants = new Invariants(this);
  readonly random: () => number;
  #agent: AgentProcess | undefined;
  /** An agent that reaches no host, however often it tries. */
  #cutOff: AgentProcess | undefined;
  #pending: readonly TimedFault[];
  #healed = false;
  #rebootDelayMs = 200;
  #rebootRefused = 0;
  #shutdownMs = SECOND;
  #bootMs = 20 * SECOND;

  constructor(scenario: readonly TimedFault[], random: () => number = () => 0.5, parts = simulated) {
    ({ cluster: this.cluster, controller: this.controller } = parts(this.clock, this.host));
    this.#pending = scenario;
    this.random = random;
    for (const one of scenario) if ('at' in one) this.clock.after(one.at, () => this.#inject(one.fault));
    this.cluster.onSpec = () => this.invariants.specChanged();
    this.controller.onStart = (version) => this.invariants.userActions.starts(version);
    this.#beat();
    this.startAgent();
  }

  /** Adds faults at calls, which are counted from now on. */
  add(faults: readonly AtCall[]): void {
    this.#pending = [...this.#pending, ...faults];
  }

  async run(ms: number): Promise<void> {
    await this.clock.advance(ms);
  }

  /** Ends all faults. What is under way continues, and, unless `paused`, other updates start. */
  heal(paused: boolean): void {
    this.#healed = true;
    this.controller.paused = paused;
    this.#pending = [];
    this.host.unavailableUntil = 0;
    this.host.lockedUntil = 0;
    this.host.settingsBrokenUntil = 0;
    this.host.repositoryGoneUntil = 0;
    this.host.nextEnd = undefined;
    this.#rebootRefused = 0;
    this.#rebootDelayMs = 200;
    this.#shutdownMs = SECOND;
    this.cluster.unavailableUntil = 0;
    this.cluster.perPass = 2;
    this.#label(true);
    this.controller.wake(0);
  }

  startAgent(): void {
    if (this.#agent !== undefined || !this.host.up || !this.cluster.managed) return;
    const agent = new AgentProcess(this);
    this.#agent = agent;
    this.invariants.observe('agent starts');
    agent.ended
      .then((why) => this.#agentEnded(agent, why))
      .catch((error: unknown) => this.invariants.wrong(`the model failed: ${String(error)}`));
  }

  killAgent(): void {
    if (this.#agent !== undefined) this.invariants.observe('agent killed');
    this.#agent?.kill();
    this.#agent = undefined;
    this.clock.after(RESTART_MS, () => this.startAgent());
  }

  logged(line: string): void {
    if (line.includes('reconcile failed')) this.invariants.wrong(`the agent's loop failed: ${line}`);
  }

  report(body: StatusReport): AgentShadow {
    this.invariants.reported(body.status);
    return this.cluster.report(body);
  }

  /** A call of the agent, with what happens to it. */
  async call<T>(name: CallName, effect: () => Promise<T>, guard: () => void = () => undefined): Promise<T> {
    const faults = this.#due(name);
    await this.#freeze(faults);
    guard();
    this.invariants.called(name);
    const before = await this.#injectAll(faults.filter(({ after }) => !after));
    if (before.has('lose')) throw lost(name);
    if (isOfHost(name) && this.#cutOff === this.#agent) throw new HostError('refused', 'connect ECONNREFUSED');
    const answer = await effect();
    const after = await this.#injectAll(faults.filter((one) => one.after));
    if (after.has('lose') && name !== 'reboot') throw lost(name);
    return answer;
  }

  async #freeze(faults: readonly AtCall[]): Promise<void> {
    const caller = this.#agent;
    for (const { fault } of faults) if (fault.kind === 'freeze') await caller?.freeze(fault.ms);
    if (this.#agent !== caller) await new Promise(() => undefined);
  }

  /** Never resolves when the caller does not outlive it. */
  async #injectAll(faults: readonly AtCall[]): Promise<ReadonlySet<Fault['kind']>> {
    const caller = this.#agent;
    for (const { later, fault } of faults) {
      if (later === 0) this.#inject(fault);
      else this.clock.after(later, () => this.#healed || this.#inject(fault));
    }
    const kinds = new Set(faults.map(({ fault }) => fault.kind));
    if (kinds.has('delay')) await this.clock.sleep(9_000);
    return this.#agent === caller ? kinds : new Promise(() => undefined);
  }

  configure(changes: Leaves): void {
    this.invariants.userActions.overwritten(changes);
    this.host.changeSettings(changes);
  }

  takeReboot(): void {
    this.host.acceptReboot();
    if (this.#rebootRefused > 0) {
      this.#rebootRefused -= 1;
      throw new HostError('answer', 'POST /actions/reboot: 500 Failed to reboot, exit code: 1');
    }
    this.invariants.rebootAsked();
    this.host.rebootComes = true;
    const { boots } = this.host;
    this.clock.after(this.#rebootDelayMs, () => {
      if (this.host.up && this.host.boots === boots) this.#shutDown('asked');
    });
  }

  #due(name: CallName): readonly AtCall[] {
    const due: AtCall[] = [];
    this.#pending = this.#pending.flatMap((one) => {
      if (!('on' in one) || one.on !== name) return [one];
      if (one.nth > 0) return [{ ...one, nth: one.nth - 1 }];
      due.push(one);
      return [];
    });
    return due;
  }

  /** The host API ends first: for a while the agent still runs beside it. */
  #shutDown(why: 'asked' | 'others'): void {
    if (!this.host.up || this.host.stopping) return;
    this.invariants.shutsDown(why);
    this.host.stopping = true;
    this.clock.after(this.#shutdownMs, () => this.#goDown(why));
  }

  #goDown(why: 'asked' | 'others'): void {
    this.invariants.goesDown(why);
    this.host.goDown();
    this.#agent?.kill();
    this.#agent = undefined;
    this.clock.after(this.#bootMs, () => this.#comeUp());
    this.#bootMs = 20 * SECOND;
  }

  #comeUp(): void {
    if (this.host.armed && this.host.rollsBack) this.invariants.rolledBack();
    this.host.comeUp();
    this.invariants.observe(`host is up with ${this.host.active}`);
    this.clock.after(RESTART_MS, () => this.startAgent());
  }

  #agentEnded(agent: AgentProcess, why: string): void {
    if (this.#agent !== agent) return;
    this.invariants.agentEnded(why);
    this.killAgent();
  }

  #beat(): void {
    if (this.cluster.reachable) this.cluster.send({ type: 'heartbeat' });
    this.clock.after(HEARTBEAT_MS, () => this.#beat());
  }

  #label(managed: boolean): void {
    if (managed === this.cluster.managed) return;
    this.cluster.managed = managed;
    this.killAgent();
    this.controller.wake(0);
    if (!managed) this.clock.after(RELEASE_MS, () => this.#release());
  }

  #release(): void {
    if (this.cluster.managed) return;
    this.cluster.restore();
    this.#deleteShadow();
  }

  #deleteShadow(): void {
    this.invariants.userActions.recordLost();
    this.cluster.deleteShadow();
  }

  #inject(fault: Fault): void {
    this.invariants.observe(`fault ${JSON.stringify(fault)}`);
    const now = this.clock.monotonic();
    switch (fault.kind) {
      case 'kill':
        return this.killAgent();
      case 'mount stale':
        this.#cutOff = this.#agent;
        return undefined;
      case 'reboot':
        return this.#shutDown('others');
      case 'apiserver unavailable':
        this.cluster.unavailableUntil = now + fault.ms;
        return this.cluster.send(new ApiError('Unreachable', 'socket hang up'));
      case 'host unreachable':
        this.host.unavailableUntil = now + fault.ms;
        return undefined;
      case 'lock held':
        this.host.lockedUntil = now + fault.ms;
        return undefined;
      case 'clock jumps':
        return this.clock.step(fault.ms);
      case 'label off':
        this.clock.after(fault.ms, () => this.#label(true));
        return this.#label(false);
      default:
        return this.#change(fault);
    }
  }

  #change(fault: Fault): void {
    switch (fault.kind) {
      case 'spec Idle':
        this.invariants.forgive();
        return this.cluster.setSpec({ state: 'Idle', version: null });
      case 'spec other':
        this.invariants.forgive();
        return this.cluster.setSpec({ state: fault.state, version: '1.26.5' });
      case 'shadow deleted':
        return this.#deleteShadow();
      case 'status wiped':
        this.invariants.forget();
        this.invariants.userActions.recordLost();
        return this.cluster.wipeStatus();
      case 'paused':
        this.controller.paused = true;
        this.clock.after(fault.ms, () => this.#healed || this.controller.resume());
        return undefined;
      case 'pods stay':
        this.cluster.perPass = 0;
        this.clock.after(fault.ms, () => (this.cluster.perPass = 2));
        return undefined;
      default:
        return changeSettings(this, fault) ? undefined : this.#plan(fault);
    }
  }

  /** What the host will do next. */
  #plan(fault: Fault): void {
    switch (fault.kind) {
      case 'command ends':
        this.host.nextEnd = fault.end;
        break;
      case 'newer version':
        this.host.publish('1.28.0');
        break;
      case 'rolls back':
        this.host.rollsBack = true;
        break;
      case 'boot takes':
        this.#bootMs = fault.ms;
        break;
      case 'reboot takes':
        this.#rebootDelayMs = fault.ms;
        break;
      case 'settings broken':
        this.host.settingsBrokenUntil = this.clock.monotonic() + fault.ms;
        break;
      case 'apply fails':
        this.host.applyFails = true;
        break;
      case 'shutdown takes':
        this.#shutdownMs = fault.ms;
        break;
      case 'reboot refused':
        this.#rebootRefused = fault.times;
        break;
      default:
        actOnHost(this.host, fault);
    }
  }
}

function isOfHost(name: CallName): boolean {
  return ['look', 'classify', 'configure', 'reboot', 'refresh', 'prepare', 'activate', 'deactivate'].includes(name);
}

function lost(name: CallName): Error {
  return isOfHost(name)
    ? new HostError('unanswered', `${name}: no answer`)
    : new ApiError('Unreachable', `${name}: no answer`);
}
