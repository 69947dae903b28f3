import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { V1Container, V1Probe } from '@kubernetes/client-node';
import { messageOf } from '@brupop/shared/runtime/errors';
import { type Clock, rfc3339 } from '@brupop/shared/runtime/clock';
import type { Logger } from '@brupop/shared/runtime/log';
import type { Watchdog } from '../watchdog.ts';
import type { Command } from './command.ts';
import { runProbes } from './container-probes.ts';
import { ContainerProcess } from './container-process.ts';
import { CrashBackOff } from './crash-back-off.ts';
import { type ContainerState, type ContainerStatus, NotYet, type TerminatedState } from './pod.ts';
import { httpGet } from './probe-check.ts';

export interface ContainerOptions {
  readonly spec: V1Container;
  /** The local address of the pod. */
  readonly host: string;
  /** Of the pod, when the probe that failed sets none of its own. */
  readonly graceMs: () => number;
  readonly clock: Clock;
  readonly log: Logger;
  readonly watchdog: Watchdog;
  readonly backOffScale: number;
  /** False: the pod ends with it (`restartPolicy: Never`). */
  readonly restarts: boolean;
  /** Recreated for each start. May throw NotYet (tried again) or Unsupported (final). */
  readonly command: () => Promise<Command>;
  readonly logPath: (restart: number) => string;
  /** The status has changed. */
  readonly changed: () => void;
  /** The status before the node went down, for a container that restarts with the node. */
  readonly before?: ContainerStatus;
}

const RETRY_MS = 250;
/** As the kubelet cuts them. */
const MESSAGE_LIMIT = 2_048;

/** One container of a pod: starts, watches and restarts its process until it is terminated. */
export class Container {
  readonly #options: ContainerOptions;
  readonly #backOff: CrashBackOff;
  readonly #ending = new AbortController();
  #status: ContainerStatus;
  #process: ContainerProcess | undefined;
  #poweredOff = false;

  constructor(options: ContainerOptions) {
    this.#options = options;
    this.#backOff = new CrashBackOff(options.backOffScale);
    const { name, image = '' } = options.spec;
    const { before } = options;
    this.#status = {
      name,
      image,
      imageID: '',
      restartCount: before === undefined ? 0 : before.restartCount + 1,
      ready: false,
      started: false,
      state: { waiting: { reason: 'ContainerCreating' } },
      lastState: before === undefined ? {} : { terminated: lostWithNode(before) },
    };
  }

  get status(): ContainerStatus {
    return this.#status;
  }

  get pid(): number | undefined {
    return this.#process?.pid;
  }

  /** Runs until `terminate` or `powerOff`, or once; resolves when no process is left. Throws Unsupported. */
  async run(): Promise<void> {
    while (!this.#ending.signal.aborted) {
      const command = await this.#nextCommand();
      if (command === undefined || this.#isEnding()) return;
      await this.#runOnce(command);
      if (!this.#options.restarts) return;
      if (!this.#isEnding()) await this.#backOffAfterExit();
    }
  }

  /**
   * Ends the container within the grace period; called again, a shorter one counts. `run` resolves
   * when that is done.
   */
  terminate(graceMs: number): void {
    if (this.#isEnding()) {
      this.#process?.killWithin(graceMs);
      return;
    }
    this.#ending.abort();
    if (this.#process !== undefined) void this.#process.stop(graceMs, this.#preStop());
  }

  /** The node is off: ends the process at once and leaves the status as it was. */
  powerOff(): void {
    this.#poweredOff = true;
    this.#ending.abort();
    this.#process?.killNow();
  }

  signal(signal: NodeJS.Signals): void {
    this.#process?.signal(signal);
  }

  /** Shows why the container does not start. */
  wait(reason: string, message?: string): void {
    this.#set({ state: { waiting: { reason, ...(message !== undefined && { message }) } } });
  }

  #isEnding(): boolean {
    return this.#ending.signal.aborted;
  }

  async #nextCommand(): Promise<Command | undefined> {
    while (!this.#isEnding()) {
      try {
        return await this.#options.command();
      } catch (error) {
        if (!(error instanceof NotYet)) throw error;
        this.wait(error.reason, error.message);
      }
      await this.#pause(RETRY_MS);
    }
    return undefined;
  }

  async #runOnce(command: Command): Promise<void> {
    const { clock, watchdog, logPath } = this.#options;
    const path = logPath(this.#status.restartCount);
    const process = new ContainerProcess(command, { logPath: path, watchdog, clock });
    this.#process = process;
    const startedAt = rfc3339(clock.now());
    const exited = new AbortController();
    const containerID = `containerd://${randomBytes(32).toString('hex')}`;
    this.#set({ containerID, state: { running: { startedAt } } });
    if (process.pid !== undefined) this.#probe(process, exited.signal);
    const exit = await process.exited;
    exited.abort();
    this.#process = undefined;
    const message = exit.message ?? this.#logMessage(exit.exitCode, path);
    const finishedAt = rfc3339(clock.now());
    const terminated = { ...exit, ...(message !== undefined && { message }), startedAt, finishedAt, containerID };
    this.#set({ ready: false, started: false, state: { terminated } });
  }

  #probe(process: ContainerProcess, exited: AbortSignal): void {
    const { spec, host, clock, log } = this.#options;
    runProbes({
      container: spec,
      host,
      clock,
      exited,
      ending: this.#ending.signal,
      onStarted: () => this.#set({ started: true }),
      onReady: (ready) => this.#set({ ready }),
      onUnhealthy: (probe, why) => this.#killUnhealthy(process, probe, why),
    }).catch((error: unknown) => log.error('probes ended', { container: spec.name, error: messageOf(error) }));
  }

  #killUnhealthy(process: ContainerProcess, probe: V1Probe, why: string): void {
    const { log, spec, graceMs } = this.#options;
    log.warn('an unhealthy container is restarted', { container: spec.name, why });
    const own = probe.terminationGracePeriodSeconds;
    void process.stop(own === undefined ? graceMs() : own * 1000, this.#preStop());
  }

  async #backOffAfterExit(): Promise<void> {
    const { clock, spec } = this.#options;
    const delayMs = this.#backOff.next(clock.monotonic());
    const lastState: ContainerState = this.#status.state;
    if (delayMs > 0) {
      const message = `back-off ${Math.round(delayMs / 1000)}s restarting failed container=${spec.name}`;
      this.#set({ lastState, state: { waiting: { reason: 'CrashLoopBackOff', message } } });
      await this.#pause(delayMs);
    }
    if (this.#isEnding()) return;
    this.#set({ lastState, restartCount: this.#status.restartCount + 1 });
  }

  async #pause(ms: number): Promise<void> {
    await this.#options.clock.sleep(ms, this.#ending.signal).catch(() => undefined);
  }

  #preStop(): ((signal: AbortSignal) => Promise<void>) | undefined {
    const { spec, host, clock } = this.#options;
    const { sleep, httpGet: get } = spec.lifecycle?.preStop ?? {};
    if (sleep !== undefined) return async (signal) => await clock.sleep(sleep.seconds * 1000, signal);
    if (get !== undefined) return async (signal) => void (await httpGet(get, { host, container: spec }, signal));
    return undefined;
  }

  #logMessage(exitCode: number, path: string): string | undefined {
    if (exitCode === 0 || this.#options.spec.terminationMessagePolicy !== 'FallbackToLogsOnError') return undefined;
    return readFileSync(path, 'utf8').slice(-MESSAGE_LIMIT);
  }

  #set(change: Partial<ContainerStatus>): void {
    if (this.#poweredOff) return;
    this.#status = { ...this.#status, ...change };
    this.#options.changed();
  }
}

/**
 * The status that the container runtime reports for a container that ran when the node went down.
 */
function lostWithNode(before: ContainerStatus): TerminatedState {
  const ended = before.state.terminated ?? (before.state.waiting && before.lastState.terminated);
  if (ended !== undefined) return ended;
  const { startedAt } = before.state.running ?? {};
  const { containerID } = before;
  return {
    exitCode: 255,
    reason: 'Unknown',
    ...(startedAt !== undefined && { startedAt }),
    ...(containerID !== undefined && { containerID }),
  };
}
