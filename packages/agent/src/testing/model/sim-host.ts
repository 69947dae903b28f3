/** A host as a pure state machine on a clock of a test: two partition sets that outlive a boot, an update status that does not. */
import type { Clock } from '@brupop/shared/runtime/clock';
import {
  type CommandRecord,
  HostError,
  type StagedImage,
  type UpdaterSettings,
  type UpdateState,
  type UpdateStatus,
} from '../../host/host.ts';
import { SimSettings } from './sim-settings.ts';
import type { UpdateCommand } from '../../limits.ts';

/** How the next run of a command ends, instead of well. */
export type CommandEnd = 'fails' | 'dies' | 'writes nothing' | 'writes another';

const ALLOWED: Readonly<Record<UpdateCommand, readonly UpdateState[]>> = {
  refresh: ['Idle', 'Available', 'Staged', 'Ready'],
  prepare: ['Available', 'Staged'],
  activate: ['Staged'],
  deactivate: ['Ready'],
};
const DURATIONS: Readonly<Record<UpdateCommand, number>> = {
  refresh: 1_000,
  prepare: 5_000,
  activate: 500,
  deactivate: 500,
};

/** Published besides the newest version. */
const OLDER = ['1.25.0', '1.26.0', '1.27.0'];

interface Running {
  readonly command: UpdateCommand;
  readonly endsAt: number;
  readonly end: CommandEnd | undefined;
  /** Version lock with which it has begun. */
  readonly lock: string;
}

interface Volatile {
  readonly initialized: boolean;
  readonly state: UpdateState;
  readonly chosen: string | undefined;
  readonly staged: StagedImage | undefined;
  readonly latest: CommandRecord | undefined;
}

const FRESH: Volatile = { initialized: false, state: 'Idle', chosen: undefined, staged: undefined, latest: undefined };

export class SimHost {
  active: string;
  /** The version in the other partition set, if a whole one is there. */
  inactive: string | undefined;
  /** The other set boots next: on disk, so any reboot boots it. */
  armed = false;
  offered: string;
  readonly settings: SimSettings;
  boots = 1;
  up = true;
  /** It has taken a reboot call of this boot. */
  rebootComes = false;
  /** Its API has ended, the rest is about to. */
  stopping = false;
  nextEnd: CommandEnd | undefined;
  /** The next boot of an armed set does not come up, and the next one is of the old set. */
  rollsBack = false;
  /** Nobody listens on the socket until then (monotonic milliseconds). */
  awayUntil = 0;
  /** Somebody else holds the update lock until then. */
  lockedUntil = 0;
  #volatile = FRESH;
  #running: Running | undefined;
  #commands = 0;
  readonly #clock: Pick<Clock, 'monotonic'>;

  constructor(clock: Pick<Clock, 'monotonic'>, versions: { readonly active: string; readonly offered: string }) {
    this.#clock = clock;
    this.active = versions.active;
    this.offered = versions.offered;
    this.settings = new SimSettings(clock);
  }

  /** What a refresh with the stored settings would choose. */
  get choice(): string | undefined {
    return this.#choose(this.settings.stored.versionLock);
  }

  readSettings(): UpdaterSettings {
    this.#answer();
    return this.settings.read();
  }

  changeSettings(changes: Partial<UpdaterSettings>): void {
    this.#answer();
    this.settings.change(changes);
  }

  /** Of the machine that all of this runs on; it never reboots. */
  uptimeMs(): number {
    return this.#clock.monotonic() + 3_600_000;
  }

  get bootID(): string {
    return `boot-${this.boots}`;
  }

  version(): string {
    this.#answer();
    return this.active;
  }

  updateStatus(): UpdateStatus {
    this.#answer();
    this.#settle();
    if (this.#isLocked()) throw new HostError('locked', 'GET /updates/status: 423');
    const { initialized, state, chosen, staged, latest } = this.#volatile;
    if (!initialized) throw new HostError('uninitialized', 'GET /updates/status: 404');
    return { state, chosenVersion: chosen, staged, latestCommand: latest };
  }

  start(command: UpdateCommand): void {
    this.#answer();
    this.#settle();
    if (this.#isLocked()) throw new HostError('locked', `POST ${command}: 423`);
    this.#volatile = { ...this.#volatile, initialized: true };
    const { state, chosen } = this.#volatile;
    const missing = command === 'prepare' && chosen === undefined;
    if (!ALLOWED[command].includes(state) || missing) throw new HostError('answer', `POST ${command}: 409 or 404`);
    const end = command === 'refresh' && this.nextEnd !== 'fails' ? undefined : this.nextEnd;
    if (end !== undefined) this.nextEnd = undefined;
    const lock = this.settings.inForce().versionLock;
    this.#running = { command, end, lock, endsAt: this.#clock.monotonic() + DURATIONS[command] };
    if (command === 'prepare') this.#clearInactive();
  }

  /** Throws while no reboot can be asked for. */
  takeReboot(): void {
    this.#answer();
  }

  goDown(): void {
    this.#settle();
    this.up = false;
    this.stopping = false;
    this.rebootComes = false;
    this.#running = undefined;
    this.#volatile = FRESH;
  }

  comeUp(): void {
    if (this.armed && !this.rollsBack && this.inactive !== undefined) {
      [this.active, this.inactive] = [this.inactive, this.active];
    } else if (this.armed) this.inactive = undefined;
    this.armed = false;
    this.rollsBack = false;
    this.up = true;
    this.boots += 1;
    this.settings.boot();
  }

  #answer(): void {
    const away = this.stopping || this.awayUntil > this.#clock.monotonic();
    if (!this.up || away) throw new HostError('refused', 'connect ECONNREFUSED');
  }

  #isLocked(): boolean {
    return this.#running !== undefined || this.lockedUntil > this.#clock.monotonic();
  }

  #clearInactive(): void {
    this.inactive = undefined;
    this.armed = false;
  }

  #settle(): void {
    const running = this.#running;
    if (running === undefined || running.endsAt > this.#clock.monotonic()) return;
    this.#running = undefined;
    if (running.end === 'dies') return;
    this.#commands += 1;
    const noImage = running.command === 'activate' && this.inactive === undefined;
    if (running.end === 'fails' || noImage) this.#failed(running.command);
    else this.#done(running);
  }

  #failed(type: UpdateCommand): void {
    const latest = { type, succeeded: false, timestamp: `t${this.#commands}`, exitStatus: 1, stderr: 'it failed' };
    const { state } = this.#volatile;
    const lost = type === 'refresh' && state === 'Available';
    this.#volatile = { ...this.#volatile, latest, state: lost ? 'Idle' : state };
  }

  #done({ command, end, lock }: Running): void {
    const { chosen, staged } = this.#volatile;
    const writes = lock === 'latest' ? chosen : this.#choose(lock);
    const stderr = command === 'prepare' ? this.#write(writes, end) : '';
    const latest = { type: command, succeeded: true, timestamp: `t${this.#commands}`, exitStatus: 0, stderr };
    this.#volatile = { ...this.#volatile, latest };
    if (command === 'refresh') this.#refreshed(lock);
    else this.#setStaged((command === 'prepare' ? chosen : staged?.version) ?? '', command === 'activate');
  }

  /** The update program's own choice: the newest version, or the one that the host is locked to, if it is published. */
  #choose(lock: string): string | undefined {
    const published = [...OLDER, this.offered];
    const version = lock === 'latest' ? this.offered : published.find((one) => one === lock.replace(/^v/, ''));
    return version === this.active ? undefined : version;
  }

  #refreshed(lock: string): void {
    const { state } = this.#volatile;
    const chosen = this.#choose(lock);
    const kept = state === 'Staged' || state === 'Ready';
    const found = chosen === undefined ? 'Idle' : 'Available';
    this.#volatile = { ...this.#volatile, chosen, state: kept ? state : found };
  }

  #setStaged(version: string, armed: boolean): void {
    this.armed = armed;
    const staged = { version, nextToBoot: armed };
    this.#volatile = { ...this.#volatile, staged, state: armed ? 'Ready' : 'Staged' };
  }

  #write(chosen: string | undefined, end: CommandEnd | undefined): string {
    if (end === 'writes nothing' || chosen === undefined) return 'No update required\n';
    this.inactive = end === 'writes another' ? '9.9.9' : chosen;
    return `Starting update to ${this.inactive}\n`;
  }
}
