import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Watchdog } from '../watchdog.ts';

/** One program of the control plane. */
export interface Component {
  readonly name: string;
  readonly logPath: string;
  /** Undefined while it is not running. */
  readonly pid: number | undefined;
  /**
   * Sends the signal. Resolves when the process is gone, or at once for SIGSTOP and SIGCONT. Throws
   * when it outlives the signal by 10 s.
   */
  kill(signal: NodeJS.Signals): Promise<void>;
  /**
   * SIGTERM, and SIGKILL when that takes longer than the limit (2 s). Does nothing when it is not
   * running.
   */
  stop(): Promise<void>;
  /**
   * Stops it if it is running, starts it again with the same arguments (and so ports), and resolves
   * when it is ready.
   */
  restart(): Promise<void>;
}

export interface ComponentSpec {
  name: string;
  program: string;
  args: readonly string[];
  cwd: string;
  logPath: string;
  watchdog: Watchdog;
  /** Throws or rejects while the program is not ready. */
  probe?: () => Promise<void>;
}

/** Thrown when a program ended although it should run. The message has the end of its log. */
export class ComponentExited extends Error {
  readonly log: string;

  constructor(name: string, how: string, log: string) {
    super(`${name} ended (${how}) before it was ready; the end of its log:\n${log}`);
    this.name = 'ComponentExited';
    this.log = log;
  }
}

const readyLimit = 90_000;
const stopLimit = 2_000;
const killLimit = 10_000;

export class ComponentProcess implements Component {
  readonly #spec: ComponentSpec;
  #child: ChildProcess | undefined;
  #exited: Promise<unknown> = Promise.resolve();

  constructor(spec: ComponentSpec) {
    this.#spec = spec;
  }

  get name(): string {
    return this.#spec.name;
  }

  get logPath(): string {
    return this.#spec.logPath;
  }

  get pid(): number | undefined {
    return this.#child?.pid;
  }

  /** Starts the program; its output is appended to its log. */
  start(): void {
    const { program, args, cwd, logPath, watchdog } = this.#spec;
    const log = openSync(logPath, 'a');
    // Collects garbage later than Go would: the tests have more memory than processors.
    const env = { PATH: process.env['PATH'], HOME: cwd, GOGC: '400' };
    const child = watchdog.spawn(program, args, { cwd, env, stdio: ['ignore', log, log] });
    closeSync(log);
    this.#child = child;
    this.#exited = once(child, 'exit').catch(() => undefined);
    const ended = (): void => {
      if (this.#child === child) this.#child = undefined;
    };
    child.once('exit', ended);
    child.once('error', ended);
    child.unref();
  }

  /**
   * Resolves when the program is ready. Throws `ComponentExited` when it ends before, and an error
   * when it takes longer than 90 s.
   */
  async ready(): Promise<void> {
    const { name, probe } = this.#spec;
    const deadline = Date.now() + readyLimit;
    let last: unknown = 'never asked';
    while (Date.now() < deadline) {
      if (this.#child === undefined) throw new ComponentExited(name, 'on its own', this.logTail());
      try {
        await probe?.();
        return;
      } catch (error) {
        last = error;
      }
      await sleep(50);
    }
    throw new Error(
      `${name} is not ready after ${readyLimit / 1000} s: ${String(last)}; the end of its log:\n${this.logTail()}`,
    );
  }

  async kill(signal: NodeJS.Signals): Promise<void> {
    const child = this.#child;
    if (child === undefined) return;
    child.kill(signal);
    if (signal === 'SIGSTOP' || signal === 'SIGCONT') return;
    if (!(await this.#gone(killLimit)))
      throw new Error(`${this.name} (pid ${child.pid}) is still running ${killLimit / 1000} s after ${signal}`);
  }

  async stop(): Promise<void> {
    if (this.#child === undefined) return;
    this.#child.kill('SIGTERM');
    if (await this.#gone(stopLimit)) return;
    await this.kill('SIGKILL');
  }

  async restart(): Promise<void> {
    await this.stop();
    this.start();
    await this.ready();
  }

  /** The last 4,000 characters of the log. */
  logTail(): string {
    return readFileSync(this.#spec.logPath, 'utf8').slice(-4000);
  }

  async #gone(limit: number): Promise<boolean> {
    const timer = new AbortController();
    const late = sleep(limit, false, { signal: timer.signal }).catch(() => false);
    const gone = await Promise.race([this.#exited.then(() => true), late]);
    timer.abort();
    return gone;
  }
}
