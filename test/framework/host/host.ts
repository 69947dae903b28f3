/**
 * The stand-in Bottlerocket host: a server on a Unix socket that behaves as the update part of a
 * real host's API server does (the exchanges recorded from one are in `transcripts` and replayed
 * against this by `transcripts.test.ts`), with partition sets, reboots, automatic rollback and
 * failures on demand.
 *
 *     const host = await BottlerocketHost.start({
 *       socketPath: join(folder, 'api.sock'),          // a folder of its own per host
 *       version: '1.26.0',
 *       repository: ['1.26.0', '1.27.0'],
 *       durations: { prepareMs: 50, bootMs: 100 },     // what is left out takes no time, yet happens after the 204
 *       onReboot: async ({ phase, bootID, version }) => { … },   // awaited when down, and again when up
 *     });
 *     await host.faults.set({ prepare: { exit: 1, stderr: 'no space\n', times: 1 } });
 *     host.setRepository(['1.26.0', '1.27.0', '1.28.0']);
 *     await host.settled();                            // no command runs, no reboot is under way
 *     await host.stop();                               // leaves no files
 *
 * The boot ID is in the file `boot_id` beside the socket, as the kernel prints it. While the host
 * is down there is no socket. Faults are values (`faults.ts`): set them at any time, set one to
 * undefined to heal it. What happens to a host rather than being wrong with it is a method:
 * `powerCut`, `crashApiServer`, `killDispatcher`, `holdUpdateLock`, `replaceSocket`, `powerOn`.
 */
import { randomUUID } from 'node:crypto';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { ApiFront, type CallWatcher, type HistoryEntry } from './api-front.ts';
import { Faults, type RebootFault } from './faults.ts';
import { type HostDurations, type HostOptions, NO_DURATIONS, published, type RebootEvent } from './host-options.ts';
import { type Answer, text } from './http-message.ts';
import { SocketServer } from './http-server.ts';
import { Metadata, type Restart } from './metadata.ts';
import { answerRequest, routes } from './routes.ts';
import { Settings } from './settings.ts';
import { type Job, UpdateModel } from './update-model.ts';
import type { PublishedVersion } from './versions.ts';

export type { Call, CallWatcher, HistoryEntry } from './api-front.ts';
export type { FaultValues } from './faults.ts';
export type { HostDurations, HostOptions, RebootEvent } from './host-options.ts';

const REBOOT_FAILED = 'Failed to reboot, exit code:';

/** A host; see the top of this file. */
export class BottlerocketHost {
  readonly model: UpdateModel;
  readonly settings: Settings;
  /** The restart commands that ran since the start, in their order. */
  readonly restarts: Restart[] = [];
  readonly #metadata: Metadata;
  readonly faults: Faults;
  readonly socketPath: string;
  /** The file that holds the boot ID. */
  readonly bootIDPath: string;
  /** Durations may be changed at any time. */
  readonly durations: HostDurations;
  #bootID: string = randomUUID();
  #up = false;
  #reboots = 0;
  readonly #bootedVersions: string[];
  readonly #front: ApiFront;
  readonly #server: SocketServer;
  readonly #onReboot: (event: RebootEvent) => Promise<void>;
  readonly #stopping = new AbortController();
  /** From one boot to the next power-off. */
  #life = new AbortController();
  #socketWork: Promise<void> = Promise.resolve();
  #cycle: Promise<void> | undefined;
  #powerButton = Promise.withResolvers<void>();
  #failure: unknown;
  readonly #background = new Set<Promise<void>>();

  /** Starts a host that runs `version`; resolves when its socket answers. */
  static async start(options: HostOptions): Promise<BottlerocketHost> {
    const host = new BottlerocketHost(options);
    await mkdir(dirname(options.socketPath), { recursive: true });
    await host.#serve();
    return host;
  }

  private constructor(options: HostOptions) {
    const { socketPath, version, variant = 'aws-k8s-1.31', arch = 'x86_64' } = options;
    this.socketPath = socketPath;
    this.bootIDPath = join(dirname(socketPath), 'boot_id');
    this.durations = { ...NO_DURATIONS, ...options.durations };
    const { clock } = options;
    const now = clock === undefined ? Date.now : (): number => clock.now();
    this.#onReboot = options.onReboot ?? (async () => undefined);
    this.#bootedVersions = [version];
    this.faults = new Faults(() => this.#syncSocket());
    this.model = new UpdateModel({
      version,
      variant,
      arch,
      repository: published(options.repository),
      now,
      faults: () => this.faults.values,
    });
    this.settings = new Settings(variant);
    this.#metadata = new Metadata(variant);
    const table = routes({
      model: this.model,
      settings: this.settings,
      metadata: this.#metadata,
      faults: this.faults,
      run: (job) => this.#run(job),
      applySettings: (keys) => this.#applySettings(keys),
      reboot: () => this.#rebootCall(),
    });
    this.#front = new ApiFront(this.faults, now, (head, body) => answerRequest(table, head, body));
    this.#server = new SocketServer(socketPath, this.#front, options.patienceMs ?? 5000);
  }

  /** A new lower-case UUID after every boot. */
  get bootID(): string {
    return this.#bootID;
  }

  /** The running version. */
  get version(): string {
    return this.model.partitions.running;
  }

  /** Whether the host is running (its socket may still be missing because of a fault). */
  get up(): boolean {
    return this.#up;
  }

  /** Whether a reboot is under way, from its call until the host is up again. */
  get rebooting(): boolean {
    return this.#cycle !== undefined;
  }

  /** How often the host came up again. */
  get reboots(): number {
    return this.#reboots;
  }

  /** The version of every boot, the first one included. */
  get bootedVersions(): readonly string[] {
    return this.#bootedVersions;
  }

  /** The requests, in the order of their answers. */
  get history(): readonly HistoryEntry[] {
    return this.#front.history;
  }

  /** Receives each request from now on; undefined: nothing does. */
  watchCalls(watcher: CallWatcher | undefined): void {
    this.#front.watcher = watcher;
  }

  /** Publishes other versions; what is left out is withdrawn. No maximum unless one is given. */
  setRepository(versions: readonly (string | PublishedVersion)[], options: { maxVersion?: string } = {}): void {
    this.model.repository = published(versions);
    this.model.maxVersion = options.maxVersion;
  }

  /** Sets the version lock (`latest` or a version) at once, as if applied. */
  setVersionLock(lock: string): void {
    this.setSettings({ 'version-lock': lock });
  }

  /**
   * Sets settings of the updater, by their names below `settings.updates`, at once, as if applied:
   * a user on the host.
   */
  setSettings(updates: Readonly<Record<string, string | boolean>>): void {
    for (const [name, value] of Object.entries(updates)) this.settings.live.set(`settings.updates.${name}`, value);
    this.#readSettings();
  }

  /**
   * Another process holds the update lock for this number of milliseconds: 423 on every update
   * route.
   */
  holdUpdateLock(ms: number): void {
    this.model.lockedByOthers += 1;
    this.#inBackground(ms, () => {
      this.model.lockedByOthers -= 1;
    });
  }

  /**
   * Kills the dispatcher's process while its command runs; the update program continues by itself.
   */
  killDispatcher(): void {
    this.model.killDispatcher();
  }

  /** A new socket file: what was bind-mounted or open before is stale. */
  async replaceSocket(): Promise<void> {
    await this.#server.close('unlink');
    await this.#syncSocket();
  }

  /**
   * Power lost and back: nothing is shut down, what is on disk counts. Resolves when the host is up
   * again.
   */
  async powerCut(): Promise<void> {
    await this.#powerCycle('power cut', async () => undefined, {});
  }

  /** Switches a host on that never returned from its reboot; resolves when it is up. */
  async powerOn(): Promise<void> {
    this.#powerButton.resolve();
    await this.#cycle;
  }

  /**
   * The API server crashes, its commands die with it, and it is back after this number of
   * milliseconds on a new inode.
   */
  async crashApiServer(ms: number): Promise<void> {
    this.model.killCommands();
    await this.#server.close('leave');
    await this.#pause(ms);
    this.#front.reset();
    await this.#syncSocket();
  }

  /**
   * Resolves when no command, settings apply or reboot is under way; never for a host that does not
   * return.
   */
  async settled(): Promise<void> {
    while (this.#background.size > 0 || this.#cycle !== undefined) {
      await Promise.all([...this.#background, this.#cycle]);
    }
  }

  /** Ends the host and removes its files. Throws what a reboot of it threw, `onReboot` included. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    this.#powerButton.resolve();
    await this.#cycle;
    this.#up = false;
    this.#life.abort();
    await this.#socketWork;
    await this.#server.close('unlink');
    await rm(this.bootIDPath, { force: true });
    if (this.#failure !== undefined) throw this.#failure;
  }

  async #serve(): Promise<void> {
    await writeFile(this.bootIDPath, `${this.#bootID}\n`);
    this.#life = new AbortController();
    this.#front.reset();
    this.#up = true;
    await this.#syncSocket();
  }

  /** Brings the socket in line with the faults. */
  async #syncSocket(): Promise<void> {
    this.#socketWork = this.#socketWork.then(() => this.#setSocket());
    await this.#socketWork;
  }

  async #setSocket(): Promise<void> {
    if (!this.#up) return;
    const { socketGone, socketStale } = this.faults.values;
    if (socketGone === true) await this.#server.close('unlink');
    else if (socketStale === true) await this.#server.close('leave');
    else if (!this.#server.listening) await this.#server.listen();
  }

  #run(job: Job): void {
    const { delayMs = this.durations[`${job.command}Ms`], until } = job.fault;
    this.#inBackground(delayMs, () => this.model.finish(job), until);
  }

  #applySettings(keys: readonly string[] = [...this.settings.live.keys()]): Answer | undefined {
    const { exit = 0, delayMs = this.durations.applyMs, fails = false } = this.faults.take('settings') ?? {};
    if (exit !== 0) return text(500, `Config applier was unable to fork child, returned ${exit}`);
    const finish = (): void => {
      if (fails) return;
      this.#readSettings();
      this.restarts.push(...this.#metadata.restarts(keys));
    };
    if (delayMs > 0) this.#inBackground(delayMs, finish);
    else finish();
    return undefined;
  }

  #readSettings(): void {
    this.model.settings = this.settings.updates();
  }

  async #rebootCall(): Promise<Answer> {
    if (this.faults.values.systemctlMissing === true) {
      return text(500, 'Unable to start shutdown: No such file or directory (os error 2)');
    }
    const fault = this.faults.take('reboot') ?? {};
    const { signal } = this.#life;
    try {
      await sleep(fault.delayMs ?? this.durations.rebootCallMs, undefined, { signal });
    } catch {
      return { status: 500, transport: 'empty' };
    }
    const code = fault.exit ?? fault.signal ?? 0;
    if (code !== 0) return text(500, `${REBOOT_FAILED} ${code}, stderr: ${fault.stderr ?? ''}`);
    return fault.ignored === true ? { status: 204 } : this.#startReboot(fault);
  }

  #startReboot(fault: RebootFault): Answer {
    const answered = Promise.withResolvers<void>();
    void this.#powerCycle(
      'reboot',
      async () => {
        await answered.promise;
        await this.#pause(this.durations.shutdownMs);
      },
      fault,
    );
    const overtaken = fault.lingerMs !== undefined && fault.lingerMs > 0;
    const answer = overtaken ? text(500, `${REBOOT_FAILED} 15, stderr: `) : { status: 204 };
    const lost = fault.answerLost === true ? { transport: 'empty' as const } : {};
    return { ...answer, ...lost, written: answered.resolve };
  }

  /** Goes down after `shutdown` and comes up again; joins a reboot that is under way already. */
  async #powerCycle(cause: RebootEvent['cause'], shutdown: () => Promise<void>, fault: RebootFault): Promise<void> {
    this.#cycle ??= this.#downAndUp(cause, shutdown, fault)
      .catch((error: unknown) => {
        if (!this.#stopping.signal.aborted) this.#failure = error;
      })
      .finally(() => {
        this.#cycle = undefined;
      });
    await this.#cycle;
  }

  async #downAndUp(cause: RebootEvent['cause'], shutdown: () => Promise<void>, fault: RebootFault): Promise<void> {
    // From here on it may be switched on again, also before it is quite off.
    this.#powerButton = Promise.withResolvers<void>();
    await shutdown();
    this.#up = false;
    this.#life.abort();
    this.model.killCommands();
    await this.#socketWork;
    await this.#server.close('unlink');
    await this.#onReboot({ phase: 'down', cause, bootID: this.#bootID, version: this.version });
    if (fault.neverReturns === true) await this.#powerButton.promise;
    const attempts = this.model.boot();
    await this.#pause(this.durations.bootMs * attempts);
    this.settings.boot();
    this.#readSettings();
    this.#bootID = randomUUID();
    this.#reboots += 1;
    this.#bootedVersions.push(this.version);
    await this.#serve();
    await this.#onReboot({ phase: 'up', cause, bootID: this.#bootID, version: this.version });
  }

  /** Does something later, unless the host's processes end before. */
  #inBackground(ms: number, action: () => void, until?: Promise<void>): void {
    const { signal } = this.#life;
    const task = sleep(ms, undefined, { signal })
      .then(() => until)
      .then(() => (signal.aborted ? undefined : action()))
      .catch((error: unknown) => {
        if (!signal.aborted) this.#failure = error;
      })
      .finally(() => this.#background.delete(task));
    this.#background.add(task);
  }

  async #pause(ms: number): Promise<void> {
    await sleep(ms, undefined, { signal: this.#stopping.signal });
  }
}
