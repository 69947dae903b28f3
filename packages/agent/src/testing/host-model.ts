/**
 * The host of test/framework/host without its socket and its timers, as the agent reads it: what the
 * doubles of the agent's tests are built on. Every answer passes the agent's own readers.
 */
import { nestedOf, UPDATER_SETTINGS, type Leaves } from '@brupop/shared/api/settings';
import { sameVersion } from '@brupop/shared/api/version';
import { type UpdaterSettings, updaterSettings } from '@brupop/shared/testing/settings';
import type { CommandFault, FaultValues } from '../../../../test/framework/host/faults.ts';
import { nest, Settings } from '../../../../test/framework/host/settings.ts';
import { type Job, type Refusal, UpdateModel } from '../../../../test/framework/host/update-model.ts';
import { takeBody } from '../host/host-socket.ts';
import { parseSettings, parseUpdateStatus, type UpdateStatus } from '../host/host.ts';
import type { UpdateCommand } from '../limits.ts';

/** Published beside the version that is offered. */
const OLDER = ['1.25.0', '1.26.0', '1.26.9', '1.27.0'];

/** How a command ends: by the model's rules, or its process dies without a record. */
export type CommandEnd = CommandFault | 'dies';

export interface RunningCommand {
  readonly job: Job;
  readonly end: CommandEnd;
}

export class HostModel {
  faults: FaultValues = {};
  readonly updates: UpdateModel;
  readonly #settings = new Settings();
  readonly #applied = new Map(this.#settings.live);

  constructor(version: string, now: () => number) {
    const machine = { variant: 'aws-k8s-1.31', arch: 'x86_64' };
    this.updates = new UpdateModel({ version, ...machine, repository: [], now, faults: () => this.faults });
  }

  /** Publishes `newest`, if any, and the older versions. */
  publish(newest: string | undefined): void {
    const older = OLDER.filter((version) => !sameVersion(version, newest));
    const versions = newest === undefined ? [] : [newest, ...older];
    this.updates.repository = versions.map((version) => ({ version }));
  }

  /** Throws HostError. */
  status(): UpdateStatus {
    const answer = this.updates.readStatus();
    return 'text' in answer ? refuse('GET /updates/status', answer) : parseUpdateStatus(JSON.stringify(answer));
  }

  /** Starts a command, which holds the update lock until `finish`. Throws HostError. */
  start(command: UpdateCommand, end: CommandEnd = {}): RunningCommand {
    const job = this.updates.dispatch(command, end === 'dies' ? {} : end);
    return 'text' in job ? refuse(`POST ${command}`, job) : { job, end };
  }

  finish({ job, end }: RunningCommand): void {
    if (end === 'dies') this.updates.killCommands();
    else this.updates.finish(job);
  }

  settings(keys: readonly string[]): Leaves {
    if (keys.length === 0) refuse('GET /settings', { status: 400, text: "Input 'keys' cannot be empty" });
    const stored = [...this.#settings.live].filter(([key]) => keys.includes(key));
    return parseSettings(JSON.stringify(nest(stored)), keys);
  }

  get updaterSettings(): UpdaterSettings {
    return updaterSettings(this.settings(UPDATER_SETTINGS));
  }

  /** Stores settings; commands use them after `applySettings`. Throws HostError. */
  storeSettings(changes: Leaves): void {
    const error = this.#settings.patch('agent', JSON.stringify(nestedOf(changes)));
    if (error !== undefined) refuse('PATCH /settings', error);
    this.#settings.commit('agent');
  }

  /** A boot applies all of them. */
  applySettings(keys: Iterable<string> = this.#settings.live.keys()): void {
    const { live } = this.#settings;
    for (const key of keys) this.#applied.set(key, live.get(key) ?? null);
    this.updates.settings = this.#settings.updates();
  }

  /** The value with which its services run, as JSON. */
  appliedOf(key: string): string | undefined {
    const value = this.#applied.get(key);
    return value === undefined ? undefined : JSON.stringify(value);
  }
}

function refuse(call: string, { status, text }: Refusal): never {
  takeBody(call, { status, body: text });
  throw new Error(`${call}: expected a refusal, found ${status}`);
}
