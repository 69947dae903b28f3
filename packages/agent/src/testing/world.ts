/** A whole agent between a host and an apiserver in memory, for tests. */
import type { AgentShadow } from '@brupop/shared/api/agent-protocol';
import type { ShadowSpec } from '@brupop/shared/api/shadow';
import { createLogger } from '@brupop/shared/runtime/log';
import { FakeClock } from '@brupop/shared/testing/fake-clock';
import { Agent } from '../agent.ts';
import type { ApiserverClient } from '../apiserver/client.ts';
import { ApiError } from '../apiserver/messages.ts';
import type { Host } from '../host/host.ts';
import type { UpdateCommand } from '../limits.ts';
import { FakeApiserver } from './fake-apiserver.ts';
import { FakeHost } from './fake-host.ts';

export const MINUTE = 60_000;
export const OLD = '1.26.0';
export const NEW = '1.27.0';
export const STAGE: ShadowSpec = { state: 'StagedAndPerformedUpdate', version: NEW };
export const REBOOT: ShadowSpec = { state: 'RebootedIntoUpdate', version: NEW };
export const MONITOR: ShadowSpec = { state: 'MonitoringUpdate', version: NEW };
export const IDLE: ShadowSpec = { state: 'Idle', version: null };

/** An agent's process, its host and the apiserver, on a fake clock. */
export class World {
  readonly clock = new FakeClock();
  readonly host: FakeHost;
  readonly api: FakeApiserver;
  agent: Agent;
  ended: Error | 'stopped' | undefined;
  readonly log: string[] = [];
  #stop = new AbortController();
  #running: Promise<void> = Promise.resolve();

  constructor(shadow?: AgentShadow, offered: string | undefined = NEW) {
    this.host = new FakeHost(OLD, offered);
    this.api = new FakeApiserver(this.clock, shadow);
    this.agent = this.startAgent();
  }

  startAgent(ports: { readonly host: Host; readonly api: ApiserverClient } = this): Agent {
    const { host, api } = ports;
    const { clock } = this;
    const log = createLogger({ clock, level: 'debug', write: (line) => void this.log.push(line) });
    this.agent = new Agent({ host, api, clock, log, checkIntervalMs: 30 * MINUTE, random: () => 0.5 });
    this.#stop = new AbortController();
    this.ended = undefined;
    this.#running = this.agent.run(this.#stop.signal).then(
      () => void (this.ended = 'stopped'),
      (error: unknown) => void (this.ended = error as Error),
    );
    return this.agent;
  }

  /** The agent's process ends at once, as a reboot or a kill ends it. */
  async killAgent(): Promise<void> {
    this.#stop.abort(new Error('killed'));
    await this.clock.advance(0);
    await this.#running;
  }

  async boot(options: { rollsBack?: boolean } = {}): Promise<void> {
    await this.killAgent();
    this.host.boot(options);
    this.startAgent();
    await this.pass(1000);
  }

  /** Advances the clock; the apiserver sends heartbeats meanwhile. */
  async pass(ms: number): Promise<void> {
    for (let left = ms; left > 0; left -= 10_000) {
      for (let turn = 0; turn < 60; turn += 1) await this.clock.advance(0);
      await this.clock.advance(Math.min(left, 10_000));
      if (!this.api.unreachable) this.api.send({ type: 'heartbeat' });
    }
    for (let turn = 0; turn < 60; turn += 1) await this.clock.advance(0);
  }

  async spec(spec: ShadowSpec, ms = 1000): Promise<void> {
    this.api.setSpec(spec);
    await this.pass(ms);
  }

  get status() {
    return this.api.shadow?.status;
  }

  /** Updates the node up to the reboot call. */
  async toReboot(): Promise<void> {
    await this.pass(MINUTE);
    await this.spec(STAGE);
    await this.spec(REBOOT);
  }
}

const worlds: World[] = [];
/** A world that ends with its test. */
export function world(...args: ConstructorParameters<typeof World>): World {
  const made = new World(...args);
  worlds.push(made);
  return made;
}
/** Ends what `world` has made. */
export async function endWorlds(): Promise<void> {
  for (const one of worlds.splice(0)) await one.killAgent();
}

/** A command takes so long: the agent looks at it once a second. */
export function takes({ host }: World, long: UpdateCommand, ms: number): void {
  const start = host.start.bind(host);
  host.start = async (command, signal, guard) => {
    host.lockedLooks = command === long ? ms / 1000 : 0;
    await start(command, signal, guard);
  };
}

/** The changes of settings that the host was asked for. */
export function configured(w: World): readonly string[] {
  return w.host.calls.filter((call) => call.startsWith('configure'));
}

/** Another value is set, and from that moment on no call of the apiserver is answered. */
export async function cutOff(w: World, spec: ShadowSpec): Promise<void> {
  w.api.setSpec(spec);
  await cutOffAtChange(w);
}

export async function cutOffAtChange(w: World): Promise<void> {
  const before = configured(w).length;
  for (let turn = 0; turn < 500 && configured(w).length === before; turn += 1) await w.clock.advance(0);
  w.api.unreachable = true;
  w.api.send(new ApiError('Unreachable', 'socket hang up'));
}
