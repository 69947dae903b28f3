import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, mkdirSync, openSync } from 'node:fs';
import { constants } from 'node:os';
import { dirname } from 'node:path';
import { messageOf } from '@brupop/shared/runtime/errors';
import type { Clock } from '@brupop/shared/runtime/clock';
import type { Watchdog } from '../watchdog.ts';
import type { Command } from './command.ts';

/** How a process ended, as a container runtime reports it. */
export interface Exit {
  readonly exitCode: number;
  readonly signal?: number;
  readonly reason: 'Completed' | 'Error' | 'StartError';
  readonly message?: string;
}

/** What remains for SIGTERM when a preStop hook has used up the grace period, as in the kubelet. */
const LEAST_AFTER_PRE_STOP_MS = 2_000;

/**
 * The process group that stands for a running container. It ends with this (the kubelet's) process,
 * however that goes.
 */
export class ContainerProcess {
  readonly pid: number | undefined;
  /** Resolves when the process has ended; never rejects. */
  readonly exited: Promise<Exit>;
  readonly #clock: Clock;
  readonly #child: ChildProcess;
  #hasExited = false;
  #cancelKill: (() => void) | undefined;
  #killAt = Number.POSITIVE_INFINITY;

  /**
   * Starts it with its output appended to `logPath`. A program that cannot be started counts as one
   * that ended with 128.
   */
  constructor(command: Command, o: { readonly logPath: string; readonly watchdog: Watchdog; readonly clock: Clock }) {
    mkdirSync(dirname(o.logPath), { recursive: true });
    const log = openSync(o.logPath, 'a');
    const { program, args, cwd, env, user } = command;
    this.#child = spawn(program, args, { cwd, env, ...user, detached: true, stdio: ['ignore', log, log] });
    closeSync(log);
    this.#clock = o.clock;
    this.pid = this.#child.pid;
    if (this.pid !== undefined) o.watchdog.add(this.pid);
    this.exited = this.#untilExit(o.watchdog);
  }

  /** Sends a signal to the first process of the container. Does nothing when it has ended. */
  signal(signal: NodeJS.Signals): void {
    if (!this.#hasExited) this.#child.kill(signal);
  }

  /** SIGKILL to all of the container, now. */
  killNow(): void {
    if (this.#hasExited || this.pid === undefined) return;
    killGroup(this.pid);
  }

  /** SIGKILL after `ms`, unless that is already to happen sooner. */
  killWithin(ms: number): void {
    const at = this.#clock.monotonic() + ms;
    if (at >= this.#killAt) return;
    this.#cancelKill?.();
    this.#killAt = at;
    this.#cancelKill = this.#clock.after(ms, () => this.killNow());
  }

  /**
   * The preStop hook and SIGTERM, and SIGKILL when the grace period is over. Resolves when the
   * process has ended.
   */
  async stop(graceMs: number, preStop?: (signal: AbortSignal) => Promise<void>): Promise<void> {
    const start = this.#clock.monotonic();
    if (preStop !== undefined) await this.#runPreStop(graceMs, preStop);
    const left = graceMs - (this.#clock.monotonic() - start);
    this.signal('SIGTERM');
    this.killWithin(preStop === undefined ? left : Math.max(left, LEAST_AFTER_PRE_STOP_MS));
    await this.exited;
  }

  async #runPreStop(graceMs: number, preStop: (signal: AbortSignal) => Promise<void>): Promise<void> {
    const limit = new AbortController();
    const cancel = this.#clock.after(graceMs, () => limit.abort());
    await Promise.race([preStop(limit.signal).catch(() => undefined), this.exited]);
    cancel();
    limit.abort();
  }

  #untilExit(watchdog: Watchdog): Promise<Exit> {
    return new Promise((resolve) => {
      const ended = (exit: Exit): void => {
        this.#hasExited = true;
        this.#cancelKill?.();
        if (this.pid !== undefined) {
          killGroup(this.pid); // the rest of a container ends with its first process
          watchdog.drop(this.pid);
        }
        resolve(exit);
      };
      this.#child.once('exit', (code, signal) => ended(exitOf(code, signal)));
      this.#child.once('error', (error) => {
        if (this.pid === undefined) ended({ exitCode: 128, reason: 'StartError', message: messageOf(error) });
      });
    });
  }
}

function exitOf(code: number | null, signal: NodeJS.Signals | null): Exit {
  if (signal !== null) {
    const number = constants.signals[signal];
    return { exitCode: 128 + number, signal: number, reason: 'Error' };
  }
  return { exitCode: code ?? 0, reason: code === 0 ? 'Completed' : 'Error' };
}

function killGroup(pid: number): void {
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // The group has ended.
  }
}
