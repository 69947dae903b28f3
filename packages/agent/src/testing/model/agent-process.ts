/** A process of the real agent, which can be killed or stopped at any instant. */
import type { StreamMessage } from '@brupop/shared/api/agent-protocol';
import type { Clock } from '@brupop/shared/runtime/clock';
import { createLogger } from '@brupop/shared/runtime/log';
import { Agent } from '../../agent.ts';
import type { ApiserverClient } from '../../apiserver/client.ts';
import { ApiError } from '../../apiserver/messages.ts';
import type { Guard, Host } from '../../host/host.ts';
import type { CallName, SimWorld } from './sim-world.ts';

const MINUTE = 60_000;

export class AgentProcess {
  readonly agent: Agent;
  /** Why it ended by itself. */
  readonly ended: Promise<string>;
  alive = true;
  readonly #world: SimWorld;
  readonly #cuts = new Set<() => void>();
  #answeredAt: number;
  #thaw: Promise<void> | undefined;
  /** Timers that ran out while the process was stopped. */
  readonly #late: (() => void)[] = [];

  constructor(world: SimWorld) {
    this.#world = world;
    this.#answeredAt = world.clock.monotonic();
    const clock = this.#clock();
    const log = createLogger({ clock, level: 'warn', write: (line) => world.logged(line) });
    const ports = { host: this.#host(), api: this.#api(), clock, log };
    this.agent = new Agent({ ...ports, checkIntervalMs: 30 * MINUTE, random: () => world.random() });
    this.ended = this.agent.run(new AbortController().signal).then(
      () => 'without an error',
      (error: unknown) => (error instanceof Error ? error.message : 'with something that is no error'),
    );
  }

  /** As kill -9: nothing under way continues. */
  kill(): void {
    this.alive = false;
    for (const cut of this.#cuts) cut();
  }

  #clock(): Clock {
    const { clock } = this.#world;
    return {
      now: () => clock.now(),
      monotonic: () => clock.monotonic(),
      after: (ms, callback) => clock.after(ms, () => this.#timer(callback)),
      sleep: async (ms, signal) => {
        await clock.sleep(ms, signal);
        await this.#unlessDead();
      },
    };
  }

  /** As SIGSTOP, and SIGCONT after `ms`: what arrives meanwhile is delivered then. */
  async freeze(ms: number): Promise<void> {
    this.#world.invariants.observe(`agent stopped for ${ms} ms`);
    this.#thaw = this.#world.clock.sleep(ms);
    await this.#thaw;
    this.#thaw = undefined;
    for (const callback of this.#late.splice(0)) this.#timer(callback);
  }

  #timer(callback: () => void): void {
    if (this.#thaw === undefined && this.alive) callback();
    else if (this.#thaw !== undefined) this.#late.push(callback);
  }

  /** Resolves when the process continues; never when it is dead. */
  async #unlessDead(): Promise<void> {
    await this.#thaw;
    if (!this.alive) await new Promise(() => undefined);
  }

  #host(): Host {
    const { host } = this.#world;
    return {
      bootID: async () => host.bootID,
      version: () => this.#call('look', async () => host.version()),
      updateStatus: () => this.#call('look', async () => host.updateStatus()),
      start: (command, _signal, guard) => this.#call(command, async () => host.start(command), guard),
      settings: (keys) => this.#call('look', async () => host.readSettings(keys)),
      classify: (changes) => this.#call('classify', async () => host.classify(changes)),
      changeSettings: (changes, _signal, guard) =>
        this.#call('configure', async () => this.#world.configure(changes), guard),
      uptimeMs: () => host.uptimeMs(),
      reboot: (_signal, guard) => this.#call('reboot', async () => this.#world.takeReboot(), guard),
    };
  }

  #api(): ApiserverClient {
    const { cluster, clock } = this.#world;
    return {
      read: () => this.#answered('read', () => cluster.read()),
      stream: (signal) => this.#stream(signal),
      report: (body) => this.#answered('report', () => this.#world.report(body)),
      exclude: (reference) => this.#answered('exclude', () => cluster.exclude(reference)),
      drain: (request) => this.#answered('drain', () => cluster.drain(request)),
      restore: () => this.#answered('restore', () => cluster.restore()),
      unreachableMs: () => clock.monotonic() - this.#answeredAt,
    };
  }

  #answered<T>(name: CallName, effect: () => T): Promise<T> {
    return this.#call(name, async () => {
      if (!this.#world.cluster.reachable) throw new ApiError('Unreachable', `${name}: connect ECONNREFUSED`);
      const answer = effect();
      this.#answeredAt = this.#world.clock.monotonic();
      return answer;
    });
  }

  async #call<T>(name: CallName, effect: () => Promise<T>, guard?: Guard): Promise<T> {
    await this.#unlessDead();
    const answer = await this.#world.call(name, effect, guard);
    await this.#unlessDead();
    return answer;
  }

  async *#stream(signal: AbortSignal): AsyncGenerator<StreamMessage> {
    const queue: (StreamMessage | Error)[] = [];
    let wake = Promise.withResolvers<void>();
    const receive = (message: StreamMessage | Error): void => {
      queue.push(message);
      wake.resolve();
    };
    const end = await this.#answered('stream', () => this.#world.cluster.listen(receive));
    const stop = (): void => receive(new ApiError('Unreachable', 'stopped'));
    this.#cuts.add(end);
    signal.addEventListener('abort', stop);
    if (signal.aborted) stop();
    try {
      for (;;) {
        for (const next of queue.splice(0)) yield await this.#received(next);
        await wake.promise;
        wake = Promise.withResolvers<void>();
      }
    } finally {
      end();
      this.#cuts.delete(end);
      signal.removeEventListener('abort', stop);
    }
  }

  async #received(message: StreamMessage | Error): Promise<StreamMessage> {
    if (message instanceof Error) throw message;
    await this.#unlessDead();
    this.#answeredAt = this.#world.clock.monotonic();
    return message;
  }
}
